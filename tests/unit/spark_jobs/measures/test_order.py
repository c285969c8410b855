"""Records out of order, on logs of a few rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured import measure_planted, planted_arrays
from support.reference.anomalies import reordered_rows as plain_reordered_rows

from ackbench.spark_jobs.io.units import LATER_OFFSETS
from ackbench.spark_jobs.measures.fates import record_fates
from ackbench.spark_jobs.measures.order import reordered_rows, stream_numbers
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedTrial

ATTEMPTS = [PlantedAttempt(producer, seq) for producer in (0, 1) for seq in range(10)]
Row = tuple[int, int, int, int]
"""Partition, producer, seq, offset."""


def log_of(*rows: tuple[int, int]) -> list[PlantedLogRow]:
    """Return a log of one producer: partition and seq, each row at the next offset."""
    return [
        PlantedLogRow(0, seq, offset, partition) for offset, (partition, seq) in enumerate(rows)
    ]


def reordered(log: Sequence[PlantedLogRow], later: Sequence[tuple[int, int, int]] = ()) -> set[Row]:
    """Return the rows that are out of order.

    Args:
        log: the rows of a unit.
        later: partition, producer and lowest offset of the records of later units.
    """
    unit = planted_arrays(ATTEMPTS, log)
    offsets = pa.Table.from_pylist(
        [dict(zip(LATER_OFFSETS.names, row, strict=True)) for row in later], LATER_OFFSETS
    )
    copies = record_fates(unit.attempts, unit.log, unit.ids).copies
    rows = reordered_rows(unit.log, offsets, copies)
    assert len(set(rows.tolist())) == len(rows)
    columns = (unit.log.partition, unit.log.producer, unit.log.seq, unit.log.offset)
    return set(zip(*(column[rows].tolist() for column in columns), strict=True))


def test_a_record_after_a_later_one_is_out_of_order() -> None:
    """3 is first in the log, so 1 and 2 are out of order, and 4 is not."""
    assert reordered(log_of((0, 3), (0, 1), (0, 2), (0, 4))) == {(0, 0, 1, 1), (0, 0, 2, 2)}


def test_there_is_no_order_between_producers_or_partitions() -> None:
    """Kafka does not guarantee one; another trial has a log of its own."""
    log = [PlantedLogRow(0, 5, 0), PlantedLogRow(1, 3, 1), PlantedLogRow(0, 4, 2, partition=1)]
    assert reordered(log) == set()
    both = (PlantedTrial("7", ATTEMPTS, log), PlantedTrial("8", ATTEMPTS, [PlantedLogRow(0, 2, 3)]))
    assert measure_planted(*both)["trials"]["reordered_records"].to_pylist() == [0, 0]


def test_rows_without_a_reliable_id_have_no_order() -> None:
    """This holds for corrupt rows and for external records."""
    log = [
        PlantedLogRow(0, 9, 0, intact=False),
        PlantedLogRow(None, None, 1),
        PlantedLogRow(0, 5, 2),
        PlantedLogRow(0, 4, 3, intact=False),
    ]
    assert reordered(log) == set()


def test_a_duplicate_is_not_reordered() -> None:
    """0, 1, 0 has a duplicate, but is in order; of 2, late and twice, only one counts."""
    log = log_of((0, 0), (0, 1), (0, 0), (0, 3), (0, 2), (0, 2))
    assert reordered(log) == {(0, 0, 2, 4)}


def test_a_copy_in_another_partition_is_the_first_one_there() -> None:
    """1 is in order in partition 0, and out of order in partition 1."""
    assert reordered(log_of((0, 1), (1, 2), (1, 1))) == {(1, 0, 1, 2)}


def test_a_record_out_of_order_in_two_partitions_counts_once() -> None:
    """Records are counted, not rows."""
    log = log_of((0, 3), (0, 1), (0, 2), (1, 3), (1, 1))
    assert reordered(log) == {(0, 0, 1, 1), (0, 0, 2, 2), (1, 0, 1, 4)}
    (row,) = measure_planted(PlantedTrial("t", ATTEMPTS, log))["trials"].to_pylist()
    assert row["reordered_records"] == 2


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ((0, 0, 0), {(0, 0, 0, 1), (0, 0, 1, 2)}),  # before both
        ((0, 0, 2), {(0, 0, 1, 2)}),
        ((0, 0, 3), set()),  # after both
        ((0, 1, 0), set()),  # of another producer
        ((1, 0, 0), set()),  # in another partition
    ],
)
def test_a_record_of_a_later_unit_precedes_those_behind_it(
    later: tuple[int, int, int], expected: set[Row]
) -> None:
    """Its row of the log is not in this unit, its offset is known."""
    log = [PlantedLogRow(0, 0, 1), PlantedLogRow(0, 1, 2), PlantedLogRow(None, None, 5)]
    assert reordered(log, [later]) == expected


def test_a_duplicate_behind_a_later_unit_is_not_reordered() -> None:
    """Its first copy precedes all records of later units."""
    assert reordered(log_of((0, 0), (0, 0)), [(0, 0, 1)]) == set()


LOGS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 0, 0, 1]),
        st.integers(0, 9),
        st.integers(0, 1),
        st.sampled_from([True, True, True, False]),
    ),
    max_size=14,
).map(
    lambda rows: [
        PlantedLogRow(producer, None if producer is None else seq, offset, partition, intact=intact)
        for offset, (producer, seq, partition, intact) in enumerate(rows)
    ]
)


@given(LOGS)
def test_the_reordered_rows_are_those_of_the_reference(log: list[PlantedLogRow]) -> None:
    """The reference is plain Python, one record at a time."""
    assert reordered(log) == as_rows(plain_reordered_rows(PlantedTrial("t", ATTEMPTS, log)))


@given(LOGS, st.lists(st.integers(0, 10), max_size=3).map(sorted))
def test_units_with_the_offsets_of_later_ones_have_all_reordered_rows(
    log: list[PlantedLogRow], splits: list[int]
) -> None:
    """Wherever the sequence numbers are split, and each row belongs to one unit."""
    found: list[Row] = []
    for begin, end in zip([0, *splits], [*splits, 10], strict=True):
        own = [row for row in log if row.seq is None or begin <= row.seq < end]
        later = [
            (row.partition, row.producer or 0, row.offset)
            for row in log
            if row.seq is not None and row.seq >= end and row.intact
        ]
        found.extend(reordered(own, later))
    assert len(found) == len(set(found))
    assert set(found) == as_rows(plain_reordered_rows(PlantedTrial("t", ATTEMPTS, log)))


def as_rows(rows: Sequence[PlantedLogRow]) -> set[Row]:
    """Return partition, producer, seq and offset of rows that have an id."""
    return {(row.partition, row.producer or 0, row.seq or 0, row.offset) for row in rows}


KEYS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)


@given(st.integers(1, 3).flatmap(lambda keys: st.lists(st.tuples(*[KEYS] * keys), max_size=12)))
def test_stream_numbers_are_equal_for_equal_keys_and_ascend_with_them(
    keys: list[tuple[int, ...]],
) -> None:
    """Also if the product of the keys' ranges has more than 64 bits."""
    width = len(keys[0]) if keys else 1
    columns = [np.array([key[place] for key in keys], np.int64) for place in range(width)]
    numbers = stream_numbers(*columns).tolist()
    ordered = sorted(zip(keys, numbers, strict=True))
    assert [number for _, number in ordered] == sorted(numbers)
    assert len(set(numbers)) == len(set(keys)) == len(set(zip(keys, numbers, strict=True)))
