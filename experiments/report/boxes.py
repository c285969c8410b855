"""Many cells in few words: cells whose values form a product are named by it, `acks=0/1 RF=1/3`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.ledger.record import Cell, Scalar
from experiments.report.wording import fault_name
from experiments.results.axis_words import axis_word, value_word

Box = tuple[tuple[Scalar, ...], ...]
"""The values of each axis; stands for every combination of them, all of which are among the cells that were named."""


def named_together(cells: Sequence[Cell], axes: Sequence[str]) -> tuple[str, ...]:
    """Return names that together stand for exactly these cells."""
    boxes: list[Box] = [tuple((_value(cell, axis),) for axis in axes) for cell in cells]
    merged = _merged_once(boxes)
    while len(merged) < len(boxes):
        boxes, merged = merged, _merged_once(merged)
    return tuple(_name(box, axes) for box in merged)


def _value(cell: Cell, axis: str) -> Scalar:
    return fault_name(cell) if axis == "fault" else cell.get(axis)


def _merged_once(boxes: Sequence[Box]) -> list[Box]:
    """Put two boxes that differ in one axis only into one; as they are, where there are no two such."""
    for first, box in enumerate(boxes):
        for second in range(first + 1, len(boxes)):
            apart = [place for place, values in enumerate(box) if values != boxes[second][place]]
            if len(apart) == 1:
                place = apart[0]
                both = (*box[:place], (*box[place], *boxes[second][place]), *box[place + 1 :])
                return [*boxes[:first], both, *boxes[first + 1 : second], *boxes[second + 1 :]]
    return list(boxes)


def _name(box: Box, axes: Sequence[str]) -> str:
    told = [(axis, "/".join(map(value_word, values))) for axis, values in zip(axes, box, strict=True) if set(values) != {None}]
    settings = [f"{axis_word(axis)}={text}" for axis, text in told if axis != "fault"]
    return " ".join([*settings, *(text for axis, text in told if axis == "fault")]) or "the one cell"
