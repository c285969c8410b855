"""The page in a real browser, read as a person reads it: each value under its own header, at each width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.browser import WIDTHS, Browser, browser
from support.builders.sweeps import TRUTHS, measured

from experiments.report.data import ReportData
from experiments.report.drawing import set_matplotlib_cache
from experiments.report.page import render_page
from experiments.results.wording import GUARANTEE_NAMES, verdict_text
from experiments.verdicts.contract import CONDITIONAL_GUARANTEES, ContractClause, Guarantee
from infra.machine.home import Home


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for all tests of this file."""
    set_matplotlib_cache(Home(tmp_path_factory.mktemp("home")))
    with browser() as found:
        yield found


def of_transactions(evidence: ReportData) -> ReportData:
    """Return the sweep with a cell that is asked about its transactions, and so with one column more."""
    asked = ContractClause(
        guarantee=Guarantee.ATOMICITY,
        guaranteed=False,
        reason="as the documentation says",
        source="https://kafka.apache.org/documentation/",
    )
    first, *others = evidence.results.cells
    cells = (first.model_copy(update={"clauses": (*first.clauses, asked)}), *others)
    return replace(evidence, results=evidence.results.model_copy(update={"cells": cells}))


@pytest.fixture(
    scope="module", params=[False, True], ids=["asked of all cells", "asked of transactions, too"]
)
def page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ReportData, Path]:
    """A sweep and its page."""
    evidence = of_transactions(measured()) if request.param else measured()
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(evidence), encoding="utf-8")
    return evidence, path


@pytest.mark.parametrize("width", WIDTHS)
def test_each_verdict_stands_under_its_own_promise(
    opened: Browser, page: tuple[ReportData, Path], width: int
) -> None:
    """A verdict under another's header is a wrong answer, however right it is."""
    evidence, path = page
    opened.open(path, width)
    rows = [dict(cells) for _, cells in opened.rows("#verdicts table.verdicts")]

    asked = {commitment.guarantee for cell in evidence.results.cells for commitment in cell.clauses}
    shown = [
        GUARANTEE_NAMES[guarantee]
        for guarantee in Guarantee
        if guarantee not in CONDITIONAL_GUARANTEES or guarantee in asked
    ]
    judged = [cell for cell in evidence.results.cells if cell.refused is None]
    assert len(rows) == len(judged) == len(TRUTHS)
    assert [list(row) for row in rows] == [shown] * len(rows)
    for row, cell in zip(rows, judged, strict=True):
        assert cell.judgements
        for judgement in cell.judgements:
            assert verdict_text(judgement) in row[GUARANTEE_NAMES[judgement.guarantee]], (
                cell.label,
                judgement.guarantee,
            )
