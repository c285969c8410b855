"""The name of a cell and of its axes, in plans, terminal tables, MLflow and the HTML report.

A cell is spelled one way everywhere: `acks=1 idem=off RF=3 P=6 leader-crash`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell, Scalar

FAULT_AXIS: Final = "fault"
NO_FAULT: Final = "no fault"
"""The name of the fault of a cell without one."""
CORE_AXES: Final = ("acks", "enable.idempotence", "replication.factor", "partitions", FAULT_AXIS)
"""Every cell has these axes, whether its experiment sweeps them or not."""

_SHORT_NAMES: Final = {"enable.idempotence": "idem", "replication.factor": "RF", "partitions": "P"}
_WRITTEN_NAMES: Final = {
    "faults": FAULT_AXIS,
    "idempotence": "enable.idempotence",
    "kafka": "kafka.version",
    "replicas": "replication.factor",
    "rf": "replication.factor",
    **{short: axis for axis, short in _SHORT_NAMES.items()},
}


def cell_label(cell: Cell) -> str:
    """Return the full name of a cell: the core axes, then all others that have a value.

    The value of the fault stands without the name of its axis:
    `acks=1 idem=off RF=3 P=6 leader-crash linger.ms=5`.
    """
    axes = [
        *(axis for axis in CORE_AXES if axis in cell),
        *(axis for axis, value in cell.items() if axis not in CORE_AXES and value is not None),
    ]
    return " ".join(
        value_text(cell[axis]) if axis == FAULT_AXIS else setting_text(axis, cell[axis])
        for axis in axes
    )


def cell_name(cell: Cell, axes: Iterable[str]) -> str:
    """Return the name of a cell among cells that differ in these axes only.

    Args:
        cell: the cell.
        axes: the axes to name. The fault comes last, without the name of its axis.
    """
    axes = list(axes)
    settings = [
        setting_text(axis, cell[axis])
        for axis in axes
        if axis != FAULT_AXIS and cell.get(axis) is not None
    ]
    fault = [fault_name(cell)] if FAULT_AXIS in axes else []
    return " ".join([*settings, *fault]) or "the one cell"


def fault_name(cell: Cell) -> str:
    """Return the fault of a cell as it appears in a sentence: `leader-crash`, or `no fault`."""
    fault = cell.get(FAULT_AXIS)
    return NO_FAULT if fault in {None, "none"} else str(fault)


def setting_text(axis: str, value: Scalar) -> str:
    """Return an axis with its value: `acks=1`, `idem=off`, `linger.ms=5`."""
    return f"{axis_name(axis)}={value_text(value)}"


def axis_name(axis: str) -> str:
    """Return the name of an axis: short for the core axes (`idem`, `RF`, `P`)."""
    return _SHORT_NAMES.get(axis, axis)


def axis_named(written: str) -> str:
    """Return the axis that people name in a short form (`idem`, `RF`, `rf`, `kafka`)."""
    return _WRITTEN_NAMES.get(written, written)


def value_text(value: Scalar, absent: str = "-") -> str:
    """Return the value of an axis: `on` and `off` for booleans, `absent` for null."""
    if value is None:
        return absent
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def values_text(values: Iterable[Scalar]) -> str:
    """Return the values of an axis side by side: `1/all`."""
    return "/".join(map(value_text, values))


def values_of(axis: str, cells: Iterable[Cell]) -> list[str]:
    """Return the different values of an axis, in the order of the cells; `unset`: without one."""
    return list(dict.fromkeys(value_text(cell.get(axis), "unset") for cell in cells))


def differing_axes(cells: Sequence[Cell]) -> list[str]:
    """Return the axes in which cells differ, in the cells' order; all axes if none differs.

    An axis that has one value per fault is left out: the fault names it.
    """
    by_fault = axes_by_fault(cells)
    return [axis for axis in varying_axes(cells) if axis not in by_fault] or list(
        dict.fromkeys(axis for cell in cells for axis in cell)
    )


def axes_by_fault(cells: Sequence[Cell]) -> list[str]:
    """Return the axes that differ between faults, and not between the cells of any fault.

    The core axes are never among them.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(str(cell.get(FAULT_AXIS)), []).append(cell)
    within = {axis for group in groups.values() for axis in varying_axes(group)}
    return [axis for axis in varying_axes(cells) if axis not in {*within, *CORE_AXES}]


def varying_axes(cells: Sequence[Cell]) -> list[str]:
    """Return the axes in which cells differ, in the cells' order."""
    axes = dict.fromkeys(axis for cell in cells for axis in cell)
    return [axis for axis in axes if len({str(cell.get(axis)) for cell in cells}) > 1]


# Order

_SETTING_AXES: Final = tuple(axis for axis in CORE_AXES if axis != FAULT_AXIS)


def cell_sort_key(cell: Cell) -> list[tuple[int, float, str]]:
    """Return the sort key of cells: no fault first, then by fault and axes, numbers before text.

    The core axes come first; the other axes follow in the order of the experiment.
    """
    fault = cell.get(FAULT_AXIS)
    others = [axis for axis in cell if axis not in CORE_AXES]
    return [
        (int(fault != "none"), 0.0, str(fault)),
        *(
            (0, float(value), "") if isinstance(value, (bool, int, float)) else (1, 0.0, str(value))
            for value in (cell.get(axis) for axis in (*_SETTING_AXES, *others))
        ),
    ]


# Names of groups of cells

Product = tuple[tuple[Scalar, ...], ...]
"""The values of each axis; it names every combination of them."""


def cell_group_names(cells: Sequence[Cell], axes: Sequence[str]) -> tuple[str, ...]:
    """Return names that together denote exactly these cells.

    Cells that form a cross product share one name: `acks=0/1 RF=1/3`.

    Args:
        cells: the cells.
        axes: the axes to name.
    """
    return tuple(_product_name(product, axes) for product in _products(cells, axes))


def cell_products(
    cells: Sequence[Cell], axes: Sequence[str]
) -> Iterator[tuple[Product, tuple[int, ...]]]:
    """Yield cross products that together denote exactly these cells, with the places of each's.

    Args:
        cells: the cells, which differ in these axes only.
        axes: the axes of the products.
    """
    for product in _products(cells, axes):
        yield (
            product,
            tuple(
                place
                for place, cell in enumerate(cells)
                if all(
                    _axis_value(cell, axis) in values
                    for axis, values in zip(axes, product, strict=True)
                )
            ),
        )


def _products(cells: Sequence[Cell], axes: Sequence[str]) -> list[Product]:
    products: list[Product] = [tuple((_axis_value(cell, axis),) for axis in axes) for cell in cells]
    merged = _merge_one_pair(products)
    while len(merged) < len(products):
        products, merged = merged, _merge_one_pair(merged)
    return merged


def _axis_value(cell: Cell, axis: str) -> Scalar:
    return fault_name(cell) if axis == FAULT_AXIS else cell.get(axis)


def _merge_one_pair(products: Sequence[Product]) -> list[Product]:
    """Merge the first two products that differ in one axis only; without such a pair, none."""
    for first, product in enumerate(products):
        for second in range(first + 1, len(products)):
            other = products[second]
            differing = [place for place, values in enumerate(product) if values != other[place]]
            if len(differing) == 1:
                place = differing[0]
                values = (*product[place], *other[place])
                merged = (*product[:place], values, *product[place + 1 :])
                return [
                    *products[:first],
                    merged,
                    *products[first + 1 : second],
                    *products[second + 1 :],
                ]
    return list(products)


def _product_name(product: Product, axes: Sequence[str]) -> str:
    texts = {
        axis: values_text(values)
        for axis, values in zip(axes, product, strict=True)
        if set(values) != {None}
    }
    names = [f"{axis_name(axis)}={text}" for axis, text in texts.items() if axis != FAULT_AXIS]
    if FAULT_AXIS in texts:
        names.append(texts[FAULT_AXIS])
    return " ".join(names) or "the one cell"
