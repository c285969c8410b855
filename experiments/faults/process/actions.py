"""What is done to processes: crash (SIGKILL), stop (SIGTERM), pause (SIGSTOP); how it is healed, when it bit, and what promises hang on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from experiments.faults.core import FaultContext, FaultKind, FaultMissed, FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.faults.core.evidence import no_controller
from experiments.faults.core.kind import TrialObservations, as_it_struck, with_timed_out_requests
from experiments.faults.process.parameters import (
    FAMILY,
    BehindParameters,
    CrashParameters,
    LeaderPauseParameters,
    LongPauseParameters,
    MajorityCrashParameters,
    MajorityPauseParameters,
    MajorityStopParameters,
    NodeCrashParameters,
    NodePauseParameters,
    NodeStopParameters,
    PauseParameters,
    StopParameters,
)
from experiments.faults.process.targets import (
    ALL,
    ALL_TARGETS,
    LEADER,
    MAJORITY,
    NODE,
    Targets,
    TargetSelector,
)
from experiments.ledger.record import FaultEvidence


@dataclass(frozen=True)
class Action:
    """Something that is done to processes."""

    name: str
    words: str
    """For a summary, behind whom and `is` or `are`."""
    act: Callable[[FaultContext, TargetSelector, Targets, Any], bool]
    """Strikes and heals; returns whether it bit."""
    effects: Callable[[str, Any, Topology], FaultEffects]
    """What it does to one node."""
    usual: type[FaultParameters]
    others: Mapping[str, type[FaultParameters]]
    """The parameters of some targets, by name."""

    def parameters(self, targets_of: TargetSelector) -> type[FaultParameters]:
        """Return what it can be told, done to those."""
        return self.others.get(targets_of.name, self.usual)


def _crash(
    context: FaultContext, targets_of: TargetSelector, struck: Targets, parameters: CrashParameters
) -> bool:
    """Kill them all, start them again when it is time and the cluster has noticed; it bit when it had."""
    with context.striking(*struck.nodes) as healing:
        for node in struck.nodes:
            healing.callback(context.start, node)
        _each(context, context.kill, struck.nodes)
        context.lasting(parameters.restart_after_s)
        return context.noticed(lambda: _missed(context, targets_of, struck), parameters.patience_s)


def _missed(context: FaultContext, targets_of: TargetSelector, struck: Targets) -> str | None:
    """Say how they were missed. Where no quorum is left, one node of one or two, nobody can tell of any change but that."""
    return targets_of.missed(context, struck) or no_controller(context)


def _stop(
    context: FaultContext, targets_of: TargetSelector, struck: Targets, parameters: StopParameters
) -> bool:
    """Ask them all to end, at once; it bit when each ended by itself and the cluster noticed."""
    with context.striking(*struck.nodes) as healing:
        for node in struck.nodes:
            healing.callback(context.start, node)
        with ThreadPoolExecutor(len(struck.nodes), "stop") as threads:
            asked = [
                threads.submit(context.stop, node, parameters.end_within_s) for node in struck.nodes
            ]
        ended = all(_each(context, lambda one: one.result(), asked))
        context.lasting(parameters.restart_after_s)
        return (
            context.noticed(lambda: _missed(context, targets_of, struck), parameters.patience_s)
            and ended
        )


def _pause(
    context: FaultContext, targets_of: TargetSelector, struck: Targets, parameters: PauseParameters
) -> bool:
    """Let them all stand still; it bit when they did to the end, for longer than the client waits for a leader."""
    with context.striking(*struck.nodes) as healing:
        for node in struck.nodes:
            healing.callback(context.resume, node)
        _each(context, context.pause, struck.nodes)
        context.strikes_again()
        context.lasting(parameters.pause_s)
        stood = all(context.state_of(node) == "paused" for node in struck.nodes)
        lasted_s = context.since_begin_s()
    who = "node" if len(struck.nodes) == 1 else "nodes"
    context.saw(
        f"{who} {nodes_in_words(struck.nodes)} stood still for {lasted_s:.2f} s; a request times out after {context.client_timeout_s:g} s"
    )
    if not stood:
        context.saw("not every process was stopped any more when the pause ended")
    return stood and (lasted_s > context.client_timeout_s or not targets_of.has_leader)


def _each(context: FaultContext, strike: Callable[[Any], Any], nodes: Any) -> list[Any]:
    """Strike each node; one that cannot be struck is told of.

    Raises:
        Missed: none could be.
    """
    done = []
    for node in nodes:
        try:
            done.append(strike(node))
        except FaultMissed as missed:
            context.saw(str(missed))
    if not done:
        raise FaultMissed("none of its nodes ran")
    return done


def _felt(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """A pause of nodes whom the clients need not notice bit when somebody did: requests timed out, or leader, ISR or controller changed."""
    shrank = any(_without(event.detail, evidence.targets) for event in aftermath.since("isr"))
    moved = any(
        event.node not in {None, *evidence.targets}
        for event in aftermath.since("leader", "controller")
    )
    if aftermath.timed_out_requests() or shrank or moved:
        return evidence
    nobody = (
        "nobody noticed: no request timed out, and neither leader nor ISR nor controller changed"
    )
    return evidence.model_copy(
        update={"took_effect": False, "evidence": (*evidence.evidence, nobody)}
    )


def ended_cleanly(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """A node that was asked to end bit when its own log says that it shut down: else it died of something, and that is another fault."""
    silent = tuple(
        node
        for node in evidence.targets
        if node not in {event.node for event in aftermath.since("shut_down")}
    )
    if not silent:
        return evidence
    died = f"the log of node {nodes_in_words(silent)} does not say that it shut down"
    return evidence.model_copy(
        update={"took_effect": False, "evidence": (*evidence.evidence, died)}
    )


def _without(isr: str, nodes: tuple[int, ...]) -> bool:
    return any(str(node) not in isr.split(",") for node in nodes)


def nodes_in_words(ids: tuple[int, ...]) -> str:
    """Return `1`, `1 and 2`, `1, 2 and 3`."""
    return " and ".join(filter(None, (", ".join(map(str, ids[:-1])), *map(str, ids[-1:]))))


def nature_of_crash(kind: str, parameters: CrashParameters, _shape: Topology) -> FaultEffects:
    """The struck node may lead any partition; also the active controller may."""
    heals_ms = parameters.restart_after_s * 1000
    return FaultEffects(
        kind=kind,
        nodes_down=1,
        may_affect_leader=True,
        heals_after_ms=heals_ms,
        heals_within_ms=heals_ms + parameters.patience_s * 1000,
    )


def _nature_of_stop(kind: str, parameters: StopParameters, shape: Topology) -> FaultEffects:
    """As of a crash: a leader that is stopped hands over to a follower that need not have its last records, where acks=1."""
    crash = nature_of_crash(kind, parameters, shape)
    return crash.model_copy(
        update={"heals_within_ms": crash.heals_within_ms + parameters.end_within_s * 1000}
    )


def _nature_of_pause(kind: str, parameters: PauseParameters, _shape: Topology) -> FaultEffects:
    lasts_ms = parameters.pause_s * 1000
    return FaultEffects(
        kind=kind,
        nodes_paused=1,
        pause_ms=lasts_ms,
        may_affect_leader=True,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


CRASH: Final = Action(
    "crash",
    "killed (SIGKILL) and started again later",
    _crash,
    nature_of_crash,
    CrashParameters,
    {NODE.name: NodeCrashParameters, MAJORITY.name: MajorityCrashParameters},
)
STOP: Final = Action(
    "stop",
    "asked to end (SIGTERM) and started again later",
    _stop,
    _nature_of_stop,
    StopParameters,
    {NODE.name: NodeStopParameters, MAJORITY.name: MajorityStopParameters},
)
PAUSE: Final = Action(
    "pause",
    "made to stand still (SIGSTOP) for a while",
    _pause,
    _nature_of_pause,
    LongPauseParameters,
    {
        LEADER.name: LeaderPauseParameters,
        ALL.name: LeaderPauseParameters,
        NODE.name: NodePauseParameters,
        MAJORITY.name: MajorityPauseParameters,
    },
)
ACTIONS: Final = (CRASH, STOP, PAUSE)


def confirmed(
    action: Action, targets_of: TargetSelector
) -> Callable[[FaultEvidence, TrialObservations], FaultEvidence]:
    """Return how the evidence is completed after the trial: a pause must have been felt, and who was asked to end must say that it did."""
    if action is PAUSE:
        return with_timed_out_requests if targets_of.has_leader else _felt
    return ended_cleanly if action is STOP else as_it_struck


# ---------- A signal to a process: whom (`experiments.faults.process.targets`) times what (`experiments.faults.process.actions`).


def _kind(targets_of: TargetSelector, action: Action) -> FaultKind:
    """Return the fault that does this to those."""
    name = f"{targets_of.name}-{action.name}"

    def strike(context: FaultContext, asked: FaultParameters) -> FaultEvidence:
        context.until(asked.at_s)
        struck = targets_of.find(context, asked)
        took_effect = action.act(context, targets_of, struck, asked)
        return FaultEvidence(
            kind=name, targets=struck.nodes, took_effect=took_effect, evidence=tuple(context.facts)
        )

    def effects(kind: str, asked: FaultParameters, shape: Topology) -> FaultEffects:
        one = action.effects(kind, asked, shape)
        count = {"nodes_down" if one.nodes_down else "nodes_paused": targets_of.count(shape)}
        return one.model_copy(update={"may_affect_leader": targets_of.leads(shape), **count})

    summary = f"{targets_of.words} {targets_of.action} {action.words}"
    return FaultKind(
        name,
        FAMILY,
        summary,
        action.parameters(targets_of),
        strike,
        effects,
        confirm=confirmed(action, targets_of),
    )


_SIGNALS: Final = tuple(
    _kind(targets_of, action) for action in ACTIONS for targets_of in ALL_TARGETS
)


# ---------- The followers stand still for a moment, and the leader dies with what only it has.
#
# What is lost: KIP-101 (truncation to the leader epoch when an old leader rejoins) and KIP-966 (eligible leader replicas).


def crash_leader_with_followers_behind(
    context: FaultContext, parameters: BehindParameters
) -> FaultEvidence:
    """Stop the followers, kill the leader, let the followers go on: what only the leader had is gone."""
    context.until(parameters.at_s)
    struck = LEADER.find(context, parameters)
    (leader,), followers = (
        struck.nodes,
        tuple(node for node in struck.partition.replicas if node not in struck.nodes),
    )
    with context.striking(leader, *followers) as healing:
        for follower in followers:
            healing.callback(context.resume, follower)
            context.pause(follower)
        stood = f"followers {nodes_in_words(followers)} stood still for {parameters.behind_s:g} s"
        context.saw(stood if followers else "there is no follower to stop: replication factor 1")
        context.lasting(parameters.behind_s)
        healing.callback(context.start, leader)
        context.kill(leader)
        for follower in followers:
            context.resume(follower)
        context.lasting(parameters.behind_s + parameters.restart_after_s)
        left = context.noticed(lambda: LEADER.missed(context, struck), parameters.patience_s)
    return FaultEvidence(
        kind="leader-crash-behind",
        targets=(leader, *followers),
        took_effect=left,
        evidence=tuple(context.facts),
    )


def _nature_of_crash_behind(
    kind: str, parameters: BehindParameters, shape: Topology
) -> FaultEffects:
    crash, stalls_ms = nature_of_crash(kind, parameters, shape), parameters.behind_s * 1000
    return crash.model_copy(
        update={
            "nodes_paused": shape.replication_factor - 1,
            "pause_ms": stalls_ms,
            "heals_within_ms": crash.heals_within_ms + stalls_ms,
        }
    )


_BEHIND: Final = (
    FaultKind(
        "leader-crash-behind",
        FAMILY,
        "the followers stand still for a moment, the leader is killed, the followers go on",
        BehindParameters,
        crash_leader_with_followers_behind,
        _nature_of_crash_behind,
    ),
)

KINDS: Final = (*_SIGNALS, *_BEHIND)
