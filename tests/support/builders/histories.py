"""Trials as what happened in them: operations on a cluster of a few lines, played into the ledger that they leave behind.

A ledger of random rows has few of the traps of a real one. Here a log is cut and its offsets are used again, a record lands
behind later ones, a reader goes back, because an operation does just that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from support.builders.world import MS, InFlight, World

from experiments.ledger.record import Cell
from experiments.ledger.schema import ABANDONED, ACKED
from spark_jobs.planted import (
    PlantedAttempt,
    PlantedEpoch,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
    PlantedTrial,
)

AT_FIRST = 2
"""Partitions of the topic when the load begins; a third one is added under load."""


class Operation(Protocol):
    """Something that happens."""

    def happen(self, world: World) -> None:
        """Do it."""


@dataclass(frozen=True)
class Send:
    """A producer sends records, one after the other, all with the same luck."""

    producer: int
    partition: int | None
    """`None`: the client never chose one, and nothing can land."""
    outcome: str = ACKED
    count: int = 1
    copies: int = 1
    """How many land; 0 of an acked record is a loss."""
    late: int = 0
    """After so many further operations: behind records that were sent later."""
    settle_us: int | None = 1000
    """After the intended time; below zero where two clocks differ; `None`: never (an acked record always settles)."""
    offsets_told: bool = True
    """False: as with acks=0."""

    def happen(self, world: World) -> None:
        """Attempt the records, and let their copies land now or put them on their way."""
        for _ in range(self.count):
            seq = len(world.sent[self.producer])
            end = len(world.logs[self.partition]) if self.partition is not None else 0
            offset = (
                end
                if self.offsets_told and self.outcome == ACKED and self.copies and not self.late
                else None
            )
            settle_us = 1000 if self.settle_us is None and self.outcome == ACKED else self.settle_us
            settled_ns = None if settle_us is None else world.now_ns + settle_us * 1000 + 321
            sent_ns = None if self.partition is None else world.now_ns + 123_456
            world.sent[self.producer].append(world.now_ns)
            sent = PlantedAttempt(
                self.producer,
                seq,
                self.outcome,
                world.now_ns,
                settled_ns,
                self.partition,
                None,
                sent_ns,
                0,
                offset,
                world.open.get(self.producer),
            )
            world.attempts.append(sent)
            if self.partition is not None:
                world.in_flight += [
                    InFlight(world.done + self.late, self.partition, (self.producer, seq))
                ] * self.copies
            world.land()
            world.now_ns += 300_007


@dataclass(frozen=True)
class Resend:
    """A copy of a record that was attempted a while ago lands, in its own partition or elsewhere."""

    producer: int
    back: int
    partition: int

    def happen(self, world: World) -> None:
        """Append it, if there is such a record."""
        seq = len(world.sent[self.producer]) - 1 - self.back
        if seq >= 0:
            world.append(self.partition, self.producer, seq)


@dataclass(frozen=True)
class Truncate:
    """A new leader has a shorter log: the end is cut off, and its offsets are used again."""

    partition: int
    records: int

    def happen(self, world: World) -> None:
        """Cut, and begin a new epoch there."""
        log = world.logs[self.partition]
        del log[max(0, len(log) - self.records) :]
        world.tell("truncated", self.partition, node=1, offset=len(log))
        world.new_epoch(self.partition)


@dataclass(frozen=True)
class Elect:
    """Another leader with all of the log."""

    partition: int

    def happen(self, world: World) -> None:
        """Begin a new epoch."""
        world.new_epoch(self.partition)


@dataclass(frozen=True)
class Corrupt:
    """A record of the log no longer fits its checksum."""

    partition: int
    back: int
    named: bool
    """Whether the row still tells the id, which is not to be believed."""

    def happen(self, world: World) -> None:
        """Spoil the record, if it is there."""
        log = world.logs[self.partition]
        logged = log[-1 - self.back] if self.back < len(log) else None
        if logged is not None:
            log[logged.offset] = (
                logged._replace(intact=False)
                if self.named
                else logged._replace(intact=False, producer=None, seq=None)
            )


@dataclass(frozen=True)
class Stranger:
    """A record in the log that was never attempted: without our mark, or under an id that no producer was given."""

    partition: int
    producer: int | None
    seq: int | None

    def happen(self, world: World) -> None:
        """Append it."""
        world.append(self.partition, self.producer, self.seq)


@dataclass(frozen=True)
class Hole:
    """An offset that holds no record, as a transaction's marker does."""

    partition: int

    def happen(self, world: World) -> None:
        """Use the offset up."""
        world.logs[self.partition].append(None)


@dataclass(frozen=True)
class Poll:
    """A consumer reads on from where it is."""

    consumer: int
    partition: int
    records: int

    def happen(self, world: World) -> None:
        """Receive what is there."""
        at, log = (self.consumer, self.partition), world.logs[self.partition]
        for logged in log[world.positions[at] : world.positions[at] + self.records]:
            world.now_ns += 50_021
            world.positions[at] += 1
            if logged is not None:
                world.reads.append(_received(world, logged, self.consumer))


def _received(world: World, logged: PlantedLogRow, consumer: int) -> PlantedRead:
    """What carries no mark of ours, or one that cannot be believed, is received as a stranger's."""
    read = PlantedRead(
        logged.producer,
        logged.seq,
        logged.offset,
        world.intended_ns(logged),
        world.now_ns,
        logged.partition,
        consumer,
        world.generations[consumer],
    )
    ours = logged.intact and logged.producer is not None
    return read if ours else read._replace(producer=None, seq=None, intended_ns=None)


@dataclass(frozen=True)
class Seek:
    """A consumer goes elsewhere: back, and it receives again; ahead, and it misses."""

    consumer: int
    partition: int
    by: int

    def happen(self, world: World) -> None:
        """Move, and be another generation from then on."""
        at = (self.consumer, self.partition)
        world.positions[at] = min(
            max(0, world.positions[at] + self.by), len(world.logs[self.partition])
        )
        world.generations[self.consumer] += 1


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    ms: int

    def happen(self, world: World) -> None:
        """Put the clock forward."""
        world.now_ns += self.ms * MS


@dataclass(frozen=True)
class FaultBegins:
    """The fault; only the first one counts."""

    def happen(self, world: World) -> None:
        """Note when."""
        world.fault_begin_ns = world.fault_begin_ns or world.now_ns


@dataclass(frozen=True)
class FaultEnds:
    """The heal, where there is something to heal."""

    def happen(self, world: World) -> None:
        """Note when."""
        if world.fault_begin_ns is not None:
            world.fault_end_ns = world.fault_end_ns or world.now_ns


@dataclass(frozen=True)
class ReaderEnds:
    """The reader along tells how far it came; where it never does, what it missed is not known."""

    at_end: bool

    def happen(self, world: World) -> None:
        """Note it as the trial does."""
        detail = json.dumps(
            {
                "records": len(world.reads),
                "at_end": self.at_end,
                "where": "" if self.at_end else "partition 0 at 0",
            }
        )
        world.events.append(PlantedEvent(world.now_ns, "reader", detail=detail))


@dataclass(frozen=True)
class Begin:
    """A producer begins a transaction; what it sends until it ends is in it."""

    producer: int

    def happen(self, world: World) -> None:
        """Begin, unless one is open."""
        world.open.setdefault(
            self.producer, sum(row.producer == self.producer for row in world.transactions)
        )


@dataclass(frozen=True)
class End:
    """A producer's transaction ends."""

    producer: int
    outcome: str
    """As its client tells."""
    shown: str
    """What a read_committed reader is shown of it: `all`, `none`, or `some`, every other record."""

    def happen(self, world: World) -> None:
        """End it, if one is open."""
        number = world.open.pop(self.producer, None)
        if number is not None:
            of = [
                row.seq
                for row in world.attempts
                if (row.producer, row.transaction) == (self.producer, number)
            ]
            world.transactions.append(
                PlantedTransaction(
                    self.producer, number, self.outcome, len(of), world.now_ns, world.now_ns
                )
            )
            hidden = of if self.shown == "none" else of[::2] if self.shown == "some" else []
            world.hidden |= {(self.producer, seq) for seq in hidden}


@dataclass(frozen=True)
class Transact:
    """A whole transaction, with nothing between its records."""

    sends: tuple[Operation, ...]
    begin: Begin
    end: End

    def happen(self, world: World) -> None:
        """Begin, send and end."""
        for operation in (self.begin, *self.sends, self.end):
            operation.happen(world)


History = Sequence[Operation]


def played(history: History, trial_id: str = "000-history") -> PlantedTrial:
    """Let a history happen; return the ledger of it."""
    world = World()
    for operation in history:
        operation.happen(world)
        world.done += 1
        world.land()
    for producer in sorted(world.open):
        End(producer, ABANDONED, "none").happen(world)
    world.done += 1_000_000
    world.land()
    stored = [
        logged
        for partition in sorted(world.logs)
        for logged in world.logs[partition]
        if logged is not None
    ]
    log = [
        logged._replace(visible=(logged.producer, logged.seq) not in world.hidden)
        for logged in stored
    ]
    epochs = [
        PlantedEpoch(node, partition, *epoch)
        for node in (1, 2)
        for partition in sorted(world.logs)
        for epoch in world.epochs[partition]
    ]
    cell: Cell = {"fault": "none", "acks": "all"}
    trial = PlantedTrial(
        trial_id, world.attempts, log, world.reads, world.phases(), cell=cell, partitions=AT_FIRST
    )
    return replace(trial, events=world.events, epochs=epochs, transactions=world.transactions)
