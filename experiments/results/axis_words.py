"""An axis and its value as a person reads them, in the terminal's tables and on the page. Pure."""

from __future__ import annotations

from typing import Final

from experiments.ledger.record import Scalar

_SHORT: Final = {"enable.idempotence": "idem", "replication.factor": "RF", "partitions": "P"}


def axis_word(axis: str) -> str:
    """Return an axis's name, short where it is often needed."""
    return _SHORT.get(axis, axis)


def value_word(value: Scalar, absent: str = "-") -> str:
    """Return an axis's value; of a cell that has none, the word for that."""
    return absent if value is None else ("on" if value else "off") if isinstance(value, bool) else str(value)
