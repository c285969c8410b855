"""Followers of the files that librdkafka's clients fill during a trial: each row is read once.

The files are the producers' attempts and the records that consumers received. A follower only
reads; the pages are in the page cache, so nothing is read from the disk. What it needs of a file of
10**7 records is the rows since its last call, and those that were not settled then.

A file that is missing, or not complete yet, has no rows so far. The clients delete their files at
the end of a trial; an open one can be read on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np

from ackbench.experiments.pages.live.slots import LatencyCounter, SlotCounter
from ackbench.experiments.trial.clients.consumer.reads import HEADER_BYTES, ReadRow
from ackbench.experiments.trial.clients.process.mapped_file import Column
from ackbench.experiments.trial.clients.producer.attempts import (
    DUE,
    NOT_DUE,
    REFUSED,
    SENT,
    SETTLED,
    AttemptsFile,
)
from ackbench.infra.errors import HarnessError

MOST_ROWS: Final = 1 << 20
"""Rows of a file in one call; the next one reads the others."""
_NONE: Final[Column] = np.empty(0, np.int64)


class AttemptsFollower:
    """Counts what a producer sent, and how its records were settled.

    A record that is sent again by a restarted producer counts as sent once, at its first time.

    Args:
        path: the producer's mapped file (`producer.attempts`).
        begin_ns: when the load began.
        sent: counts the records that the client accepted, by that time.
        acked: counts the acknowledged ones, by the time of the acknowledgement.
        latency: counts their latencies.
    """

    def __init__(
        self,
        path: Path,
        begin_ns: int,
        sent: SlotCounter,
        acked: SlotCounter,
        latency: LatencyCounter,
    ) -> None:
        self._path, self._begin_ns = path, begin_ns
        self._sent, self._acked, self._latency = sent, acked, latency
        self._file: AttemptsFile | None = None
        self._descriptor = -1
        self._next_seq, self._settled_before = 0, -1
        self._unsent = self._unsettled = _NONE
        self.failed = 0
        """Records with a delivery report that has an error."""
        self.refused = 0
        """Records that the client did not accept."""

    @property
    def unsettled(self) -> int:
        """Records that were sent and have no delivery report."""
        return int(self._unsettled.size)

    def read(self) -> None:
        """Count the records since the last call."""
        file = self._open()
        if file is None:
            return
        header = file.header[0]
        settled = int(header["settled"])  # before the rows: what is settled later is found later
        # After a fatal error the producer marks all remaining records as refused.
        end = file.rows.size if header["fatal_error"] else int(header["next_seq"])
        end = min(max(end, self._next_seq), file.rows.size, self._next_seq + MOST_ROWS)
        fresh = np.arange(self._next_seq, end)
        self._next_seq = end
        if fresh.size or self._unsent.size:
            self._count_sent(file, np.concatenate([self._unsent, fresh]))
        if fresh.size or settled != self._settled_before:
            self._count_settled(file)
        self._settled_before = settled

    def close(self) -> None:
        """Release the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._file = -1, None

    def _count_sent(self, file: AttemptsFile, seqs: Column) -> None:
        states = file.rows["state"][seqs]
        sent = seqs[(states == SENT) | (states == SETTLED)]
        self._sent.add(file.rows["sent_ns"][sent], self._begin_ns)
        self.refused += int((states == REFUSED).sum())
        self._unsent = seqs[(states == NOT_DUE) | (states == DUE)]
        self._unsettled = np.concatenate([self._unsettled, sent])

    def _count_settled(self, file: AttemptsFile) -> None:
        is_settled = file.rows["state"][self._unsettled] == SETTLED
        settled, self._unsettled = self._unsettled[is_settled], self._unsettled[~is_settled]
        acked = settled[file.rows["error"][settled] == 0]
        self.failed += int(settled.size - acked.size)
        at_ns = file.rows["sent_ns"][acked] + file.latency_us[acked] * 1000
        self._acked.add(at_ns, self._begin_ns)
        self._latency.add(at_ns - file.rows["intended_ns"][acked])

    def _open(self) -> AttemptsFile | None:
        """Return the mapped file; `None`: it is missing, incomplete, or was cut.

        Reading a mapping behind the end of its file would end this process (SIGBUS).
        """
        if self._file is None:
            try:
                self._file = AttemptsFile.open(self._path)
                self._descriptor = os.open(self._path, os.O_RDONLY)
            except (HarnessError, OSError):
                self._file = None
                return None
        mapped = self._file.header.nbytes + self._file.rows.nbytes + self._file.latency_us.nbytes
        return self._file if os.fstat(self._descriptor).st_size >= mapped else None


class ReadsFollower:
    """Counts the records that a consumer received.

    Args:
        path: the consumer's mapped file (`consumer.reads`), which grows.
        begin_ns: when the load began.
        read: counts the records, by the time of their receipt.
    """

    def __init__(self, path: Path, begin_ns: int, read: SlotCounter) -> None:
        self._path, self._begin_ns, self._counter = path, begin_ns, read
        self._descriptor, self._next_row = -1, 0

    def read(self) -> None:
        """Count the records since the last call."""
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY)
            except OSError:
                return
        header = os.pread(self._descriptor, 8, 0)
        if len(header) < 8:  # noqa: PLR2004 - the size of the number
            return
        filled = int(np.frombuffer(header, np.int64)[0])
        rows = min(filled - self._next_row, MOST_ROWS)
        if rows <= 0:
            return
        offset = HEADER_BYTES + self._next_row * ReadRow.itemsize
        content = os.pread(self._descriptor, rows * ReadRow.itemsize, offset)
        complete = len(content) // ReadRow.itemsize
        received = np.frombuffer(content, ReadRow, complete)
        self._counter.add(received["received_ns"], self._begin_ns)
        self._next_row += complete

    def close(self) -> None:
        """Release the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
