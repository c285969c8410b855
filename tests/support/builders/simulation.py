"""The state that the operations of a history change: logs, producers, consumers and the clock."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
)

MS = 1_000_000
BEGIN_NS = 1_700_000_000_000_000_000
"""A realistic time, so that arithmetic in floats would be wrong by about 100 ns."""


@dataclass(frozen=True)
class InFlight:
    """A record that is appended after a number of operations."""

    due: int
    """The value of `Simulation.operations_done` from which it is appended."""
    partition: int
    record: tuple[int, int]
    """Producer and seq."""


@dataclass
class Simulation:
    """The state of the cluster and its clients.

    A partition's log is a list, and a record's offset is its index.
    """

    now_ns: int = BEGIN_NS
    operations_done: int = 0
    attempts: list[PlantedAttempt] = field(default_factory=list)
    intended_times_ns: defaultdict[int, list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By producer: the intended times of its records, in the order of seq."""
    logs: defaultdict[int, list[PlantedLogRow | None]] = field(
        default_factory=lambda: defaultdict(list)
    )
    epochs: defaultdict[int, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(lambda: [(0, 0)])
    )
    """By partition: the leader epochs in its log, each with its first offset."""
    in_flight: list[InFlight] = field(default_factory=list)
    reads: list[PlantedRead] = field(default_factory=list)
    positions: defaultdict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    """By consumer and partition: the next offset."""
    generations: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By consumer; it begins another generation with each seek."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    """By producer: the number of its open transaction."""
    transactions: list[PlantedTransaction] = field(default_factory=list)
    hidden: set[tuple[int | None, int | None]] = field(default_factory=set)
    """The records that are not visible to read_committed."""
    events: list[PlantedEvent] = field(default_factory=list)
    fault_begin_ns: int | None = None
    fault_end_ns: int | None = None

    def append(self, partition: int, producer: int | None, seq: int | None) -> int:
        """Append a record to a partition in the current leader epoch, and return its offset."""
        log = self.logs[partition]
        log.append(
            PlantedLogRow(
                producer,
                seq,
                len(log),
                partition,
                timestamp_ms=self.now_ns // MS,
                leader_epoch=self.epochs[partition][-1][0],
            )
        )
        return len(log) - 1

    def append_due(self) -> None:
        """Append the records in flight that are due."""
        arrived = [record for record in self.in_flight if record.due <= self.operations_done]
        self.in_flight = [record for record in self.in_flight if record.due > self.operations_done]
        for copy in arrived:
            self.append(copy.partition, *copy.record)

    def new_epoch(self, partition: int) -> None:
        """Begin a leader epoch at the end of the log."""
        epoch, start = self.epochs[partition][-1][0] + 1, len(self.logs[partition])
        self.epochs[partition] = [
            *(old for old in self.epochs[partition] if old[1] < start),
            (epoch, start),
        ]
        self.log_event(
            "became_leader", partition, node=epoch % 3 + 1, leader_epoch=epoch, offset=start
        )

    def log_event(
        self, kind: str, partition: int, *, node: int, offset: int, leader_epoch: int | None = None
    ) -> None:
        """Add an event of a broker's log."""
        self.events.append(
            PlantedEvent(
                self.now_ns, kind, node, partition, leader_epoch, offset, Source.BROKER, MS
            )
        )

    def intended_ns(self, logged: PlantedLogRow) -> int:
        """Return a record's intended time; arbitrary if the record was never attempted."""
        sent, seq = self.intended_times_ns.get(logged.producer or 0, []), logged.seq or 0
        return sent[seq] if seq < len(sent) else BEGIN_NS

    def phases(self) -> Phases:
        """Return the phases.

        The load lasts from the first to the last intended time, the trial until all have settled.
        """
        intended = [row.intended_ns for row in self.attempts] or [BEGIN_NS]
        settled_ns = max(
            [self.now_ns, *(row.settled_ns for row in self.attempts if row.settled_ns is not None)]
        )
        fault = {"fault_begin_ns": self.fault_begin_ns, "fault_end_ns": self.fault_end_ns}
        return Phases(
            load_begin_ns=min(intended),
            load_end_ns=max(intended),
            settled_ns=settled_ns,
            healthy_ns=settled_ns + MS,
            **fault,
        )
