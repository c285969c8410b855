"""Target selectors: which nodes a fault affects, and how the cluster reacts to their failure.

Targets are resolved when the fault is injected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ackbench.experiments.trial.faults.core import OBSERVED_PARTITION, FaultContext, FaultMissed
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.core.evidence import (
    controller_changed,
    kept_controller,
    kept_leader,
    leader_changed,
    left_isr,
    no_broker_answers,
    no_controller,
    stayed_in_isr,
)
from ackbench.experiments.trial.faults.process.coordinators import GROUP, TRANSACTION, Coordinator
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.kafka.spec import ClusterState, PartitionState
from ackbench.infra.process.waiting import wait_until

_TARGET_TIMEOUT_S: Final = 2.0
"""Covers a controller that is being elected or does not answer for a moment."""


@dataclass(frozen=True)
class Targets:
    """The nodes that a fault affects, and the cluster as it was before."""

    nodes: tuple[int, ...]
    before: ClusterState
    partition: PartitionState
    """The observed partition before the fault."""


def _none(_topology: Topology) -> int:
    return 0


@dataclass(frozen=True)
class TargetSelector:
    """A way to choose the target nodes of a fault."""

    name: str
    """The first part of the fault's name: `leader` in `leader-crash`."""
    description: str
    """For summaries: `the leader`."""
    plural: bool
    """Whether the description is a plural."""
    select: Callable[[FaultContext, Targets, Any], tuple[int, ...]]
    """Returns the nodes, from the cluster as it is now and the fault's parameters; empty while
    there are none."""
    reaction: Callable[[FaultContext, Targets], str | None]
    """Returns how the cluster has reacted to their failure since the fault began; `None`: not
    yet."""
    no_reaction: Callable[[Targets], str]
    """Returns what to report if the cluster does not react."""
    count: Callable[[Topology], int]
    """Returns how many brokers they are."""
    may_lead: Callable[[Topology], bool]
    """Returns whether a leader of one of the topic's partitions may be among them."""
    includes_leader: bool
    """Whether the leader of the observed partition is certainly among them."""
    controllers: Callable[[Topology], int] = _none
    """Returns how many dedicated controllers they are."""
    is_coordinator: bool = False
    """Whether the target coordinates a group or transactions, and may have nothing to do with the
    observed partition."""

    def find(self, context: FaultContext, parameters: object) -> Targets:
        """Return the targets; wait a moment if there are none.

        Raises:
            FaultMissed: there are no targets.
        """
        partition = context.partition_with_leader()

        def probe() -> Targets | None:
            now = Targets((), context.cluster_state(), partition)
            nodes = self.select(context, now, parameters)
            return Targets(nodes, now.before, partition) if nodes else None

        try:
            return wait_until(probe, awaiting=self.description, timeout_s=_TARGET_TIMEOUT_S)
        except WaitTimeout as error:
            raise FaultMissed(
                f"found no target ({self.description}) within {_TARGET_TIMEOUT_S:g} s"
            ) from error


# Selection


def _leader(_context: FaultContext, now: Targets, _parameters: object) -> tuple[int, ...]:
    return (now.partition.leader,) if now.partition.leader is not None else ()


def _follower(_context: FaultContext, now: Targets, _parameters: object) -> tuple[int, ...]:
    """Return the first follower in the ISR."""
    return tuple(node for node in now.partition.isr if node != now.partition.leader)[:1]


def _controller(_context: FaultContext, now: Targets, _parameters: object) -> tuple[int, ...]:
    return (now.before.controller,) if now.before.controller is not None else ()


def _node(_context: FaultContext, _now: Targets, parameters: Any) -> tuple[int, ...]:
    return (parameters.node,)


def _majority(context: FaultContext, now: Targets, _parameters: object) -> tuple[int, ...]:
    """Return the observed partition's leader, then its other replicas, then other brokers."""
    ranked = dict.fromkeys(
        (*_leader(context, now, None), *now.partition.replicas, *now.before.brokers)
    )
    return tuple(ranked)[: len(now.before.brokers) // 2 + 1]


def _all(_context: FaultContext, now: Targets, _parameters: object) -> tuple[int, ...]:
    return now.before.brokers


# Reaction of the cluster


def _leader_reaction(context: FaultContext, targets: Targets) -> str | None:
    return leader_changed(context, targets.nodes[0])


def _follower_reaction(context: FaultContext, targets: Targets) -> str | None:
    return left_isr(context, targets.nodes[0])


def _controller_reaction(context: FaultContext, targets: Targets) -> str | None:
    return controller_changed(context, targets.before)


def _reaction_by_role(context: FaultContext, targets: Targets) -> str | None:
    """Return the reaction to the failure of a leader, a follower or the controller.

    What the targets were before the fault decides which.
    """
    for node in targets.nodes:
        reaction = None
        if node == targets.partition.leader:
            reaction = leader_changed(context, node)
        elif node in targets.partition.isr:
            reaction = left_isr(context, node)
        if reaction:
            return reaction
    if targets.before.controller in targets.nodes:
        return controller_changed(context, targets.before)
    return None


def _node_reaction(context: FaultContext, targets: Targets) -> str | None:
    """Return the reaction to the failure of any node.

    A broker without a replica of the observed partition, which is not the controller either, is
    missing from the live brokers. Of a node that is no broker only the supervisor reports anything.
    """
    (node,) = targets.nodes
    reaction = _reaction_by_role(context, targets)
    if reaction or node in context.cluster.node_ids():
        return reaction or no_controller(context) or _left_live_brokers(context, node)
    state = context.process_state(node)
    if state == "running":
        return None
    return (
        f"node {node}, which is no broker, was {state}"
        f" {context.elapsed_s():.2f} s after the fault began"
    )


def _left_live_brokers(context: FaultContext, node: int) -> str | None:
    if node in context.cluster_state().brokers:
        return None
    return (
        f"node {node} was not among the live brokers"
        f" {context.elapsed_s():.2f} s after the fault began"
    )


def _majority_reaction(context: FaultContext, targets: Targets) -> str | None:
    """Return the reaction to the failure of a majority.

    If nodes are broker and controller in one, the rest has no quorum: the missing controller is
    then the only change that can be observed.
    """
    return _reaction_by_role(context, targets) or no_controller(context)


def _all_reaction(context: FaultContext, _targets: Targets) -> str | None:
    return no_broker_answers(context)


def _no_change(_targets: Targets) -> str:
    return "neither leader nor ISR nor controller changed"


# Selectors


def _one(_topology: Topology) -> int:
    return 1


def _always(_topology: Topology) -> bool:
    return True


LEADER: Final = TargetSelector(
    "leader",
    "the leader",
    plural=False,
    select=_leader,
    reaction=_leader_reaction,
    no_reaction=lambda targets: kept_leader(targets.nodes[0]),
    count=_one,
    may_lead=_always,
    includes_leader=True,
)
FOLLOWER: Final = TargetSelector(
    "follower",
    "a follower",
    plural=False,
    select=_follower,
    reaction=_follower_reaction,
    no_reaction=lambda targets: stayed_in_isr(targets.nodes[0]),
    count=_one,
    may_lead=lambda topology: topology.partitions > OBSERVED_PARTITION + 1,
    includes_leader=False,
)
CONTROLLER: Final = TargetSelector(
    "controller",
    "the active controller",
    plural=False,
    select=_controller,
    reaction=_controller_reaction,
    no_reaction=lambda targets: kept_controller(targets.before),
    count=lambda topology: 0 if topology.dedicated_controllers else 1,
    may_lead=lambda topology: topology.dedicated_controllers == 0,
    includes_leader=False,
    controllers=lambda topology: 1 if topology.dedicated_controllers else 0,
)
NODE: Final = TargetSelector(
    "node",
    "a chosen node",
    plural=False,
    select=_node,
    reaction=_node_reaction,
    no_reaction=_no_change,
    count=_one,
    may_lead=_always,
    includes_leader=False,
    controllers=lambda topology: 1 if topology.dedicated_controllers else 0,
)
MAJORITY: Final = TargetSelector(
    "majority",
    "a majority of the brokers, including the leader,",
    plural=True,
    select=_majority,
    reaction=_majority_reaction,
    no_reaction=_no_change,
    count=lambda topology: topology.majority,
    may_lead=_always,
    includes_leader=True,
)
ALL: Final = TargetSelector(
    "all",
    "all brokers",
    plural=True,
    select=_all,
    reaction=_all_reaction,
    no_reaction=lambda _targets: "brokers kept answering",
    count=lambda topology: topology.nodes,
    may_lead=_always,
    includes_leader=True,
)


def _coordinator(name: str, description: str, coordinator: Coordinator) -> TargetSelector:
    def select(context: FaultContext, _now: Targets, _parameters: object) -> tuple[int, ...]:
        node = coordinator.leader(context)
        return () if node is None else (node,)

    return TargetSelector(
        name,
        description,
        plural=False,
        select=select,
        reaction=lambda context, targets: coordinator.change(context, targets.nodes[0]),
        no_reaction=lambda targets: f"node {targets.nodes[0]} stayed the coordinator",
        count=_one,
        may_lead=_always,
        includes_leader=False,
        is_coordinator=True,
    )


TRANSACTION_COORDINATOR: Final = _coordinator(
    "coordinator", "the transaction coordinator of producer 0", TRANSACTION
)
GROUP_COORDINATOR: Final = _coordinator(
    "group-coordinator", "the coordinator of the first consumer group", GROUP
)

ALL_TARGETS: Final = (
    LEADER,
    FOLLOWER,
    CONTROLLER,
    NODE,
    MAJORITY,
    ALL,
    TRANSACTION_COORDINATOR,
    GROUP_COORDINATOR,
)
