"""The tour: which lessons are asked for, what is still to be done, and the page as far as it has come."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.builders.findings import material, truth
from support.command_line import ackbench

from experiments.commands.tour import fetch_ahead
from experiments.errors import UnknownName
from experiments.lessons.findings.acks_levels import find
from experiments.lessons.plots import (
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
from experiments.lessons.tour import (
    Tour,
    TourFolder,
    TourStop,
    claims_by_lesson,
    find_tour,
    lessons_of,
    new_tour,
)
from experiments.report.chapters import chapter
from experiments.report.plots import plot_chart
from experiments.report.tour_page import AnsweredClaim, make_tour_page
from experiments.sweep.plan import Plan
from experiments.verdicts.statistics import share
from infra.errors import InputError
from infra.kafka.spec import ClusterSpec
from infra.machine.home import Home

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
def test_lessons_are_named_one_by_one_and_from_to(text: str, lessons: set[int]) -> None:
    """As pages to print are."""
    assert lessons_of(text) == lessons


@pytest.mark.parametrize("text", ["", "0", "19", "7-5", "a", "1,,2", "-3"])
def test_what_is_no_lesson_is_refused_with_what_is(text: str) -> None:
    """One line."""
    with pytest.raises(InputError, match="allowed: numbers from 1 to 18"):
        lessons_of(text)


def test_a_tour_goes_through_all_claims_in_their_order() -> None:
    """When nothing is named."""
    assert [stop.lesson for stop in new_tour(lessons_of(None), None).stops] == list(
        claims_by_lesson()
    )


def test_what_has_its_answer_or_cannot_have_one_is_done() -> None:
    """What the harness failed is not, and is tried again."""
    stop = TourStop(lesson=5, experiment="acks-levels")
    done = [
        stop,
        stop.model_copy(update={"sweep_id": "s", "seconds": 3.0}),
        stop.model_copy(update={"impossible": "no root"}),
        stop.model_copy(update={"sweep_id": "s", "seconds": 3.0, "failed": "node 2 died"}),
    ]
    assert [one.done for one in done] == [False, True, True, False]


def test_the_page_says_what_cannot_be_tested_what_failed_and_what_is_still_to_come(
    tmp_path: Path,
) -> None:
    """Each claim has its place on the page, answered or not."""
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
    page = make_tour_page(folder, home).read_text()

    for told in (
        "3 claims",
        "3 have no answer",
        "it needs &lt;root&gt;",
        "node 2 died",
        "Not run yet",
        claims_by_lesson()[16].title,
    ):
        assert told in page
    assert find_tour(home, "newest") == find_tour(home, "tour-1") == folder


@pytest.mark.parametrize("missing", [None, "no network"])
def test_what_the_stops_will_need_is_fetched_before_the_first_of_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: str | None,
) -> None:
    """A lesson's time is then its own; what cannot be had is said at once, and costs its lesson alone."""
    fetched = []

    def _fetch(_cache: Path, spec: ClusterSpec, _say: object) -> None:
        fetched.append((spec.kafka_version, spec.coordination))
        if missing:
            raise InputError(missing)

    monkeypatch.setattr("experiments.planning.new_sweep.ensure_kafka_ready", _fetch)
    fetch_ahead(Home(tmp_path), new_tour(frozenset({4, 9}), None))

    assert fetched[0] == ("3.9.2", "zookeeper")
    assert (set(fetched) == {("3.9.2", "zookeeper"), ("3.9.2", "kraft")}) is (missing is None)
    assert ("no network" in capsys.readouterr().err) is (missing is not None)


def test_a_chapter_has_the_claim_what_was_seen_as_a_list_and_what_to_set() -> None:
    """In the order in which it is read."""
    found = find(
        material(
            *(truth({"acks": level, "fault": "leader-crash-behind"}) for level in (0, 1, "all"))
        )
    )
    experiment = claims_by_lesson()[5]
    assert experiment.claim is not None
    answer = AnsweredClaim(
        TourStop(lesson=5, experiment="acks-levels"),
        experiment.title,
        experiment.claim,
        found,
        None,
        "3:10",
        9,
        None,
    )
    plan = Plan(
        sweep_id="s",
        experiment="acks-levels",
        question="?",
        seed=42,
        repeats=3,
        trials=(),
        refused=(),
    )
    lines = "\n".join(chapter(answer, found, plan)).splitlines()

    told = [
        experiment.claim.says.strip(),
        "## The experiment",
        "**The evidence is inconclusive.**",
        *found.sentences,
        found.summary,
        "## In production",
    ]
    places = [next(place for place, line in enumerate(lines) if words in line) for words in told]
    assert places == sorted(places)


def test_lessons_can_be_tested_again_with_more_repeats() -> None:
    """The other answers stay."""
    one, other = (
        TourStop(
            lesson=lesson, experiment=claims_by_lesson()[lesson].name, sweep_id="s", seconds=3.0
        )
        for lesson in (5, 8)
    )
    again = Tour(tour_id="t", stops=(one, other)).again(frozenset({8}), 10)

    assert [(stop.done, stop.repeats) for stop in again.stops] == [(True, None), (False, 10)]
    with pytest.raises(UnknownName, match="t has no lesson 9; it has 5, 8"):
        again.again(frozenset({9}), None)


def test_a_tour_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, exit code 2; and repeats of a tour that is gone on with are those of lessons that are named."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    assert [
        ackbench("tour", *asked).exit_code
        for asked in (("--resume", "x"), ("--resume", "x", "--repeats", "5"), ("--lessons", "20"))
    ] == [2, 2, 2]


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.caption)
def test_a_plot_is_drawn_with_what_it_shows_in_words(plot: Plot) -> None:
    """For those who do not see it, too."""
    chart = plot_chart(plot, "finding")
    assert chart.svg.startswith("<svg")
    assert f'aria-label="{plot.caption}"' in chart.svg


def test_a_finding_reads_back_as_it_was_written() -> None:
    """Its plot too, of whichever kind."""
    found = find(
        material(
            *(truth({"acks": level, "fault": "leader-crash-behind"}) for level in (0, 1, "all"))
        )
    )
    assert type(found).model_validate_json(found.model_dump_json()) == found
