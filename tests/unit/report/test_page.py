"""The page of a sweep: it holds all there is, says what is not known, loads nothing, and is the same each time."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.builders.sweeps import LOSING, QUIET, SAFE, TRUTHS, TWICE, Truth, a_cell, measured
from support.command_line import ackbench

from experiments.report.answer import cell_group_names
from experiments.report.data import ReportData
from experiments.report.page import keep_units_together, render_page
from experiments.results.attribution import cause_summaries
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan
from experiments.verdicts.judge import HarnessCheck
from infra.machine.home import Home
from spark_jobs.planted import PlantedAttempt, PlantedTrial

VOID = {
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
"""Elements that HTML does not close."""


class Reader(HTMLParser):
    """Reads a page as a browser does: which elements are open, what is said, what would be fetched."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.said = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        told = dict(attrs)
        self.ids += [told["id"] or ""] if "id" in told else []
        self.links += [told["href"] or ""] if tag == "a" else []
        self.fetched += [
            value or ""
            for name, value in attrs
            if name in {"src", "srcset", "data", "poster"}
            or (name == "href" and tag not in {"a", "use"})
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element that is closed at once."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        """Keep what is said, but for what is not shown."""
        if self.open and self.open[-1] not in {"style", "script"}:
            self.said += f" {' '.join(data.split())}"


@pytest.fixture(scope="module", autouse=True)
def _drawing(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give matplotlib a cache of the test's own."""
    from experiments.report.drawing import set_matplotlib_cache

    set_matplotlib_cache(Home(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def evidence() -> ReportData:
    """A sweep of four cells with five trials each, one void and one late."""
    return measured(void=("001-000003",), late=("000-000001",))


@pytest.fixture(scope="module")
def page(evidence: ReportData) -> str:
    """Its page."""
    return render_page(evidence)


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    """Its page as a browser reads it."""
    return Reader(page)


def test_every_element_is_closed_and_no_id_stands_twice(read: Reader) -> None:
    """A browser mends much, and shows something else."""
    assert read.open == []
    assert len(set(read.ids)) == len(read.ids)


def test_nothing_is_fetched(page: str, read: Reader) -> None:
    """The page is one file: no image, font, style or script of elsewhere, and no address that is not a link for the reader."""
    assert read.fetched == []
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)|<script[^>]+src", page)
    assert {link.split("#")[0] for link in read.links} == {
        "",
        "https://kafka.apache.org/documentation/",
    }


def test_every_link_within_the_page_leads_somewhere(read: Reader) -> None:
    """To a section or a trial."""
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(read.ids)


def test_the_page_holds_every_cell_trial_and_verdict(evidence: ReportData, read: Reader) -> None:
    """A reader must not wonder what was left out."""
    assert all(f"trial-{spec.trial_id}" in read.ids for spec in evidence.plan.trials)
    assert all(f"seed {spec.seed}" in read.said for spec in evidence.plan.trials)
    verdicts = sum(len(cell.judgements) for cell in evidence.results.cells)
    assert len(re.findall(r"Bounds hold", read.said)) == 1
    assert read.said.count("as the documentation says") == verdicts
    for words in (
        "held",
        "not promised, seen",
        "not promised, not seen",
        "acks=all idem=on",
        "acks=1 idem=off",
        "positive control",
        "`acks` must be set to `all`",
    ):
        assert words in read.said


def test_equal_evidence_gives_equal_bytes(evidence: ReportData, page: str) -> None:
    """No time of making, no random name."""
    assert render_page(evidence) == page


def test_a_hundred_trials_stay_under_eight_megabytes(evidence: ReportData, page: str) -> None:
    """A page that is mailed and opened on a phone; what a sweep's charts cost is shared out over its trials."""
    assert len(page.encode()) / len(evidence.plan.trials) < 80_000


def test_void_and_late_trials_are_shown_with_their_reasons(read: Reader) -> None:
    """Counted, and never judged in silence."""
    assert "void 001-000003 the leader never moved" in read.said
    assert "the generator fell 180 ms behind its schedule" in read.said
    assert "1 void" in read.said


def test_each_trial_says_which_cluster_it_ran_on_and_why(
    evidence: ReportData, read: Reader
) -> None:
    """One was made for a trial, the others shared it."""
    assert read.said.count("cluster 001, made for it: it is the first") == 1
    assert (
        read.said.count("cluster 001, shared: it was whole again") == len(evidence.plan.trials) - 1
    )


def test_lost_records_are_put_down_to_their_cause(read: Reader) -> None:
    """In sentences, in the trial that lost them."""
    assert "node 1 truncated its log to offset 88,120" in read.said


def test_causes_are_counted_by_cell_and_what_has_none_is_said(read: Reader) -> None:
    """All of the losing cell's records are explained; a cause that is not known is one of the counts."""
    assert (
        "7,819 lost records: 7,819 truncated from the log of the leader that had acknowledged them."
        in read.said
    )
    rows = [
        {"kind": "LOST", "cause": "UNATTRIBUTED", "records": 3},
        {"kind": "LOST", "cause": "TRUNCATED", "records": 1200},
    ]
    assert list(cause_summaries(rows)) == [
        "1,203 lost records: 1,200 truncated from the log of the leader that had acknowledged them and 3 of unknown cause."
    ]


def test_a_figure_stays_on_one_line_with_its_unit() -> None:
    """And breaks where it is none: "above 36" at the end of a line and "% at 95 %" on the next."""
    found = "above 36 % at 95 %, for 1.8 s and 12 ms, by 3 seconds"
    assert (
        keep_units_together(found).replace("\N{NO-BREAK SPACE}", "_")
        == "above 36_% at 95_%, for 1.8_s and 12_ms, by 3 seconds"
    )


def test_names_are_no_markup() -> None:
    """Whatever a question or a setting says, it is shown as it is written."""
    truth = replace(SAFE, cell={**SAFE.cell, "linger.ms": "<script>alert(1)</script>"})
    evidence = measured([truth, QUIET])
    wild = evidence.results.model_copy(update={"question": "<b>Why</b> & 'how' $x$?"})
    page = render_page(replace(evidence, results=wild))
    assert "<b>Why" not in page
    assert "<script>alert" not in page
    assert "<b>Why</b> & 'how' $x$?" in Reader(page).said


def test_the_answer_says_what_was_broken_first() -> None:
    """A violated promise comes before all else, with its trials and records."""
    broken = replace(LOSING, cell=a_cell("all", idempotence=True), copies=(0,) * 5)
    said = Reader(render_page(measured([broken, QUIET]))).said
    assert "A promise was broken in 1 cell (no acked loss)" in said
    assert "In 4 of 5 trials, 7,819 records." in said
    assert "000-000000: producer 0, record 7;" in said


def test_a_page_whose_control_failed_says_so_before_the_answer() -> None:
    """Its figures are not to be believed."""
    evidence = measured()
    dirty = HarnessCheck(
        control_clean=False,
        positive_control_lost=True,
        sentences=("3 records were lost without a fault.",),
    )
    said = Reader(
        render_page(
            replace(evidence, results=evidence.results.model_copy(update={"harness": dirty}))
        )
    ).said
    assert (
        -1
        < said.index("Do not believe this page")
        < said.index("3 records were lost without a fault")
        < said.index("The answer")
    )
    assert "Nothing can be concluded" in said


def test_a_positive_control_that_lost_nothing_is_as_loud() -> None:
    """A harness that sees no loss there would see none anywhere."""
    evidence = measured()
    blind = HarnessCheck(control_clean=True, positive_control_lost=False)
    said = Reader(
        render_page(
            replace(evidence, results=evidence.results.model_copy(update={"harness": blind}))
        )
    ).said
    assert "Do not believe this page" in said


def test_a_cell_whose_trials_are_all_void_is_not_known() -> None:
    """Never 0."""
    evidence = measured([SAFE, QUIET], void=[f"000-{repeat:06d}" for repeat in range(5)])
    said = Reader(render_page(evidence)).said
    assert "no trial was sealed" in said
    assert "4 verdicts cannot be given" in said


def test_a_single_trial_has_a_page() -> None:
    """With a bound that says how little one trial excludes."""
    said = Reader(render_page(measured([Truth(SAFE.cell, (0,), (0,))]))).said
    assert "0 of 1" in said


def test_what_has_no_rows_is_said_not_to_be_known(evidence: ReportData) -> None:
    """A sweep without reads, histograms, outages or timelines still has its page."""
    said = Reader(
        render_page(
            replace(
                evidence,
                timeline={},
                histogram={},
                outages={},
                attribution={},
                leaders={},
                machine={},
            )
        )
    ).said
    assert "Not known: the results hold no latencies." in said
    assert "Not known: no outage during a fault has been measured." in said


@pytest.mark.parametrize("name", ["latency", "outage"])
def test_charts_say_in_words_what_they_show(page: str, name: str) -> None:
    """For those who do not see them, and for those who do not want to read an axis."""
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
    """Exactly those that are meant, no other."""
    cells = [a_cell(acks, partitions=partitions) for acks in (0, 1) for partitions in (1, 6)]
    assert cell_group_names(cells, ["acks", "partitions"]) == ("acks=0/1 P=1/6",)
    assert cell_group_names(cells[:3], ["acks", "partitions"]) == ("acks=0 P=1/6", "acks=1 P=1")


def test_the_command_makes_the_page_of_an_unmeasured_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sealed trial, and one that has not run: both are there, nothing is known of them, and the path is printed."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    sweep = a_sweep_on_disk(tmp_path)
    result = ackbench("report", sweep.sweep_id)
    assert (result.exit_code, result.stdout) == (0, f"{sweep.report}\n")
    said = Reader(sweep.report.read_text()).said
    assert (
        "Not known: none of the sweep's 1 cell has been judged." in said
        or "cannot be given" in said
    )
    assert "not measured 000-abcdef" in said
    assert "not run 001-abcdef" in said


def test_a_broken_ledger_is_one_line_and_leaves_the_old_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, and the file's name."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    sweep = a_sweep_on_disk(tmp_path)
    sweep.report.write_text("old")
    (sweep.trial("000-abcdef") / "events.parquet").write_bytes(b"PAR1")
    result = ackbench("report", sweep.sweep_id)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "events.parquet cannot be read" in result.stderr
    assert sweep.report.read_text() == "old"


def a_sweep_on_disk(home: Path) -> SweepFolder:
    """Return a sweep of two trials, of which the first is sealed."""
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


def test_the_planted_sweep_is_what_these_tests_say_it_is() -> None:
    """Four cells, of which one loses and one repeats."""
    assert [truth.cell["acks"] for truth in TRUTHS] == ["all", "all", 1, "all"]
    assert sum(LOSING.lost) == 7819
    assert sum(TWICE.copies) == 9237
