"""What a trial's events and leader-epoch checkpoints say, in the shape that attribution asks: who led when and from which offset, who cut its log.

A few hundred rows a trial, so plain Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from experiments.ledger.record import TrialRecord

LEADS: Final = "became_leader"
LEADER: Final = "leader"
ISR: Final = "isr"
TRUNCATED: Final = "truncated"
DELETED: Final = "topic_deleted"
RECREATED: Final = "topic_recreated"
LEARNED: Final = "leader_learned"


@dataclass(frozen=True)
class TrialEvent:
    """One row of `events.parquet`; `docs/ledger.md` has the kinds."""

    at_ns: int
    kind: str
    source: str
    resolution_ns: int | None
    node: int | None
    partition: int | None
    leader_epoch: int | None
    offset: int | None
    detail: str

    @property
    def from_ns(self) -> int:
        """The earliest moment at which it can have happened."""
        return self.at_ns - (self.resolution_ns or 0)


@dataclass(frozen=True)
class EpochStart:
    """One row of `epochs.parquet`."""

    node: int
    partition: int
    leader_epoch: int
    start_offset: int


@dataclass(frozen=True)
class Leadership:
    """A broker led a partition, or none did, from this moment on."""

    since_ns: int
    leader: int | None
    leader_epoch: int | None
    start_offset: int | None
    """Where its epoch starts in its own log; `None`: nobody told."""


@dataclass(frozen=True)
class LeaderEpochRange:
    """What the surviving log holds of one leader epoch."""

    leader_epoch: int
    start_offset: int
    leader: int | None
    """`None`: nobody told who led then."""


@dataclass(frozen=True)
class TrialEvidence:
    """One trial's."""

    record: TrialRecord
    events: tuple[TrialEvent, ...]
    """By time; those of one moment by what they tell, so that the order of the file means nothing."""
    epochs: tuple[EpochStart, ...]

    def of(self, partition: int | None, *kinds: str) -> Iterator[TrialEvent]:
        """Yield a partition's events of some kinds, by time."""
        return (
            event for event in self.events if event.partition == partition and event.kind in kinds
        )

    def leaderships(self, partition: int) -> tuple[Leadership, ...]:
        """Return who led a partition, by time: as the brokers' own logs tell, and where they do not tell of an epoch, as the watcher saw it."""
        starts: dict[int | None, int] = dict(self._lineage(partition))
        told, seen = list(self.of(partition, LEADS)), list(self.of(partition, LEADER))
        known = {event.leader_epoch for event in told} | (
            {None} if told else set()
        )  # without an epoch, it may be one of those
        changes = sorted(
            [*told, *(event for event in seen if event.leader_epoch not in known)],
            key=lambda event: event.at_ns,
        )
        return tuple(
            Leadership(
                event.at_ns,
                event.node,
                event.leader_epoch,
                _first(event.offset, starts.get(event.leader_epoch)),
            )
            for event in changes
        )

    def believed(self, partition: int, producer: int) -> tuple[Leadership, ...]:
        """Return whom a producer took for a partition's leader, by time, as its own log tells."""
        told = (
            event
            for event in self.of(partition, LEARNED)
            if event.node is not None and event.detail.startswith(f"producer {producer}:")
        )
        return tuple(
            Leadership(event.at_ns, event.node, event.leader_epoch, None) for event in told
        )

    def eras(self, partition: int) -> tuple[LeaderEpochRange, ...]:
        """Return the surviving log's leader epochs, by offset."""
        leaders = {
            leadership.leader_epoch: leadership.leader for leadership in self.leaderships(partition)
        }
        return tuple(
            LeaderEpochRange(epoch, start, leaders.get(epoch))
            for epoch, start in self._lineage(partition)
        )

    def _lineage(self, partition: int) -> list[tuple[int, int]]:
        """Return leader epochs and where they start, those that the replicas agree about.

        A follower's checkpoint has only epochs with records in them, so not every replica tells of every epoch.
        """
        starts: defaultdict[int, set[int]] = defaultdict(set)
        for epoch in self.epochs:
            if epoch.partition == partition:
                starts[epoch.leader_epoch].add(epoch.start_offset)
        return sorted(
            (epoch, start) for epoch, told in starts.items() if len(told) == 1 for start in told
        )


def evidence_of(
    records: Sequence[TrialRecord], events: pa.Table, epochs: pa.Table
) -> dict[str, TrialEvidence]:
    """Return each trial's evidence, by trial id.

    Args:
        records: of the trials.
        events: trial_id and the columns of `experiments.ledger.schema.EVENTS`.
        epochs: trial_id and the columns of `experiments.ledger.schema.EPOCHS`.
    """
    happened: defaultdict[str, list[TrialEvent]] = defaultdict(list)
    checkpoints: defaultdict[str, list[EpochStart]] = defaultdict(list)
    for row in events.to_pylist():
        happened[row.pop("trial_id")].append(TrialEvent(**row))
    for row in epochs.to_pylist():
        checkpoints[row.pop("trial_id")].append(EpochStart(**row))
    by_time = {trial_id: tuple(sorted(of, key=_when)) for trial_id, of in happened.items()}
    return {
        record.trial_id: TrialEvidence(
            record, by_time.get(record.trial_id, ()), tuple(checkpoints[record.trial_id])
        )
        for record in records
    }


def _when(event: TrialEvent) -> tuple[object, ...]:
    """Return an event's place in time.

    Events of one moment are as a file that was merged of many logs happens to hold them. But a partition's leader epochs only grow, and a log that is
    cut twice is cut further the second time. What is left has no order, and gets one of its own, so that equal evidence tells equal things.
    """
    return (
        event.at_ns,
        _known(event.leader_epoch),
        _known(event.offset and -event.offset),
        repr(event),
    )


def _known(value: int | None) -> tuple[int, ...]:
    """Return what can be sorted: null comes first."""
    return () if value is None else (value,)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
