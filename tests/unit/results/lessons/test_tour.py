"""The tour: the lessons of a request, the stops that are left, the page and the chapters."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.builders.findings import finding_input, planted_truth
from support.command_line import ackbench

from ackbench.experiments.commands.tour import fetch_ahead
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.pages.report.chapters import chapter_lines
from ackbench.experiments.pages.report.finding_plots import plot_chart
from ackbench.experiments.pages.report.tour_page import ClaimResult, write_tour_page
from ackbench.experiments.planning.overrides import apply_overrides
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.lessons.plots import (
    BarPart,
    BarRow,
    BarsPlot,
    DotRow,
    DotsPlot,
    LinesPlot,
    Plot,
    PlotLine,
    PlotSpan,
    ShareDot,
    SharesPlot,
)
from ackbench.experiments.results.lessons.tour import (
    QUICK_NOTE,
    Tour,
    TourFolder,
    TourStop,
    claims_by_lesson,
    find_tour,
    new_tour,
    parse_lessons,
)
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import expected_duration_s
from ackbench.experiments.verdicts.statistics import share
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

PLOTS: list[Plot] = [
    SharesPlot(caption="shares", rows=(ShareDot(name="acks=1", share=share(3, 3)),)),
    DotsPlot(
        caption="dots",
        label="records",
        rows=(DotRow(name="a", values=(1.0, 2.0), expected=1.5), DotRow(name="b", values=())),
    ),
    DotsPlot(
        caption="many",
        label="records",
        rows=(DotRow(name="a", values=(0.0, 90_000.0)),),
        logarithmic=True,
    ),
    BarsPlot(
        caption="bars",
        label="s",
        rows=(
            BarRow(
                name="a",
                parts=(BarPart(name="noticed", value=2), BarPart(name="elected", value=0.1)),
            ),
        ),
    ),
    LinesPlot(
        caption="lines",
        x_label="s",
        y_label="records",
        lines=(PlotLine(name="a", points=((0, 1), (2, 3))),),
        spans=(PlotSpan(name="fault", begin=1, end=2),),
    ),
]


@pytest.mark.parametrize(
    ("text", "lessons"), [("5", {5}), ("5,16", {5, 16}), ("4-6", {4, 5, 6}), ("1, 3-3", {1, 3})]
)
def test_lessons_are_numbers_and_ranges(text: str, lessons: set[int]) -> None:
    """The syntax is that of pages to print."""
    assert parse_lessons(text) == lessons


@pytest.mark.parametrize("text", ["", "0", "20", "7-5", "a", "1,,2", "-3"])
def test_an_invalid_lesson_is_rejected_with_the_allowed_ones(text: str) -> None:
    """The number of lessons is that of the catalogue's claims."""
    with pytest.raises(InputError, match="allowed: numbers from 1 to 19"):
        parse_lessons(text)


def test_a_tour_covers_all_claims_in_order() -> None:
    """This is the default."""
    assert [stop.lesson for stop in new_tour(parse_lessons(None), None).stops] == list(
        claims_by_lesson()
    )


def test_a_finished_or_impossible_stop_is_done() -> None:
    """A stop at which the harness failed is not, and is tried again."""
    stop = TourStop(lesson=5, experiment="acks-levels")
    done = [
        stop,
        stop.model_copy(update={"sweep_id": "s", "seconds": 3.0}),
        stop.model_copy(update={"impossible": "no root"}),
        stop.model_copy(update={"sweep_id": "s", "seconds": 3.0, "failed": "node 2 died"}),
    ]
    assert [one.done for one in done] == [False, True, True, False]


def test_the_page_lists_impossible_failed_and_pending_lessons(tmp_path: Path) -> None:
    """Each claim is on the page, tested or not."""
    home = Home(tmp_path)
    folder = TourFolder(home.tours / "tour-1")
    stops = (
        TourStop(lesson=5, experiment="acks-levels", impossible="it needs <root>"),
        TourStop(
            lesson=8,
            experiment="idempotent-retries",
            sweep_id="gone",
            seconds=3.0,
            failed="node 2 died",
        ),
        TourStop(lesson=16, experiment="one-node-or-three"),
    )
    folder.write(Tour(tour_id="tour-1", stops=stops))
    page = write_tour_page(folder, home).read_text()

    for text in (
        "3 claims",
        "3 have no finding",
        "it needs &lt;root&gt;",
        "node 2 died",
        "Not run yet",
        claims_by_lesson()[16].title,
    ):
        assert text in page
    assert find_tour(home, "newest") == find_tour(home, "tour-1") == folder


@pytest.mark.parametrize("missing", [None, "no network"])
def test_kafka_versions_are_fetched_before_the_first_stop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: str | None,
) -> None:
    """A missing version is reported at once, and only its own lesson is impossible."""
    fetched = []

    def _fetch(_cache: Path, spec: ClusterSpec, *_others: object) -> None:
        fetched.append((spec.kafka_version, spec.coordination))
        if missing:
            raise InputError(missing)

    monkeypatch.setattr("ackbench.experiments.planning.new_sweep.ensure_kafka_ready", _fetch)
    fetch_ahead(Home(tmp_path), new_tour(frozenset({4, 9}), None))

    assert fetched[0] == ("3.9.2", "zookeeper")
    assert (set(fetched) == {("3.9.2", "zookeeper"), ("3.9.2", "kraft")}) is (missing is None)
    assert ("no network" in capsys.readouterr().err) is (missing is not None)


def test_a_chapter_has_claim_experiment_finding_and_advice() -> None:
    """They come in the order in which they are read."""
    found = load_finding("acks_levels")(
        finding_input(
            *(
                planted_truth({"acks": level, "fault": "leader-crash-behind"})
                for level in (0, 1, "all")
            )
        )
    )
    experiment = claims_by_lesson()[5]
    assert experiment.claim is not None
    answer = ClaimResult(
        TourStop(lesson=5, experiment="acks-levels"),
        experiment.title,
        experiment.claim,
        experiment.construction,
        ("1 producer",),
        "socket.timeout.ms 1 s (default 60 s).",
        found,
        None,
        "3:10",
        9,
        None,
    )
    planned = Plan(
        sweep_id="s",
        experiment="acks-levels",
        question="?",
        seed=42,
        repeats=3,
        trials=(),
        refused=(),
    )
    lines = "\n".join(chapter_lines(answer, found, planned)).splitlines()

    expected = [
        experiment.claim.says.strip(),
        "## The experiment",
        "What its construction decides: The followers are paused",
        "Timeouts below their defaults: socket.timeout.ms 1 s (default 60 s).",
        "**The evidence is inconclusive.**",
        *found.sentences,
        found.summary,
        "## In production",
    ]
    places = [
        next(place for place, line in enumerate(lines) if words in line) for words in expected
    ]
    assert places == sorted(places)


def test_lessons_can_be_retested_with_more_repeats() -> None:
    """The other stops keep their results."""
    one, other = (
        TourStop(
            lesson=lesson, experiment=claims_by_lesson()[lesson].name, sweep_id="s", seconds=3.0
        )
        for lesson in (5, 8)
    )
    retested = Tour(tour_id="t", stops=(one, other)).retest(frozenset({8}), 10)

    assert [(stop.done, stop.repeats) for stop in retested.stops] == [(True, None), (False, 10)]
    with pytest.raises(UnknownName, match="t has no lesson 9; it has 5, 8"):
        retested.retest(frozenset({9}), None)


def test_an_unknown_tour_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 2; repeats of a resumed tour need the lessons that they are for."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    assert [
        ackbench("tour", *asked).exit_code
        for asked in (("--resume", "x"), ("--resume", "x", "--repeats", "5"), ("--lessons", "20"))
    ] == [2, 2, 2]


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.caption)
def test_a_plot_has_its_caption_as_label(plot: Plot) -> None:
    """Screen readers read the label."""
    chart = plot_chart(plot, "finding")
    assert chart.svg.startswith("<svg")
    assert f'aria-label="{plot.caption}"' in chart.svg


def test_a_finding_survives_json() -> None:
    """So does its plot, of any kind."""
    found = load_finding("acks_levels")(
        finding_input(
            *(
                planted_truth({"acks": level, "fault": "leader-crash-behind"})
                for level in (0, 1, "all")
            )
        )
    )
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_a_quick_tour_has_few_repeats_and_short_cells() -> None:
    """Its own repeats are kept where they are set; the page says what is less certain."""
    quick = new_tour(frozenset({4, 7}), None, quick=True)
    coordinators, deliveries = quick.stops
    assert quick.overrides(coordinators).axes == {"partitions": (1,)}
    assert [quick.overrides(stop).repeats for stop in quick.stops] == [3, 3]
    assert [quick.overrides(stop).controls for stop in quick.stops] == [None, False]
    chosen = quick.retest(frozenset({7}), 9)
    assert chosen.overrides(chosen.stops[1]).repeats == 9
    usual = new_tour(frozenset({4}), None)
    assert (usual.overrides(coordinators).axes, usual.overrides(deliveries).repeats) == ({}, None)
    assert "3 repeats per cell" in QUICK_NOTE


@pytest.mark.parametrize("stop", new_tour(parse_lessons(None), None).stops, ids=str)
def test_each_quick_stop_still_tests_its_claim(stop: TourStop) -> None:
    """Its overrides can be planned, and take at most as long as the whole experiment."""
    quick = Tour(tour_id="t", quick=True, stops=(stop,))
    experiment = claims_by_lesson()[stop.lesson]
    whole = plan(experiment, "sweep")
    short = plan(apply_overrides(experiment, quick.overrides(stop)), "sweep")
    assert expected_duration_s(short) <= expected_duration_s(whole)
    assert short.repeats == 3


def test_a_quick_tour_cannot_be_made_of_a_started_one() -> None:
    """The exit code is 2."""
    result = ackbench("tour", "--resume", "newest", "--quick")
    assert (result.exit_code, "--quick with --resume" in result.stderr) == (2, True)
