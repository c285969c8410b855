"""The memory of a task that measures a trial with keys, compaction or replays: it is not divided.

    PYTHONPATH=tests python tests/perf/undivided.py <sweep folder>

measures the sweep's only trial in this process, as a task does, and prints its peak memory, bytes.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from perf.ledgers import LedgerShape, plant_sweep
from perf.process_tree import run_sampled

from ackbench.experiments.ledger.trial_manifest import KeyOptions
from ackbench.infra.machine.home import REPOSITORY

MILLION: Final = 1_000_000
RECORDS: Final = (MILLION, 2 * MILLION, 4 * MILLION)
_MANY: Final = 2**31 - 64
"""Keys, of which no two records have the same."""
SHAPES: Final[Mapping[str, Mapping[str, object]]] = {
    "nothing of these": {},
    "keys: 64, placement": {"keying": KeyOptions(placement=True)},
    "keys: a new one each, placement": {"keying": KeyOptions(placement=True, count=_MANY)},
    "keys: pairs": {"keying": KeyOptions(pairs="own", placement=True)},
    "compaction": {"compacted": True},
    "1 replay": {"replays": 1},
    "3 replays": {"replays": 3},
}


@dataclass(frozen=True)
class TaskMemory:
    """The memory that trials of one kind take."""

    kind: str
    peak_bytes: tuple[int, ...]
    """Of each number of records in `RECORDS`."""

    @property
    def record_bytes(self) -> float:
        """The memory of one more record, between the smallest and the largest trial."""
        return (self.peak_bytes[-1] - self.peak_bytes[0]) / (RECORDS[-1] - RECORDS[0])


def task_memories() -> list[TaskMemory]:
    """Measure a trial of each kind and size.

    Raises:
        RuntimeError: a process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        return [
            TaskMemory(kind, tuple(_peak_bytes(Path(folder), records, kind) for records in RECORDS))
            for kind in SHAPES
        ]


def _peak_bytes(folder: Path, records: int, kind: str) -> int:
    sweep = plant_sweep(folder / "sweep", [LedgerShape(records, **SHAPES[kind])])  # type: ignore[arg-type]  # its own fields
    program = [sys.executable, __file__, str(sweep.root)]
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return int(run_sampled(program, REPOSITORY, variables).output)


def main(sweep: str) -> int:
    """Measure the only trial of a sweep."""
    from ackbench.spark_jobs.io.ledgers import open_ledgers
    from ackbench.spark_jobs.io.units import split
    from ackbench.spark_jobs.pipeline import tables_or_error, verify_and_measure

    ledgers = open_ledgers(sweep)
    (unit,) = split(ledgers.trials)
    _, measures = verify_and_measure(ledgers.location, unit)
    if isinstance(tables := tables_or_error(measures), Exception):
        raise tables
    status = Path("/proc/self/status").read_text(encoding="utf-8")  # getrusage counts the parent's
    (peak_kib,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    print(int(peak_kib) * 1024)  # noqa: T201 - the command's output
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
