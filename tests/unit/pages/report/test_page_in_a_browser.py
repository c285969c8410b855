"""The report in a real browser: each value is below its own header, at each width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.browser import WIDTHS, Browser, browser
from support.builders.sweeps import TRUTHS, measured_sweep
from support.stored_sweep import stored_sweep

from ackbench.experiments.pages.report.cell_tables import cell_views
from ackbench.experiments.pages.report.changes import changes_view
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.pages.report.guarantee_matrix import guarantee_matrix
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.results.wording import verdict_text
from ackbench.experiments.verdicts.contract import ContractClause
from ackbench.experiments.verdicts.guarantees import GUARANTEES
from ackbench.experiments.verdicts.guarantees.atomicity import ATOMICITY
from ackbench.infra.machine.home import Home


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield one browser for all tests of this file."""
    set_matplotlib_cache(Home(tmp_path_factory.mktemp("home")))
    with browser() as chromium:
        yield chromium


def with_atomicity(data: ReportData) -> ReportData:
    """Return the sweep with a cell that has a guarantee of atomicity, and so one more column."""
    clause = ContractClause(
        guarantee=ATOMICITY,
        guaranteed=False,
        reason="as the documentation says",
        source="https://kafka.apache.org/documentation/",
    )
    first, *others = data.results.cells
    cells = (first.model_copy(update={"clauses": (*first.clauses, clause)}), *others)
    return replace(data, results=data.results.model_copy(update={"cells": cells}))


@pytest.fixture(
    scope="module", params=[False, True], ids=["unconditional guarantees", "with atomicity"]
)
def each_page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ReportData, Path]:
    """Return a sweep and the path of its page."""
    if request.param:
        shown: tuple[ReportData, Path] = request.getfixturevalue("page")
        return shown
    data = measured_sweep()
    return data, write_page(data, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportData, Path]:
    """Return the sweep with more columns, and the path of its page."""
    data = with_atomicity(measured_sweep())
    return data, write_page(data, tmp_path_factory.mktemp("page"))


def write_page(data: ReportData, folder: Path) -> Path:
    """Write the page of a sweep and return its path."""
    path = folder / "report.html"
    path.write_text(render_page(data), encoding="utf-8")
    return path


@pytest.mark.further(width=WIDTHS[:-1], each_page=[False])
@pytest.mark.parametrize("width", WIDTHS)
def test_each_verdict_is_below_its_own_guarantee(
    opened: Browser, each_page: tuple[ReportData, Path], width: int
) -> None:
    """A verdict below another header would be read as the verdict of that guarantee."""
    data, path = each_page
    opened.open(path, width, "verdicts")
    rows = [dict(cells) for _, cells in opened.rows("#verdicts table.verdicts")]

    conditional = {clause.guarantee for cell in data.results.cells for clause in cell.clauses}
    shown = [
        guarantee.label
        for guarantee in GUARANTEES
        if guarantee.applies is None or guarantee in conditional
    ]
    judged = [cell for cell in data.results.cells if cell.refused is None]
    assert len(rows) == len(judged) == len(TRUTHS)
    assert [list(row) for row in rows] == [shown] * len(rows)
    for row, cell in zip(rows, judged, strict=True):
        assert cell.judgements
        for judgement in cell.judgements:
            assert verdict_text(judgement) in row[judgement.guarantee.label], (
                cell.label,
                judgement.guarantee,
            )


@pytest.mark.further
@pytest.mark.parametrize("width", WIDTHS)
def test_each_observation_of_the_matrix_is_below_its_own_head(
    opened: Browser, each_page: tuple[ReportData, Path], width: int
) -> None:
    """In a narrow layout the head is the label beside it."""
    data, path = each_page
    opened.open(path, width)
    matrix = guarantee_matrix(data, by_outcome=True)
    expected = [
        {chip.head: chip.text for chip in row.chips}
        for group in matrix.groups
        for row in group.rows
    ]
    shown = [dict(cells) for _, cells in opened.rows("#answer table.matrix")]

    assert len(shown) == len(expected) > 1
    for row, chips in zip(shown, expected, strict=True):
        for head, text in chips.items():
            assert text in row[head].replace("\N{NO-BREAK SPACE}", " ")


def test_a_phone_leaves_out_what_is_neither_guaranteed_nor_observed_and_says_so(
    opened: Browser, quick_page: Path
) -> None:
    """A wide page has it, and does not say that it left something out."""
    left_out, chips = "Left out on this narrow page", "#answer table.matrix .chip.unseen"

    opened.open(quick_page, max(WIDTHS))
    assert left_out not in opened.text("#answer")
    assert 0 < opened.count(chips) == opened.count_shown(chips)

    opened.open(quick_page, min(WIDTHS))
    assert left_out in opened.text("#answer")
    assert opened.count_shown(chips) == 0


@pytest.mark.further(width=WIDTHS[:-1])
@pytest.mark.parametrize("width", WIDTHS)
def test_each_figure_and_each_change_is_below_its_own_head(
    opened: Browser, page: tuple[ReportData, Path], width: int
) -> None:
    """The figures of each cell, and the pairs of cells that differ in one axis."""
    data, path = page
    opened.open(path, width)
    opened.open_all_details()
    views = [view for _, group in cell_views(data) for view in group]
    figures = [dict(cells) for _, cells in opened.rows("#loss table.figures")]
    assert len(figures) == len(views) > 1
    for row, view in zip(figures, views, strict=True):
        assert row.items() <= dict(view.figures).items()
    pairs = [pair for axis in changes_view(data).axes for pair in (*axis.shown, *axis.folded)]
    changes = [dict(cells) for _, cells in opened.rows("#changes table.changes")]
    assert len(changes) == len(pairs) > 1
    for row, pair in zip(changes, pairs, strict=True):
        for change in pair.changes:
            assert change.text in row[change.measure]


@pytest.mark.further(width=WIDTHS[:-1])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_is_broken_and_nothing_is_wider_than_the_page(
    opened: Browser, page: tuple[ReportData, Path], width: int
) -> None:
    """Folded, and with everything unfolded."""
    opened.open(page[1], width)
    for unfolded in (False, True):
        if unfolded:
            opened.open_all_details()
        assert opened.size()[0] <= opened.visible_width()
        assert opened.broken_words() == []


@pytest.mark.further(dark=[True])
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_violation(opened: Browser, page: tuple[ReportData, Path], dark: bool) -> None:
    """Contrast, labels, order of headings, roles: in light and dark, with everything unfolded."""
    opened.open(page[1], WIDTHS[0], dark=dark)
    opened.open_all_details()

    assert opened.violations() == []


@pytest.fixture(scope="module")
def quick_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the page of a real quick sweep: 21 cells."""
    return write_page(stored_sweep(), tmp_path_factory.mktemp("quick"))


@pytest.mark.further
def test_the_page_of_a_quick_sweep_has_less_than_a_megabyte(quick_page: Path) -> None:
    """It is mailed, and kept by CI jobs."""
    assert quick_page.stat().st_size < 1_000_000


def test_a_phone_shows_the_answer_and_the_matrix_before_8000_pixels(
    opened: Browser, quick_page: Path
) -> None:
    """What comes after them is folded."""
    opened.open(quick_page, min(WIDTHS))

    assert opened.size()[1] < 8000


@pytest.mark.further
def test_the_answer_matrix_figures_and_settings_are_printed_on_at_most_six_pages(
    opened: Browser, quick_page: Path
) -> None:
    """The trials are printed only if they were unfolded."""
    opened.open(quick_page, WIDTHS[0])
    folded = opened.printed_pages()
    opened.open_all_details()

    assert folded <= 6
    assert opened.printed_pages() > folded


@pytest.mark.further(scripts=[True])
@pytest.mark.parametrize("scripts", [True, False])
def test_a_link_to_a_verdict_unfolds_its_reasons(
    opened: Browser, quick_page: Path, *, scripts: bool
) -> None:
    """Also without a script: Chromium opens what a fragment's target is folded in."""
    anchors = set(re.findall(r'href="#(verdict-[\w-]+)"', quick_page.read_text(encoding="utf-8")))
    assert len(anchors) > 20
    for anchor in sorted(anchors)[:3]:
        opened.open(quick_page, WIDTHS[0], anchor, scripts=scripts)
        assert opened.shows(anchor)
    opened.open(quick_page, WIDTHS[0])
    assert not opened.shows(min(anchors))


@pytest.mark.further
def test_a_link_to_a_trial_unfolds_it(opened: Browser, page: tuple[ReportData, Path]) -> None:
    """The matrix links to the trial of each strip."""
    data, path = page
    opened.open(path, WIDTHS[0])
    folded = opened.size()[1]
    opened.open(path, WIDTHS[0], f"trial-{data.results.trials[0].trial_id}")

    assert opened.size()[1] > folded
