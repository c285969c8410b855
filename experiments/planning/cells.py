"""The cells of an experiment: the union of its cross products, each cell once."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from ackbench.experiments.ledger.moved import SIZES
from ackbench.experiments.ledger.trial_manifest import Cell, Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.axes import (
    FAULT_PLACE,
    LOAD_SCOPES,
    PROPERTY_SCOPES,
    KnownNames,
    Scope,
    SettingPlace,
    canonical_name,
    resolve_axis,
)
from ackbench.experiments.planning.clients.requested import client_values, default_idempotence
from ackbench.experiments.planning.cluster import MAX_NODES, check_whole_number, cluster_values
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.faults import scalar_parameter
from ackbench.experiments.planning.settings import property_text
from ackbench.experiments.sweep.cell_names import CORE_AXES
from ackbench.experiments.trial.faults.composition.notation import format_fault

CrossProduct: TypeAlias = Mapping[str, tuple[Scalar, ...]]
CORE_DEFAULTS: Final[Mapping[str, Scalar]] = {
    "acks": "all",
    "enable.idempotence": False,
    "partitions": 1,
    "fault": "none",
}
"""Values of core axes that the experiment does not set.

The replication factor is 3, or the number of brokers if there are fewer.
"""

ACKS: Final = SettingPlace(Scope.PRODUCER, "acks")
IDEMPOTENCE: Final = SettingPlace(Scope.PRODUCER, "enable.idempotence")

MAX_CELLS: Final = 4096
"""No machine runs more cells in one sweep; the limit keeps a typing error from using all memory."""


def expand_cells(experiment: Experiment, known: KnownNames) -> tuple[Cell, ...]:
    """Return every cell once, in the order of the file.

    Raises:
        ExperimentError: an axis is unknown, ambiguous or named twice, a section has a value that
            no cell uses, or there are too many cells.
    """
    places = axis_places(experiment, known)
    _refuse_unused(experiment, places)
    points = sum(math.prod(len(values) for values in cross.values()) for cross in experiment.axes)
    if points > MAX_CELLS:
        raise ExperimentError(f"the axes span {points} cells; allowed: at most {MAX_CELLS}")
    cells = {
        cell_key(cell): cell
        for cross in experiment.axes
        for cell in _cross_product(experiment, cross, places, known)
    }
    return tuple(cells.values())


def axis_places(experiment: Experiment, known: KnownNames) -> dict[str, SettingPlace]:
    """Return the setting of each axis in the order of the file, then of the missing core axes.

    Raises:
        ExperimentError: an axis is unknown, ambiguous or named twice.
    """
    places: dict[str, SettingPlace] = {}
    for axis in dict.fromkeys(itertools.chain.from_iterable(experiment.axes)):
        place = resolve_axis(axis, known)
        other = next((name for name, taken in places.items() if taken == place), None)
        if other:
            raise ExperimentError(f"the axes {other} and {axis} are the same: keep one")
        places[axis] = place
    missing = {axis: resolve_axis(axis, known) for axis in CORE_AXES}
    return places | {axis: place for axis, place in missing.items() if place not in places.values()}


def _refuse_unused(experiment: Experiment, places: Mapping[str, SettingPlace]) -> None:
    """Refuse a section's property of which every cell has another value, that of an axis."""
    for axis, place in places.items():
        if place.scope not in PROPERTY_SCOPES:
            continue
        if not all(cross.get(axis) and None not in cross[axis] for cross in experiment.axes):
            continue
        for name in getattr(experiment, place.scope):
            if canonical_name(place.scope, name) == place.name:
                raise ExperimentError(
                    f"{place.scope}.{name} is beside the axis {axis}, which sets it in every cell: "
                    "keep one"
                )


def cell_key(cell: Cell) -> str:
    """Return text that is equal for equal cells only (as Python values, 1 equals true)."""
    return json.dumps(cell, separators=(",", ":"))


_ACKS_SPELLINGS: Final[Mapping[str, Scalar]] = {"-1": "all", '"-1"': "all", '"0"': 0, '"1"': 1}
"""Other spellings of acks, as JSON, so that `true` is not taken for 1."""


def canonical_value(place: SettingPlace, value: Scalar, known: KnownNames) -> Scalar:
    """Return the canonical spelling of a value: `acks: -1` is `all`, and `2.0` is `2`."""
    if place == ACKS:
        return _ACKS_SPELLINGS.get(json.dumps(value), value)
    if place == FAULT_PLACE:
        return format_fault(known.parse_fault(str(value)))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _cross_product(
    experiment: Experiment,
    cross: Mapping[str, tuple[Scalar, ...]],
    places: dict[str, SettingPlace],
    known: KnownNames,
) -> Iterator[Cell]:
    axis_values = {axis: cross.get(axis) for axis in places}
    for values in itertools.product(*(values or (None,) for values in axis_values.values())):
        swept = {
            axis: None if value is None else canonical_value(places[axis], value, known)
            for axis, value in zip(axis_values, values, strict=True)
        }
        cell = {
            axis: _fill_in(experiment, swept, places, places[axis], value, known)
            for axis, value in swept.items()
        }
        yield _fill_in_idempotence(experiment, cell, swept, places)


def _fill_in_idempotence(
    experiment: Experiment, cell: Cell, swept: Cell, places: Mapping[str, SettingPlace]
) -> Cell:
    """Return the cell with its clients' own default of idempotence if the experiment sets none."""
    axis = next(name for name, place in places.items() if place == IDEMPOTENCE)
    if swept[axis] is not None or IDEMPOTENCE.name in experiment.producer:
        return cell
    producer_axes = {
        place.name: cell[name]
        for name, place in places.items()
        if place.scope is Scope.PRODUCER and cell[name] is not None and name != axis
    }
    producer = {
        name: property_text(value)
        for name, value in {**experiment.producer, **producer_axes}.items()
    }
    return {**cell, axis: default_idempotence(experiment, cell, producer)}


def _fill_in(
    experiment: Experiment,
    swept: Cell,
    places: Mapping[str, SettingPlace],
    place: SettingPlace,
    value: Scalar,
    known: KnownNames,
) -> Scalar:
    """Return an axis's value in a cell, also if the cell's cross product does not name the axis.

    The value is then that of the experiment's section; null if the default applies.
    """
    if place.scope is Scope.FAULT:
        return _fault_parameter(experiment, swept, place, value, known)
    if place.scope in LOAD_SCOPES:
        return _load_setting(experiment, swept, places, place, known)
    if value is not None:
        return value
    if place.scope is Scope.STRUCTURE:
        return _structure_value(experiment, swept, place.name)
    section: Mapping[str, Scalar] = getattr(experiment, place.scope)
    return canonical_value(place, section.get(place.name, CORE_DEFAULTS.get(place.name)), known)


def _load_setting(
    experiment: Experiment,
    swept: Cell,
    places: Mapping[str, SettingPlace],
    place: SettingPlace,
    known: KnownNames,
) -> Scalar:
    """Return a setting of the load; if the cell is without its section, null, and 0 as its size.

    With null, cells that differ in this setting only become one.
    """
    axes = {
        places[axis].name: value
        for axis, value in swept.items()
        if places[axis].scope is place.scope and value is not None
    }
    values = experiment.load_values(place.scope, axes)
    if values is None:
        return 0 if place.name == SIZES[place.scope] else None
    return canonical_value(place, values[place.name], known)


def _structure_value(experiment: Experiment, swept: Cell, name: str) -> Scalar:
    cluster = cluster_values(experiment, swept)
    values: dict[str, Scalar] = {
        **cluster,
        **client_values(experiment, swept),
        "replication.factor": min(3, check_whole_number("nodes", cluster["nodes"], 1, MAX_NODES)),
    }
    return values.get(name, CORE_DEFAULTS.get(name))


def _fault_parameter(
    experiment: Experiment, swept: Cell, place: SettingPlace, value: Scalar, known: KnownNames
) -> Scalar:
    """Return a fault parameter, or null if the cell's fault has no such parameter.

    With null, cells that differ in this parameter only become one.
    """
    fault = str(swept.get("fault") or CORE_DEFAULTS["fault"])
    if place.name not in known.parameters_of(fault):
        return None
    if value is not None:
        return value
    return scalar_parameter(experiment, known.parse_fault(fault).kind, place.name)


def replace_axis(
    products: Sequence[CrossProduct],
    axis: str,
    values: Sequence[Scalar],
    is_tuning: Callable[[str], bool],
) -> list[CrossProduct]:
    """Return the products with other values of an axis, without cells that become doubles.

    Products whose values of the axis differed, such as their faults, may have constants that only
    tune the cluster to these. Cells that are then equal but for such constants are kept once: those
    of a product that had the value before, else those of the first one.

    Args:
        products: the cross products of an experiment.
        axis: the axis; products without it get it.
        values: its new values.
        is_tuning: whether a constant axis only tunes the cluster, and tests nothing itself.
    """
    if len({product.get(axis) for product in products}) == 1:
        return [{**product, axis: tuple(values)} for product in products]
    kept: dict[tuple[int, str], CrossProduct] = {}
    for value in values:
        taken: list[CrossProduct] = []
        ranked = sorted(enumerate(products), key=lambda one: value not in one[1].get(axis, ()))
        for number, product in ranked:
            whole = {**product, axis: (value,)}
            for part in _without(whole, taken, axis, is_tuning):
                key = number, repr({**part, axis: ()})
                before = kept[key][axis] if key in kept else ()
                kept[key] = {**part, axis: (*before, value)}
            taken.append(whole)
    return [kept[key] for key in sorted(kept, key=lambda key: key[0])]


def _without(
    whole: CrossProduct, taken: Sequence[CrossProduct], axis: str, is_tuning: Callable[[str], bool]
) -> list[CrossProduct]:
    """Return the products of the cells of a product that none of others has."""
    parts = [whole]
    for other in taken:
        compared = [
            name
            for name in dict.fromkeys((*whole, *other))
            if name == axis
            or max(len(whole.get(name, ())), len(other.get(name, ()))) > 1
            or not is_tuning(name)
        ]
        parts = [rest for part in parts for rest in _difference(part, other, compared)]
    return parts


def _difference(
    product: CrossProduct, other: CrossProduct, compared: Sequence[str]
) -> Iterator[CrossProduct]:
    """Yield disjoint products of the cells that only the first product has."""
    common = dict(product)
    outside: list[CrossProduct] = []
    for name in compared:
        values, others = product.get(name, (None,)), other.get(name, (None,))
        inside = tuple(value for value in values if value in others)
        if not inside:
            yield product
            return
        if len(inside) < len(values):
            rest = tuple(value for value in values if value not in others)
            outside.append({**common, name: rest})
        if name in product:
            common[name] = inside
    yield from outside
