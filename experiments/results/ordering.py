"""Cells in the order in which people look for them: by fault, then by their axes, and not as chance drew their trials. Pure."""

from __future__ import annotations

from typing import Final

from experiments.ledger.record import Cell, Scalar

FIRST_AXES: Final = ("acks", "enable.idempotence", "replication.factor", "partitions")
"""The order in which they are looked at; the other axes follow as the experiment has them."""


def place_of(cell: Cell) -> list[tuple[int, float, str]]:
    """Return what cells are sorted by: no fault comes first, numbers before words."""
    fault = cell.get("fault")
    others = [axis for axis in cell if axis not in {*FIRST_AXES, "fault"}]
    return [(int(fault != "none"), 0.0, str(fault)), *(_rank(cell.get(axis)) for axis in (*FIRST_AXES, *others))]


def _rank(value: Scalar) -> tuple[int, float, str]:
    """Sort numbers before words, and both by themselves."""
    return (0, float(value), "") if isinstance(value, (bool, int, float)) else (1, 0.0, str(value))
