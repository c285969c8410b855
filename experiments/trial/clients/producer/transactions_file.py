"""The mapped file with a producer's transactions, and its conversion to the ledger's table.

The file has one row per transaction, at its position in the schedule: transaction n holds the
records n * size to (n + 1) * size - 1. Only the producer's process writes it. It notes that it
requests a commit before it sends the request, so a producer that crashes in between leaves a
transaction whose outcome is unknown.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.schema import TRANSACTIONS
from ackbench.experiments.ledger.terms import ABANDONED, ABORTED, COMMITTED, FENCED, UNKNOWN
from ackbench.experiments.trial.clients.process.mapped_file import Column, Records
from ackbench.infra.errors import HarnessError

Transaction = np.dtype(
    [
        ("begin_ns", "<i8"),  # 0: never begun
        ("end_ns", "<i8"),  # when the client knew the outcome, or gave up; 0: never
        ("commit_requested", "<i4"),  # 1: yes; written before the request
        ("reported", "<i4"),  # the outcome that the client reported, see below
        ("error", "<i4"),  # rd_kafka_resp_err_t that prevented the commit; 0: none
        ("_", "<i4"),
    ]
)
"""One transaction. A row of zeros is a transaction that was never begun."""

NOT_REPORTED: Final = 0
REPORTED_COMMITTED: Final = 1
REPORTED_ABORTED: Final = 2
REPORTED_FENCED: Final = 3


def create_transactions(path: Path, records: int, transaction_records: int) -> None:
    """Create the file and reserve its disk space.

    Raises:
        OSError: the disk is full, or the folder is not writable.
    """
    with path.open("wb") as file:
        os.posix_fallocate(
            file.fileno(), 0, -(-records // transaction_records) * Transaction.itemsize
        )


def attach_transactions(path: Path, *, write: bool = False) -> Records:
    """Map the file and return its rows, a view of the mapping.

    Raises:
        HarnessError: the file is missing or empty.
    """
    access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
    try:
        with path.open("r+b" if write else "rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=access), Transaction)
    except (OSError, ValueError) as error:
        raise HarnessError(f"the producer left no transactions at {path}: {error}") from error


def count_begun(rows: Records) -> int:
    """Return how many transactions were begun; they are the first rows."""
    return int(np.count_nonzero(rows["begin_ns"]))


def transaction_numbers(seq: Column, rows: Records, transaction_records: int) -> pa.Array:
    """Return the number of each record's transaction; null if that one was never begun."""
    numbers = seq // transaction_records
    return pa.array(numbers, mask=numbers >= count_begun(rows))


def transactions_table(
    rows: Records, producer: int, attempted_records: int, transaction_records: int
) -> pa.Table:
    """Return the transactions that were begun; schema `TRANSACTIONS`.

    Args:
        rows: of dtype `Transaction`.
        producer: the producer's number.
        attempted_records: the number of records that the producer attempted.
        transaction_records: the number of records in a complete transaction.
    """
    rows = rows[: count_begun(rows)]
    numbers = np.arange(rows.size, dtype=np.int64)
    columns = {
        "producer": pa.array(np.full(rows.size, producer, np.int32)),
        "transaction": pa.array(numbers),
        "begin_ns": pa.array(rows["begin_ns"].copy()),
        "end_ns": pa.array(rows["end_ns"].copy(), mask=rows["end_ns"] == 0),
        "records": pa.array(
            np.clip(attempted_records - numbers * transaction_records, 0, transaction_records)
        ),
        "outcome": pa.array([_outcome(row) for row in rows], pa.string()),
        "error": pa.array(rows["error"].copy()),
    }
    return pa.table(
        [columns[field.name].cast(field.type) for field in TRANSACTIONS], schema=TRANSACTIONS
    )


def _outcome(row: np.void) -> str:
    """Return the outcome as far as the client knows it.

    It is certain if the client reported it, or if no commit was ever requested.
    """
    if row["reported"] == REPORTED_COMMITTED:
        return COMMITTED
    if row["reported"] == REPORTED_ABORTED:
        return ABORTED
    if row["commit_requested"]:
        return UNKNOWN
    if row["reported"] == REPORTED_FENCED:
        return FENCED
    return ABANDONED
