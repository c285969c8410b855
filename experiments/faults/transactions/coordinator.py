"""The crash of the node that decides on a producer's transactions (KIP-98: the coordinator)."""

from __future__ import annotations

from typing import Final

from experiments.faults.core import FaultContext, FaultKind, FaultMissed
from experiments.faults.core.effects import Topology
from experiments.faults.process.actions import nature_of_crash
from experiments.faults.process.parameters import CrashParameters
from experiments.faults.transactions.producers import (
    FAMILY,
    first_producer,
    id_of,
    needs_transactions,
)
from experiments.ledger.record import FaultEvidence
from infra.errors import WaitTimeout
from infra.kafka.spec import PartitionState

STATE_TOPIC: Final = "__transaction_state"


class CoordinatorCrashParameters(CrashParameters):
    """The node that decides on a producer's transactions is killed and started again."""

    def impossible_reason(self, shape: Topology) -> str | None:
        """There must be a producer whose coordinator it is."""
        return needs_transactions(shape)


def crash_coordinator(
    context: FaultContext, parameters: CoordinatorCrashParameters
) -> FaultEvidence:
    """Kill the leader of producer 0's partition of `__transaction_state`; it bit when that was led by another node, or by none."""
    context.until(parameters.at_s)
    transactional_id = id_of(first_producer(context))
    before = _coordinating(context, transactional_id)
    if before is None or before.leader is None:
        raise FaultMissed(f"{STATE_TOPIC} has no leader for producer 0")
    with context.striking(before.leader) as healing:
        healing.callback(context.start, before.leader)
        context.saw(
            f"node {before.leader} leads {STATE_TOPIC}-{before.partition}, which decides on {transactional_id}"
        )
        context.kill(before.leader)
        context.lasting(parameters.restart_after_s)
        left = context.noticed(
            lambda: _left(context, before, transactional_id), parameters.patience_s
        )
    return FaultEvidence(
        kind="coordinator-crash",
        targets=(before.leader,),
        took_effect=left,
        evidence=tuple(context.facts),
    )


def _coordinating(context: FaultContext, transactional_id: str) -> PartitionState | None:
    """Return the partition of the coordinators' log that decides on an id; `None`: nobody tells."""
    try:
        partitions = context.cluster.describe([STATE_TOPIC]).of(STATE_TOPIC)
    except WaitTimeout:
        return None
    return (
        partitions[coordinating_partition(transactional_id, len(partitions))]
        if partitions
        else None
    )


def coordinating_partition(transactional_id: str, partitions: int) -> int:
    """Return which partition of `__transaction_state` an id belongs to: Java's `String.hashCode`, its sign dropped (TransactionStateManager.partitionFor)."""
    code = 0
    for unit in memoryview(transactional_id.encode("utf-16-le")).cast("H"):
        code = (code * 31 + unit) & 0xFFFF_FFFF
    return (code & 0x7FFF_FFFF) % partitions


def _left(context: FaultContext, before: PartitionState, transactional_id: str) -> str | None:
    now = _coordinating(context, transactional_id)
    if now is None or now.leader == before.leader:
        return None
    led = "had no leader" if now.leader is None else f"was led by node {now.leader}"
    return f"{STATE_TOPIC}-{before.partition} {led} {context.since_begin_s():.2f} s after the fault began"


KINDS: Final = (
    FaultKind(
        "coordinator-crash",
        FAMILY,
        "the node that decides on producer 0's transactions is killed (SIGKILL) and started again later",
        CoordinatorCrashParameters,
        crash_coordinator,
        nature_of_crash,
    ),
)
