"""Followers of the reports of clients' programs during a trial: each line is read once.

A producer reports a record when it is settled, not when it is sent, and a consumer each record that
it received. Times are wall-clock milliseconds. Records of the warm-up do not count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ackbench.experiments.pages.live.slots import SlotCounter
from ackbench.experiments.trial.clients.process.mapped_file import Column
from ackbench.experiments.trial.clients.programs.program import OutputTail
from ackbench.experiments.trial.clients.programs.tables import ERROR, SUCCESS
from ackbench.infra.errors import HarnessError

_READ = "record_data"
_NS_PER_MS = 1_000_000


class ProgramProducerFollower:
    """Counts the records that a producer reported as acknowledged or failed.

    Args:
        path: the program's output.
        begin_ns: when the load began.
        warm_up_records: how many records come before the schedule.
        acked: counts the acknowledged records, by the time of the report.
    """

    def __init__(self, path: Path, begin_ns: int, warm_up_records: int, acked: SlotCounter) -> None:
        self._tail = OutputTail(path, SUCCESS, ERROR)
        self._begin_ns, self._warm_up, self._acked = begin_ns, warm_up_records, acked
        self.failed = 0
        """Records that were reported with an exception."""

    def read(self) -> None:
        """Count the reports since the last call."""
        lines = [line for line in _new_lines(self._tail) if not _is_warm_up(line, self._warm_up)]
        acked = [line for line in lines if line["name"] == SUCCESS]
        self.failed += len(lines) - len(acked)
        self._acked.add(_times_ns(acked), self._begin_ns)


class ProgramConsumerFollower:
    """Counts the records that a consumer reported.

    Args:
        path: the program's output.
        begin_ns: when the load began.
        warm_up_records: how many records of each producer come before the schedule.
        read: counts the records, by the time of the report.
    """

    def __init__(self, path: Path, begin_ns: int, warm_up_records: int, read: SlotCounter) -> None:
        self._tail = OutputTail(path, _READ)
        self._begin_ns, self._warm_up, self._counter = begin_ns, warm_up_records, read

    def read(self) -> None:
        """Count the reports since the last call."""
        lines = [line for line in _new_lines(self._tail) if not _is_warm_up(line, self._warm_up)]
        self._counter.add(_times_ns(lines), self._begin_ns)


def _new_lines(tail: OutputTail) -> list[dict[str, Any]]:
    """Return the new lines; none if the program has no output yet, it was deleted, or is invalid.

    The trial itself fails of an invalid line.
    """
    try:
        return tail.new_lines()
    except (OSError, HarnessError):
        return []


def _is_warm_up(line: dict[str, Any], records: int) -> bool:
    """Return whether a record's value, `<prefix>.<n>`, is one of the first `records`."""
    number = str(line.get("value", "")).partition(".")[2]
    return number.isdecimal() and int(number) < records


def _times_ns(lines: list[dict[str, Any]]) -> Column:
    times_ms = [line.get("timestamp") for line in lines]
    return np.array([ms * _NS_PER_MS for ms in times_ms if isinstance(ms, int)], np.int64)
