"""Faults in which no node fails: leadership or replicas are moved between live nodes, as an operator does (KIP-455, KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from experiments.clients.librdkafka.admin import elect_leader
from experiments.faults.core import OBSERVED_PARTITION, FaultContext, FaultKind, FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.core.evidence import leader_left
from experiments.ledger.record import FaultEvidence
from infra.cluster.replicas import reassign
from infra.errors import HarnessError
from infra.kafka.spec import PartitionState
from infra.process.waiting import wait_until

FAMILY: Final = "replication"
_PUT_BACK_TIMEOUT_S: Final = 60.0


class MovedParameters(FaultParameters):
    """Something is moved away, and back."""

    away_s: float = Field(
        default=3.0,
        gt=0,
        le=3600,
        description="how long it stays away before it is moved back, seconds",
    )
    patience_s: float = Field(
        default=20.0, gt=0, le=3600, description="how long the move may take, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when it is moved back, where the move took no time."""
        return self.at_s + self.away_s


class LeaderMovedParameters(MovedParameters):
    """Leadership is moved to a follower, and back."""

    def impossible_reason(self, shape: Topology) -> str | None:
        """There must be a follower."""
        return (
            "replication.factor 1 has no follower that could lead"
            if shape.replication_factor == 1
            else None
        )


class ReplicasMovedParameters(MovedParameters):
    """The leader's replica is moved to another node, or away; and back."""

    def impossible_reason(self, shape: Topology) -> str | None:
        """There must be another node."""
        return "one node has no other to move a replica to" if shape.nodes == 1 else None


def change_preferred_leader(context: FaultContext, parameters: MovedParameters) -> FaultEvidence:
    """Make a follower the preferred leader and elect it, later the first one again; it bit when the follower led."""
    context.until(parameters.at_s)
    before = context.partition()
    rotated = (*before.replicas[1:], before.replicas[0])
    order = rotated if rotated[0] != before.leader else (*rotated[1:], rotated[0])
    return _moved("preferred-leader-change", context, parameters, before, order)


def reassign_replicas(context: FaultContext, parameters: MovedParameters) -> FaultEvidence:
    """Move the leader's replica to another node, or where there is none, away; later back; it bit when another node led."""
    context.until(parameters.at_s)
    before = context.partition()
    return _moved(
        "reassignment",
        context,
        parameters,
        before,
        without_leader(before, context.cluster.node_ids()),
    )


def without_leader(before: PartitionState, nodes: Sequence[int]) -> tuple[int, ...]:
    """Return a partition's replicas with the leader's moved to a node that has none; where all have one, without it."""
    followers = tuple(node for node in before.replicas if node != before.leader)
    return (*followers, *[node for node in nodes if node not in before.replicas][:1])


def _moved(
    kind: str,
    context: FaultContext,
    parameters: MovedParameters,
    before: PartitionState,
    replicas: tuple[int, ...],
) -> FaultEvidence:
    leader = before.leader
    targets = tuple(dict.fromkeys([*before.replicas, *replicas]))
    with context.striking(*targets) as healing:
        healing.callback(_reassign_and_elect, context, before.replicas, _PUT_BACK_TIMEOUT_S)
        took_effect = leader is not None and _move(context, leader, replicas, parameters.patience_s)
        context.until(parameters.heals_at_s())
    context.saw(f"the replicas are {_in_order(before.replicas)} again, in this order")
    return FaultEvidence(
        kind=kind, targets=targets, took_effect=took_effect, evidence=tuple(context.facts)
    )


def _move(context: FaultContext, leader: int, replicas: tuple[int, ...], patience_s: float) -> bool:
    try:
        _reassign_and_elect(context, replicas, patience_s)
        moved = context.wait(
            lambda: leader_left(context, leader),
            awaiting=f"a leader other than node {leader}",
            timeout_s=patience_s,
        )
    except HarnessError as error:
        context.saw(f"the move had not come about: {error}")
        return False
    context.note("fault_effective", moved)
    context.saw(moved)
    return True


def _reassign_and_elect(context: FaultContext, replicas: tuple[int, ...], timeout_s: float) -> None:
    """Give the observed partition these replicas, wait until all of them are in sync, and have the first one lead.

    Raises:
        WaitTimeout: they were not, in time.
        HarnessError: Kafka refused.
    """
    asked_s = context.since_load_began_s()
    reassign(context.cluster.status(), context.topic, {OBSERVED_PARTITION: replicas}, timeout_s)
    wait_until(
        lambda: _stands(context, replicas),
        awaiting=f"the replicas {_in_order(replicas)} in sync",
        timeout_s=timeout_s,
    )
    needless = elect_leader(context.cluster.admin_servers, context.topic, OBSERVED_PARTITION)
    elected = (
        f"node {replicas[0]} was elected"
        if needless is None
        else f"node {replicas[0]} leads already"
    )
    context.saw(
        f"replicas {_in_order(replicas)}, in this order, took {context.since_load_began_s() - asked_s:.2f} s to be in sync; {elected}"
    )


def _in_order(replicas: Sequence[int]) -> str:
    return ", ".join(map(str, replicas))


def _stands(context: FaultContext, replicas: tuple[int, ...]) -> bool:
    """While replicas are moved the metadata tells the old ones too."""
    states = context.cluster.describe([context.topic]).of(context.topic)
    return (
        bool(states)
        and states[OBSERVED_PARTITION].replicas == replicas
        and set(states[OBSERVED_PARTITION].isr) == set(replicas)
    )


def _nature_of_moved(kind: str, parameters: MovedParameters, _shape: Topology) -> FaultEffects:
    away_ms = parameters.away_s * 1000
    within_ms = away_ms + parameters.patience_s * 1000
    return FaultEffects(
        kind=kind,
        moves_leader=True,
        may_affect_leader=True,
        heals_after_ms=away_ms,
        heals_within_ms=within_ms,
    )


KINDS: Final = (
    FaultKind(
        "preferred-leader-change",
        FAMILY,
        "a follower is made the preferred leader and elected, later the first one again",
        LeaderMovedParameters,
        change_preferred_leader,
        _nature_of_moved,
    ),
    FaultKind(
        "reassignment",
        FAMILY,
        "the leader's replica is moved to a node without one, or away where all have one; later back",
        ReplicasMovedParameters,
        reassign_replicas,
        _nature_of_moved,
    ),
)
