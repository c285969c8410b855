"""Which cells of two sides are compared with each other, and how their settings differ."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.messages.errors import NotComparable
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.trials import NOT_SET, settings_of_trial
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.sweep.workload import LOAD_SECTIONS

_LOAD_UNITS: Final = {
    ("workload", "rate_records_per_s"): "records/s",
    ("workload", "record_size_bytes"): "bytes per record",
    ("workload", "duration_s"): "seconds of load",
    ("keys", "count"): "keys",
    ("workload", "producers"): "producers",
}
BROKER: Final = "broker"
"""The scope of the brokers' settings."""
Pair = tuple[CellResult, CellResult]


def pair_cells(a: Sequence[CellResult], b: Sequence[CellResult]) -> list[Pair]:
    """Return the cells of `a` that have a partner in `b`, in `a`'s order.

    Controls that were added are matched by all their axes. The experiment's own cells are matched
    by all axes except the compared ones: an axis that has one value in all of `a` and another one
    in all of `b` is what is compared.
    """
    a_cells, b_cells = experiment_cells(a), experiment_cells(b)
    pairs = _matching(a_cells, b_cells, _compared_axes(a_cells, b_cells))
    controls = _matching(
        [cell for cell in a if cell.added], [cell for cell in b if cell.added], frozenset()
    )
    return [*pairs, *controls]


def pair_cells_except(axis: str, a: Sequence[CellResult], b: Sequence[CellResult]) -> list[Pair]:
    """Return the experiment's own cells of `a` with their partners in `b`.

    Partners have the same value of every axis except this one.
    """
    return _matching(experiment_cells(a), experiment_cells(b), frozenset({axis}))


def experiment_cells(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells of the experiment's axes: no added controls and no refused cells."""
    return [cell for cell in cells if not cell.added and cell.refused is None]


def trials_by_repeat(plan: Plan, cell: CellResult) -> dict[int, TrialSpec]:
    """Return a cell's planned trials by repeat."""
    return {spec.repeat: spec for spec in plan.trials if spec.cell == cell.cell}


def check_load(pairs: Sequence[Pair], a: Plan, b: Plan) -> None:
    """Check that both sides of every pair had the same load; else their figures say nothing.

    Raises:
        NotComparable: the loads differ; the message has the first difference.
    """
    for first, second in pairs:
        a_load, b_load = (
            _first_trial(plan, cell).workload.settings() for plan, cell in ((a, first), (b, second))
        )
        for (section, name), unit in _LOAD_UNITS.items():
            a_value, b_value = a_load[section][name], b_load[section][name]
            if a_value != b_value:
                raise NotComparable(
                    f"{a.sweep_id} and {b.sweep_id} have different loads: "
                    f"{section}.{name} is {a_value} and {b_value} {unit}"
                )


def differing_settings(
    pairs: Sequence[Pair], a: Plan, b: Plan
) -> Mapping[tuple[str, str], tuple[str, str]]:
    """Return the settings that differ within pairs, except those of the workload.

    Returns:
        By scope and name: the values in `a` and the values in `b`, comma-separated.
    """
    differing: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    for first, second in pairs:
        a_settings, b_settings = comparable_settings(
            _first_trial(a, first), _first_trial(b, second)
        )
        for name in sorted({*a_settings, *b_settings}):
            if a_settings.get(name) != b_settings.get(name):
                a_values, b_values = differing.setdefault(name, (set(), set()))
                a_values.add(a_settings.get(name, NOT_SET))
                b_values.add(b_settings.get(name, NOT_SET))
    return {
        name: (", ".join(sorted(a_values)), ", ".join(sorted(b_values)))
        for name, (a_values, b_values) in differing.items()
    }


Settings = Mapping[tuple[str, str], str]
"""Values by scope and name."""


def comparable_settings(a: TrialSpec, b: TrialSpec) -> tuple[Settings, Settings]:
    """Return the settings of two trials without those of the workload.

    An external cluster reports all settings of a broker, and a plan has those that ackbench sets.
    Of one and the other, the brokers' settings that both have are compared.
    """
    a_settings, b_settings = _settings_without_workload(a), _settings_without_workload(b)
    if a.cluster.traits.planned == b.cluster.traits.planned:
        return a_settings, b_settings
    common = _known_of_brokers(a).keys() & _known_of_brokers(b).keys()
    return _with_brokers(a_settings, a, common), _with_brokers(b_settings, b, common)


def _with_brokers(settings: Settings, spec: TrialSpec, names: Collection[str]) -> Settings:
    others = {key: value for key, value in settings.items() if key[0] != BROKER}
    known = _known_of_brokers(spec)
    return others | {(BROKER, name): known[name] for name in names}


def _known_of_brokers(spec: TrialSpec) -> Mapping[str, str]:
    """Return what an external cluster reported, or what ackbench sets."""
    return spec.cluster.settings() if spec.cluster.traits.planned else spec.cluster.broker


def _compared_axes(a: Sequence[CellResult], b: Sequence[CellResult]) -> frozenset[str]:
    """Return the axes with one value on each side, where the two values differ.

    An axis that only one side has counts as such an axis.
    """
    axes = {axis for cell in (*a, *b) for axis in cell.cell}
    values = {
        axis: ({_text(cell.cell, axis) for cell in a}, {_text(cell.cell, axis) for cell in b})
        for axis in axes
    }
    return frozenset(
        axis
        for axis, (a_values, b_values) in values.items()
        if len(a_values) == len(b_values) == 1 and a_values != b_values
    )


def _matching(
    a: Sequence[CellResult], b: Sequence[CellResult], ignored: frozenset[str]
) -> list[Pair]:
    partners = {_key(cell.cell, ignored): cell for cell in b}
    return [
        (cell, partners[_key(cell.cell, ignored)])
        for cell in a
        if _key(cell.cell, ignored) in partners
    ]


def _key(cell: Cell, ignored: frozenset[str]) -> str:
    return json.dumps(
        {axis: value for axis, value in cell.items() if axis not in ignored and value is not None},
        sort_keys=True,
    )


def _text(cell: Cell, axis: str) -> str:
    return json.dumps(cell.get(axis))


def _first_trial(plan: Plan, cell: CellResult) -> TrialSpec:
    return next(iter(trials_by_repeat(plan, cell).values()))


def _settings_without_workload(spec: TrialSpec) -> dict[tuple[str, str], str]:
    return {
        (scope, name): value
        for (scope, name), value in settings_of_trial(spec).items()
        if scope not in LOAD_SECTIONS
    }
