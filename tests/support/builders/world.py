"""What generated histories happen to: logs, producers and consumers as plain lists, and the clock."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from experiments.ledger.record import Phases
from experiments.ledger.schema import Source
from spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
)

MS = 1_000_000
BEGIN_NS = 1_700_000_000_000_000_000
"""A time as real ones are: a sum or a difference that went through a float would be off by a hundred nanoseconds."""


@dataclass(frozen=True)
class InFlight:
    """A record on its way, which lands when so many more operations have happened."""

    due: int
    partition: int
    record: tuple[int, int]


@dataclass
class World:
    """What the operations work on. A partition's log is a list: a record's offset is its place."""

    now_ns: int = BEGIN_NS
    done: int = 0
    attempts: list[PlantedAttempt] = field(default_factory=list)
    sent: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By producer: the intended time of each of its records, in the order of seq."""
    logs: defaultdict[int, list[PlantedLogRow | None]] = field(
        default_factory=lambda: defaultdict(list)
    )
    epochs: defaultdict[int, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(lambda: [(0, 0)])
    )
    """By partition: the leader epochs that its log tells of, each with its first offset."""
    in_flight: list[InFlight] = field(default_factory=list)
    reads: list[PlantedRead] = field(default_factory=list)
    positions: defaultdict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    generations: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    open: dict[int, int] = field(default_factory=dict)
    """By producer: the number of the transaction that it is in."""
    transactions: list[PlantedTransaction] = field(default_factory=list)
    hidden: set[tuple[int | None, int | None]] = field(default_factory=set)
    """The records that no read_committed reader is shown."""
    events: list[PlantedEvent] = field(default_factory=list)
    fault_begin_ns: int | None = None
    fault_end_ns: int | None = None

    def append(self, partition: int, producer: int | None, seq: int | None) -> int:
        """Put a record at the end of a partition's log, in its present leader epoch; return its offset."""
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

    def land(self) -> None:
        """Append what was on its way for long enough."""
        arrived = [record for record in self.in_flight if record.due <= self.done]
        self.in_flight = [record for record in self.in_flight if record.due > self.done]
        for copy in arrived:
            self.append(copy.partition, *copy.record)

    def new_epoch(self, partition: int) -> None:
        """Let another leader begin where the log ends."""
        epoch, start = self.epochs[partition][-1][0] + 1, len(self.logs[partition])
        self.epochs[partition] = [
            *(old for old in self.epochs[partition] if old[1] < start),
            (epoch, start),
        ]
        self.tell("became_leader", partition, node=epoch % 3 + 1, leader_epoch=epoch, offset=start)

    def tell(
        self, kind: str, partition: int, *, node: int, offset: int, leader_epoch: int | None = None
    ) -> None:
        """Write an event of a broker's log."""
        self.events.append(
            PlantedEvent(
                self.now_ns, kind, node, partition, leader_epoch, offset, Source.BROKER, MS
            )
        )

    def intended_ns(self, logged: PlantedLogRow) -> int:
        """Return what a record of the log carries as its intended time; one that was never attempted carries some."""
        sent, seq = self.sent.get(logged.producer or 0, []), logged.seq or 0
        return sent[seq] if seq < len(sent) else BEGIN_NS

    def phases(self) -> Phases:
        """The load lasts from the first to the last intended time; the trial until all settled."""
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
