"""A producer's transactions, in a file mapping that outlives it, and as the ledger's table.

A row a transaction, at its place in the schedule: transaction n holds the records n * size to (n + 1) * size - 1. Only the producer's process
writes. What it asked is written before it asks, so a producer killed in the middle has left what nobody can know as unknown.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from experiments.clients.process.mapped_file import Column, Records
from experiments.ledger.schema import ABANDONED, ABORTED, COMMITTED, FENCED, TRANSACTIONS, UNKNOWN
from infra.errors import HarnessError

Transaction = np.dtype(
    [
        ("begin_ns", "<i8"),  # 0: never begun
        ("end_ns", "<i8"),  # when the client was told how it ended, or gave up; 0: never
        ("asked", "<i4"),  # 1: to commit; written before it asks
        ("ending", "<i4"),
        ("error", "<i4"),  # rd_kafka_resp_err_t of what kept it from being committed; 0: none
        ("_", "<i4"),
    ]
)
"""One transaction. A row of zeros is one that was never begun."""

NOT_REPORTED: Final = 0
REPORTED_COMMITTED: Final = 1
REPORTED_ABORTED: Final = 2
REPORTED_FENCED: Final = 3


def create_transactions(path: Path, records: int, transaction_records: int) -> None:
    """Make the file, its disk space reserved.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    with path.open("wb") as file:
        os.posix_fallocate(
            file.fileno(), 0, -(-records // transaction_records) * Transaction.itemsize
        )


def attach_transactions(path: Path, *, write: bool = False) -> Records:
    """Map the file; the rows are a view of it.

    Raises:
        HarnessError: there is none.
    """
    try:
        with path.open("r+b" if write else "rb") as file:
            return np.frombuffer(
                mmap.mmap(
                    file.fileno(), 0, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
                ),
                Transaction,
            )
    except (OSError, ValueError) as error:
        raise HarnessError(f"the producer left no transactions at {path}: {error}") from error


def count_begun(rows: Records) -> int:
    """Return how many were begun; they are the first ones."""
    return int(np.count_nonzero(rows["begin_ns"]))


def transaction_numbers(seq: Column, rows: Records, transaction_records: int) -> pa.Array:
    """Return the number of each record's transaction; null for those that were to be in one that was never begun."""
    numbers = seq // transaction_records
    return pa.array(numbers, mask=numbers >= count_begun(rows))


def transactions_table(
    rows: Records, producer: int, attempted_records: int, transaction_records: int
) -> pa.Table:
    """Return the transactions that were begun as the ledger's `transactions`.

    Args:
        rows: of dtype `Transaction`.
        producer: whose.
        attempted_records: how many rows its attempts have.
        transaction_records: how many records of the schedule each was to hold.
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
    """Return what the client can tell: whether it was ended is only known for certain where it was told, or never asked to commit."""
    told = {REPORTED_COMMITTED: COMMITTED, REPORTED_ABORTED: ABORTED}.get(int(row["ending"]))
    if told:
        return told
    return UNKNOWN if row["asked"] else FENCED if row["ending"] == REPORTED_FENCED else ABANDONED
