"""The crash of the transaction coordinator.

The coordinator is the broker that leads the partition of `__transaction_state` that a producer's
`transactional.id` maps to (KIP-98).
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind, FaultMissed
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.process.actions import crash_effects
from ackbench.experiments.trial.faults.process.parameters import CrashParameters
from ackbench.experiments.trial.faults.transactions.producers import (
    FAMILY,
    first_producer,
    no_own_producer_reason,
    transactional_id_of,
)
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.kafka.spec import PartitionState

STATE_TOPIC: Final = "__transaction_state"


class CoordinatorCrashParameters(CrashParameters):
    """The transaction coordinator of a producer crashes and is started again."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse workloads without transactions, and Java's client."""
        return no_own_producer_reason(topology)


def crash_coordinator(
    context: FaultContext, parameters: CoordinatorCrashParameters
) -> FaultEvidence:
    """Crash the transaction coordinator of producer 0.

    It took effect if the coordinator's partition had another leader, or none.
    """
    context.sleep_until(parameters.at_s)
    transactional_id = transactional_id_of(first_producer(context))
    before = _state_partition(context, transactional_id)
    if before is None or before.leader is None:
        raise FaultMissed(f"{STATE_TOPIC} had no leader for {transactional_id}")
    name = f"{STATE_TOPIC}-{before.partition}"
    with context.injected(before.leader) as heals:
        heals.callback(context.start, before.leader)
        context.add_evidence(
            f"node {before.leader} led {name}: it was the coordinator of {transactional_id}"
        )
        context.kill(before.leader)
        context.sleep_until_lasted(parameters.restart_after_s)
        took_effect = context.wait_for_reaction(
            lambda: _coordinator_change(context, before, transactional_id),
            parameters.patience_s,
            f"{name} kept its leader (node {before.leader})",
        )
    return FaultEvidence(
        kind="coordinator-crash",
        targets=(before.leader,),
        took_effect=took_effect,
        evidence=tuple(context.evidence),
    )


def _state_partition(context: FaultContext, transactional_id: str) -> PartitionState | None:
    """Return the id's partition of `__transaction_state`; `None`: no broker reports it."""
    try:
        partitions = context.cluster.describe([STATE_TOPIC]).of(STATE_TOPIC)
    except WaitTimeout:
        return None
    return (
        partitions[state_partition_number(transactional_id, len(partitions))]
        if partitions
        else None
    )


def state_partition_number(transactional_id: str, partitions: int) -> int:
    """Return which partition of `__transaction_state` an id maps to.

    It is Java's `String.hashCode` without its sign bit, modulo the number of partitions
    (TransactionStateManager.partitionFor).
    """
    code = 0
    for unit in memoryview(transactional_id.encode("utf-16-le")).cast("H"):
        code = (code * 31 + unit) & 0xFFFF_FFFF
    return (code & 0x7FFF_FFFF) % partitions


def _coordinator_change(
    context: FaultContext, before: PartitionState, transactional_id: str
) -> str | None:
    now = _state_partition(context, transactional_id)
    if now is None or now.leader == before.leader:
        return None
    change = "had no leader" if now.leader is None else f"was led by node {now.leader}"
    return (
        f"{STATE_TOPIC}-{before.partition} {change}"
        f" {context.elapsed_s():.2f} s after the fault began"
    )


KINDS: Final = (
    FaultKind(
        "coordinator-crash",
        FAMILY,
        "the transaction coordinator of producer 0 is crashed (SIGKILL) and started again later",
        CoordinatorCrashParameters,
        crash_coordinator,
        crash_effects,
    ),
)
