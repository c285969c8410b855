"""Faults in which no node fails: leadership or replicas are moved between live nodes, and back.

An administrator does so with KIP-455 and KIP-460.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.clients.librdkafka.admin import LeaderNotAvailable, elect_leader
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    FaultContext,
    FaultKind,
    FaultParameters,
    Seconds,
)
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.core.evidence import leader_changed
from ackbench.infra.cluster.replicas import reassign
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import PartitionState
from ackbench.infra.process.waiting import wait_until

FAMILY: Final = "replication"
_MOVE_BACK_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True)
class MovedPartition:
    """A partition whose leader or replicas are moved, as it was before."""

    before: PartitionState
    change: Callable[[FaultContext, int], str | None]
    """Returns when another node than this one led it, or none; `None`: it still leads."""

    @property
    def name(self) -> str:
        """The topic and the number: `__consumer_offsets-12`."""
        return f"{self.before.topic}-{self.before.partition}"

    def now(self, context: FaultContext) -> PartitionState | None:
        """Return the partition as it is now; `None`: there is no such topic."""
        partitions = context.cluster.describe([self.before.topic]).of(self.before.topic)
        return partitions[self.before.partition] if partitions else None


class MovedParameters(FaultParameters):
    """Leadership or a replica is moved, and moved back."""

    away_s: Seconds = Field(default=3.0, description="how long until it is moved back, seconds")
    patience_s: Seconds = Field(
        default=20.0,
        description="how long the move may take, seconds, or until the load ends if that is later",
    )

    def heals_at_s(self) -> float:
        """Return when it is moved back, if the move took no time."""
        return self.at_s + self.away_s


class LeaderMovedParameters(MovedParameters):
    """Leadership is moved to a follower."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse topics without followers."""
        if topology.replication_factor == 1:
            return "replication.factor 1 has no follower that could lead"
        return None


class ReplicasMovedParameters(MovedParameters):
    """The leader's replica is moved to another node, or removed."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse clusters of one node."""
        return "one node has no other to move a replica to" if topology.nodes == 1 else None


def change_preferred_leader(context: FaultContext, parameters: MovedParameters) -> FaultEvidence:
    """Make a follower the preferred leader and elect it; later restore the first one.

    It took effect if the follower led.
    """
    context.sleep_until(parameters.at_s)
    before = context.partition_with_leader()
    return move_and_back(context, parameters, _observed(before), with_other_first(before))


def reassign_replicas(context: FaultContext, parameters: MovedParameters) -> FaultEvidence:
    """Move the leader's replica to another node, or remove it; later restore it.

    It is removed if every node has a replica. The fault took effect if another node led.
    """
    context.sleep_until(parameters.at_s)
    before = context.partition_with_leader()
    replicas = without_leader(before, context.cluster.node_ids())
    return move_and_back(context, parameters, _observed(before), replicas)


def _observed(before: PartitionState) -> MovedPartition:
    return MovedPartition(before, leader_changed)


def with_other_first(before: PartitionState) -> tuple[int, ...]:
    """Return a partition's replicas with one that does not lead as the first, if there is one."""
    order = (*before.replicas[1:], before.replicas[0])
    return (*order[1:], order[0]) if order[0] == before.leader else order


def without_leader(before: PartitionState, nodes: Sequence[int]) -> tuple[int, ...]:
    """Return a partition's replicas with the leader's replica moved to a node without one.

    If every node has a replica, it is removed.
    """
    followers = tuple(node for node in before.replicas if node != before.leader)
    return (*followers, *[node for node in nodes if node not in before.replicas][:1])


def move_and_back(
    context: FaultContext,
    parameters: MovedParameters,
    moved: MovedPartition,
    replicas: tuple[int, ...],
) -> FaultEvidence:
    """Give a partition these replicas, elect the first of them, and restore what was before.

    It took effect if another node led.
    """
    before, leader = moved.before, moved.before.leader
    targets = tuple(dict.fromkeys([*before.replicas, *replicas]))
    with context.injected(*targets) as heals:
        heals.callback(_reassign_and_elect, context, moved, before.replicas, _MOVE_BACK_TIMEOUT_S)
        patience_s = context.at_least_while_loaded(parameters.patience_s)
        took_effect = leader is not None and _move(context, moved, leader, replicas, patience_s)
        context.sleep_until(parameters.heals_at_s())
    context.add_evidence(f"the replicas are {_format_order(before.replicas)} again")
    return context.fault_evidence(targets, took_effect=took_effect)


def _move(
    context: FaultContext,
    moved: MovedPartition,
    leader: int,
    replicas: tuple[int, ...],
    patience_s: float,
) -> bool:
    """Return whether the replicas were moved and another node led, in time."""
    try:
        _reassign_and_elect(context, moved, replicas, patience_s)
        change = context.wait_for(
            lambda: moved.change(context, leader),
            awaiting=f"a leader other than node {leader}",
            timeout_s=patience_s,
        )
    except HarnessError as error:
        context.add_evidence(f"the move did not complete: {error}")
        return False
    context.note(EFFECTIVE, change)
    context.add_evidence(change)
    return True


def _reassign_and_elect(
    context: FaultContext, moved: MovedPartition, replicas: tuple[int, ...], timeout_s: float
) -> None:
    """Give the partition these replicas, wait until all are in sync, and elect the first.

    One that was in sync may be out of sync or fenced when it is to be elected: it is awaited again.

    Raises:
        WaitTimeout: they were not in sync in time, or the first could not be elected.
        HarnessError: Kafka refused.
    """
    began_s = context.load_elapsed_s()
    topic, number = moved.before.topic, moved.before.partition
    reassign(context.cluster.status(), topic, {number: replicas}, timeout_s)

    def first_leads() -> str | None:
        if not _is_complete(moved.now(context), replicas):
            return None
        try:
            not_needed = elect_leader(context.cluster.admin_servers, topic, number)
        except LeaderNotAvailable:
            return None
        return "led already" if not_needed else "was elected"

    outcome = wait_until(
        first_leads,
        awaiting=f"the replicas {_format_order(replicas)} in sync, and the first one to lead",
        timeout_s=timeout_s,
    )
    context.add_evidence(
        f"replicas {_format_order(replicas)} were in sync after"
        f" {context.load_elapsed_s() - began_s:.2f} s; node {replicas[0]} {outcome}"
    )


def _format_order(replicas: Sequence[int]) -> str:
    return f"{', '.join(map(str, replicas))} (in this order)"


def _is_complete(partition: PartitionState | None, replicas: tuple[int, ...]) -> bool:
    """Return whether a partition has exactly these replicas, all of them in sync.

    While replicas are moved, the metadata contains the old ones too.
    """
    return (
        partition is not None
        and partition.replicas == replicas
        and set(partition.isr) == set(replicas)
    )


def _effects(parameters: MovedParameters, _topology: Topology) -> FaultEffects:
    away_ms = parameters.away_s * 1000
    return FaultEffects(
        moves_leader=True,
        may_affect_leader=True,
        heals_after_ms=away_ms,
        heals_within_ms=away_ms + parameters.patience_s * 1000,
    )


KINDS: Final = (
    FaultKind(
        "preferred-leader-change",
        FAMILY,
        "a follower becomes the preferred leader and is elected; later the first one again",
        LeaderMovedParameters,
        change_preferred_leader,
        _effects,
    ),
    FaultKind(
        "reassignment",
        FAMILY,
        "the leader's replica is moved to a node without one, or removed if every node has one;"
        " later it is restored",
        ReplicasMovedParameters,
        reassign_replicas,
        _effects,
    ),
)
