"""The report in a real browser: each value is below its own header, at each width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.browser import WIDTHS, Browser, browser
from support.builders.sweeps import TRUTHS, measured_sweep

from experiments.report.data import ReportData
from experiments.report.drawing import set_matplotlib_cache
from experiments.report.page import render_page
from experiments.results.wording import GUARANTEE_NAMES, verdict_text
from experiments.verdicts.contract import CONDITIONAL_GUARANTEES, ContractClause, Guarantee
from infra.machine.home import Home


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Yield one browser for all tests of this file."""
    set_matplotlib_cache(Home(tmp_path_factory.mktemp("home")))
    with browser() as chromium:
        yield chromium


def with_atomicity(data: ReportData) -> ReportData:
    """Return the sweep with a cell that has a guarantee of atomicity, and so one more column."""
    clause = ContractClause(
        guarantee=Guarantee.ATOMICITY,
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
def page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ReportData, Path]:
    """Return a sweep and the path of its page."""
    data = with_atomicity(measured_sweep()) if request.param else measured_sweep()
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(data), encoding="utf-8")
    return data, path


@pytest.mark.parametrize("width", WIDTHS)
def test_each_verdict_is_below_its_own_guarantee(
    opened: Browser, page: tuple[ReportData, Path], width: int
) -> None:
    """A verdict below another header would be read as the verdict of that guarantee."""
    data, path = page
    opened.open(path, width)
    rows = [dict(cells) for _, cells in opened.rows("#verdicts table.verdicts")]

    conditional = {clause.guarantee for cell in data.results.cells for clause in cell.clauses}
    shown = [
        GUARANTEE_NAMES[guarantee]
        for guarantee in Guarantee
        if guarantee not in CONDITIONAL_GUARANTEES or guarantee in conditional
    ]
    judged = [cell for cell in data.results.cells if cell.refused is None]
    assert len(rows) == len(judged) == len(TRUTHS)
    assert [list(row) for row in rows] == [shown] * len(rows)
    for row, cell in zip(rows, judged, strict=True):
        assert cell.judgements
        for judgement in cell.judgements:
            assert verdict_text(judgement) in row[GUARANTEE_NAMES[judgement.guarantee]], (
                cell.label,
                judgement.guarantee,
            )
