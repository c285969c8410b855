"""Faults of a degraded network: limited bandwidth, delay, packet loss.

They affect the leader's traffic with other nodes and clients; ackbench's own traffic is exempt.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.network.impairment import ImpairmentParameters, impair
from ackbench.experiments.trial.faults.network.isolation import (
    FAMILY,
    NETWORK,
    REQUIRED,
    other_nodes,
)
from ackbench.infra.cluster.capabilities import Capability
from ackbench.infra.network.impairment import PacketDrop, TrafficShaping


class BandwidthParameters(ImpairmentParameters):
    """The leader's bandwidth is limited."""

    rate_kbit_per_s: int = Field(
        default=2000,
        ge=8,
        le=10_000_000,
        description="how much the leader can send to nodes and clients together, kbit/s",
    )


class DelayParameters(ImpairmentParameters):
    """The leader's packets are delayed."""

    delay_ms: float = Field(
        default=200.0,
        gt=0,
        le=60_000,
        description="by how much each packet of the leader is delayed, ms",
    )
    jitter_ms: float = Field(
        default=20.0, ge=0, le=60_000, description="by how much the delay varies either way, ms"
    )


class PacketLossParameters(ImpairmentParameters):
    """Packets of the leader are dropped at random."""

    loss_percent: float = Field(
        default=10.0,
        ge=0.01,
        le=100,
        description="share of the packets to and from the leader that are dropped, percent",
    )


def limit_bandwidth(context: FaultContext, parameters: BandwidthParameters) -> FaultEvidence:
    """Limit what the leader sends. It took effect if packets had to wait for the limit."""
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    shaping = TrafficShaping(
        leader, other_nodes(context, leader), rate_kbit_per_s=parameters.rate_kbit_per_s
    )
    return impair(context, parameters, [shaping])


def delay(context: FaultContext, parameters: DelayParameters) -> FaultEvidence:
    """Delay the leader's packets. It took effect if there were any."""
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    shaping = TrafficShaping(
        leader,
        other_nodes(context, leader),
        delay_ms=parameters.delay_ms,
        jitter_ms=parameters.jitter_ms,
    )
    return impair(context, parameters, [shaping])


def lose_packets(context: FaultContext, parameters: PacketLossParameters) -> FaultEvidence:
    """Drop packets to and from the leader at random, including those of clients.

    It took effect if any were dropped.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    drop = PacketDrop(
        leader, other_nodes(context, leader), clients=True, share=parameters.loss_percent / 100
    )
    return impair(context, parameters, [drop])


def _effects(parameters: ImpairmentParameters, _topology: Topology) -> FaultEffects:
    """Return the effects.

    At the worst nothing arrives in time: the controller may fence the leader, and its clients may
    give up.
    """
    lasts_ms = parameters.lasts_s * 1000
    return FaultEffects(
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
        "the leader's bandwidth to nodes and clients is limited",
        BandwidthParameters,
        limit_bandwidth,
        _effects,
        REQUIRED | {Capability.SHAPING},
        NETWORK,
    ),
    FaultKind(
        "delay",
        FAMILY,
        "packets that the leader sends to nodes and clients are delayed",
        DelayParameters,
        delay,
        _effects,
        REQUIRED | {Capability.NETEM},
        NETWORK,
    ),
    FaultKind(
        "packet-loss",
        FAMILY,
        "packets between the leader and nodes or clients are dropped at random",
        PacketLossParameters,
        lose_packets,
        _effects,
        REQUIRED,
        NETWORK,
    ),
)
