"""An experiment's cells: the union of its cross products, each cell once, and what each one's axes put where."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Final

from experiments.errors import ExperimentError
from experiments.faults.composition.notation import parse_fault, format_fault
from experiments.ledger.record import Cell, Scalar
from experiments.planning.axes import FAULT, KnownNames, Scope, SettingPlace, place_of
from experiments.planning.clients import idempotence_unasked, said_of_clients
from experiments.planning.cluster import said_of_cluster
from experiments.planning.experiment import Experiment
from experiments.planning.settings import as_text
from experiments.sweep.cell_names import CORE_AXES

USUAL: Final[Mapping[str, Scalar]] = {
    "acks": "all",
    "enable.idempotence": False,
    "partitions": 1,
    "fault": "none",
}
"""What a cell says of a core axis that the experiment does not name; replication: 3, or the nodes where there are fewer."""


_ACKS: Final[Mapping[str, Scalar]] = {"-1": "all", '"-1"': "all", '"0"': 0, '"1"': 1}
"""Other ways to write acks, as JSON so that `true` is no 1."""

IDEMPOTENCE: Final = SettingPlace(Scope.PRODUCER, "enable.idempotence")

MOST_CELLS: Final = 4096
"""No machine runs more in a sitting; the limit keeps a slip of the pen from filling the memory."""


def cells_of(experiment: Experiment, known: KnownNames) -> tuple[Cell, ...]:
    """Return every cell once, in the order of the file.

    Raises:
        ExperimentError: an axis is unknown, ambiguous or named twice, or there are too many cells.
    """
    places = axis_places(experiment, known)
    points = sum(math.prod(len(values) for values in cross.values()) for cross in experiment.axes)
    if points > MOST_CELLS:
        raise ExperimentError(f"the axes span {points} cells; allowed: {MOST_CELLS} at most")
    found = {
        cell_key(cell): cell
        for cross in experiment.axes
        for cell in _product(experiment, cross, places, known)
    }
    return tuple(found.values())


def axis_places(experiment: Experiment, known: KnownNames) -> dict[str, SettingPlace]:
    """Return what each axis means, in the order of the file, with the core axes at least.

    Raises:
        ExperimentError: an axis is unknown, ambiguous or named twice.
    """
    places: dict[str, SettingPlace] = {}
    for axis in (*itertools.chain.from_iterable(experiment.axes), *CORE_AXES):
        place = place_of(axis, known)
        other = next(
            (name for name, taken in places.items() if taken == place and name != axis), None
        )
        if other and axis not in CORE_AXES:
            raise ExperimentError(f"the axes {other} and {axis} are the same: keep one")
        if not other:
            places.setdefault(axis, place)
    return places


def cell_key(cell: Cell) -> str:
    """Return text that two cells share only when they are the same (as values, 1 and true would be equal)."""
    return json.dumps(cell, separators=(",", ":"))


def canonical(place: SettingPlace, value: Scalar) -> Scalar:
    """Return the one way in which a value is written: `acks: -1` is `all`, a whole number needs no `.0`."""
    if place == SettingPlace(Scope.PRODUCER, "acks"):
        return _ACKS.get(json.dumps(value), value)
    if place == FAULT:
        return format_fault(parse_fault(str(value)))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _product(
    experiment: Experiment,
    cross: Mapping[str, tuple[Scalar, ...]],
    places: dict[str, SettingPlace],
    known: KnownNames,
) -> Iterator[Cell]:
    runs = {axis: cross.get(axis) for axis in places}
    for values in itertools.product(*(values or (None,) for values in runs.values())):
        given = {
            axis: None if value is None else canonical(places[axis], value)
            for axis, value in zip(runs, values, strict=True)
        }
        cell = {
            axis: _filled(experiment, given, places[axis], value, known)
            for axis, value in given.items()
        }
        yield _with_idempotence(experiment, cell, given, places)


def _with_idempotence(
    experiment: Experiment, cell: Cell, given: Cell, places: Mapping[str, SettingPlace]
) -> Cell:
    """Return the cell with what its clients do by themselves about idempotence, where nobody says it."""
    axis = next(name for name, place in places.items() if place == IDEMPOTENCE)
    if given[axis] is not None or IDEMPOTENCE.name in experiment.producer:
        return cell
    axes = {
        place.name: cell[name]
        for name, place in places.items()
        if place.scope is Scope.PRODUCER and cell[name] is not None and name != axis
    }
    asked = {name: as_text(value) for name, value in {**experiment.producer, **axes}.items()}
    return {**cell, axis: idempotence_unasked(experiment, cell, asked)}


def _filled(
    experiment: Experiment, given: Cell, place: SettingPlace, value: Scalar, known: KnownNames
) -> Scalar:
    """Return the axis's value in a cell whose cross product may not name it: what holds there without it, null where the default does."""
    if place.scope is Scope.FAULT:
        return _fault_parameter(experiment, given, place, value, known)
    if value is not None:
        return value
    if place.scope is Scope.WORKLOAD:
        return canonical(place, getattr(experiment.workload, place.name))
    if place.scope is Scope.STRUCTURE:
        return _structure(experiment, given, place.name)
    base: Mapping[str, Scalar] = getattr(experiment, place.scope)
    return canonical(place, base.get(place.name, USUAL.get(place.name)))


def _structure(experiment: Experiment, given: Cell, name: str) -> Scalar:
    said = said_of_cluster(experiment, given)
    usual: dict[str, Scalar] = {
        **said,
        **said_of_clients(experiment, given),
        "replication.factor": min(3, int(str(said["nodes"]))),
    }
    return usual.get(name, USUAL.get(name))


def _fault_parameter(
    experiment: Experiment, given: Cell, place: SettingPlace, value: Scalar, known: KnownNames
) -> Scalar:
    """Return the parameter where the cell's fault has it; null where it has none, so that such cells fall together."""
    kind = str(given.get("fault") or USUAL["fault"])
    if place.name not in known.parameters_of(kind):
        return None
    asked = parse_fault(kind)
    return experiment.faults.get(asked.kind, {}).get(place.name) if value is None else value
