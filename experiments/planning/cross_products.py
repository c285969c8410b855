"""Cross products of axes after one axis has got other values: no cell twice. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from experiments.ledger.record import Scalar

CrossProduct: TypeAlias = Mapping[str, tuple[Scalar, ...]]


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
    whole: CrossProduct,
    taken: Sequence[CrossProduct],
    axis: str,
    is_tuning: Callable[[str], bool],
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
