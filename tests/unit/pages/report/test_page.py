"""The report of a sweep: complete, self-contained and reproducible, with unknown values marked."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.sweeps import (
    DUPLICATING,
    LOSING,
    SAFE,
    TRUTHS,
    WITHOUT_FAULT,
    Truth,
    a_cell,
    measured_sweep,
)
from support.command_line import ackbench

from ackbench.experiments.pages.report import page as report_page
from ackbench.experiments.pages.report.charts import ReportCharts
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.pages.report.page import keep_units_together, render_page
from ackbench.experiments.results.attribution import cause_summaries
from ackbench.experiments.sweep.cell_names import cell_group_names
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.judge import HarnessCheck
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

VOID_ELEMENTS = {
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "track",
    "wbr",
}
"""Elements without an end tag."""


class ParsedPage(HTMLParser):
    """A page as a browser parses it: open elements, visible text, and what would be fetched."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an opened element and its attributes."""
        attributes = dict(attrs)
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.links += [attributes["href"] or ""] if tag == "a" else []
        self.fetched += [
            value or ""
            for name, value in attrs
            if name in {"src", "srcset", "data", "poster"}
            or (name == "href" and tag not in {"a", "use"})
        ]
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element that is closed at once."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID_ELEMENTS:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the end tag closes the element that was opened last."""
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        """Keep the visible text."""
        if self.open and self.open[-1] not in {"style", "script"}:
            self.text += f" {' '.join(data.split())}"


def text_of(data: ReportData) -> str:
    """Return the text of a page without charts, which take most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_page, "draw_charts", lambda _: ReportCharts((), (), (), (), ()))
        return ParsedPage(render_page(data)).text


@pytest.fixture(scope="module", autouse=True)
def _matplotlib_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give matplotlib a temporary cache."""
    from ackbench.experiments.pages.report.drawing import set_matplotlib_cache

    set_matplotlib_cache(Home(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def data() -> ReportData:
    """Return a sweep of four cells with five trials each; one trial is void and one is late."""
    return measured_sweep(void=("001-000003",), late=("000-000001",))


@pytest.fixture(scope="module")
def page(data: ReportData) -> str:
    """Return the page of the sweep."""
    return render_page(data)


@pytest.fixture(scope="module")
def parsed(page: str) -> ParsedPage:
    """Return the page as a browser parses it."""
    return ParsedPage(page)


def test_every_element_is_closed_and_ids_are_unique(parsed: ParsedPage) -> None:
    """A browser would repair invalid HTML and show something else."""
    assert parsed.open == []
    assert len(set(parsed.ids)) == len(parsed.ids)


def test_nothing_is_fetched(page: str, parsed: ParsedPage) -> None:
    """The page has no external images, fonts, styles or scripts; only links leave it."""
    assert parsed.fetched == []
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)|<script[^>]+src", page)
    assert {link.split("#")[0] for link in parsed.links} == {
        "",
        "https://kafka.apache.org/documentation/",
    }


def test_every_internal_link_has_a_target(parsed: ParsedPage) -> None:
    """Targets are sections and trials."""
    assert {link[1:] for link in parsed.links if link.startswith("#")} <= set(parsed.ids)


def test_the_page_holds_every_cell_trial_and_verdict(data: ReportData, parsed: ParsedPage) -> None:
    """Nothing is left out."""
    assert all(f"trial-{spec.trial_id}" in parsed.ids for spec in data.plan.trials)
    assert all(f"seed {spec.seed}" in parsed.text for spec in data.plan.trials)
    verdicts = sum(len(cell.judgements) for cell in data.results.cells)
    assert (
        len(
            re.findall(
                r"Percentages behind a count: the exact two-sided 95 % interval", parsed.text
            )
        )
        == 1
    )
    assert parsed.text.count("as the documentation says") == verdicts
    for words in (
        "held",
        "not guaranteed: observed",
        "not guaranteed: not observed",
        "acks=all idem=on",
        "acks=1 idem=off",
        "positive control",
        "`acks` must be set to `all`",
    ):
        assert words in parsed.text


def test_equal_data_gives_equal_bytes(data: ReportData, page: str) -> None:
    """The page has no timestamp and no random name."""
    assert render_page(data) == page


def test_a_hundred_trials_stay_under_eight_megabytes(data: ReportData, page: str) -> None:
    """The limit is per trial, and includes the charts of the sweep."""
    assert len(page.encode()) / len(data.plan.trials) < 80_000


def test_void_late_and_stalled_trials_are_shown_with_their_reasons(parsed: ParsedPage) -> None:
    """They are listed, and counted per cell."""
    assert "void 001-000003 the leader never moved" in parsed.text
    assert "the load generator was 180 ms late at p99 (limit 50 ms)" in parsed.text
    assert "producer 0 was stopped for 1.20 s, 4.3 s after" in parsed.text
    assert "1 void" in parsed.text
    assert "1 late, 1 stalled" in parsed.text


def test_each_trial_has_its_cluster_and_the_reason_for_it(
    data: ReportData, parsed: ParsedPage
) -> None:
    """The cluster was created for one trial, and shared by the others."""
    assert parsed.text.count("cluster 001, created for this trial: it is the first") == 1
    assert (
        parsed.text.count("cluster 001, shared: it was healthy again") == len(data.plan.trials) - 1
    )


def test_lost_records_have_their_cause(parsed: ParsedPage) -> None:
    """The trial that lost them has the sentences."""
    assert "node 1 truncated its log to offset 88,120" in parsed.text


def test_causes_are_counted_by_cell_and_unknown_causes_are_included(parsed: ParsedPage) -> None:
    """The counts include records without a known cause."""
    assert (
        "7,819 lost records: 7,819 truncated from the log of the leader that had acknowledged them."
        in parsed.text
    )
    rows = [
        {"kind": "LOST", "cause": "UNATTRIBUTED", "records": 3},
        {"kind": "LOST", "cause": "TRUNCATED", "records": 1200},
    ]
    assert list(cause_summaries(rows)) == [
        (
            "1,203 lost records: 1,200 truncated from the log of the leader that had acknowledged"
            " them and 3 of unknown cause."
        )
    ]


def test_a_figure_stays_on_one_line_with_its_unit() -> None:
    """A line does not break between "36" and "%"; words that are no units may wrap."""
    text = "above 36 % at 95 %, for 1.8 s and 12 ms, by 3 seconds"
    assert (
        keep_units_together(text).replace("\N{NO-BREAK SPACE}", "_")
        == "above 36_% at 95_%, for 1.8_s and 12_ms, by 3 seconds"
    )


def test_names_are_escaped() -> None:
    """A question or a setting with markup is shown literally."""
    truth = replace(SAFE, cell={**SAFE.cell, "linger.ms": "<script>alert(1)</script>"})
    data = measured_sweep([truth, WITHOUT_FAULT])
    wild = data.results.model_copy(update={"question": "<b>Why</b> & 'how' $x$?"})
    page = render_page(replace(data, results=wild))
    assert "<b>Why" not in page
    assert "<script>alert" not in page
    assert "<b>Why</b> & 'how' $x$?" in ParsedPage(page).text


def test_the_answer_begins_with_the_violations() -> None:
    """A violated guarantee comes first, with its trials and records."""
    broken = replace(LOSING, cell=a_cell("all", idempotence=True), copies=(0,) * 5)
    text = text_of(measured_sweep([broken, WITHOUT_FAULT]))
    assert "A guarantee of Kafka's was VIOLATED: no acked loss, in 1 cell." in text
    assert "In 4 of 5 trials, 7,819 records." in text
    assert "000-000000: producer 0, record 7;" in text


def test_a_failed_control_comes_before_the_answer() -> None:
    """Its figures must not be trusted, and there is no conclusion."""
    data = measured_sweep()
    dirty = HarnessCheck(
        control_clean=False,
        positive_control_lost=True,
        sentences=("3 records were lost without a fault.",),
    )
    text = text_of(replace(data, results=data.results.model_copy(update={"harness": dirty})))
    assert (
        -1
        < text.index("Do not trust these results")
        < text.index("3 records were lost without a fault")
        < text.index("Answer")
    )
    assert "No conclusion is possible" in text


def test_a_positive_control_without_loss_has_the_same_warning() -> None:
    """If ackbench detects no loss there, it would detect none anywhere."""
    data = measured_sweep()
    blind = HarnessCheck(control_clean=True, positive_control_lost=False)
    text = text_of(replace(data, results=data.results.model_copy(update={"harness": blind})))
    assert "Do not trust these results" in text


def test_what_held_without_shown_power_is_said_with_the_verdict_and_in_the_answer() -> None:
    """No trial of the sweep showed a violation, so it does not show that it would see one."""
    data = measured_sweep([SAFE, WITHOUT_FAULT])
    cells = tuple(
        cell.model_copy(
            update={
                "judgements": tuple(
                    judgement.model_copy(update={"power_shown": False})
                    for judgement in cell.judgements
                )
            }
        )
        for cell in data.results.cells
    )
    text = text_of(replace(data, results=data.results.model_copy(update={"cells": cells})))
    assert "guaranteed and held, power not shown" in text
    assert "; power not shown." in text
    assert "guaranteed and held, power" not in text_of(data)


def test_a_cell_with_void_trials_only_is_unknown() -> None:
    """Its figures are not 0."""
    data = measured_sweep([SAFE, WITHOUT_FAULT], void=[f"000-{repeat:06d}" for repeat in range(5)])
    text = text_of(data)
    assert "no trial was sealed" in text
    assert "6 verdicts are unknown." in text


def test_each_link_within_the_page_has_its_target() -> None:
    """Each verdict of the matrix, and how many are unknown, lead to their reasons."""
    data = measured_sweep([SAFE, WITHOUT_FAULT], void=[f"000-{repeat:06d}" for repeat in range(5)])
    page = render_page(data)
    links = re.findall(r'href="#([^"]+)"', page)
    targets = re.findall(r' id="([^"]+)"', page)
    assert {"unknown-verdicts", "verdict-1-no-acked-loss", "verdict-2-availability"} <= {*links}
    assert len(targets) == len({*targets})
    assert {*links} <= {*targets}


def test_the_head_is_the_title_and_then_the_question(data: ReportData) -> None:
    """Plans of older versions have no title: their question is the head."""
    titled = replace(data, plan=data.plan.model_copy(update={"title": "What is lost?"}))

    assert re.findall(r"<h1>(.*?)</h1>", render_page(titled)) == ["What is lost?"]
    assert data.results.question in text_of(titled)
    assert re.findall(r"<h1>(.*?)</h1>", render_page(data)) == [data.results.question]


def test_a_single_trial_has_a_page() -> None:
    """The bound is as wide as one trial allows."""
    text = text_of(measured_sweep([Truth(SAFE.cell, (0,), (0,))]))
    assert "0 of 1" in text


def test_tables_without_rows_are_unknown(data: ReportData) -> None:
    """A sweep without reads, histograms, outages or timelines has a page."""
    text = text_of(
        replace(data, timeline={}, histogram={}, outages={}, attribution={}, leaders={}, machine={})
    )
    assert "Unknown: the results have no latencies." in text
    assert "Unknown: no outage during a fault has been measured." in text


@pytest.mark.parametrize("name", ["latency", "outage"])
def test_charts_have_a_label_and_a_caption(page: str, name: str) -> None:
    """Both state the content in words, for readers who do not see the chart."""
    section = page[
        page.index(f'<section id="{name}">') : page.index(
            "</section>", page.index(f'<section id="{name}">')
        )
    ]
    figures = re.findall(r"<figure>.*?</figure>", section, re.DOTALL)
    assert figures
    assert all(
        re.search(r'role="img" aria-label="[^"]{20,}"', figure)
        and re.search(r"<figcaption>.{20,}</figcaption>", figure)
        for figure in figures
    )


def test_cells_that_form_a_product_are_named_by_it() -> None:
    """The names denote exactly these cells."""
    cells = [a_cell(acks, partitions=partitions) for acks in (0, 1) for partitions in (1, 6)]
    assert cell_group_names(cells, ["acks", "partitions"]) == ("acks=0/1 P=1/6",)
    assert cell_group_names(cells[:3], ["acks", "partitions"]) == ("acks=0 P=1/6", "acks=1 P=1")


def test_the_command_writes_the_page_of_an_unmeasured_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sealed trial and one that has not run are listed as unknown; the path is printed."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    sweep = a_sweep_on_disk(tmp_path)
    result = ackbench("report", sweep.sweep_id)
    assert (result.exit_code, result.stdout) == (0, f"{sweep.report}\n")
    text = ParsedPage(sweep.report.read_text()).text
    assert "2 verdicts are unknown." in text
    assert "not measured 000-abcdef" in text
    assert "not run 001-abcdef" in text


def test_a_broken_ledger_is_one_line_and_leaves_the_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the file, and the exit code is 2."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    sweep = a_sweep_on_disk(tmp_path)
    sweep.report.write_text("old")
    (sweep.trial("000-abcdef") / "events.parquet").write_bytes(b"PAR1")
    result = ackbench("report", sweep.sweep_id)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "events.parquet cannot be read" in result.stderr
    assert sweep.report.read_text() == "old"


def a_sweep_on_disk(home: Path) -> SweepFolder:
    """Return a sweep of two trials; the first is sealed."""
    sweep = SweepFolder(home / "sweeps" / "planted-20260101T000000-abcd")
    specs = tuple(
        a_spec(sweep_id=sweep.sweep_id, trial_id=f"{n:03d}-abcdef", order=n, repeat=n)
        for n in range(2)
    )
    sweep.write_plan(
        Plan(
            sweep_id=sweep.sweep_id,
            experiment="planted",
            question="Who?",
            seed=42,
            repeats=2,
            trials=specs,
            refused=(),
        )
    )
    PlantedTrial("000-abcdef", [PlantedAttempt(0, 0)], cell=specs[0].cell).plant(sweep.root)
    return sweep


def test_the_planted_sweep_has_the_expected_truth() -> None:
    """Of four cells one loses records and one duplicates them."""
    assert [truth.cell["acks"] for truth in TRUTHS] == ["all", "all", 1, "all"]
    assert sum(LOSING.lost) == 7819
    assert sum(DUPLICATING.copies) == 9237


def test_a_gap_over_several_numbers_of_partitions_is_called_a_maximum() -> None:
    """The note stands at each table and chart that compares them, and nowhere else."""
    more = replace(SAFE, cell={**SAFE.cell, "partitions": 1000})
    note = "with more partitions it is a maximum over more of them"
    text = text_of(measured_sweep([SAFE, more, WITHOUT_FAULT]))
    assert text.count(note) == 5
    assert note not in text_of(measured_sweep([SAFE, WITHOUT_FAULT]))


def test_the_page_says_what_its_construction_decides_and_what_is_shortened() -> None:
    """A sweep whose plan has neither has no such line."""
    data = measured_sweep([SAFE, WITHOUT_FAULT])
    trials = tuple(
        trial.model_copy(update={"producer": {**trial.producer, "socket.timeout.ms": "1000"}})
        for trial in data.plan.trials
    )
    planned = data.plan.model_copy(
        update={"construction": "The followers are paused.", "trials": trials}
    )
    text = text_of(replace(data, plan=planned))
    assert "What the construction decides: The followers are paused." in text
    assert "socket.timeout.ms 1" in text
    assert "What the construction decides" not in text_of(data)
