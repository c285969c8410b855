"""Faults that isolate nodes from each other, or the clients from nodes.

The kernel drops the packets (nftables, in the node's network namespace), so no connection is closed
and no process gets an error. What an isolated leader still acknowledges: KIP-101. Who can elect a
new leader: KIP-595. The metadata poller uses another listener
(`infra.cluster.metadata_poller`), so it observes the cluster throughout.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind, FaultMissed
from ackbench.experiments.trial.faults.core.context import format_nodes
from ackbench.experiments.trial.faults.core.effects import (
    FaultEffects,
    Topology,
    no_follower_reason,
)
from ackbench.experiments.trial.faults.core.evidence import (
    controller_changed,
    kept_controller,
    kept_leader,
    leader_changed,
    left_isr,
    stayed_in_isr,
)
from ackbench.experiments.trial.faults.core.kind import require_timed_out_requests, too_short_reason
from ackbench.experiments.trial.faults.network.impairment import (
    ImpairmentParameters,
    PartitionParameters,
    impair,
)
from ackbench.infra.cluster.capabilities import Capability
from ackbench.infra.kafka.spec import NetworkKind
from ackbench.infra.network.impairment import PacketDrop

FAMILY: Final = "network"
NETWORK: Final[NetworkKind] = "namespaces"
REQUIRED: Final = frozenset({Capability.NAMESPACES})
_MIN_NODES_WITH_MINORITY: Final = 3


# Nodes isolated from nodes; the clients reach all of them, unless parameters change that


class SplitParameters(PartitionParameters):
    """The leader is on the minority's side."""

    clients: Literal["both", "majority", "minority"] = Field(
        default="both", description="which side the clients reach: both, majority or minority"
    )

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse clusters of one or two nodes, which have no minority."""
        if topology.nodes >= _MIN_NODES_WITH_MINORITY:
            return None
        return f"{topology.nodes} nodes have no minority to isolate; allowed: 3 nodes or more"


class FollowerParameters(PartitionParameters):
    """A follower is isolated."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse topics without followers."""
        return super().impossible_reason(topology) or no_follower_reason(topology)


class OneWayParameters(PartitionParameters):
    """Packets are dropped in one direction only."""

    direction: Literal["in", "out"] = Field(
        default="in",
        description="in: the leader receives nothing from the other nodes;"
        " out: they receive nothing from it",
    )


def isolate_leader(context: FaultContext, parameters: PartitionParameters) -> FaultEvidence:
    """Isolate the leader of the observed partition from all other nodes.

    It took effect if packets were dropped and the partition had another leader, or none.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    return impair(
        context,
        parameters,
        [PacketDrop(leader, other_nodes(context, leader))],
        (lambda: leader_changed(context, leader), kept_leader(leader)),
    )


def isolate_follower(context: FaultContext, parameters: FollowerParameters) -> FaultEvidence:
    """Isolate a follower of the observed partition.

    It took effect if packets were dropped and the follower left the ISR.
    """
    context.sleep_until(parameters.at_s)
    partition = context.partition_with_leader()
    follower = next((node for node in partition.isr if node != partition.leader), None)
    if follower is None:
        raise FaultMissed("the partition had no follower in its ISR")
    return impair(
        context,
        parameters,
        [PacketDrop(follower, other_nodes(context, follower))],
        (lambda: left_isr(context, follower), stayed_in_isr(follower)),
    )


def isolate_controller(context: FaultContext, parameters: PartitionParameters) -> FaultEvidence:
    """Isolate the active controller.

    It took effect if packets were dropped and another controller took over.
    """
    context.sleep_until(parameters.at_s)
    before = context.cluster.describe([context.topic])
    if before.controller is None:
        raise FaultMissed("the cluster had no active controller")
    return impair(
        context,
        parameters,
        [PacketDrop(before.controller, other_nodes(context, before.controller))],
        (lambda: controller_changed(context, before), kept_controller(before)),
    )


def split_majority(context: FaultContext, parameters: SplitParameters) -> FaultEvidence:
    """Isolate the leader, with the largest possible minority, from the majority.

    It took effect if packets were dropped and the partition had another leader, or none.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    minority, majority = _sides(context, leader)
    context.add_evidence(f"{format_nodes(minority)} isolated from {format_nodes(majority)}")
    drops = [PacketDrop(node, majority) for node in minority]
    unreached = {"both": (), "majority": minority, "minority": majority}[parameters.clients]
    brokers = context.cluster.node_ids()
    drops += [PacketDrop(node, clients=True) for node in unreached if node in brokers]
    return impair(
        context, parameters, drops, (lambda: leader_changed(context, leader), kept_leader(leader))
    )


def drop_one_way(context: FaultContext, parameters: OneWayParameters) -> FaultEvidence:
    """Drop what the leader sends to the other nodes, or what they send to it.

    TCP needs both directions, so either stops both before long. It took effect as `isolate_leader`
    does.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    drop = PacketDrop(
        leader,
        other_nodes(context, leader),
        incoming=parameters.direction == "in",
        outgoing=parameters.direction == "out",
    )
    return impair(
        context, parameters, [drop], (lambda: leader_changed(context, leader), kept_leader(leader))
    )


def other_nodes(context: FaultContext, node: int) -> tuple[int, ...]:
    """Return all nodes of the cluster but one."""
    return tuple(status.node_id for status in context.cluster.status() if status.node_id != node)


def _sides(context: FaultContext, leader: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the minority, with the leader, and the majority.

    Separate controllers are divided in the same way.
    """
    brokers = (leader, *(node for node in context.cluster.node_ids() if node != leader))
    separate = tuple(
        status.node_id for status in context.cluster.status() if status.node_id not in brokers
    )
    minority = tuple(
        node for nodes in (brokers, separate) for node in nodes[: (len(nodes) - 1) // 2]
    )
    return minority, tuple(node for node in (*brokers, *separate) if node not in minority)


def _isolation_effects(parameters: PartitionParameters, _topology: Topology) -> FaultEffects:
    """Return the effects. The node may lead any partition, or be the active controller."""
    heals_ms = parameters.lasts_s * 1000
    return FaultEffects(
        nodes_isolated=1,
        may_affect_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + parameters.patience_s * 1000,
    )


def _follower_effects(parameters: PartitionParameters, topology: Topology) -> FaultEffects:
    """Return the effects. A follower of partition 0 may lead another partition, if there is one."""
    return _isolation_effects(parameters, topology).model_copy(
        update={"may_affect_leader": topology.partitions > 1}
    )


def _controller_effects(parameters: PartitionParameters, topology: Topology) -> FaultEffects:
    """Return the effects. A dedicated controller leads no partition."""
    effects = _isolation_effects(parameters, topology)
    if not topology.dedicated_controllers:
        return effects
    return effects.model_copy(
        update={"nodes_isolated": 0, "controllers_failed": 1, "may_affect_leader": False}
    )


def _split_effects(parameters: SplitParameters, topology: Topology) -> FaultEffects:
    clients_cut_off = parameters.clients != "both"
    longest_ms = (parameters.lasts_s + parameters.patience_s) * 1000
    return _isolation_effects(parameters, topology).model_copy(
        update={
            "nodes_isolated": topology.nodes - topology.majority,
            "controllers_failed": max(0, (topology.dedicated_controllers - 1) // 2),
            "clients_cut_off": clients_cut_off,
            "requests_held_ms": longest_ms if clients_cut_off else 0,
        }
    )


# Clients isolated from nodes: packets of the client listeners are dropped


class SilenceParameters(ImpairmentParameters):
    """No traffic gets through, and no connection is closed."""

    def unnoticed_reason(self, client_timeout_s: float, acks: str) -> str | None:
        """Refuse a cut that is not longer than the client's timeout."""
        return too_short_reason("cut", "lasts_s", self.lasts_s, client_timeout_s, acks)


class ClientCutParameters(SilenceParameters):
    """Clients are isolated from nodes."""

    nodes: Literal["all", "leader"] = Field(
        default="all", description="the nodes that clients are isolated from: all or leader"
    )


def isolate_clients(context: FaultContext, parameters: ClientCutParameters) -> FaultEvidence:
    """Isolate the clients from all nodes, or from the leader.

    It took effect if packets were dropped and requests timed out.
    """
    context.sleep_until(parameters.at_s)
    nodes = context.cluster.node_ids() if parameters.nodes == "all" else (context.leader(),)
    return impair(context, parameters, [PacketDrop(node, clients=True) for node in nodes])


def drop_responses(context: FaultContext, parameters: SilenceParameters) -> FaultEvidence:
    """Drop the leader's responses to its clients.

    The leader appends a batch, and the producer never learns of it. The fault took effect if
    packets were dropped and requests timed out.
    """
    context.sleep_until(parameters.at_s)
    return impair(context, parameters, [PacketDrop(context.leader(), clients=True, incoming=False)])


def _client_isolation_effects(parameters: SilenceParameters, _topology: Topology) -> FaultEffects:
    """Return the effects: nodes are not affected.

    What the clients had sent is held in the kernel, and delivered at the heal whether the client
    still waits for it or not.
    """
    lasts_ms = parameters.lasts_s * 1000
    return FaultEffects(
        clients_cut_off=True,
        requests_held_ms=lasts_ms,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


def _dropped_response_effects(parameters: SilenceParameters, topology: Topology) -> FaultEffects:
    return _client_isolation_effects(parameters, topology).model_copy(
        update={"responses_lost": True}
    )


KINDS: Final = (
    FaultKind(
        "leader-isolated",
        FAMILY,
        "the leader is isolated from all other nodes; the clients still reach it",
        PartitionParameters,
        isolate_leader,
        _isolation_effects,
        REQUIRED,
        NETWORK,
    ),
    FaultKind(
        "follower-isolated",
        FAMILY,
        "a follower is isolated from all other nodes; the clients still reach it",
        FollowerParameters,
        isolate_follower,
        _follower_effects,
        REQUIRED,
        NETWORK,
    ),
    FaultKind(
        "controller-isolated",
        FAMILY,
        "the active controller is isolated from all other nodes; the clients still reach it",
        PartitionParameters,
        isolate_controller,
        _controller_effects,
        REQUIRED,
        NETWORK,
    ),
    FaultKind(
        "split-majority",
        FAMILY,
        "the leader, with the largest possible minority, is isolated from the majority",
        SplitParameters,
        split_majority,
        _split_effects,
        REQUIRED,
        NETWORK,
    ),
    FaultKind(
        "one-way-cut",
        FAMILY,
        "packets between the leader and the other nodes are dropped in one direction",
        OneWayParameters,
        drop_one_way,
        _isolation_effects,
        REQUIRED,
        NETWORK,
    ),
    FaultKind(
        "client-isolated",
        FAMILY,
        "the clients are isolated from all nodes, or from the leader",
        ClientCutParameters,
        isolate_clients,
        _client_isolation_effects,
        REQUIRED,
        NETWORK,
        confirm=require_timed_out_requests,
    ),
    FaultKind(
        "responses-dropped",
        FAMILY,
        "the leader's responses to its clients are dropped:"
        " it appends the batch, and the producer gets no acknowledgement",
        SilenceParameters,
        drop_responses,
        _dropped_response_effects,
        REQUIRED,
        NETWORK,
        confirm=require_timed_out_requests,
    ),
)
