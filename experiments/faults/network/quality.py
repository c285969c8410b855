"""Faults of a network that is there, and bad: too narrow, too far, or losing packets. At the leader; the harness's own traffic is left alone."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from experiments.faults.core import FaultContext, FaultKind
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.network.impairment import ImpairmentParameters, impair
from experiments.faults.network.isolation import FAMILY, NEEDS, NETWORK, others
from experiments.ledger.record import FaultEvidence
from infra.cluster.capabilities import Capability
from infra.network.impairment import PacketDrop, TrafficShaping


class BandwidthParameters(ImpairmentParameters):
    """What the leader sends is limited."""

    rate_kbit_per_s: int = Field(
        default=2000,
        ge=8,
        le=10_000_000,
        description="what the leader may send to nodes and clients together, kbit/s",
    )


class DelayParameters(ImpairmentParameters):
    """What the leader sends is late."""

    delay_ms: float = Field(
        default=200.0, gt=0, le=60_000, description="how late each packet of the leader is sent, ms"
    )
    jitter_ms: float = Field(
        default=20.0, ge=0, le=60_000, description="by how much that varies either way, ms"
    )


class PacketLossParameters(ImpairmentParameters):
    """Packets of the leader are lost by chance."""

    loss_percent: float = Field(
        default=10.0,
        ge=0.01,
        le=100,
        description="share of the packets to and from the leader that are dropped, percent",
    )


def limit_bandwidth(context: FaultContext, parameters: BandwidthParameters) -> FaultEvidence:
    """Limit what the leader sends; it bit when packets had to wait for the limit."""
    context.until(parameters.at_s)
    leader = context.leader()
    shaping = TrafficShaping(leader, others(context, leader), rate_kbit_per_s=parameters.rate_kbit_per_s)
    return impair("bandwidth-limited", context, parameters, [shaping])


def delay(context: FaultContext, parameters: DelayParameters) -> FaultEvidence:
    """Send the leader's packets late; it bit when there were any."""
    context.until(parameters.at_s)
    leader = context.leader()
    shaping = TrafficShaping(
        leader,
        others(context, leader),
        delay_ms=parameters.delay_ms,
        jitter_ms=parameters.jitter_ms,
    )
    return impair("delay", context, parameters, [shaping])


def lose_packets(context: FaultContext, parameters: PacketLossParameters) -> FaultEvidence:
    """Drop packets to and from the leader by chance, its clients' among them; it bit when any were."""
    context.until(parameters.at_s)
    leader = context.leader()
    return impair(
        "packet-loss",
        context,
        parameters,
        [PacketDrop(leader, others(context, leader), clients=True, share=parameters.loss_percent / 100)],
    )


def _nature(kind: str, parameters: ImpairmentParameters, _shape: Topology) -> FaultEffects:
    """At the worst nothing comes through in time: the leader may be taken for dead, and its clients may give up."""
    lasts_ms = parameters.lasts_s * 1000
    return FaultEffects(
        kind=kind,
        nodes_isolated=1,
        clients_cut_off=True,
        requests_held_ms=lasts_ms,
        may_affect_leader=True,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


KINDS: Final = (
    FaultKind(
        "bandwidth-limited",
        FAMILY,
        "what the leader sends to nodes and clients is limited to a rate",
        BandwidthParameters,
        limit_bandwidth,
        _nature,
        NEEDS | {Capability.SHAPING},
        NETWORK,
    ),
    FaultKind(
        "delay",
        FAMILY,
        "what the leader sends to nodes and clients is sent late",
        DelayParameters,
        delay,
        _nature,
        NEEDS | {Capability.NETEM},
        NETWORK,
    ),
    FaultKind(
        "packet-loss",
        FAMILY,
        "packets of the leader, to and from nodes and clients, are dropped by chance",
        PacketLossParameters,
        lose_packets,
        _nature,
        NEEDS,
        NETWORK,
    ),
)
