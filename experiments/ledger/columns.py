"""How the columns of results are written: what is counted or named is never null, what need not be known may be."""

from __future__ import annotations

import pyarrow as pa


def count(name: str) -> pa.Field:
    """Return a column of whole numbers that are always known."""
    return pa.field(name, pa.int64(), nullable=False)


def text(name: str) -> pa.Field:
    """Return a column of texts that are always there."""
    return pa.field(name, pa.string(), nullable=False)


def perhaps(name: str, kind: pa.DataType) -> pa.Field:
    """Return a column that holds null where something is not known."""
    return pa.field(name, kind)
