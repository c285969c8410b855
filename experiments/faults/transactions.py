"""Faults of transactions: a producer that is fenced, one that leaves its transaction open, and the crash of the node that decides.

What each of these does: KIP-98 (the coordinator, epochs and fencing), KIP-360 (a producer that was fenced ends), KIP-890 (transactions that hang),
and `docs/faults.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import Field

from experiments.clients.producer import ProducerProcess
from experiments.faults.base import FaultKind, FaultParameters, Missed, Scene
from experiments.faults.nature import Nature, Shape
from experiments.faults.process_parameters import CrashParameters
from experiments.faults.stable_offset import Stuck, freed, stuck
from experiments.faults.verbs import nature_of_crash
from experiments.ledger.record import FaultEvidence
from infra.cluster import PartitionState
from infra.errors import WaitTimeout

FAMILY: Final = "transactions"
STATE_TOPIC: Final = "__transaction_state"
_OPEN_WITHIN_S: Final = 10.0
"""A producer that follows its schedule is in a transaction most of the time."""


def _needs_transactions(shape: Shape) -> str | None:
    return None if shape.transactional else "workload.transaction_records is 0; allowed: producers that send in transactions"


class FencedParameters(FaultParameters):
    """Another producer takes the `transactional.id`."""

    patience_s: float = Field(default=10.0, gt=0, le=3600, description="how long the fenced producer may take to be told, seconds")

    def impossible(self, shape: Shape) -> str | None:
        """Only a transactional producer can be fenced so."""
        return _needs_transactions(shape)


class AbandonedParameters(FaultParameters):
    """A producer dies in a transaction, and nobody takes its `transactional.id`."""

    patience_s: float = Field(default=60.0, gt=0, le=3600, description="how long the transaction may stay open before it is taken to hang on, seconds")

    def impossible(self, shape: Shape) -> str | None:
        """There must be a transaction to leave open."""
        return _needs_transactions(shape)


class CoordinatorCrashParameters(CrashParameters):
    """The node that decides on a producer's transactions is killed and started again."""

    def impossible(self, shape: Shape) -> str | None:
        """There must be a producer whose coordinator it is."""
        return _needs_transactions(shape)


def fence_producer(scene: Scene, parameters: FencedParameters) -> FaultEvidence:
    """Take producer 0's `transactional.id` with another producer; it bit when the client said that it was fenced."""
    scene.until(parameters.at_s)
    producer = _producer(scene)
    with scene.striking():
        _take_the_id(producer)
        scene.note("fault_bit", f"another producer was given {_id(producer)}")
        told = scene.noticed(lambda: _fenced(scene, producer), parameters.patience_s)
    return FaultEvidence(kind="producer-fenced", bit=told, evidence=tuple(scene.facts))


def abandon_transaction(scene: Scene, parameters: AbandonedParameters) -> FaultEvidence:
    """Kill producer 0 in a transaction that holds records; it bit when the last stable offset stood still behind the high watermark."""
    scene.until(parameters.at_s)
    producer = _producer(scene)
    with scene.striking():
        records = _killed_in_a_transaction(scene, producer)
        scene.saw(
            f"producer 0 (process {producer.pid}) was killed {scene.since_load_began_s():.2f} s into the load, {records} stored records in its transaction"
        )
        stands = stuck(scene)
        bit = stands is not None and scene.noticed(_released(scene, stands), parameters.patience_s)
    return FaultEvidence(kind="transaction-abandoned", bit=bit, evidence=tuple(scene.facts))


def crash_coordinator(scene: Scene, parameters: CoordinatorCrashParameters) -> FaultEvidence:
    """Kill the leader of producer 0's partition of `__transaction_state`; it bit when that was led by another node, or by none."""
    scene.until(parameters.at_s)
    transactional_id = _id(_producer(scene))
    before = _coordinating(scene, transactional_id)
    if before is None or before.leader is None:
        raise Missed(f"{STATE_TOPIC} has no leader for producer 0")
    with scene.striking(before.leader) as healing:
        healing.callback(scene.start, before.leader)
        scene.saw(f"node {before.leader} leads {STATE_TOPIC}-{before.partition}, which decides on {transactional_id}")
        scene.kill(before.leader)
        scene.lasting(parameters.restart_after_s)
        left = scene.noticed(lambda: _left(scene, before, transactional_id), parameters.patience_s)
    return FaultEvidence(kind="coordinator-crash", targets=(before.leader,), bit=left, evidence=tuple(scene.facts))


def _producer(scene: Scene) -> ProducerProcess:
    """Return producer 0.

    Raises:
        Missed: it is none of ours, or has ended.
    """
    producer = scene.clients.first_producer() if scene.clients else None
    if producer is None or not producer.lives():
        raise Missed("there is no producer 0 that runs")
    return producer


def _id(producer: ProducerProcess) -> str:
    return producer.job.settings["transactional.id"]


def _take_the_id(producer: ProducerProcess) -> None:
    """Be another producer of the same id for a moment: its coordinator aborts what is open, and raises the epoch."""
    from experiments.clients.handle import Client
    from experiments.clients.librdkafka import PRODUCER
    from experiments.clients.transact import Transactions

    job = producer.job
    with Client(PRODUCER, {**job.settings, "bootstrap.servers": job.bootstrap_servers}, log=job.folder / "fencing.log") as other:
        Transactions(other).init(job.warm_up_timeout_s)


def _fenced(scene: Scene, producer: ProducerProcess) -> str | None:
    from experiments.clients.librdkafka import error_text
    from experiments.clients.transact import FENCINGS

    code = producer.ended_by()
    return f"producer 0 was told {error_text(code)} {scene.since_begin_s():.2f} s after the fault began" if code in FENCINGS else None


def _killed_in_a_transaction(scene: Scene, producer: ProducerProcess) -> int:
    """Kill it for good as soon as its open transaction holds some stored records, and not yet all; return how many.

    Raises:
        Missed: it was in no transaction that held any.
    """
    try:
        scene.wait(
            producer.stored_in_open_transaction, awaiting="producer 0 to be in a transaction with stored records", timeout_s=_OPEN_WITHIN_S, every_s=0.002
        )
    except WaitTimeout as error:
        raise Missed(str(error)) from error
    scene.note("fault_kill", "SIGKILL, producer 0")
    producer.leave()
    scene.note("fault_bit", f"producer 0, process {producer.pid}, is gone")
    return producer.stored_in_open_transaction()


def _released(scene: Scene, stands: Stuck) -> Callable[[], str | None]:
    return lambda: freed(scene, stands)


def _coordinating(scene: Scene, transactional_id: str) -> PartitionState | None:
    """Return the partition of the coordinators' log that decides on an id; `None`: nobody tells."""
    try:
        partitions = scene.cluster.describe([STATE_TOPIC]).of(STATE_TOPIC)
    except WaitTimeout:
        return None
    return partitions[coordinating_partition(transactional_id, len(partitions))] if partitions else None


def coordinating_partition(transactional_id: str, partitions: int) -> int:
    """Return which partition of `__transaction_state` an id belongs to: Java's `String.hashCode`, its sign dropped (TransactionStateManager.partitionFor)."""
    code = 0
    for unit in memoryview(transactional_id.encode("utf-16-le")).cast("H"):
        code = (code * 31 + unit) & 0xFFFF_FFFF
    return (code & 0x7FFF_FFFF) % partitions


def _left(scene: Scene, before: PartitionState, transactional_id: str) -> str | None:
    now = _coordinating(scene, transactional_id)
    if now is None or now.leader == before.leader:
        return None
    led = "had no leader" if now.leader is None else f"was led by node {now.leader}"
    return f"{STATE_TOPIC}-{before.partition} {led} {scene.since_begin_s():.2f} s after the fault began"


def _nature_of_fencing(kind: str, parameters: FencedParameters, _shape: Shape) -> Nature:
    return Nature(kind=kind, undecided=True, heals_within_ms=parameters.patience_s * 1000)


def _nature_of_abandoning(kind: str, parameters: AbandonedParameters, _shape: Shape) -> Nature:
    return Nature(kind=kind, undecided=True, heals_within_ms=parameters.patience_s * 1000)


KINDS: Final = (
    FaultKind(
        "producer-fenced",
        FAMILY,
        "another producer takes producer 0's transactional.id in mid-load",
        FencedParameters,
        fence_producer,
        _nature_of_fencing,
        outside=True,
    ),
    FaultKind(
        "transaction-abandoned",
        FAMILY,
        "producer 0 is killed in a transaction, which stays open until transaction.timeout.ms",
        AbandonedParameters,
        abandon_transaction,
        _nature_of_abandoning,
        outside=True,
    ),
    FaultKind(
        "coordinator-crash",
        FAMILY,
        "the node that decides on producer 0's transactions is killed (SIGKILL) and started again later",
        CoordinatorCrashParameters,
        crash_coordinator,
        nature_of_crash,
    ),
)
