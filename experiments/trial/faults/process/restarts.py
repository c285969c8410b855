"""Faults of repeated restarts: node by node, one node many times, a crash during log recovery."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.faults.core import (
    OBSERVED_PARTITION,
    FaultContext,
    FaultKind,
    FaultParameters,
    Seconds,
    SecondsOrNone,
)
from ackbench.experiments.trial.faults.core.context import IN_THE_LOAD
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.core.evidence import wait_for_leader_change
from ackbench.experiments.trial.faults.process.actions import require_clean_shutdown
from ackbench.experiments.trial.faults.process.parameters import (
    FAMILY,
    RESTART_S,
    CrashParameters,
    crash_effects,
)
from ackbench.experiments.trial.faults.process.targets import NODE, Targets
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.kafka.logs import BrokerLogEvent

_RECOVERY_POLL_S: Final = 0.005
"""The recovery of a small log takes about 20 ms."""


# Rolling restarts


class RollingParameters(FaultParameters):
    """Each node in turn goes down and is started again; the next one in a healthy cluster."""

    within_s: Seconds = Field(
        default=45.0,
        description="how long the cluster may take to be healthy after each restart, seconds;"
        " then the fault gives up",
    )
    patience_s: SecondsOrNone = Field(
        default=10.0,
        description="how long a node stays down while the cluster has not reacted, seconds",
    )

    def needs_load_s(self, topology: Topology) -> float:
        """Return when the last node has been restarted, as far as that is known before.

        A node that comes back within its session is rejected until that has ended, crashed or not
        (`docs/faults.md`).
        """
        return self.at_s + topology.nodes * (topology.session_timeout_ms * 9 / 8 / 1000 + RESTART_S)


class CleanRollingParameters(RollingParameters):
    """Each node is shut down cleanly (SIGTERM)."""

    end_within_s: float = Field(
        default=20.0,
        gt=0,
        le=600,
        description="how long a shutdown may take before the node gets SIGKILL, seconds",
    )


def roll_cleanly(context: FaultContext, parameters: CleanRollingParameters) -> FaultEvidence:
    """Shut each node down cleanly in turn; start it once the cluster has reacted."""

    def take_down(node: int) -> bool:
        return context.stop(node, parameters.end_within_s)

    return _roll(context, parameters, take_down)


def roll_hard(context: FaultContext, parameters: RollingParameters) -> FaultEvidence:
    """Crash each node in turn; start it once the cluster has reacted."""

    def take_down(node: int) -> bool:
        context.kill(node)
        return True

    return _roll(context, parameters, take_down)


def _roll(
    context: FaultContext, parameters: RollingParameters, take_down: Callable[[int], bool]
) -> FaultEvidence:
    """Restart each node in turn, however long that takes, until the load ends.

    It took effect if each node was restarted within the load, as requested, and the cluster
    reacted. The fault gives up if the cluster is not healthy in time for the next node.
    """
    context.sleep_until(parameters.at_s)
    nodes = context.cluster_state().brokers
    restarted, reactions, is_healthy = 0, 0, True
    with context.injected(*nodes):
        for node in nodes:
            if context.load_left_s() <= 0 or not is_healthy:
                break
            reactions += _restart(context, parameters, node, take_down)
            restarted += context.load_left_s() > 0
            is_healthy = _is_healthy(context, node, parameters.within_s)
    if restarted < len(nodes):
        before = IN_THE_LOAD if context.load_left_s() <= 0 else "before the fault gave up"
        context.add_evidence(f"{restarted} of {len(nodes)} nodes were restarted {before}")
    elif reactions < len(nodes):
        context.add_evidence(f"the cluster reacted to {reactions} of {len(nodes)} restarts")
    return context.fault_evidence(nodes, took_effect=restarted == reactions == len(nodes))


def _restart(
    context: FaultContext,
    parameters: RollingParameters,
    node: int,
    take_down: Callable[[int], bool],
) -> bool:
    """Restart a node; return whether it went down as requested and the cluster reacted."""
    context.mark_begin()
    targets = Targets((node,), context.cluster_state(), context.partition_with_leader())
    with context.healing(node) as heals:
        heals.callback(context.start, node)
        as_requested = take_down(node)
        reacted = context.wait_for_reaction(
            lambda: NODE.reaction(context, targets),
            parameters.patience_s,
            NODE.no_reaction(targets),
        )
    return as_requested and reacted


def _is_healthy(context: FaultContext, node: int, within_s: float) -> bool:
    """Return whether the cluster becomes healthy in time after the restart of a node."""
    try:
        context.cluster.wait_until_healthy(within_s)
    except WaitTimeout as error:
        context.add_evidence(f"after the restart of node {node}: {error}")
        return False
    context.add_evidence(
        f"the cluster was healthy {context.elapsed_s():.2f} s after the restart of node {node}"
        " began"
    )
    return True


def _rolling_effects(parameters: RollingParameters, topology: Topology) -> FaultEffects:
    """Return the effects: one node is down at any time, and every node is once.

    Between two restarts the cluster is healthy, and every record is delivered. So the heal that a
    record may wait for is that of one restart.
    """
    one_s = parameters.patience_s + parameters.within_s
    if isinstance(parameters, CleanRollingParameters):
        one_s += parameters.end_within_s
    return FaultEffects(
        nodes_down=1,
        may_affect_leader=True,
        heals_within_ms=one_s * 1000,
        parts=max(2, topology.nodes),
    )


# The same node again and again


class StormParameters(CrashParameters):
    """One node crashes and is started again many times, quickly."""

    times: int = Field(default=5, ge=2, le=100, description="how often it crashes")
    up_s: float = Field(
        default=0.8,
        gt=0,
        le=60,
        description="how long it runs each time, seconds; the controller unfences a node about 2 s"
        " after its start",
    )
    down_s: float = Field(
        default=0.2, gt=0, le=60, description="how long it is down each time but the last, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when it is started for the last time, if the cluster has reacted by then."""
        return self.at_s + max(self.restart_after_s, (self.times - 1) * (self.up_s + self.down_s))


def crash_repeatedly(context: FaultContext, parameters: StormParameters) -> FaultEvidence:
    """Crash the leader again and again, each time shortly after its start.

    It took effect if the partition lost its leader.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    cycle_s, crashes = parameters.up_s + parameters.down_s, 0
    with context.injected(leader) as heals:
        heals.callback(context.start, leader)
        for crash in range(parameters.times):
            context.sleep_until_lasted(crash * cycle_s)
            if context.load_left_s() <= 0:
                break
            context.kill(leader)
            crashes += 1
            if crash < parameters.times - 1:
                context.sleep_until_lasted(crash * cycle_s + parameters.down_s)
                context.start(leader)
        context.sleep_until_lasted(parameters.heals_at_s() - parameters.at_s)
        took_effect = wait_for_leader_change(context, leader, parameters.patience_s)
    if crashes < parameters.times:
        context.add_evidence(f"{crashes} of {parameters.times} crashes came {IN_THE_LOAD}")
    return context.fault_evidence(
        (leader,), took_effect=took_effect and crashes == parameters.times
    )


def _storm_effects(parameters: StormParameters, topology: Topology) -> FaultEffects:
    return _repeated(crash_effects(parameters, topology), parameters, parameters.times)


# A crash during log recovery


class InRecoveryParameters(CrashParameters):
    """The leader crashes, is started, and crashes again while it recovers its log."""

    down_s: Seconds = Field(default=1.0, description="from the first crash to the start, seconds")
    recovers_within_s: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="how long log recovery may take to begin after that start, seconds, or until"
        " the load ends if that is later",
    )

    def needs_load_s(self, topology: Topology) -> float:
        """Return when the node is started for the last time, if it starts as fast as usual."""
        return max(super().needs_load_s(topology), self.at_s + self.down_s + RESTART_S)


def crash_in_recovery(context: FaultContext, parameters: InRecoveryParameters) -> FaultEvidence:
    """Crash the leader, start it, and crash it again while it recovers its log.

    It took effect if the node's own log reports the begin of the recovery, the node was neither
    unfenced nor in the ISR between the crashes, and the partition lost its leader.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    with context.injected(leader) as heals:
        heals.callback(context.start, leader)
        context.kill(leader)
        context.sleep_until_lasted(parameters.down_s)
        log_sizes, started_ns = context.cluster.node_log_sizes(), now_ns()
        context.start(leader)
        began = _wait_for_recovery(
            context,
            {leader: log_sizes[leader]},
            context.at_least_while_loaded(parameters.recovers_within_s),
        )
        context.kill(leader)
        events = context.cluster.node_log_events_since(log_sizes, context.topic)
        context.add_evidence(
            _recovery_progress([event for event in events if event.logged_by == leader], leader)
        )
        stayed_fenced = _stayed_fenced(context, events, leader, started_ns)
        context.sleep_until_lasted(parameters.heals_at_s() - parameters.at_s)
        reacted = wait_for_leader_change(context, leader, parameters.patience_s)
    return context.fault_evidence((leader,), took_effect=began and stayed_fenced and reacted)


def _wait_for_recovery(context: FaultContext, log_sizes: dict[int, int], timeout_s: float) -> bool:
    """Return whether the node's own log reports in time that it recovers the observed partition."""

    def loading() -> frozenset[str]:
        return frozenset(
            event.kind
            for event in context.cluster.node_log_events_since(log_sizes, context.topic)
            if event.kind in {"recovering", "loaded"} and event.partition == OBSERVED_PARTITION
        )

    try:
        kinds = context.wait_for(
            loading,
            awaiting="the node to recover its log",
            timeout_s=timeout_s,
            every_s=_RECOVERY_POLL_S,
        )
    except WaitTimeout as error:
        context.add_evidence(str(error))
        return False
    return "recovering" in kinds


def _recovery_progress(events: Sequence[BrokerLogEvent], node: int) -> str:
    """Return how far log recovery was at the second crash, by the node's own log."""
    by_kind = {event.kind: event for event in events if event.partition == OBSERVED_PARTITION}
    if "recovered" in by_kind:
        progress = f"had recovered its log up to offset {by_kind['recovered'].offset}"
    elif "recovering" in by_kind:
        progress = (
            f"was recovering its log, from the segment at offset {by_kind['recovering'].offset} on,"
        )
    else:
        progress = "had not begun to recover its log"
    return f"node {node} {progress} when it crashed again"


def _stayed_fenced(
    context: FaultContext, events: Sequence[BrokerLogEvent], node: int, since_ns: int
) -> bool:
    """Return whether the node was neither unfenced nor in the ISR between its crashes."""
    isr = [
        event
        for event in context.journal.events("isr")
        if event.partition == OBSERVED_PARTITION and event.at_ns >= since_ns
    ]
    unfenced = any(event.kind == "unfenced" and event.node == node for event in events)
    if unfenced or any(str(node) in event.detail.split(",") for event in isr):
        context.add_evidence(f"node {node} was unfenced, or in the ISR, when it crashed again")
        return False
    return True


def _in_recovery_effects(parameters: InRecoveryParameters, topology: Topology) -> FaultEffects:
    repeated = _repeated(crash_effects(parameters, topology), parameters, 2)
    start_s = parameters.down_s + parameters.recovers_within_s
    late_ms = max(0.0, start_s - parameters.restart_after_s) * 1000
    return repeated.model_copy(update={"heals_within_ms": repeated.heals_within_ms + late_ms})


def _repeated(crash: FaultEffects, parameters: CrashParameters, crashes: int) -> FaultEffects:
    """Return the effects of a crash that is repeated until the heal is due."""
    lasts_ms = (parameters.heals_at_s() - parameters.at_s) * 1000
    longer_ms = lasts_ms - crash.heals_after_ms
    return crash.model_copy(
        update={
            "heals_after_ms": lasts_ms,
            "heals_within_ms": crash.heals_within_ms + longer_ms,
            "parts": crashes,
        }
    )


KINDS: Final = (
    FaultKind(
        "rolling-restart-clean",
        FAMILY,
        "each node in turn is shut down cleanly (SIGTERM) and started again;"
        " the next one once every ISR is full",
        CleanRollingParameters,
        roll_cleanly,
        _rolling_effects,
        confirm=require_clean_shutdown,
    ),
    FaultKind(
        "rolling-restart-hard",
        FAMILY,
        "each node in turn is crashed (SIGKILL) and started again;"
        " the next one once every ISR is full",
        RollingParameters,
        roll_hard,
        _rolling_effects,
    ),
    FaultKind(
        "restart-storm",
        FAMILY,
        "the leader crashes (SIGKILL) and is started again many times, quickly",
        StormParameters,
        crash_repeatedly,
        _storm_effects,
    ),
    FaultKind(
        "crash-in-recovery",
        FAMILY,
        "the leader crashes (SIGKILL), is started, and crashes again while it recovers its log",
        InRecoveryParameters,
        crash_in_recovery,
        _in_recovery_effects,
    ),
)
