"""Which cell of one sweep stands against which of another: those that agree in all axes in which the sweeps do not differ as a whole. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from experiments.errors import NotComparable
from experiments.ledger.record import Cell
from experiments.results.models import CellResult
from experiments.results.trials import NOT_SET, settings_of_trial
from experiments.sweep.plan import Plan, TrialSpec

_LOAD: Final = {
    "rate_records_per_s": "records a second",
    "record_size_bytes": "bytes a record",
    "duration_s": "seconds of load",
    "keys": "keys",
    "producers": "producers",
}
Pair = tuple[CellResult, CellResult]


def pairs_of(a: Sequence[CellResult], b: Sequence[CellResult]) -> list[Pair]:
    """Return the cells of `a` that have a partner in `b`, in `a`'s order.

    Cells that were added as controls are matched by all their axes. The experiments' own are matched by the axes that tell them apart:
    an axis that has one value in all of `a` and another one in all of `b` is what is being compared.
    """
    pairs = _matched(own(a), own(b), _compared(own(a), own(b)))
    controls = _matched(
        [cell for cell in a if cell.added], [cell for cell in b if cell.added], frozenset()
    )
    return [*pairs, *controls]


def pairs_but_for(axis: str, a: Sequence[CellResult], b: Sequence[CellResult]) -> list[Pair]:
    """Return the experiment's own cells of `a` that have a partner in `b` with the same value of every axis but this one."""
    return _matched(own(a), own(b), frozenset({axis}))


def own(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells of the experiment's axes that some client accepts."""
    return [cell for cell in cells if not cell.added and cell.refused is None]


def specs_of(plan: Plan, cell: CellResult) -> dict[int, TrialSpec]:
    """Return a cell's planned trials by repeat."""
    return {spec.repeat: spec for spec in plan.trials if spec.cell == cell.cell}


def check_load(pairs: Sequence[Pair], a: Plan, b: Plan) -> None:
    """See that both sides of every pair had the same load, for no figure of one says anything of another.

    Raises:
        NotComparable: they had not; names the first difference.
    """
    for first, second in pairs:
        loads = [
            next(iter(specs_of(plan, cell).values())).workload.model_dump()
            for plan, cell in ((a, first), (b, second))
        ]
        for name, unit in _LOAD.items():
            if loads[0][name] != loads[1][name]:
                raise NotComparable(
                    f"{a.sweep_id} and {b.sweep_id} had another load: workload.{name} is {loads[0][name]} and {loads[1][name]} {unit}"
                )


def _compared(a: Sequence[CellResult], b: Sequence[CellResult]) -> frozenset[str]:
    """Return the axes that have one value on each side, and not the same one, or that only one side has."""
    axes = {axis for cell in (*a, *b) for axis in cell.cell}
    values = {
        axis: ({_text(cell.cell, axis) for cell in a}, {_text(cell.cell, axis) for cell in b})
        for axis in axes
    }
    return frozenset(
        axis
        for axis, (before, after) in values.items()
        if len(before) == len(after) == 1 and before != after
    )


def _matched(
    a: Sequence[CellResult], b: Sequence[CellResult], without: frozenset[str]
) -> list[Pair]:
    partners = {_key(cell.cell, without): cell for cell in b}
    return [
        (cell, partners[_key(cell.cell, without)])
        for cell in a
        if _key(cell.cell, without) in partners
    ]


def _key(cell: Cell, without: frozenset[str]) -> str:
    return json.dumps(
        {axis: value for axis, value in cell.items() if axis not in without and value is not None},
        sort_keys=True,
    )


def _text(cell: Cell, axis: str) -> str:
    return json.dumps(cell.get(axis))


def settings_between(
    pairs: Sequence[Pair], a: Plan, b: Plan
) -> Mapping[tuple[str, str], tuple[str, str]]:
    """Return the settings in which the two sides of pairs differ but for the load, with the values that occur, by scope and name."""
    found: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    for first, second in pairs:
        before, after = (
            _but_for_the_load(next(iter(specs_of(plan, cell).values())))
            for plan, cell in ((a, first), (b, second))
        )
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                values = found.setdefault(name, (set(), set()))
                values[0].add(before.get(name, NOT_SET))
                values[1].add(after.get(name, NOT_SET))
    return {
        name: (", ".join(sorted(before)), ", ".join(sorted(after)))
        for name, (before, after) in found.items()
    }


def _but_for_the_load(spec: TrialSpec) -> dict[tuple[str, str], str]:
    return {
        (scope, name): value
        for (scope, name), value in settings_of_trial(spec).items()
        if scope != "workload"
    }
