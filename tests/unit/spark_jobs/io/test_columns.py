"""Columns of a table as arrays: nulls, outcomes, parts with several chunks, and their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbench.spark_jobs.io.columns import NO_NUMBER, NULL, OUTCOMES, in_order, to_columns, where

SCHEMA = pa.schema(
    [
        pa.field("node", pa.int32()),
        pa.field("at_ns", pa.int64()),
        pa.field("intact", pa.bool_()),
        pa.field("outcome", pa.dictionary(pa.int8(), pa.string())),
    ]
)
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 2**31 - 1),
        st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
        st.booleans(),
        st.sampled_from(OUTCOMES),
    ),
    max_size=6,
)
Row = tuple[int | None, int | None, bool, str]


def table(rows: list[Row]) -> pa.Table:
    """Return rows as a table whose dictionary has the outcomes in the order of the rows."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[]] * len(SCHEMA)
    return pa.table(
        [
            *(
                pa.array(column, field.type)
                for column, field in zip(columns[:3], list(SCHEMA)[:3], strict=True)
            ),
            pa.array(columns[3], pa.string()).dictionary_encode().cast(SCHEMA.field(3).type),
        ],
        schema=SCHEMA,
    )


@given(st.lists(st.lists(ROWS, max_size=3), max_size=3), st.integers(0, 5))
def test_columns_have_the_rows_of_all_parts(parts: list[list[list[Row]]], spare: int) -> None:
    """Each chunk has a dictionary of its own; nulls become what stands for them."""
    rows = [row for part in parts for chunk in part for row in chunk]
    tables = [pa.concat_tables([SCHEMA.empty_table(), *map(table, part)]) for part in parts]
    found = to_columns(iter(tables), SCHEMA, len(rows) + spare)
    assert {name: column.dtype for name, column in found.items()} == {
        "node": np.int32,
        "at_ns": np.int64,
        "intact": np.bool_,
        "outcome": np.int8,
    }
    assert found["node"].tolist() == [NO_NUMBER if node is None else node for node, *_ in rows]
    assert found["at_ns"].tolist() == [NULL if at is None else at for _, at, *_ in rows]
    assert found["intact"].tolist() == [intact for _, _, intact, _ in rows]
    assert [OUTCOMES[code] for code in found["outcome"]] == [row[3] for row in rows]


def test_outcomes_may_be_plain_strings() -> None:
    """A file may be written with or without a dictionary."""
    plain = pa.table({"outcome": pa.array(OUTCOMES[::-1], pa.string())})
    found = to_columns([plain], pa.schema([SCHEMA.field("outcome")]), len(OUTCOMES))
    assert found["outcome"].tolist() == [3, 2, 1, 0]


def test_a_slice_of_a_table_has_its_own_rows_only() -> None:
    """Its chunks share their memory with the table."""
    sliced = table([(1, 1, True, "acked"), (2, None, False, "unknown"), (3, 3, True, "acked")])[1:2]
    found = to_columns([sliced], SCHEMA, 1)
    assert [column.tolist() for column in found.values()] == [[2], [NULL], [False], [2]]


KEYS = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3)), max_size=12)


@given(KEYS)
def test_rows_are_sorted_by_one_column_after_the_other(keys: list[tuple[int, int]]) -> None:
    """Rows with equal keys keep their order, and every column follows."""
    columns = {
        "partition": np.array([partition for partition, _ in keys], np.int32),
        "offset": np.array([offset for _, offset in keys], np.int64),
        "row": np.arange(len(keys)),
    }
    found = in_order(columns, "partition", "offset")
    expected = sorted((*key, row) for row, key in enumerate(keys))
    assert list(zip(*(column.tolist() for column in found.values()), strict=True)) == expected


@given(KEYS)
def test_rows_in_order_are_not_copied(keys: list[tuple[int, int]]) -> None:
    """They are the same columns, also if keys are equal."""
    keys.sort()
    columns = {
        "partition": np.array([partition for partition, _ in keys], np.int32),
        "offset": np.array([offset for _, offset in keys], np.int64),
    }
    assert in_order(columns, "partition", "offset") is columns


@pytest.mark.parametrize(
    ("chosen", "rows"), [([True, True], [5, 6]), ([True, False], [5]), ([False, False], [])]
)
def test_all_rows_are_chosen_without_a_copy(chosen: list[bool], rows: list[int]) -> None:
    """Some of them are copied."""
    columns = {"seq": np.array([5, 6])}
    found = where(columns, np.array(chosen))
    assert found["seq"].tolist() == rows
    assert (found is columns) == all(chosen)
