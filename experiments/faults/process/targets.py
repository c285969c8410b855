"""Whom a fault strikes: found when it strikes, seen to be missed by the cluster afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from experiments.faults.core import OBSERVED_PARTITION, FaultContext, FaultMissed
from experiments.faults.core.effects import Topology
from experiments.faults.core.evidence import (
    controller_moved,
    isr_shrank,
    leader_left,
    no_controller,
    nobody_answers,
)
from infra.errors import WaitTimeout
from infra.kafka.spec import ClusterState, PartitionState
from infra.process.waiting import wait_until

FOUND_WITHIN_S: Final = 2.0


@dataclass(frozen=True)
class Targets:
    """The struck nodes, and the cluster as it was before."""

    nodes: tuple[int, ...]
    before: ClusterState
    partition: PartitionState
    """The observed one."""


@dataclass(frozen=True)
class TargetSelector:
    """A way to choose targets."""

    name: str
    words: str
    """For a summary: `the leader`."""
    action: str
    """`is` or `are`."""
    chosen: Callable[[Targets, Any], tuple[int, ...]]
    """The nodes, from the cluster as it is now and the fault's parameters."""
    missed: Callable[[FaultContext, Targets], str | None]
    """When the cluster was seen to miss them after the fault began; `None`: not so far."""
    count: Callable[[Topology], int]
    """How many nodes that are."""
    leads: Callable[[Topology], bool]
    """Whether a node that leads one of the topic's partitions may be among them."""
    has_leader: bool
    """Whether the leader of the observed partition certainly is."""

    def find(self, context: FaultContext, parameters: object) -> Targets:
        """Return the targets of now; a moment's lack is waited for, as when the controller did not answer or is being elected.

        Raises:
            Missed: there are none.
        """
        partition = context.partition()

        def found() -> Targets | None:
            now = Targets((), context.state(), partition)
            nodes = self.chosen(now, parameters)
            return Targets(nodes, now.before, partition) if nodes else None

        try:
            return wait_until(found, awaiting=self.words, timeout_s=FOUND_WITHIN_S)
        except WaitTimeout as error:
            raise FaultMissed(f"there is no such node as {self.words}") from error


def _leader(now: Targets, _parameters: object) -> tuple[int, ...]:
    return (now.partition.leader,) if now.partition.leader is not None else ()


def _follower(now: Targets, _parameters: object) -> tuple[int, ...]:
    """The first one in the ISR."""
    return tuple(node for node in now.partition.isr if node != now.partition.leader)[:1]


def _controller(now: Targets, _parameters: object) -> tuple[int, ...]:
    return (now.before.controller,) if now.before.controller is not None else ()


def _node(_now: Targets, parameters: Any) -> tuple[int, ...]:
    return (parameters.node,)


def _majority(now: Targets, _parameters: object) -> tuple[int, ...]:
    """The observed partition's leader, then its other replicas, then the other brokers."""
    ranked = dict.fromkeys((*_leader(now, None), *now.partition.replicas, *now.before.brokers))
    return tuple(ranked)[: len(now.before.brokers) // 2 + 1]


def _all(now: Targets, _parameters: object) -> tuple[int, ...]:
    return now.before.brokers


def _leader_is_missed(context: FaultContext, struck: Targets) -> str | None:
    return leader_left(context, struck.nodes[0])


def _follower_is_missed(context: FaultContext, struck: Targets) -> str | None:
    return isr_shrank(context, struck.nodes[0])


def _controller_is_missed(context: FaultContext, struck: Targets) -> str | None:
    return controller_moved(context, struck.before)


def _any_is_missed(context: FaultContext, struck: Targets) -> str | None:
    """As leader, as follower or as controller, whatever they were."""
    for node in struck.nodes:
        seen = (
            leader_left(context, node)
            if node == struck.partition.leader
            else isr_shrank(context, node)
            if node in struck.partition.isr
            else None
        )
        if seen:
            return seen
    return (
        controller_moved(context, struck.before)
        if struck.before.controller in struck.nodes
        else None
    )


def _node_is_missed(context: FaultContext, struck: Targets) -> str | None:
    """One that holds no replica and is no controller is missed among the live brokers; one that is no broker, by whoever asks it."""
    seen = _any_is_missed(context, struck)
    if seen or struck.nodes[0] in context.cluster.node_ids():
        return seen or no_controller(context) or _left_the_brokers(context, struck.nodes[0])
    state = context.state_of(struck.nodes[0])
    return (
        None
        if state == "running"
        else f"node {struck.nodes[0]}, which is no broker, was {state} {context.since_begin_s():.2f} s after the fault began"
    )


def _majority_is_missed(context: FaultContext, struck: Targets) -> str | None:
    """Combined nodes that are left have no quorum, and so can tell of no change at all but that."""
    return _any_is_missed(context, struck) or no_controller(context)


def _all_are_missed(context: FaultContext, _struck: Targets) -> str | None:
    return nobody_answers(context)


def _left_the_brokers(context: FaultContext, node: int) -> str | None:
    alive = context.state().brokers
    return (
        None
        if node in alive
        else f"node {node} had left the live brokers {context.since_begin_s():.2f} s after the fault began"
    )


def _one(_shape: Topology) -> int:
    return 1


def _always(_shape: Topology) -> bool:
    return True


LEADER: Final = TargetSelector(
    "leader", "the leader", "is", _leader, _leader_is_missed, _one, _always, has_leader=True
)
FOLLOWER: Final = TargetSelector(
    "follower",
    "a follower",
    "is",
    _follower,
    _follower_is_missed,
    _one,
    lambda shape: shape.partitions > OBSERVED_PARTITION + 1,
    has_leader=False,
)
CONTROLLER: Final = TargetSelector(
    "controller",
    "the active controller",
    "is",
    _controller,
    _controller_is_missed,
    _one,
    _always,
    has_leader=False,
)
NODE: Final = TargetSelector(
    "node", "a chosen node", "is", _node, _node_is_missed, _one, _always, has_leader=False
)
MAJORITY: Final = TargetSelector(
    "majority",
    "a majority of the nodes, the leader among them,",
    "are",
    _majority,
    _majority_is_missed,
    lambda shape: shape.majority,
    _always,
    has_leader=True,
)
ALL: Final = TargetSelector(
    "all",
    "all nodes",
    "are",
    _all,
    _all_are_missed,
    lambda shape: shape.nodes,
    _always,
    has_leader=True,
)

ALL_TARGETS: Final = (LEADER, FOLLOWER, CONTROLLER, NODE, MAJORITY, ALL)
