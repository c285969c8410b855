"""Faults of the network between nodes: one, or a minority, is cut off from the others. The clients reach them all, unless told otherwise.

The packets are dropped by the kernel, so nobody is told that a connection has ended (nftables, in the node's own namespace).
What an old leader acknowledges meanwhile: KIP-101; who can elect a new one: KIP-595.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from experiments.faults.core import FaultContext, FaultKind, FaultMissed
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.core.evidence import controller_moved, isr_shrank, leader_left
from experiments.faults.core.kind import with_timed_out_requests
from experiments.faults.network.impairment import ImpairmentParameters, PartitionParameters, impair
from experiments.ledger.record import FaultEvidence
from infra.cluster.capabilities import Capability
from infra.kafka.spec import NetworkKind
from infra.network.impairment import PacketDrop

FAMILY: Final = "network"
NETWORK: Final[NetworkKind] = "namespaces"
NEEDS: Final = frozenset({Capability.NAMESPACES})
_SMALLEST_PARTED: Final = 3


class SplitParameters(PartitionParameters):
    """The leader is on the side of the minority."""

    clients: Literal["both", "majority", "minority"] = Field(
        default="both", description="which side the clients reach: both, majority or minority"
    )

    def impossible_reason(self, shape: Topology) -> str | None:
        """A minority that is not empty needs three nodes."""
        return (
            None
            if shape.nodes >= _SMALLEST_PARTED
            else f"of {shape.nodes} nodes none can be parted from a majority; allowed: 3 nodes or more"
        )


class FollowerParameters(PartitionParameters):
    """A follower is cut off."""

    def impossible_reason(self, shape: Topology) -> str | None:
        """There must be one."""
        alone = (
            None
            if shape.replication_factor > 1
            else "with replication factor 1 there is no follower; allowed: 2 or more"
        )
        return super().impossible_reason(shape) or alone


class OneWayParameters(PartitionParameters):
    """Packets are dropped one way only."""

    direction: Literal["in", "out"] = Field(
        default="in",
        description="in: the leader hears nothing of the other nodes; out: they hear nothing of it",
    )


def isolate_leader(context: FaultContext, parameters: PartitionParameters) -> FaultEvidence:
    """Cut the leader of the observed partition off from all other nodes; it bit when packets were dropped and another node led, or none."""
    context.until(parameters.at_s)
    leader = context.leader()
    return impair(
        "leader-isolated",
        context,
        parameters,
        [PacketDrop(leader, others(context, leader))],
        lambda: leader_left(context, leader),
    )


def isolate_follower(context: FaultContext, parameters: FollowerParameters) -> FaultEvidence:
    """Cut a follower of the observed partition off; it bit when packets were dropped and it left the ISR."""
    context.until(parameters.at_s)
    partition = context.partition()
    follower = next((node for node in partition.isr if node != partition.leader), None)
    if follower is None:
        raise FaultMissed("the partition has no follower in its ISR")
    return impair(
        "follower-isolated",
        context,
        parameters,
        [PacketDrop(follower, others(context, follower))],
        lambda: isr_shrank(context, follower),
    )


def isolate_controller(context: FaultContext, parameters: PartitionParameters) -> FaultEvidence:
    """Cut the active controller off; it bit when packets were dropped and another one took over."""
    context.until(parameters.at_s)
    before = context.cluster.describe([context.topic])
    if before.controller is None:
        raise FaultMissed("no active controller could be found")
    cut = PacketDrop(before.controller, others(context, before.controller))
    return impair(
        "controller-isolated", context, parameters, [cut], lambda: controller_moved(context, before)
    )


def split_majority(context: FaultContext, parameters: SplitParameters) -> FaultEvidence:
    """Part the leader, with as many others as a minority can be, from the rest."""
    context.until(parameters.at_s)
    leader = context.leader()
    minority, majority = sides(context, leader)
    context.saw(f"nodes {_named(minority)} were parted from nodes {_named(majority)}")
    cuts = [PacketDrop(node, majority) for node in minority]
    unreached = {"both": (), "majority": minority, "minority": majority}[parameters.clients]
    cuts += [PacketDrop(node, clients=True) for node in unreached if node in context.cluster.node_ids()]
    return impair("split-majority", context, parameters, cuts, lambda: leader_left(context, leader))


def cut_one_way(context: FaultContext, parameters: OneWayParameters) -> FaultEvidence:
    """Drop what the leader sends to the other nodes, or what they send to it. TCP needs both ways, so each stops both before long."""
    context.until(parameters.at_s)
    leader = context.leader()
    cut = PacketDrop(
        leader,
        others(context, leader),
        incoming=parameters.direction == "in",
        outgoing=parameters.direction == "out",
    )
    return impair("one-way-cut", context, parameters, [cut], lambda: leader_left(context, leader))


def others(context: FaultContext, node: int) -> tuple[int, ...]:
    """Return all members of the cluster but one."""
    return tuple(status.node_id for status in context.cluster.status() if status.node_id != node)


def sides(context: FaultContext, leader: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the minority with the leader, and the majority; where controllers are nodes of their own, of each kind as many."""
    brokers = (leader, *(node for node in context.cluster.node_ids() if node != leader))
    beside = tuple(
        status.node_id for status in context.cluster.status() if status.node_id not in brokers
    )
    minority = tuple(node for kind in (brokers, beside) for node in kind[: (len(kind) - 1) // 2])
    return minority, tuple(node for node in (*brokers, *beside) if node not in minority)


def _named(nodes: tuple[int, ...]) -> str:
    return ", ".join(map(str, nodes))


def _nature(kind: str, parameters: PartitionParameters, _shape: Topology) -> FaultEffects:
    """The node may lead any partition; also the active controller may."""
    heals_ms = parameters.lasts_s * 1000
    return FaultEffects(
        kind=kind,
        nodes_isolated=1,
        may_affect_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + parameters.patience_s * 1000,
    )


def _nature_of_follower(
    kind: str, parameters: PartitionParameters, shape: Topology
) -> FaultEffects:
    """A follower of partition 0; with more partitions it may lead another one."""
    return _nature(kind, parameters, shape).model_copy(
        update={"may_affect_leader": shape.partitions > 1}
    )


def _nature_of_split(kind: str, parameters: SplitParameters, shape: Topology) -> FaultEffects:
    unreached = parameters.clients != "both"
    holds_ms = (parameters.lasts_s + parameters.patience_s) * 1000 if unreached else 0
    update = {
        "nodes_isolated": shape.nodes - shape.majority,
        "clients_cut_off": unreached,
        "requests_held_ms": holds_ms,
    }
    return _nature(kind, parameters, shape).model_copy(update=update)


_BETWEEN_NODES: Final = (
    FaultKind(
        "leader-isolated",
        FAMILY,
        "the leader is cut off from all other nodes; the clients still reach it",
        PartitionParameters,
        isolate_leader,
        _nature,
        NEEDS,
        NETWORK,
    ),
    FaultKind(
        "follower-isolated",
        FAMILY,
        "a follower is cut off from all other nodes",
        FollowerParameters,
        isolate_follower,
        _nature_of_follower,
        NEEDS,
        NETWORK,
    ),
    FaultKind(
        "controller-isolated",
        FAMILY,
        "the active controller is cut off from all other nodes",
        PartitionParameters,
        isolate_controller,
        _nature,
        NEEDS,
        NETWORK,
    ),
    FaultKind(
        "split-majority",
        FAMILY,
        "the leader, with as many others as a minority can be, is parted from the majority",
        SplitParameters,
        split_majority,
        _nature_of_split,
        NEEDS,
        NETWORK,
    ),
    FaultKind(
        "one-way-cut",
        FAMILY,
        "the leader hears nothing of the other nodes, or they hear nothing of it",
        OneWayParameters,
        cut_one_way,
        _nature,
        NEEDS,
        NETWORK,
    ),
)


# ---------- Faults of the network between the clients and the nodes, which are well: packets of the client listeners are dropped by the kernel.
#
# The harness looks at the nodes through another listener (`infra.cluster.metadata_poller`), and sees all of it.


class SilenceParameters(ImpairmentParameters):
    """Nothing comes through, and nobody is told."""

    def unnoticed_reason(self, client_timeout_s: float, acks: str) -> str | None:
        """One that is no longer than the client waits is repaired by TCP; with acks=0 nobody waits, and what is asked is another thing."""
        if acks == "0" or self.lasts_s > client_timeout_s:
            return None
        waits = f"the client waits {client_timeout_s * 1000:g} ms for an answer (socket.timeout.ms; java: request.timeout.ms)"
        return f"lasts_s is {self.lasts_s:g} and {waits}; allowed: a longer cut"


class ClientCutParameters(SilenceParameters):
    """Clients are cut off."""

    nodes: Literal["all", "leader"] = Field(
        default="all", description="from whom the clients are cut off: all or leader"
    )


def isolate_clients(context: FaultContext, parameters: ClientCutParameters) -> FaultEvidence:
    """Cut the clients off from all nodes, or from the leader alone; it bit when packets were dropped and requests timed out."""
    context.until(parameters.at_s)
    nodes = context.cluster.node_ids() if parameters.nodes == "all" else (context.leader(),)
    return impair(
        "client-isolated", context, parameters, [PacketDrop(node, clients=True) for node in nodes]
    )


def drop_responses(context: FaultContext, parameters: SilenceParameters) -> FaultEvidence:
    """Drop what the leader answers its clients: the batch is appended, and its producer never hears of it."""
    context.until(parameters.at_s)
    return impair(
        "responses-dropped",
        context,
        parameters,
        [PacketDrop(context.leader(), clients=True, incoming=False)],
    )


def _nature_of_client_cut(
    kind: str, parameters: SilenceParameters, _shape: Topology
) -> FaultEffects:
    """The nodes are well. What the clients had sent waits in the kernel, and arrives at the heal, wanted or not."""
    lasts_ms = parameters.lasts_s * 1000
    return FaultEffects(
        kind=kind,
        clients_cut_off=True,
        requests_held_ms=lasts_ms,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


def _nature_of_lost_answers(
    kind: str, parameters: SilenceParameters, shape: Topology
) -> FaultEffects:
    return _nature_of_client_cut(kind, parameters, shape).model_copy(
        update={"responses_lost": True}
    )


_TO_CLIENTS: Final = (
    FaultKind(
        "client-isolated",
        FAMILY,
        "the clients are cut off from all nodes, or from the leader",
        ClientCutParameters,
        isolate_clients,
        _nature_of_client_cut,
        NEEDS,
        NETWORK,
        confirm=with_timed_out_requests,
    ),
    FaultKind(
        "responses-dropped",
        FAMILY,
        "what the leader answers its clients is dropped: the batch is stored, and the producer never hears of it",
        SilenceParameters,
        drop_responses,
        _nature_of_lost_answers,
        NEEDS,
        NETWORK,
        confirm=with_timed_out_requests,
    ),
)

KINDS: Final = (*_BETWEEN_NODES, *_TO_CLIENTS)
