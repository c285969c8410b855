"""What a producer attempted, in a file mapping that outlives it.

The mapping begins with one page of counters; then follow a row a record, at the record's place in the schedule, and a column
of its own for the latencies: brokers' threads write that, the schedule's thread the rows, and neither waits for the other's
cache lines. Only the producer's process writes, and it writes to memory: the kernel keeps what was written when the process is killed, and the
parent reads the file. Nothing is flushed to the disk; that is not needed but when the machine dies, and then the trial has.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from experiments.clients.mapping import Column, Records
from infra.errors import HarnessError

HEADER_BYTES: Final = 4096


Header = np.dtype(
    [
        ("records", "<i8"),  # rows in the file
        ("taken_up", "<i8"),  # the schedule is done up to here
        ("accepted", "<i8"),  # librdkafka took so many
        ("settled", "<i8"),  # of them, so many have a delivery report
        ("acked", "<i8"),  # of them, so many without an error
        ("warmed", "<i8"),  # warm-up records settled
        ("warm_up_error", "<i8"),  # the last error of a warm-up record
        ("last_offset", "<i8"),  # of the delivery report before
        ("without_offset", "<i8"),  # 1: the reports under way are of a batch to which the broker gave no offset
        ("ended_by", "<i8"),  # the error after which the client took nothing more
    ]
)
"""The counters on the first page."""

Attempt = np.dtype(
    [
        ("intended_ns", "<i8"),
        ("sent_ns", "<i8"),
        ("offset", "<i8"),
        ("error", "<i4"),
        ("partition", "<i4"),
        ("state", "<i4"),
        ("status", "<i4"),  # rd_kafka_msg_status_t
    ]
)
"""One record. A row of zeros is a record that was never due."""

RECORD_BYTES: Final = Attempt.itemsize + 8
"""What one record takes: its row and its latency."""

UNTOUCHED: Final = 0
DUE: Final = 1
"""About to be handed to librdkafka; a producer killed at that moment leaves it so, and nobody knows."""
SENT: Final = 2
SETTLED: Final = 3
REFUSED: Final = 4
"""produce() did not take it: it never left the process."""


@dataclass(frozen=True)
class AttemptsFile:
    """The mapping, open. `header` has one element, `rows` and `latency_us` one a record; all are views of the file."""

    header: Records
    rows: Records
    latency_us: Column

    @classmethod
    def create(cls, path: Path, records: int) -> AttemptsFile:
        """Make the file, all of its disk space reserved, so that a full disk is an error now and no signal later.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, HEADER_BYTES + records * RECORD_BYTES)
        made = cls._mapped(path, mmap.ACCESS_WRITE)
        made.header["records"] = records
        return made

    @classmethod
    def open(cls, path: Path) -> AttemptsFile:
        """Map an existing file, to read.

        Raises:
            HarnessError: there is none, or it is not whole.
        """
        try:
            found = cls._mapped(path, mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise HarnessError(f"the producer left no ledger at {path}: {error}") from error
        if found.header["records"][0] != found.rows.size:
            raise HarnessError(f"{path} has room for {found.rows.size} records and was made for {found.header['records'][0]}")
        return found

    @classmethod
    def attach(cls, path: Path) -> AttemptsFile:
        """Map an existing file, to write: the producer's side.

        Raises:
            OSError: there is none.
        """
        return cls._mapped(path, mmap.ACCESS_WRITE)

    def touch(self) -> None:
        """Let the kernel find a page for each row now, and not while the schedule runs."""
        for view in (self.rows.view(np.int64), self.latency_us):
            view[:: mmap.PAGESIZE // view.itemsize] = 0

    @classmethod
    def _mapped(cls, path: Path, access: int) -> AttemptsFile:
        with path.open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=access)
        records = (len(memory) - HEADER_BYTES) // RECORD_BYTES
        rows = np.frombuffer(memory, Attempt, records, HEADER_BYTES)
        return cls(np.frombuffer(memory, Header, 1), rows, np.frombuffer(memory, np.int64, records, HEADER_BYTES + rows.nbytes))
