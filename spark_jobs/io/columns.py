"""Columns of a large table as NumPy arrays, filled while its rows are read.

Only one row group exists as an Arrow table at a time, so a table takes no more memory than its
columns do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ackbench.experiments.ledger.terms import ABORTED, ACKED, REJECTED, UNKNOWN

IntColumn = NDArray[np.integer[Any]]
"""Times, offsets and sequence numbers have 64 bits, partitions, nodes and producers 32."""
BoolColumn = NDArray[np.bool_]
Columns = Mapping[str, Any]
"""The columns of a table by name, of equal length."""

NULL: Final = int(np.iinfo(np.int64).min)
"""What stands for null in a column of 64-bit integers."""
NO_NUMBER: Final = -1
"""What stands for null in a column of 32-bit integers, none of which is negative otherwise; and the
number of a record without an id."""
OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN, ABORTED)
"""An outcome's place here is its code in a column."""
ACKED_CODE, REJECTED_CODE, UNKNOWN_CODE, ABORTED_CODE = range(len(OUTCOMES))


def to_columns(parts: Iterable[pa.Table], schema: pa.Schema, most_rows: int) -> Columns:
    """Return the columns of a table that comes in parts.

    Args:
        parts: with the columns of the schema; each is read once.
        schema: of the table; strings are outcomes.
        most_rows: no fewer than all parts have.
    """
    # Memory that is never written to is never taken, so the estimate may be generous.
    columns = {field.name: np.empty(most_rows, _dtype(field.type)) for field in schema}
    end = 0
    for part in parts:
        for name, values in columns.items():
            begin = end
            for chunk in part[name].chunks:
                values[begin : begin + len(chunk)] = _values(chunk)
                begin += len(chunk)
        end += len(part)
    return {name: values[:end] for name, values in columns.items()}


def in_order(columns: Columns, *names: str) -> Columns:
    """Return the rows in the order of some columns; ledgers have it, and then nothing is copied."""
    ordered = np.ones(max(0, len(columns[names[0]]) - 1), bool)
    for name in reversed(names):
        before, after = columns[name][:-1], columns[name][1:]
        ordered = (before < after) | ((before == after) & ordered)
    if ordered.all():
        return columns
    order = np.lexsort([columns[name] for name in reversed(names)])
    return {name: values[order] for name, values in columns.items()}


def where(columns: Columns, chosen: BoolColumn) -> Columns:
    """Return some of the rows; all of them without a copy."""
    if chosen.all():
        return columns
    return {name: values[chosen] for name, values in columns.items()}


class UnknownOutcome(ValueError):
    """A column has a string that is no outcome."""


def check_outcomes(names: Iterable[str | None], allowed: Sequence[str]) -> None:
    """Compare the strings of a column with the outcomes that it may have.

    Raises:
        UnknownOutcome: one of them is not allowed.
    """
    for name in names:
        if name not in allowed:
            raise UnknownOutcome(f"has the outcome {name!r}; allowed: {', '.join(allowed)}")


def _dtype(kind: pa.DataType) -> type[np.generic]:
    if pa.types.is_dictionary(kind):
        return np.int8
    empty: NDArray[Any] = pa.array([], kind).to_numpy(zero_copy_only=False)  # needs no pandas
    return empty.dtype.type


def _values(chunk: pa.Array) -> NDArray[Any]:
    """Return a chunk's values, with nulls replaced and outcomes as codes."""
    if pa.types.is_dictionary(chunk.type) or pa.types.is_string(chunk.type):
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        encoded.validate(full=True)  # an index of a damaged file may be beyond its dictionary
        names = encoded.dictionary.to_pylist()
        check_outcomes(names, OUTCOMES)
        codes = np.array([OUTCOMES.index(name) for name in names], np.int8)
        outcomes: NDArray[Any] = codes[encoded.indices.to_numpy()]
        return outcomes
    if chunk.null_count:
        chunk = chunk.fill_null(NO_NUMBER if pa.types.is_int32(chunk.type) else NULL)
    values: NDArray[Any] = chunk.to_numpy(zero_copy_only=False)
    return values
