"""Faults of ZooKeeper's own ensemble, which holds the metadata of Kafka up to 3.9."""

from __future__ import annotations

from typing import Final

from experiments.faults.core import FaultContext, FaultKind, FaultMissed
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.process.parameters import CrashParameters
from experiments.ledger.record import FaultEvidence
from infra.cluster.health import zookeeper_leader

FAMILY: Final = "ensemble"
_ANSWER_TIMEOUT_S: Final = 1.0


class EnsembleParameters(CrashParameters):
    """ZooKeeper's leader is killed and started again."""

    def impossible_reason(self, shape: Topology) -> str | None:
        """Without ZooKeeper there is no such server."""
        return (
            None
            if shape.zookeepers
            else "no ZooKeeper server is in this cluster; allowed: with coordination zookeeper"
        )


def crash_zookeeper_leader(context: FaultContext, parameters: EnsembleParameters) -> FaultEvidence:
    """Kill the server that leads the ensemble; it bit when another one led it, or, of one alone, when none served any more."""
    context.until(parameters.at_s)
    leader = _leader(context)
    if leader is None:
        raise FaultMissed("no ZooKeeper server leads")
    with context.striking(leader) as healing:
        healing.callback(context.start, leader)
        context.kill(leader)
        context.lasting(parameters.restart_after_s)
        took_effect = context.noticed(lambda: _moved(context, leader), parameters.patience_s)
    return FaultEvidence(
        kind="zookeeper-leader-crash",
        targets=(leader,),
        took_effect=took_effect,
        evidence=tuple(context.facts),
    )


def _leader(context: FaultContext) -> int | None:
    return zookeeper_leader(context.cluster.status(), _ANSWER_TIMEOUT_S)


def _moved(context: FaultContext, was: int) -> str | None:
    now, alone = (
        _leader(context),
        sum(node.role == "zookeeper" for node in context.cluster.status()) == 1,
    )
    if now is None and alone:
        return f"ZooKeeper's only server had gone, and none served {context.since_begin_s():.2f} s after the fault began"
    return (
        f"ZooKeeper's leader moved from node {was} to node {now}, seen {context.since_begin_s():.2f} s after the fault began"
        if now not in {was, None}
        else None
    )


def _nature(kind: str, parameters: EnsembleParameters, shape: Topology) -> FaultEffects:
    """No broker is hit; what they cannot do meanwhile is to elect anybody, or to change an ISR."""
    after_ms = parameters.restart_after_s * 1000
    return FaultEffects(
        kind=kind,
        zookeeper_server_down=True,
        zookeeper_unavailable=shape.zookeepers - 1 <= shape.zookeepers // 2,
        heals_after_ms=after_ms,
        heals_within_ms=after_ms + parameters.patience_s * 1000,
    )


KINDS: Final = (
    FaultKind(
        "zookeeper-leader-crash",
        FAMILY,
        "ZooKeeper's leader, or its only server, is killed (SIGKILL) and started again later",
        EnsembleParameters,
        crash_zookeeper_leader,
        _nature,
    ),
)
