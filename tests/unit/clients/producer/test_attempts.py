"""A producer's mapping becomes the ledger's table: what was seen, and null for what was not."""

from pathlib import Path

import numpy as np
import pytest

from experiments.clients.producer.attempts import (
    DUE,
    NOT_PERSISTED,
    PERSISTED,
    POSSIBLY_PERSISTED,
    RECORD_BYTES,
    REFUSED,
    SENT,
    SETTLED,
    Attempt,
    AttemptsFile,
    attempts_from_rows,
)
from experiments.ledger.record import KeyOptions
from experiments.ledger.schema import ACKED, ATTEMPTS, REJECTED, UNKNOWN
from infra.errors import HarnessError

QUEUE_FULL, TRANSPORT = -184, -195


def rows(*states: tuple[int, ...]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Rows: intended_ns, sent_ns, offset, error, partition, state, status."""
    return np.array(list(states), Attempt)


PLANTED = rows(
    (10, 11, 42, 0, 3, SETTLED, PERSISTED),
    (20, 21, -1, 0, 3, SETTLED, POSSIBLY_PERSISTED),
    (30, 31, -1001, TRANSPORT, 2, SETTLED, POSSIBLY_PERSISTED),
    (40, 41, 0, 0, 0, SENT, 0),
    (50, 51, 0, QUEUE_FULL, 0, REFUSED, 0),
    (60, 61, -1001, -192, -1, SETTLED, NOT_PERSISTED),
    (70, 71, 0, 0, 0, DUE, 0),
    (0, 0, 0, 0, 0, 0, 0),
)
LATENCY_US = np.array([5, 6, 7, 0, 0, 8, 0, 0], np.int64)


def test_the_table_is_of_the_ledgers_schema() -> None:
    """Whatever it holds."""
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, KeyOptions()).schema.equals(ATTEMPTS)
    assert attempts_from_rows(PLANTED[:0], LATENCY_US[:0], 0, KeyOptions(keys=4)).schema.equals(
        ATTEMPTS
    )


def test_each_state_has_its_outcome() -> None:
    """Acked, acked without an offset, unknown, never settled, refused, timed out unsent, killed at that moment."""
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, KeyOptions())["outcome"].to_pylist() == [
        ACKED,
        ACKED,
        UNKNOWN,
        UNKNOWN,
        REJECTED,
        REJECTED,
        UNKNOWN,
    ]


def test_a_record_that_was_never_due_is_no_attempt() -> None:
    """The last row is untouched: seq ends before it."""
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, KeyOptions())["seq"].to_pylist() == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_what_was_not_seen_is_null() -> None:
    """Neither 0 nor -1 stands for "not known"."""
    table = attempts_from_rows(PLANTED, LATENCY_US, 0, KeyOptions())
    assert table["sent_ns"].to_pylist() == [11, 21, 31, 41, None, 61, None]
    assert table["settled_ns"].to_pylist() == [5_011, 6_021, 7_031, None, None, 8_061, None]
    assert table["partition"].to_pylist() == [3, 3, 2, None, None, None, None]
    assert table["offset"].to_pylist() == [42, None, None, None, None, None, None]


def test_keys_are_drawn_in_turn() -> None:
    """And without keys there is none."""
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, KeyOptions(keys=3))["key"].to_pylist() == [
        0,
        1,
        2,
        0,
        1,
        2,
        0,
    ]
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, KeyOptions())["key"].null_count == 7


def test_a_mapping_outlives_its_maker(tmp_path: Path) -> None:
    """What one handle wrote another reads."""
    made = AttemptsFile.create(tmp_path / "a ledger", 8)
    made.rows[:] = PLANTED
    assert (AttemptsFile.open(tmp_path / "a ledger").rows == PLANTED).all()


def test_a_ledger_that_is_not_there_is_the_harnesss_failure(tmp_path: Path) -> None:
    """It is named, and is no empty table."""
    with pytest.raises(HarnessError, match="left no ledger"):
        AttemptsFile.open(tmp_path / "nothing")


def test_a_ledger_cut_short_is_the_harnesss_failure(tmp_path: Path) -> None:
    """Rows that are missing are never rows that were not attempted."""
    path = tmp_path / "cut"
    AttemptsFile.create(path, 8)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - RECORD_BYTES)
    with pytest.raises(HarnessError, match="room for 7 records and was made for 8"):
        AttemptsFile.open(path)
