"""The records that a consumer received: rows in memory or in a mapped file, and ledger tables.

The file is a memory mapping that grows. It outlives the consumer's process, so what a consumer
received before it was killed is not lost.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.schema import LOG, READS
from ackbench.experiments.trial.clients.process.mapped_file import Records
from ackbench.experiments.trial.clients.record.layout import Origin
from ackbench.infra.errors import HarnessError

HEADER_BYTES: Final = 4096
GROW_RECORDS: Final = 1 << 18

ReadRow = np.dtype(
    [
        ("partition", "<i4"),
        # producer, seq and intended_ns are valid only if origin is TRIAL.
        ("producer", "<i4"),
        ("offset", "<i8"),
        ("seq", "<i8"),
        ("intended_ns", "<i8"),
        ("received_ns", "<i8"),
        ("timestamp_ms", "<i8"),
        ("origin", "<i4"),  # `Origin`
        # Of the leader that appended the record's batch; -1: the batch carries none.
        ("leader_epoch", "<i4"),
    ]
)
"""One received record."""


class ReadsFile:
    """The consumer's side of the mapped file.

    The file's first page starts with the number of filled rows. The rows follow, with room for
    more.
    """

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            OSError: the disk is full, or the folder is not writable.
        """
        self._path, self._records = path, 0
        path.write_bytes(bytes(HEADER_BYTES))
        self.grow()

    @property
    def rows(self) -> Records:
        """All rows, including those not filled yet."""
        return self._rows

    @property
    def filled(self) -> int:
        """How many rows hold a record."""
        return int(self._count[0])

    @filled.setter
    def filled(self, records: int) -> None:
        self._count[0] = records

    def grow(self) -> None:
        """Add room for `GROW_RECORDS` rows and reserve its disk space.

        Raises:
            OSError: the disk is full.
        """
        room = GROW_RECORDS * ReadRow.itemsize
        with self._path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), HEADER_BYTES + self._records * ReadRow.itemsize, room)
            memory = mmap.mmap(file.fileno(), 0)
        self._records += GROW_RECORDS
        self._count = np.frombuffer(memory, np.int64, 1)
        self._rows = np.frombuffer(memory, ReadRow, self._records, HEADER_BYTES)


def load_reads(path: Path) -> Records:
    """Return the rows of a consumer's mapped file, whether the consumer exited or was killed.

    Raises:
        HarnessError: there is no such file, or it is truncated.
    """
    try:
        content = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise HarnessError(f"the consumer left no records at {path}: {error}") from error
    filled = int(content[:8].view(np.int64)[0])
    rows = content[HEADER_BYTES:].view(ReadRow)
    if filled > rows.size:
        raise HarnessError(
            f"{path} is truncated: its header counts {filled} records and has room for {rows.size}"
        )
    return np.asarray(rows[:filled])


def load_expired_records(path: Path, begin_offsets: Mapping[int, int]) -> pa.Table:
    """Return the records that a consumer received and that expired before the final read.

    A consumer can receive an offset twice, with another record after the log was truncated. Then
    the last one counts.

    Args:
        path: the consumer's mapped file.
        begin_offsets: where each partition's log begins at the final read.

    Returns:
        One row per offset below its partition's begin, by partition and offset; schema `LOG`.

    Raises:
        HarnessError: there is no such file, or it is truncated.
    """
    rows = load_reads(path)
    last_partition = max(max(begin_offsets, default=0), int(rows["partition"].max(initial=0)))
    begins = np.zeros(1 + last_partition, np.int64)
    for partition, begin in begin_offsets.items():
        begins[partition] = begin
    rows = rows[rows["offset"] < begins[rows["partition"]]]
    rows = rows[np.lexsort((rows["received_ns"], rows["offset"], rows["partition"]))]
    is_last = np.ones(rows.size, np.bool_)
    is_last[:-1] = (rows["offset"][:-1] != rows["offset"][1:]) | (
        rows["partition"][:-1] != rows["partition"][1:]
    )
    return to_log_table(rows[is_last]) if rows.size else LOG.empty_table()


def to_reads_table(rows: Records, consumer: int, generation: int) -> pa.Table:
    """Return rows of dtype `ReadRow` as the ledger's table `reads`."""
    constants = {
        "consumer": np.full(rows.size, consumer, np.int32),
        "generation": np.full(rows.size, generation, np.int32),
    }
    columns = {
        **{name: pa.array(values) for name, values in constants.items()},
        **_identity_columns(rows, "producer", "seq", "intended_ns"),
    }
    return _to_table(rows, columns, READS)


def to_log_table(rows: Records) -> pa.Table:
    """Return rows of dtype `ReadRow` as the ledger's table `log`."""
    epochs = pa.array(np.ascontiguousarray(rows["leader_epoch"]), mask=rows["leader_epoch"] < 0)
    columns = {
        **_identity_columns(rows, "producer", "seq"),
        "intact": pa.array(rows["origin"] != Origin.CORRUPT),
        "leader_epoch": epochs,
    }
    columns["visible"] = pa.array(np.ones(rows.size, np.bool_))
    return _to_table(rows, columns, LOG)


def _identity_columns(rows: Records, *names: str) -> dict[str, pa.Array]:
    """Return columns that are null where the record is foreign or corrupt, so not trustworthy."""
    untrusted = rows["origin"] != Origin.TRIAL
    return {name: pa.array(np.ascontiguousarray(rows[name]), mask=untrusted) for name in names}


def _to_table(rows: Records, columns: dict[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """Return a table of these columns; those that are missing come from the rows."""
    return pa.table(
        [
            columns[field.name]
            if field.name in columns
            else pa.array(np.ascontiguousarray(rows[field.name]))
            for field in schema
        ],
        schema=schema,
    )
