"""Trials that one task measures, whatever their size, and the memory that the task takes.

Keys, compaction and replays compare a record with records of any other sequence number. The bytes
per record are measured ones, rounded up (`python tests/perf --undivided`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.trial_manifest import TrialManifest

TASK_BYTES: Final = 256 * 2**20
"""Memory of a task without records: Python and its libraries."""
_RECORD_BYTES: Final = 180
_KEYS_BYTES: Final = 190
_COMPACTION_BYTES: Final = 320
_REPLAYS_BYTES: Final = 160
_REPLAY_BYTES: Final = 60


@dataclass(frozen=True)
class UndividedTrial:
    """The parts of a trial that decide how much memory measuring it takes."""

    records: int
    keys: bool = False
    compacted: bool = False
    replays: int = 0

    @property
    def features(self) -> str:
        """Its features that need all of its records, in words; empty: it is divided."""
        parts = {"keys": self.keys, "compaction": self.compacted, "replays": self.replays > 0}
        return " and ".join(name for name, has in parts.items() if has)

    @property
    def record_bytes(self) -> int:
        """Memory per record."""
        return (
            _RECORD_BYTES
            + _KEYS_BYTES * self.keys
            + _COMPACTION_BYTES * self.compacted
            + (_REPLAYS_BYTES + _REPLAY_BYTES * self.replays) * bool(self.replays)
        )

    @property
    def memory_bytes(self) -> int:
        """Memory of its task."""
        return TASK_BYTES + self.records * self.record_bytes


def undivided_trial(manifest: TrialManifest) -> UndividedTrial | None:
    """Return a trial that is not divided into units; `None`: it is."""
    trial = UndividedTrial(
        sum(producer.records for producer in manifest.producers),
        keys=manifest.keying is not None,
        compacted=manifest.compacted,
        replays=len(manifest.replays),
    )
    return trial if trial.features else None
