"""Faults of processes that are started again and again: node by node, one node many times, and one that dies again while it recovers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pydantic import Field

from experiments.events.clock import now_ns
from experiments.faults.core import OBSERVED_PARTITION, FaultContext, FaultKind, FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.process.actions import ended_cleanly, nature_of_crash
from experiments.faults.process.parameters import FAMILY, CrashParameters
from experiments.faults.process.targets import LEADER, NODE, Targets
from experiments.ledger.record import FaultEvidence
from infra.errors import WaitTimeout
from infra.kafka.logs import BrokerLogEvent

_LOOK_EVERY_S: Final = 0.005
"""A small log is recovered in some 20 ms."""


class RollingParameters(FaultParameters):
    """Each node in turn is ended and started again, the next one once the cluster is whole."""

    within_s: float = Field(
        default=45.0,
        gt=0,
        le=3600,
        description="how long all turns may take together, seconds; the next begins only within it",
    )
    patience_s: float = Field(
        default=10.0,
        ge=0,
        le=3600,
        description="how long a node stays down while the cluster has not noticed, seconds",
    )

    def heals_at_s(self) -> float:
        """Return when the last node is started again at the latest."""
        return self.at_s + self.within_s


class CleanRollingParameters(RollingParameters):
    """The nodes are asked to end."""

    end_within_s: float = Field(
        default=20.0,
        gt=0,
        le=600,
        description="how long a node may take to end before it is killed, seconds",
    )


class StormParameters(CrashParameters):
    """One node is killed and started again many times, quickly."""

    times: int = Field(default=5, ge=2, le=100, description="how often it is killed")
    up_s: float = Field(
        default=0.8,
        gt=0,
        le=60,
        description="how long it runs each time, seconds; it needs some two to be let in",
    )
    down_s: float = Field(
        default=0.2, gt=0, le=60, description="how long it is down each time but the last, seconds"
    )

    def heals_at_s(self) -> float:
        """Return when it is started for the last time, where the cluster has noticed by then."""
        return self.at_s + max(self.restart_after_s, (self.times - 1) * (self.up_s + self.down_s))


class InRecoveryParameters(CrashParameters):
    """The leader is killed, started, and killed again while it recovers its log."""

    down_s: float = Field(
        default=1.0, gt=0, le=3600, description="from the first kill to the start, seconds"
    )
    recovers_within_s: float = Field(
        default=10.0,
        gt=0,
        le=600,
        description="how long it may take from that start until it recovers its log, seconds",
    )


def roll_cleanly(context: FaultContext, parameters: CleanRollingParameters) -> FaultEvidence:
    """Ask each node in turn to end, and start it again."""

    def end(node: int) -> bool:
        return context.stop(node, parameters.end_within_s)

    return _roll(context, parameters, "rolling-restart-clean", end)


def roll_hard(context: FaultContext, parameters: RollingParameters) -> FaultEvidence:
    """Kill each node in turn, and start it again once the cluster has noticed."""

    def end(node: int) -> bool:
        context.kill(node)
        return True

    return _roll(context, parameters, "rolling-restart-hard", end)


def _roll(
    context: FaultContext, parameters: RollingParameters, kind: str, end: Callable[[int], bool]
) -> FaultEvidence:
    context.until(parameters.at_s)
    nodes = context.state().brokers
    with context.striking(*nodes):
        turns = [
            node
            for node in nodes
            if _in_time(context, parameters) and _take_turn(context, parameters, node, end)
        ]
    if turns != list(nodes):
        context.saw(
            f"{len(turns)} of {len(nodes)} nodes were restarted within {parameters.within_s:g} s and seen to be missed"
        )
    return FaultEvidence(
        kind=kind, targets=nodes, took_effect=turns == list(nodes), evidence=tuple(context.facts)
    )


def _in_time(context: FaultContext, parameters: RollingParameters) -> bool:
    return _left_s(context, parameters) > 0


def _left_s(context: FaultContext, parameters: RollingParameters) -> float:
    return context.after_s + parameters.heals_at_s() - context.since_load_began_s()


def _take_turn(
    context: FaultContext, parameters: RollingParameters, node: int, end: Callable[[int], bool]
) -> bool:
    """End a node, start it when it is missed, and wait for the whole cluster; say whether all of that happened."""
    context.strikes_again()
    struck = Targets((node,), context.state(), context.partition())
    with context.healing(node) as healing:
        healing.callback(context.start, node)
        ended = end(node)
        missed = context.noticed(lambda: NODE.missed(context, struck), parameters.patience_s)
    try:
        context.cluster.wait_until_healthy(max(0.0, _left_s(context, parameters)))
    except WaitTimeout as error:
        context.saw(f"after node {node}: {error}")
        return False
    context.saw(
        f"the cluster was whole again {context.since_begin_s():.2f} s after node {node} was struck"
    )
    return ended and missed


def storm(context: FaultContext, parameters: StormParameters) -> FaultEvidence:
    """Kill the leader again and again, each time it has hardly begun to run."""
    context.until(parameters.at_s)
    struck = LEADER.find(context, parameters)
    (leader,) = struck.nodes
    with context.striking(leader) as healing:
        healing.callback(context.start, leader)
        for turn in range(parameters.times):
            context.lasting(turn * (parameters.up_s + parameters.down_s))
            context.kill(leader)
            if turn < parameters.times - 1:
                context.lasting(turn * (parameters.up_s + parameters.down_s) + parameters.down_s)
                context.start(leader)
        context.lasting(parameters.heals_at_s() - parameters.at_s)
        left = context.noticed(lambda: LEADER.missed(context, struck), parameters.patience_s)
    return FaultEvidence(
        kind="restart-storm", targets=(leader,), took_effect=left, evidence=tuple(context.facts)
    )


def crash_in_recovery(context: FaultContext, parameters: InRecoveryParameters) -> FaultEvidence:
    """Kill the leader, start it, kill it again while it recovers; it bit when its own log shows that it had begun to, and it was in no ISR."""
    context.until(parameters.at_s)
    struck = LEADER.find(context, parameters)
    (leader,) = struck.nodes
    with context.striking(leader) as healing:
        healing.callback(context.start, leader)
        context.kill(leader)
        context.lasting(parameters.down_s)
        sizes, started_ns = context.cluster.log_sizes(), now_ns()
        context.start(leader)
        began = _recovery_begins(context, {leader: sizes[leader]}, parameters.recovers_within_s)
        context.kill(leader)
        told = context.cluster.log_lines_since(sizes, context.topic)
        context.saw(_how_far([line for line in told if line.speaker == leader], leader))
        out = _stayed_out(context, told, leader, started_ns)
        context.lasting(parameters.heals_at_s() - parameters.at_s)
        left = context.noticed(lambda: LEADER.missed(context, struck), parameters.patience_s)
    return FaultEvidence(
        kind="crash-in-recovery",
        targets=(leader,),
        took_effect=began and out and left,
        evidence=tuple(context.facts),
    )


def _recovery_begins(context: FaultContext, sizes: dict[int, int], timeout_s: float) -> bool:
    """Return as soon as the node's own log tells that it recovers the observed partition; false when it does not in time."""

    def recovering() -> tuple[BrokerLogEvent, ...]:
        return tuple(
            line
            for line in context.cluster.log_lines_since(sizes, context.topic)
            if line.kind == "recovering" and line.partition == OBSERVED_PARTITION
        )

    try:
        context.wait(
            recovering,
            awaiting="the node to recover its log",
            timeout_s=timeout_s,
            every_s=_LOOK_EVERY_S,
        )
    except WaitTimeout as error:
        context.saw(str(error))
        return False
    return True


def _stayed_out(
    context: FaultContext, told: Sequence[BrokerLogEvent], node: int, since_ns: int
) -> bool:
    """Whether neither the controller let the node in between its two deaths, nor the ISR was seen to become one with it."""
    isr = [
        event
        for event in context.journal.events("isr")
        if event.partition == OBSERVED_PARTITION and event.at_ns >= since_ns
    ]
    let_in = any(line.kind == "unfenced" and line.node == node for line in told) or any(
        str(node) in event.detail.split(",") for event in isr
    )
    if let_in:
        context.saw(f"node {node} had been let in again when it was killed again")
    return not let_in


def _how_far(lines: Sequence[BrokerLogEvent], node: int) -> str:
    told = {line.kind: line for line in lines if line.partition == OBSERVED_PARTITION}
    if "recovered" in told:
        return f"node {node} had recovered its log up to offset {told['recovered'].offset} when it was killed again"
    if "recovering" in told:
        return f"node {node} had begun to recover its log from the segment at offset {told['recovering'].offset}, and not ended it, when it was killed again"
    return f"node {node} had not begun to recover its log when it was killed again"


def _nature_of_rolling(kind: str, parameters: RollingParameters, shape: Topology) -> FaultEffects:
    """One node is dead at any time; every node is, once."""
    return FaultEffects(
        kind=kind,
        nodes_down=1,
        may_affect_leader=True,
        heals_within_ms=parameters.within_s * 1000,
        parts=max(2, shape.nodes),
    )


def _nature_of_storm(kind: str, parameters: StormParameters, shape: Topology) -> FaultEffects:
    return _lasting(nature_of_crash(kind, parameters, shape), parameters, parameters.times)


def _nature_in_recovery(
    kind: str, parameters: InRecoveryParameters, shape: Topology
) -> FaultEffects:
    return _lasting(nature_of_crash(kind, parameters, shape), parameters, 2)


def _lasting(crash: FaultEffects, parameters: CrashParameters, deaths: int) -> FaultEffects:
    lasts_ms = (parameters.heals_at_s() - parameters.at_s) * 1000
    longer_ms = lasts_ms - crash.heals_after_ms
    return crash.model_copy(
        update={
            "heals_after_ms": lasts_ms,
            "heals_within_ms": crash.heals_within_ms + longer_ms,
            "parts": deaths,
        }
    )


KINDS: Final = (
    FaultKind(
        "rolling-restart-clean",
        FAMILY,
        "each node in turn is asked to end (SIGTERM) and started again; the next one when the ISR is full",
        CleanRollingParameters,
        roll_cleanly,
        _nature_of_rolling,
        confirm=ended_cleanly,
    ),
    FaultKind(
        "rolling-restart-hard",
        FAMILY,
        "each node in turn is killed (SIGKILL) and started again; the next one when the ISR is full",
        RollingParameters,
        roll_hard,
        _nature_of_rolling,
    ),
    FaultKind(
        "restart-storm",
        FAMILY,
        "the leader is killed and started again many times, quickly",
        StormParameters,
        storm,
        _nature_of_storm,
    ),
    FaultKind(
        "crash-in-recovery",
        FAMILY,
        "the leader is killed, started, and killed again while it recovers its log",
        InRecoveryParameters,
        crash_in_recovery,
        _nature_in_recovery,
    ),
)
