"""A producer's mapped file becomes the ledger's table; unknown values are null."""

from pathlib import Path

import numpy as np
import pytest

from ackbench.experiments.ledger.schema import ATTEMPTS
from ackbench.experiments.ledger.terms import ACKED, REJECTED, UNKNOWN
from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.producer.attempts import (
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
from ackbench.infra.errors import HarnessError

QUEUE_FULL, TRANSPORT = -184, -195


def rows(*states: tuple[int, ...]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return rows of intended_ns, sent_ns, offset, error, partition, state, status."""
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


def test_the_table_has_the_ledgers_schema() -> None:
    """With and without rows, with and without keys."""
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, Keys()).schema.equals(ATTEMPTS)
    assert attempts_from_rows(PLANTED[:0], LATENCY_US[:0], 0, Keys(count=4)).schema.equals(ATTEMPTS)


def test_each_state_has_its_outcome() -> None:
    """Acked, acked without offset, unknown, unsettled, refused, timed out unsent, crashed."""
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, Keys())["outcome"].to_pylist() == [
        ACKED,
        ACKED,
        UNKNOWN,
        UNKNOWN,
        REJECTED,
        REJECTED,
        UNKNOWN,
    ]


def test_a_record_that_was_never_due_is_not_an_attempt() -> None:
    """The last row is all zeros: the table ends before it."""
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, Keys())["seq"].to_pylist() == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_unknown_values_are_null() -> None:
    """Neither 0 nor -1 stands for an unknown value."""
    table = attempts_from_rows(PLANTED, LATENCY_US, 0, Keys())
    assert table["sent_ns"].to_pylist() == [11, 21, 31, 41, None, 61, None]
    assert table["settled_ns"].to_pylist() == [5_011, 6_021, 7_031, None, None, 8_061, None]
    assert table["partition"].to_pylist() == [3, 3, 2, None, None, None, None]
    assert table["offset"].to_pylist() == [42, None, None, None, None, None, None]


def test_keys_are_assigned_round_robin() -> None:
    """Without keys the column is null."""
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, Keys(count=3))["key"].to_pylist() == [
        0,
        1,
        2,
        0,
        1,
        2,
        0,
    ]
    assert attempts_from_rows(PLANTED, LATENCY_US, 0, Keys(count=0))["key"].null_count == 7


def test_a_second_mapping_shows_what_the_first_wrote(tmp_path: Path) -> None:
    """The parent reads what the producer wrote."""
    ledger = AttemptsFile.create(tmp_path / "a ledger", 8)
    ledger.rows[:] = PLANTED
    assert (AttemptsFile.open(tmp_path / "a ledger").rows == PLANTED).all()


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """It is not an empty table."""
    with pytest.raises(HarnessError, match="left no ledger"):
        AttemptsFile.open(tmp_path / "nothing")


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    """Missing rows are not records that were never due."""
    path = tmp_path / "cut"
    AttemptsFile.create(path, 8)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - RECORD_BYTES)
    with pytest.raises(HarnessError, match="room for 7 records and was created for 8"):
        AttemptsFile.open(path)
