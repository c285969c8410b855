"""One sweep, split by an axis: cells that are alike in all others, side by side, trials of one repeat in pairs. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from experiments.comparing.cell_pairs import own, pairs_but_for
from experiments.comparing.comparison import ComparedSweep, Comparison, check_measured, side_by_side
from experiments.errors import NotComparable, UnknownName
from experiments.ledger.record import Frozen, Scalar
from experiments.messages.phrases import did_you_mean
from experiments.planning.axes import Scope
from experiments.results.models import CellResult
from experiments.sweep import cell_names


class AxisComparison(Frozen):
    """A sweep's cells with the first value of an axis, beside those of each other value."""

    sweep: str
    axis: str
    values: tuple[Scalar, ...]
    """In the order of `values_of`; null: the cells do not say it, and Kafka's or the client's default holds."""
    comparisons: tuple[Comparison, ...]
    """One for each value but the first that has a cell with a partner."""
    left_out: tuple[str, ...]
    """Labels of the cells that stand in no pair: no other is alike in all other axes, or they are controls that were added."""

    def to_json(self) -> str:
        """Return the object as `ackbench compare --by --json` prints it."""
        return self.model_dump_json(indent=2)


def compare_within(sweep: ComparedSweep, axis: str) -> AxisComparison:
    """Compare the cells of one sweep that differ in this axis alone.

    Raises:
        UnknownName: no cell has such an axis; names the nearest that there is.
        NotComparable: the sweep was not measured, the axis has one value only, or no two cells are alike in all others.
    """
    check_measured(sweep.results)
    values = _checked(sweep, axis)
    first, *others = (_part(sweep, axis, value) for value in values)
    names = [f"{axis}={value_text(value)}" for value in values]
    found = [
        (name, other, pairs_but_for(axis, first.results.cells, other.results.cells))
        for name, other in zip(names[1:], others, strict=True)
    ]
    pairs = [pair for _, _, of in found for pair in of]
    if not pairs:
        raise NotComparable(
            f"{sweep.plan.sweep_id}: no cell with {names[0]} has one with another value beside it that is alike in all other axes"
        )
    return AxisComparison(
        sweep=sweep.plan.sweep_id,
        axis=axis,
        values=tuple(values),
        comparisons=tuple(
            side_by_side((names[0], name), first, other, of, _remarks(axis))
            for name, other, of in found
            if of
        ),
        left_out=tuple(
            cell.label
            for cell in sweep.results.cells
            if cell.refused is None and not any(cell in pair for pair in pairs)
        ),
    )


def axes_of(cells: Sequence[CellResult]) -> list[str]:
    """Return the axes in which an experiment's own cells have several values, in the order of the cells' own."""
    axes = dict.fromkeys(axis for cell in own(cells) for axis in cell.cell)
    return [axis for axis in axes if len(values_of(cells, axis)) > 1]


def values_of(cells: Sequence[CellResult], axis: str) -> list[Scalar]:
    """Return an axis's values among an experiment's own cells: what is not said, numbers and off and on, then words, of which `none` is the first."""
    values = {json.dumps(cell.cell.get(axis)): cell.cell.get(axis) for cell in own(cells)}
    return sorted(values.values(), key=_rank)


def of_value(cells: Sequence[CellResult], axis: str, value: Scalar) -> list[CellResult]:
    """Return an experiment's own cells with this value; as values, 1 and on would be equal."""
    return [cell for cell in own(cells) if json.dumps(cell.cell.get(axis)) == json.dumps(value)]


def value_text(value: Scalar) -> str:
    """Return an axis's value for a person; one that is not said is the default."""
    return cell_names.value_text(value, absent="default")


def _checked(sweep: ComparedSweep, axis: str) -> list[Scalar]:
    known = {name for cell in sweep.results.cells for name in cell.cell}
    if axis not in known:
        raise UnknownName(
            f"--by {axis}: {sweep.plan.sweep_id} has no axis {axis}{did_you_mean(axis, axes_of(sweep.results.cells) or known)}"
        )
    values = values_of(sweep.results.cells, axis)
    if len(values) < 2:  # noqa: PLR2004 - a comparison has two sides
        held = value_text(values[0]) if values else "no cell that was run"
        several = ", ".join(axes_of(sweep.results.cells)) or "no axis"
        raise NotComparable(
            f"--by {axis}: {sweep.plan.sweep_id} has one value of it only, {held}; several values: {several}"
        )
    return values


def _part(sweep: ComparedSweep, axis: str, value: Scalar) -> ComparedSweep:
    """Return the sweep with the cells of one value; its trials and its plan stay whole, as cells find theirs by themselves."""
    cells = tuple(of_value(sweep.results.cells, axis, value))
    return ComparedSweep(sweep.plan, sweep.results.model_copy(update={"cells": cells}))


def _remarks(axis: str) -> tuple[str, ...]:
    of_the_load = axis.startswith(f"{Scope.WORKLOAD}.")
    return (
        ("the load itself differs: trials of one repeat share their seed, but not their schedule",)
        if of_the_load
        else ()
    )


def _rank(value: Scalar) -> tuple[int, float, str]:
    if value is None:
        return (0, 0.0, "")
    return (
        (1, float(value), "")
        if isinstance(value, (bool, int, float))
        else (2, float(value != "none"), value)
    )
