"""One sweep, split by an axis: cells that differ in this axis alone, compared in pairs of trials.

Trials of the same repeat are a pair.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count

from ackbench.experiments.ledger.trial_manifest import Frozen, Scalar
from ackbench.experiments.messages.errors import NotComparable, UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_count
from ackbench.experiments.results.comparing.cell_pairs import experiment_cells, pair_cells_except
from ackbench.experiments.results.comparing.comparison import (
    ComparedSweep,
    Comparison,
    check_measured,
    compare_pairs,
)
from ackbench.experiments.results.comparing.differences import exceeds_with
from ackbench.experiments.results.comparing.findings import MeasureStatement, SchedulesDiffer
from ackbench.experiments.results.comparing.sentences import statement_sentence
from ackbench.experiments.results.models import CellResult, SweepResults
from ackbench.experiments.sweep import cell_names
from ackbench.experiments.sweep.workload import LOAD_SECTIONS


class AxisComparison(Frozen):
    """A sweep's cells with the first value of an axis, compared with those of each other value."""

    sweep: str
    axis: str
    values: tuple[Scalar, ...]
    """In the order of `axis_values`; null: not set, so the default of Kafka or the client holds."""
    comparisons: tuple[Comparison, ...]
    """One for each value except the first, if it has a cell with a partner."""
    left_out: tuple[str, ...]
    """Labels of the cells without a pair.

    No other cell is equal in all other axes, or they are controls that were added.
    """


def compare_within(sweep: ComparedSweep, axis: str) -> AxisComparison:
    """Compare the cells of one sweep that differ in this axis alone.

    Raises:
        UnknownName: no cell has this axis; the message suggests the most similar one.
        NotComparable: the sweep was not measured, the axis has a single value, or no two cells are
            equal in all other axes.
    """
    check_measured(sweep.results)
    values = _checked_values(sweep, axis)
    first, *others = (_part(sweep, axis, value) for value in values)
    names = [f"{axis}={value_text(value)}" for value in values]
    candidates = [
        (name, other, pair_cells_except(axis, first.results.cells, other.results.cells))
        for name, other in zip(names[1:], others, strict=True)
    ]
    all_pairs = [pair for _, _, pairs in candidates for pair in pairs]
    if not all_pairs:
        raise NotComparable(
            f"{sweep.plan.sweep_id}: no cell with {names[0]} has a partner with another value that "
            "is equal in all other axes"
        )
    caveats = (SchedulesDiffer(),) if _differs_in_schedule(axis) else ()
    return AxisComparison(
        sweep=sweep.plan.sweep_id,
        axis=axis,
        values=tuple(values),
        comparisons=tuple(
            compare_pairs((names[0], name), first, other, pairs, caveats)
            for name, other, pairs in candidates
            if pairs
        ),
        left_out=tuple(
            cell.label
            for cell in sweep.results.cells
            if cell.refused is None and not any(cell in pair for pair in all_pairs)
        ),
    )


def differences_shown(within: AxisComparison, results: SweepResults) -> Iterator[str]:
    """Yield the differences that the trials show, or why they show none."""
    shown = [
        f"{comparison.b} (B) against {comparison.a} (A): {statement_sentence(statement)}"
        for comparison in within.comparisons
        for statement in comparison.statements
        if isinstance(statement, MeasureStatement) and (statement.worse or statement.better)
    ]
    yield from shown
    if shown:
        return
    fewest = min((cell.sealed_trials for cell in experiment_cells(results.cells)), default=0)
    needed = next(trials for trials in count(1) if exceeds_with(trials, 0))
    if fewest < needed:
        yield (
            f"{format_count(fewest, 'trial')} per cell: differences cannot be tested; "
            f"--repeats {needed} can show one"
        )
    else:
        yield f"No difference was shown between the values of {within.axis}."


def varied_axes(cells: Sequence[CellResult]) -> list[str]:
    """Return the axes in which an experiment's own cells have several values, in their order."""
    axes = dict.fromkeys(axis for cell in experiment_cells(cells) for axis in cell.cell)
    return [axis for axis in axes if len(axis_values(cells, axis)) > 1]


def axis_values(cells: Sequence[CellResult], axis: str) -> list[Scalar]:
    """Return an axis's values among an experiment's own cells, sorted.

    First the missing value (`None`), then numbers and booleans, then words, with `none` first.
    """
    values = {
        json.dumps(cell.cell.get(axis)): cell.cell.get(axis) for cell in experiment_cells(cells)
    }
    return sorted(values.values(), key=_rank)


def cells_with_value(cells: Sequence[CellResult], axis: str, value: Scalar) -> list[CellResult]:
    """Return an experiment's own cells with this value of an axis."""
    wanted = json.dumps(value)  # because 1 == True in Python
    return [cell for cell in experiment_cells(cells) if json.dumps(cell.cell.get(axis)) == wanted]


def value_text(value: Scalar) -> str:
    """Return an axis's value as text; a missing one is `default`."""
    return cell_names.value_text(value, absent="default")


def _checked_values(sweep: ComparedSweep, axis: str) -> list[Scalar]:
    known = {name for cell in sweep.results.cells for name in cell.cell}
    if axis not in known:
        suggestion = did_you_mean(axis, varied_axes(sweep.results.cells) or known)
        raise UnknownName(f"--by {axis}: {sweep.plan.sweep_id} has no axis {axis}{suggestion}")
    values = axis_values(sweep.results.cells, axis)
    if len(values) < 2:  # noqa: PLR2004 - a comparison has two sides
        value = value_text(values[0]) if values else "no cell that was run"
        several = ", ".join(varied_axes(sweep.results.cells)) or "no axis"
        raise NotComparable(
            f"--by {axis}: {sweep.plan.sweep_id} has only one value of it, {value}; "
            f"axes with several values: {several}"
        )
    return values


def _part(sweep: ComparedSweep, axis: str, value: Scalar) -> ComparedSweep:
    """Return the sweep with the cells of one value only.

    It keeps all trials and the whole plan, because a cell selects its own trials.
    """
    cells = tuple(cells_with_value(sweep.results.cells, axis, value))
    return ComparedSweep(sweep.plan, sweep.results.model_copy(update={"cells": cells}))


def _differs_in_schedule(axis: str) -> bool:
    """Return whether an axis is of the load."""
    section, _, name = axis.partition(".")
    return section in LOAD_SECTIONS and name in LOAD_SECTIONS[section].model_fields


def _rank(value: Scalar) -> tuple[int, float, str]:
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, (bool, int, float)):
        return (1, float(value), "")
    return (2, float(value != "none"), value)
