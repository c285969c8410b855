"""The evidence of one trial: its events and leader-epoch checkpoints, arranged for attribution.

It answers who led a partition when and from which offset, which broker truncated its log, and what
each client knew about the leader. A trial has a few hundred such rows, so this is plain Python.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.trial_manifest import TrialManifest

BECAME_LEADER: Final = "became_leader"
LEADER: Final = "leader"
ISR: Final = "isr"
TRUNCATED: Final = "truncated"
TOPIC_DELETED: Final = "topic_deleted"
TOPIC_RECREATED: Final = "topic_recreated"
LEADER_LEARNED: Final = "leader_learned"
EPOCH_BUMPED: Final = "epoch_bumped"
_EPOCH_BUMP: Final = re.compile(
    r"producer (?P<producer>\d+): producer epoch (?P<epoch>\d+): (?P<why>.*)"
)
_TIMED_OUT: Final = "timed out"


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
    def earliest_ns(self) -> int:
        """The earliest time at which the event can have happened."""
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
    """A partition's leader from `since_ns` on; `leader` is `None` if the partition had none."""

    since_ns: int
    leader: int | None
    leader_epoch: int | None
    start_offset: int | None
    """Where the leader epoch starts in the leader's own log; `None`: not reported."""


@dataclass(frozen=True)
class EpochBump:
    """A producer raised its producer epoch, by its own log."""

    producer: int
    epoch: int
    """The new one."""
    after_timeout: bool
    """Whether it did so because records had timed out (`delivery.timeout.ms`)."""


@dataclass(frozen=True)
class LeaderEpochRange:
    """The part of the surviving log that one leader epoch appended, by its first offset."""

    leader_epoch: int
    start_offset: int
    leader: int | None
    """`None`: no source reports the leader of this epoch."""


@dataclass(frozen=True)
class TrialEvidence:
    """The evidence of one trial."""

    manifest: TrialManifest
    events: tuple[TrialEvent, ...]
    """By time; events of the same time in an order that does not depend on the file's."""
    epochs: tuple[EpochStart, ...]

    def partition_events(self, partition: int | None, *kinds: str) -> Iterator[TrialEvent]:
        """Yield the events of the given kinds that concern a partition, by time.

        Args:
            partition: its number; `None`: events that concern no particular partition.
            kinds: of the events.
        """
        return (
            event for event in self.events if event.partition == partition and event.kind in kinds
        )

    def leaderships(self, partition: int) -> tuple[Leadership, ...]:
        """Return a partition's leaders, by time.

        The source is the brokers' own logs. For leader epochs that no broker's log reports, it is
        what the metadata poller observed.
        """
        starts: dict[int | None, int] = dict(self._epoch_starts(partition))
        by_brokers = list(self.partition_events(partition, BECAME_LEADER))
        by_poller = list(self.partition_events(partition, LEADER))
        # An observation without an epoch may be of one of the epochs that the brokers report.
        known = {event.leader_epoch for event in by_brokers} | ({None} if by_brokers else set())
        changes = sorted(
            [*by_brokers, *(event for event in by_poller if event.leader_epoch not in known)],
            key=lambda event: event.at_ns,
        )
        return tuple(
            Leadership(
                event.at_ns,
                event.node,
                event.leader_epoch,
                starts.get(event.leader_epoch) if event.offset is None else event.offset,
            )
            for event in changes
        )

    def leaders_known_to(self, partition: int, producer: int) -> tuple[Leadership, ...]:
        """Return the leaders of a partition as a producer learned about them, by its own log."""
        learned = (
            event
            for event in self.partition_events(partition, LEADER_LEARNED)
            if event.node is not None and event.detail.startswith(f"producer {producer}:")
        )
        return tuple(
            Leadership(event.at_ns, event.node, event.leader_epoch, None) for event in learned
        )

    def epoch_bumps(self) -> Iterator[EpochBump]:
        """Yield the epoch bumps of the producers, by time."""
        for event in self.partition_events(None, EPOCH_BUMPED):
            if bump := _EPOCH_BUMP.fullmatch(event.detail):
                yield EpochBump(
                    int(bump["producer"]), int(bump["epoch"]), _TIMED_OUT in bump["why"]
                )

    def epoch_ranges(self, partition: int) -> tuple[LeaderEpochRange, ...]:
        """Return the leader epochs of the surviving log, by offset."""
        leaders = {
            leadership.leader_epoch: leadership.leader for leadership in self.leaderships(partition)
        }
        return tuple(
            LeaderEpochRange(epoch, start, leaders.get(epoch))
            for epoch, start in self._epoch_starts(partition)
        )

    def _epoch_starts(self, partition: int) -> list[tuple[int, int]]:
        """Return the leader epochs and start offsets on which the replicas agree.

        A follower's checkpoint has only epochs that have records, so a replica may lack an epoch.
        """
        starts: defaultdict[int, set[int]] = defaultdict(set)
        for epoch in self.epochs:
            if epoch.partition == partition:
                starts[epoch.leader_epoch].add(epoch.start_offset)
        return sorted(
            (epoch, start)
            for epoch, reported in starts.items()
            if len(reported) == 1
            for start in reported
        )


def trial_evidence(manifest: TrialManifest, events: pa.Table, epochs: pa.Table) -> TrialEvidence:
    """Return a trial's evidence.

    Args:
        manifest: of the trial.
        events: of the schema `experiments.ledger.schema.EVENTS`.
        epochs: of the schema `experiments.ledger.schema.EPOCHS`.
    """
    by_time = sorted((TrialEvent(**row) for row in events.to_pylist()), key=_event_order)
    return TrialEvidence(
        manifest, tuple(by_time), tuple(EpochStart(**row) for row in epochs.to_pylist())
    )


def _event_order(event: TrialEvent) -> tuple[object, ...]:
    """Return the sort key that orders a trial's events by time.

    The file merges many logs, so the order of its rows within one millisecond is arbitrary. But a
    partition's leader epochs only grow, and a log that is truncated twice is truncated further the
    second time. What is left has no order; sorting it by its text makes results reproducible.
    """
    return (
        event.at_ns,
        _nulls_first(event.leader_epoch),
        _nulls_first(event.offset and -event.offset),
        repr(event),
    )


def _nulls_first(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)
