"""Faults of the ZooKeeper ensemble, which keeps Kafka's metadata up to version 3.9."""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind, FaultMissed
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.process.parameters import CrashParameters
from ackbench.infra.cluster.health import zookeeper_leader

FAMILY: Final = "ensemble"
_ANSWER_TIMEOUT_S: Final = 1.0


class EnsembleParameters(CrashParameters):
    """The ZooKeeper leader crashes and is started again."""

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse clusters without ZooKeeper."""
        if topology.zookeepers:
            return None
        return "no ZooKeeper server is in this cluster; allowed: with coordination zookeeper"


def crash_zookeeper_leader(context: FaultContext, parameters: EnsembleParameters) -> FaultEvidence:
    """Crash the server that leads the ensemble.

    It took effect if another server led afterwards; for an ensemble of one, if no server was left.
    """
    context.sleep_until(parameters.at_s)
    leader = _leader(context)
    if leader is None:
        raise FaultMissed("the ZooKeeper ensemble had no leader")
    with context.injected(leader) as heals:
        heals.callback(context.start, leader)
        context.kill(leader)
        context.sleep_until_lasted(parameters.restart_after_s)
        took_effect = context.wait_for_reaction(
            lambda: _leader_change(context, leader),
            parameters.patience_s,
            f"no ZooKeeper server took over from node {leader}",
        )
    return context.fault_evidence((leader,), took_effect=took_effect)


def _leader(context: FaultContext) -> int | None:
    return zookeeper_leader(context.cluster.status(), _ANSWER_TIMEOUT_S)


def _leader_change(context: FaultContext, before: int) -> str | None:
    now = _leader(context)
    servers = sum(node.role == "zookeeper" for node in context.cluster.status())
    after = f"{context.elapsed_s():.2f} s after the fault began"
    if now is None and servers == 1:
        return f"the only ZooKeeper server was down, and ZooKeeper unavailable, {after}"
    if now not in {before, None}:
        return f"ZooKeeper's leader had moved from node {before} to node {now} {after}"
    return None


def _effects(parameters: EnsembleParameters, topology: Topology) -> FaultEffects:
    """Return the effects: brokers run, but can neither elect leaders nor change an ISR."""
    after_ms = parameters.restart_after_s * 1000
    return FaultEffects(
        zookeeper_server_down=True,
        zookeeper_unavailable=topology.zookeepers - 1 <= topology.zookeepers // 2,
        heals_after_ms=after_ms,
        heals_within_ms=after_ms + parameters.patience_s * 1000,
    )


KINDS: Final = (
    FaultKind(
        "zookeeper-leader-crash",
        FAMILY,
        "ZooKeeper's leader, or its only server, is crashed (SIGKILL) and started again later",
        EnsembleParameters,
        crash_zookeeper_leader,
        _effects,
    ),
)
