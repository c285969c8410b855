"""Comparisons as CI systems read them: JUnit's test cases and a job summary in Markdown. Pure.

A measure of a pair of cells is a test case. It fails if `--fail-on worse:` sets a limit for it that
is exceeded, and is skipped if the trials cannot decide that limit. Without a limit it is reported
and passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ackbench.experiments.messages.markdown import escaped, table
from ackbench.experiments.results.comparing.cell_texts import compared_cell_texts
from ackbench.experiments.results.comparing.comparison import Comparison
from ackbench.experiments.results.comparing.differences import Difference
from ackbench.experiments.results.comparing.gate import Gate
from ackbench.experiments.results.comparing.sentences import undecided_reason
from ackbench.experiments.results.formats.junit import Outcome, TestCase
from ackbench.experiments.results.formats.tables import AxisTable

_UNPAIRED: Final = "cells without a counterpart"


def comparison_cases(comparisons: Sequence[Comparison], gate: Gate) -> Iterator[TestCase]:
    """Yield the test cases: measures by pair of cells, then cells that only one side has."""
    for comparison in comparisons:
        for cell in comparison.cells:
            view = compared_cell_texts(cell)
            for row, difference in zip(view.rows, cell.differences, strict=True):
                outcome, why = _outcome(difference, gate)
                text = f"A: {row.a}; B: {row.b}; B against A: {row.change}"
                yield TestCase(view.name, row.name, outcome, why, text)
    for comparison in comparisons:
        for side, labels in (("A", comparison.only_a), ("B", comparison.only_b)):
            for label in labels:
                yield TestCase(_UNPAIRED, label, "skipped", f"only in {side}")


def _outcome(difference: Difference, gate: Gate) -> tuple[Outcome, str]:
    limits = [limit for limit in gate.worse if limit.measure is difference.measure]
    if exceeded := [str(limit) for limit in limits if limit.is_exceeded(difference)]:
        return "failure", f"exceeds {', '.join(exceeded)}"
    if any(not difference.can_exceed(limit.bound) for limit in limits):
        return "skipped", undecided_reason(difference.missing)
    return "passed", ""


def table_lines(tables: Sequence[AxisTable]) -> Iterator[str]:
    """Yield the lines of tables of cells that differ in one axis alone."""
    for one in tables:
        rows = ([*map(escaped, row)] for row in one.rows)
        yield from (f"**{escaped(one.title)}**", "", *table([*map(escaped, one.heads)], rows), "")


def comparison_lines(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the lines: both sides, settings that differ, sentences, a table, changed verdicts."""
    for comparison in comparisons:
        yield from (f"## A: {escaped(comparison.a)}, B: {escaped(comparison.b)}", "")
        for sentence in comparison.sentences:
            yield from (f"**{escaped(sentence)}**", "")
        for change in comparison.settings:
            named = f"{change.scope} {change.name}"
            yield f"- {escaped(f'differs: {named}: {change.a} | {change.b}')}"
        yield from (f"- {escaped(remark)}" for remark in comparison.remarks)
        views = [compared_cell_texts(cell) for cell in comparison.cells]
        rows = (
            [*map(escaped, (view.name, row.name, row.a, row.b, row.change, row.p_value))]
            for view in views
            for row in view.rows
        )
        heads = ("cell", "measure", "A", "B", "B against A", "p")
        yield from ("", *table(heads, rows), "")
        for view in views:
            yield from (f"- {escaped(f'{view.name}: {verdict}')}" for verdict in view.verdicts)
        for side, labels in (("A", comparison.only_a), ("B", comparison.only_b)):
            yield from (f"- {escaped(f'only in {side}: {label}')}" for label in labels)
