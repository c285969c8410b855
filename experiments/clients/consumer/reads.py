"""What a reader read, as rows in memory or in a file mapping that grows and outlives it."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from experiments.clients.process.mapped_file import Records
from experiments.clients.record.layout import Origin
from experiments.ledger.schema import LOG, READS
from infra.errors import HarnessError

HEADER_BYTES: Final = 4096
GROW_RECORDS: Final = 1 << 18

Read = np.dtype(
    [
        ("partition", "<i4"),
        ("producer", "<i4"),
        ("offset", "<i8"),
        ("seq", "<i8"),
        ("intended_ns", "<i8"),
        ("received_ns", "<i8"),
        ("timestamp_ms", "<i8"),
        ("origin", "<i4"),  # value.Origin; producer, seq and intended_ns hold for OURS alone
        (
            "leader_epoch",
            "<i4",
        ),  # of the leader that appended the record's batch; -1: the broker did not tell
    ]
)
"""One record read."""


class ReadsFile:
    """The reader's side of the mapping: one page that begins with the number of rows, then the rows, with room for more."""

    def __init__(self, path: Path) -> None:
        """Make the file.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        self._path, self._records = path, 0
        path.write_bytes(bytes(HEADER_BYTES))
        self.grow()

    @property
    def rows(self) -> Records:
        """All rows, those not yet filled too."""
        return self._rows

    @property
    def filled(self) -> int:
        """How many rows hold a record."""
        return int(self._count[0])

    @filled.setter
    def filled(self, records: int) -> None:
        self._count[0] = records

    def grow(self) -> None:
        """Add room, its disk space reserved.

        Raises:
            OSError: the disk is full.
        """
        room = GROW_RECORDS * Read.itemsize
        with self._path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), HEADER_BYTES + self._records * Read.itemsize, room)
            memory = mmap.mmap(file.fileno(), 0)
        self._records += GROW_RECORDS
        self._count = np.frombuffer(memory, np.int64, 1)
        self._rows = np.frombuffer(memory, Read, self._records, HEADER_BYTES)


def reads_in(path: Path) -> Records:
    """Return what a reader read, whether it ended by itself or was killed.

    Raises:
        HarnessError: it left nothing, or what it left is cut short.
    """
    try:
        content = np.memmap(path, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise HarnessError(f"the reader left nothing at {path}: {error}") from error
    filled = int(content[:8].view(np.int64)[0])
    rows = content[HEADER_BYTES:].view(Read)
    if filled > rows.size:
        raise HarnessError(
            f"{path} says that it holds {filled} records and has room for {rows.size}"
        )
    return np.asarray(rows[:filled])


# ---------- What was read, as the ledger's tables. Pure.


def reads_of(rows: Records, consumer: int, generation: int) -> pa.Table:
    """Return rows of dtype `Read` as the ledger's `reads`."""
    constants = {
        "consumer": np.full(rows.size, consumer, np.int32),
        "generation": np.full(rows.size, generation, np.int32),
    }
    columns = {
        **{name: pa.array(values) for name, values in constants.items()},
        **_ours(rows, "producer", "seq", "intended_ns"),
    }
    return _table(rows, columns, READS)


def log_of(rows: Records) -> pa.Table:
    """Return rows of dtype `Read` as the ledger's `log`."""
    epochs = pa.array(np.ascontiguousarray(rows["leader_epoch"]), mask=rows["leader_epoch"] < 0)
    columns = {
        **_ours(rows, "producer", "seq"),
        "intact": pa.array(rows["origin"] != Origin.CORRUPT),
        "leader_epoch": epochs,
    }
    columns["visible"] = pa.array(np.ones(rows.size, np.bool_))
    return _table(rows, columns, LOG)


def _ours(rows: Records, *names: str) -> dict[str, pa.Array]:
    """Null where the record is of other origin or corrupt: what such a header says is not to be believed."""
    strange = rows["origin"] != Origin.OURS
    return {name: pa.array(np.ascontiguousarray(rows[name]), mask=strange) for name in names}


def _table(rows: Records, made: dict[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """What was not made is a column of the rows."""
    return pa.table(
        [
            made[field.name]
            if field.name in made
            else pa.array(np.ascontiguousarray(rows[field.name]))
            for field in schema
        ],
        schema=schema,
    )
