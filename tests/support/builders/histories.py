"""Histories: sequences of operations on a simple cluster, from which a trial's ledger is made.

Random rows would rarely have the difficulties of a real ledger. Here an operation causes each of
them: a log is truncated and its offsets are used again, a record is appended out of order, a
consumer seeks back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from support.builders.simulation import MS, InFlight, Simulation

from ackbench.experiments.ledger.stalls import (
    STALLED,
    STALLS_SAMPLED,
    Stall,
    StallCause,
    StallSampling,
)
from ackbench.experiments.ledger.terms import ABANDONED, ACKED, Source
from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEpoch,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
    PlantedTrial,
)

INITIAL_PARTITIONS = 2
"""Partitions of the topic when the load begins; operations can add a third one."""


class Operation(Protocol):
    """One event of a history."""

    def apply(self, simulation: Simulation) -> None:
        """Apply the operation to the state."""


@dataclass(frozen=True)
class Send:
    """A producer sends records one after the other, all with the same outcome."""

    producer: int
    partition: int | None
    """`None`: the client never chose one, so no copy is appended."""
    outcome: str = ACKED
    count: int = 1
    copies: int = 1
    """How many copies of each record are appended; 0 of an acked record is a loss."""
    late: int = 0
    """Copies are appended after this many further operations, out of order."""
    settle_us: int | None = 1000
    """When the attempt settles, after the intended time.

    Negative if two clocks differ; `None`: never (an acked record always settles).
    """
    reports_offsets: bool = True
    """Whether acknowledgements have an offset; with acks=0 they do not."""

    def apply(self, simulation: Simulation) -> None:
        """Add the attempts, and append their copies now or schedule them."""
        for _ in range(self.count):
            seq = len(simulation.intended_times_ns[self.producer])
            end = len(simulation.logs[self.partition]) if self.partition is not None else 0
            offset = (
                end
                if self.reports_offsets and self.outcome == ACKED and self.copies and not self.late
                else None
            )
            settle_us = 1000 if self.settle_us is None and self.outcome == ACKED else self.settle_us
            settled_ns = None if settle_us is None else simulation.now_ns + settle_us * 1000 + 321
            sent_ns = None if self.partition is None else simulation.now_ns + 123_456
            simulation.intended_times_ns[self.producer].append(simulation.now_ns)
            attempt = PlantedAttempt(
                self.producer,
                seq,
                self.outcome,
                simulation.now_ns,
                settled_ns,
                self.partition,
                None,
                sent_ns,
                0,
                offset,
                simulation.open_transactions.get(self.producer),
            )
            simulation.attempts.append(attempt)
            if self.partition is not None:
                simulation.in_flight += [
                    InFlight(
                        simulation.operations_done + self.late, self.partition, (self.producer, seq)
                    )
                ] * self.copies
            simulation.append_due()
            simulation.now_ns += 300_007


@dataclass(frozen=True)
class Resend:
    """A copy of an earlier record is appended to its own partition or to another one."""

    producer: int
    back: int
    """How many records before the producer's latest one."""
    partition: int

    def apply(self, simulation: Simulation) -> None:
        """Append the copy, if there is such a record."""
        seq = len(simulation.intended_times_ns[self.producer]) - 1 - self.back
        if seq >= 0:
            simulation.append(self.partition, self.producer, seq)


@dataclass(frozen=True)
class Truncate:
    """A new leader has a shorter log: the end is truncated, and its offsets are used again."""

    partition: int
    records: int

    def apply(self, simulation: Simulation) -> None:
        """Truncate the log, and begin a leader epoch at its end."""
        log = simulation.logs[self.partition]
        del log[max(0, len(log) - self.records) :]
        simulation.log_event("truncated", self.partition, node=1, offset=len(log))
        simulation.new_epoch(self.partition)


@dataclass(frozen=True)
class Elect:
    """Another replica with the complete log becomes the leader."""

    partition: int

    def apply(self, simulation: Simulation) -> None:
        """Begin a leader epoch."""
        simulation.new_epoch(self.partition)


@dataclass(frozen=True)
class Corrupt:
    """A record of the log has an invalid checksum."""

    partition: int
    back: int
    """How many offsets before the last one."""
    keeps_id: bool
    """Whether the row still has its id, which is not reliable."""

    def apply(self, simulation: Simulation) -> None:
        """Corrupt the record, if there is one."""
        log = simulation.logs[self.partition]
        logged = log[-1 - self.back] if self.back < len(log) else None
        if logged is not None:
            log[logged.offset] = (
                logged._replace(intact=False)
                if self.keeps_id
                else logged._replace(intact=False, producer=None, seq=None)
            )


@dataclass(frozen=True)
class Phantom:
    """A record is appended that was never attempted.

    It has no id of the trial, or one that no producer used.
    """

    partition: int
    producer: int | None
    seq: int | None

    def apply(self, simulation: Simulation) -> None:
        """Append the record."""
        simulation.append(self.partition, self.producer, self.seq)


@dataclass(frozen=True)
class OffsetGap:
    """An offset without a record, such as that of a transaction marker."""

    partition: int

    def apply(self, simulation: Simulation) -> None:
        """Skip the offset."""
        simulation.logs[self.partition].append(None)


@dataclass(frozen=True)
class Poll:
    """A consumer reads from its position."""

    consumer: int
    partition: int
    records: int

    def apply(self, simulation: Simulation) -> None:
        """Add the reads, and move the position."""
        at, log = (self.consumer, self.partition), simulation.logs[self.partition]
        for logged in log[simulation.positions[at] : simulation.positions[at] + self.records]:
            simulation.now_ns += 50_021
            simulation.positions[at] += 1
            if logged is not None:
                simulation.reads.append(_received(simulation, logged, self.consumer))


def _received(simulation: Simulation, logged: PlantedLogRow, consumer: int) -> PlantedRead:
    """Return a read; without an id if the record has none or is corrupt."""
    read = PlantedRead(
        logged.producer,
        logged.seq,
        logged.offset,
        simulation.intended_ns(logged),
        simulation.now_ns,
        logged.partition,
        consumer,
        simulation.generations[consumer],
    )
    is_known = logged.intact and logged.producer is not None
    return read if is_known else read._replace(producer=None, seq=None, intended_ns=None)


@dataclass(frozen=True)
class Seek:
    """A consumer seeks: back to receive records again, or ahead to miss some."""

    consumer: int
    partition: int
    by: int

    def apply(self, simulation: Simulation) -> None:
        """Move the position, and begin another generation."""
        at = (self.consumer, self.partition)
        simulation.positions[at] = min(
            max(0, simulation.positions[at] + self.by), len(simulation.logs[self.partition])
        )
        simulation.generations[self.consumer] += 1


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    ms: int

    def apply(self, simulation: Simulation) -> None:
        """Advance the clock."""
        simulation.now_ns += self.ms * MS


@dataclass(frozen=True)
class FaultBegins:
    """The fault begins; only the first fault counts."""

    def apply(self, simulation: Simulation) -> None:
        """Record the time."""
        simulation.fault_begin_ns = simulation.fault_begin_ns or simulation.now_ns


@dataclass(frozen=True)
class FaultEnds:
    """The fault is healed, if it has begun."""

    def apply(self, simulation: Simulation) -> None:
        """Record the time."""
        if simulation.fault_begin_ns is not None:
            simulation.fault_end_ns = simulation.fault_end_ns or simulation.now_ns


@dataclass(frozen=True)
class ConsumerEnds:
    """The concurrent consumer reports whether it reached the end.

    Without this report it is unknown which records it missed.
    """

    at_end: bool

    def apply(self, simulation: Simulation) -> None:
        """Add the event that a trial records."""
        detail = json.dumps(
            {
                "records": len(simulation.reads),
                "at_end": self.at_end,
                "where": "" if self.at_end else "partition 0 at 0",
            }
        )
        simulation.events.append(PlantedEvent(simulation.now_ns, "consumer_end", detail=detail))


@dataclass(frozen=True)
class Stalls:
    """The harness keeps a process from running."""

    process: str
    for_ms: int
    since_ms: int = 0
    """It began so long ago."""

    def apply(self, simulation: Simulation) -> None:
        """Add the event of the stall; time does not pass."""
        began_ns = simulation.now_ns - self.since_ms * MS
        stall = Stall(
            process=self.process,
            cause=StallCause.STOPPED,
            began_ns=began_ns,
            ended_ns=began_ns + self.for_ms * MS,
        )
        simulation.events.append(
            PlantedEvent(
                stall.ended_ns, STALLED, source=Source.MACHINE, detail=stall.model_dump_json()
            )
        )


@dataclass(frozen=True)
class StallsSampled:
    """The trial has looked for stalls."""

    cpu_ns: tuple[tuple[str, int], ...] = ()
    """The CPU time of processes, by their names."""

    def apply(self, simulation: Simulation) -> None:
        """Add the event that says so."""
        sampling = StallSampling(samples=1, cpu_s=0.001, cpu_ns=dict(self.cpu_ns))
        simulation.events.append(
            PlantedEvent(
                simulation.now_ns,
                STALLS_SAMPLED,
                source=Source.MACHINE,
                detail=sampling.model_dump_json(),
            )
        )


@dataclass(frozen=True)
class BeginTransaction:
    """A producer begins a transaction; what it sends until the end is part of it."""

    producer: int

    def apply(self, simulation: Simulation) -> None:
        """Begin a transaction, unless one is open."""
        simulation.open_transactions.setdefault(
            self.producer, sum(row.producer == self.producer for row in simulation.transactions)
        )


@dataclass(frozen=True)
class EndTransaction:
    """A producer's transaction ends."""

    producer: int
    outcome: str
    """As the client reports it."""
    shown: str
    """Which of its records read_committed can see: `all`, `none`, or `some` (every other)."""

    def apply(self, simulation: Simulation) -> None:
        """End the transaction, if one is open."""
        number = simulation.open_transactions.pop(self.producer, None)
        if number is not None:
            seqs = [
                row.seq
                for row in simulation.attempts
                if (row.producer, row.transaction) == (self.producer, number)
            ]
            simulation.transactions.append(
                PlantedTransaction(
                    self.producer,
                    number,
                    self.outcome,
                    len(seqs),
                    simulation.now_ns,
                    simulation.now_ns,
                )
            )
            hidden = {"all": [], "some": seqs[::2], "none": seqs}[self.shown]
            simulation.hidden |= {(self.producer, seq) for seq in hidden}


@dataclass(frozen=True)
class Transaction:
    """A complete transaction, with no other operation between its records."""

    sends: tuple[Operation, ...]
    begin: BeginTransaction
    end: EndTransaction

    def apply(self, simulation: Simulation) -> None:
        """Begin the transaction, send its records, and end it."""
        for operation in (self.begin, *self.sends, self.end):
            operation.apply(simulation)


History = Sequence[Operation]


def play(history: History, trial_id: str = "000-history") -> PlantedTrial:
    """Return the ledger of a history."""
    simulation = Simulation()
    for operation in history:
        operation.apply(simulation)
        simulation.operations_done += 1
        simulation.append_due()
    for producer in sorted(simulation.open_transactions):
        EndTransaction(producer, ABANDONED, "none").apply(simulation)
    simulation.operations_done += 1_000_000
    simulation.append_due()
    stored = [
        logged
        for partition in sorted(simulation.logs)
        for logged in simulation.logs[partition]
        if logged is not None
    ]
    log = [
        logged._replace(visible=(logged.producer, logged.seq) not in simulation.hidden)
        for logged in stored
    ]
    epochs = [
        PlantedEpoch(node, partition, *epoch)
        for node in (1, 2)
        for partition in sorted(simulation.logs)
        for epoch in simulation.epochs[partition]
    ]
    cell: Cell = {"fault": "none", "acks": "all"}
    trial = PlantedTrial(
        trial_id,
        simulation.attempts,
        log,
        simulation.reads,
        simulation.phases(),
        cell=cell,
        partitions=INITIAL_PARTITIONS,
        isolation="read_committed" if len(history) % 2 else "read_uncommitted",
    )
    return replace(
        trial, events=simulation.events, epochs=epochs, transactions=simulation.transactions
    )
