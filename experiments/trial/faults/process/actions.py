"""Faults of one signal per node: crash (SIGKILL), clean stop (SIGTERM) and pause (SIGSTOP).

Each is a target selector times an action: `leader-crash`, `majority-pause`. The last section adds
`leader-crash-behind`, which pauses the followers before the leader crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.faults.core import (
    FaultContext,
    FaultKind,
    FaultMissed,
    FaultParameters,
)
from ackbench.experiments.trial.faults.core.context import format_nodes
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.core.evidence import no_controller, wait_for_leader_change
from ackbench.experiments.trial.faults.core.kind import (
    TrialObservations,
    accept_evidence,
    extend_evidence,
    require_timed_out_requests,
)
from ackbench.experiments.trial.faults.process.parameters import (
    FAMILY,
    BehindParameters,
    CoordinatorCrashParameters,
    CoordinatorPauseParameters,
    CoordinatorStopParameters,
    CrashParameters,
    FollowerCrashParameters,
    FollowerPauseParameters,
    FollowerStopParameters,
    GroupCoordinatorCrashParameters,
    GroupCoordinatorPauseParameters,
    GroupCoordinatorStopParameters,
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
    crash_effects,
)
from ackbench.experiments.trial.faults.process.targets import (
    ALL,
    ALL_TARGETS,
    FOLLOWER,
    GROUP_COORDINATOR,
    LEADER,
    MAJORITY,
    NODE,
    TRANSACTION_COORDINATOR,
    Targets,
    TargetSelector,
)

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Action:
    """Something that is done to the target nodes."""

    name: str
    """The last part of the fault's name: `crash` in `leader-crash`."""
    description: str
    """For summaries, after `is` or `are`: `paused (SIGSTOP) for a while`."""
    inject: Callable[[FaultContext, TargetSelector, Targets, Any], bool]
    """Injects and heals the fault; returns whether it took effect."""
    effects: Callable[[Any, Topology], FaultEffects]
    """Returns the effects on one node."""
    default_parameters: type[FaultParameters]
    special_parameters: Mapping[str, type[FaultParameters]]
    """The parameters for some target selectors, by name."""

    def parameters_for(self, selector: TargetSelector) -> type[FaultParameters]:
        """Return the model of the parameters for these targets."""
        return self.special_parameters.get(selector.name, self.default_parameters)


# Injection


def _crash(
    context: FaultContext, selector: TargetSelector, targets: Targets, parameters: CrashParameters
) -> bool:
    """Crash all targets; start them when it is time and the cluster has reacted.

    Returns:
        Whether the cluster reacted.
    """
    with context.injected(*targets.nodes) as heals:
        for node in targets.nodes:
            heals.callback(context.start, node)
        _for_each(context, context.kill, targets.nodes)
        context.sleep_until_lasted(parameters.restart_after_s)
        return _wait_for_reaction(context, selector, targets, parameters.patience_s)


def _stop(
    context: FaultContext, selector: TargetSelector, targets: Targets, parameters: StopParameters
) -> bool:
    """Shut all targets down at the same time; start them as `_crash` does.

    Returns:
        Whether each shut down in time and the cluster reacted.
    """
    with context.injected(*targets.nodes) as heals:
        for node in targets.nodes:
            heals.callback(context.start, node)
        with ThreadPoolExecutor(len(targets.nodes), "stop") as threads:
            stops = [
                threads.submit(context.stop, node, parameters.end_within_s)
                for node in targets.nodes
            ]
        clean = all(_for_each(context, lambda stop: stop.result(), stops))
        context.sleep_until_lasted(parameters.restart_after_s)
        return _wait_for_reaction(context, selector, targets, parameters.patience_s) and clean


def _pause(
    context: FaultContext, selector: TargetSelector, targets: Targets, parameters: PauseParameters
) -> bool:
    """Pause all targets for a while.

    Returns:
        Whether all were paused until the end and, if the leader is among them, for longer than the
        client waits for a response; of a coordinator, whether another node took over.
    """
    with context.injected(*targets.nodes) as heals:
        for node in targets.nodes:
            heals.callback(context.resume, node)
        _for_each(context, context.pause, targets.nodes)
        context.mark_begin()
        context.sleep_until_lasted(parameters.pause_s)
        still_paused = all(context.process_state(node) == "paused" for node in targets.nodes)
        lasted_s = context.elapsed_s()
        moved = selector.reaction(context, targets) if selector.is_coordinator else None
    context.add_evidence(
        f"SIGSTOP paused {format_nodes(targets.nodes)} for {lasted_s:.2f} s;"
        f" a request times out after {context.client_timeout_s:g} s"
    )
    if not still_paused:
        context.add_evidence("not every node was paused until the heal")
    if selector.is_coordinator:
        context.add_evidence(moved or selector.no_reaction(targets))
        return still_paused and moved is not None
    return still_paused and (lasted_s > context.client_timeout_s or not selector.includes_leader)


def _wait_for_reaction(
    context: FaultContext, selector: TargetSelector, targets: Targets, patience_s: float
) -> bool:
    """Return whether the cluster reacts in time.

    Without a quorum (one node of one or two is left) no other change than the missing controller
    can be observed.
    """
    return context.wait_for_reaction(
        lambda: selector.reaction(context, targets) or no_controller(context),
        patience_s,
        selector.no_reaction(targets),
    )


def _for_each(
    context: FaultContext, action: Callable[[Item], Result], items: Sequence[Item]
) -> list[Result]:
    """Return the result of the action for each item; skip nodes that it misses, with evidence.

    Raises:
        FaultMissed: it missed all of them.
    """
    results = []
    for item in items:
        try:
            results.append(action(item))
        except FaultMissed as missed:
            context.add_evidence(str(missed))
    if not results:
        raise FaultMissed("none of the target nodes ran")
    return results


# Effects on one node


def _stop_effects(parameters: StopParameters, topology: Topology) -> FaultEffects:
    """Return the effects of a clean stop: those of a crash.

    A leader that shuts down hands over to a follower that need not have its last records, if acks
    is 1.
    """
    crash = crash_effects(parameters, topology)
    return crash.model_copy(
        update={"heals_within_ms": crash.heals_within_ms + parameters.end_within_s * 1000}
    )


def _pause_effects(parameters: PauseParameters, _topology: Topology) -> FaultEffects:
    lasts_ms = parameters.pause_s * 1000
    return FaultEffects(
        nodes_paused=1,
        pause_ms=lasts_ms,
        may_affect_leader=True,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


# Confirmation from the logs, after the trial


def require_clean_shutdown(
    evidence: FaultEvidence, observations: TrialObservations
) -> FaultEvidence:
    """Return the evidence; without effect if a target did not log a clean shutdown.

    Such a node died of something else, which is another fault.
    """
    shut_down = {event.node for event in observations.since("shut_down")}
    silent = tuple(node for node in evidence.targets if node not in shut_down)
    if not silent:
        return evidence
    return extend_evidence(
        evidence,
        f"the log of {format_nodes(silent)} does not report a clean shutdown",
        took_effect=False,
    )


def _require_noticed_pause(
    evidence: FaultEvidence, observations: TrialObservations
) -> FaultEvidence:
    """Return the evidence of a pause that clients need not notice.

    It had no effect if no request timed out and neither leader nor ISR nor controller changed.
    """
    isr_shrank = any(
        str(node) not in event.detail.split(",")
        for event in observations.since("isr")
        for node in evidence.targets
    )
    moved = any(
        event.node not in {None, *evidence.targets}
        for event in observations.since("leader", "controller")
    )
    if observations.timed_out_requests() or isr_shrank or moved:
        return evidence
    return extend_evidence(
        evidence,
        "no request timed out, and neither leader nor ISR nor controller changed",
        took_effect=False,
    )


def _require_noticed_coordinator_pause(
    evidence: FaultEvidence, observations: TrialObservations
) -> FaultEvidence:
    """Return the evidence of a coordinator's pause.

    If the coordinator did not move, it had an effect if a request of a client timed out.
    """
    timed_out = {event.detail.partition(":")[0] for event in observations.since("timed_out")}
    if evidence.took_effect or not timed_out:
        return evidence
    clients = ", ".join(sorted(timed_out))
    return extend_evidence(evidence, f"requests timed out of {clients}", took_effect=True)


def _confirmation(
    action: Action, selector: TargetSelector
) -> Callable[[FaultEvidence, TrialObservations], FaultEvidence]:
    """Return how to confirm the fault after the trial.

    A pause must have been noticed, and a node that was stopped must have logged its shutdown.
    """
    if action is STOP:
        return require_clean_shutdown
    if action is PAUSE:
        if selector.is_coordinator:
            return _require_noticed_coordinator_pause
        return require_timed_out_requests if selector.includes_leader else _require_noticed_pause
    return accept_evidence


# The kinds: each target selector times each action

CRASH: Final = Action(
    "crash",
    "crashed (SIGKILL) and started again later",
    _crash,
    crash_effects,
    CrashParameters,
    {
        FOLLOWER.name: FollowerCrashParameters,
        NODE.name: NodeCrashParameters,
        MAJORITY.name: MajorityCrashParameters,
        TRANSACTION_COORDINATOR.name: CoordinatorCrashParameters,
        GROUP_COORDINATOR.name: GroupCoordinatorCrashParameters,
    },
)
STOP: Final = Action(
    "stop",
    "shut down cleanly (SIGTERM) and started again later",
    _stop,
    _stop_effects,
    StopParameters,
    {
        FOLLOWER.name: FollowerStopParameters,
        NODE.name: NodeStopParameters,
        MAJORITY.name: MajorityStopParameters,
        TRANSACTION_COORDINATOR.name: CoordinatorStopParameters,
        GROUP_COORDINATOR.name: GroupCoordinatorStopParameters,
    },
)
PAUSE: Final = Action(
    "pause",
    "paused (SIGSTOP) for a while",
    _pause,
    _pause_effects,
    LongPauseParameters,
    {
        LEADER.name: LeaderPauseParameters,
        ALL.name: LeaderPauseParameters,
        FOLLOWER.name: FollowerPauseParameters,
        NODE.name: NodePauseParameters,
        MAJORITY.name: MajorityPauseParameters,
        TRANSACTION_COORDINATOR.name: CoordinatorPauseParameters,
        GROUP_COORDINATOR.name: GroupCoordinatorPauseParameters,
    },
)
ACTIONS: Final = (CRASH, STOP, PAUSE)


def _kind(selector: TargetSelector, action: Action) -> FaultKind:
    name = f"{selector.name}-{action.name}"

    def inject(context: FaultContext, parameters: FaultParameters) -> FaultEvidence:
        context.sleep_until(parameters.at_s)
        targets = selector.find(context, parameters)
        took_effect = action.inject(context, selector, targets, parameters)
        return context.fault_evidence(targets.nodes, took_effect=took_effect)

    def effects(parameters: FaultParameters, topology: Topology) -> FaultEffects:
        of_one = action.effects(parameters, topology)
        field = "nodes_down" if of_one.nodes_down else "nodes_paused"
        return of_one.model_copy(
            update={
                "may_affect_leader": selector.may_lead(topology),
                field: selector.count(topology),
                "controllers_failed": selector.controllers(topology),
            }
        )

    return FaultKind(
        name,
        FAMILY,
        f"{selector.description} {'are' if selector.plural else 'is'} {action.description}",
        action.parameters_for(selector),
        inject,
        effects,
        confirm=_confirmation(action, selector),
    )


# The leader crashes while its followers are behind
#
# What only the leader had is lost: KIP-101 (an old leader truncates its log to the leader epoch
# when it rejoins) and KIP-966 (eligible leader replicas).


def crash_leader_with_followers_behind(
    context: FaultContext, parameters: BehindParameters
) -> FaultEvidence:
    """Pause the followers, crash the leader, resume the followers.

    It took effect if the partition lost its leader.
    """
    context.sleep_until(parameters.at_s)
    targets = LEADER.find(context, parameters)
    (leader,) = targets.nodes
    followers = tuple(node for node in targets.partition.replicas if node != leader)
    with context.injected(leader, *followers) as heals:
        for follower in followers:
            heals.callback(context.resume, follower)
            context.pause(follower)
        context.add_evidence(
            f"SIGSTOP paused {format_nodes(followers)} (followers) for {parameters.behind_s:g} s"
            if followers
            else "there was no follower to pause: replication factor 1"
        )
        context.sleep_until_lasted(parameters.behind_s)
        heals.callback(context.start, leader)
        context.kill(leader)
        for follower in followers:
            context.resume(follower)
        context.sleep_until_lasted(parameters.behind_s + parameters.restart_after_s)
        took_effect = wait_for_leader_change(context, leader, parameters.patience_s)
    return context.fault_evidence((leader, *followers), took_effect=took_effect)


def _crash_behind_effects(parameters: BehindParameters, topology: Topology) -> FaultEffects:
    crash = crash_effects(parameters, topology)
    pause_ms = parameters.behind_s * 1000
    return crash.model_copy(
        update={
            "nodes_paused": topology.replication_factor - 1,
            "pause_ms": pause_ms,
            "heals_within_ms": crash.heals_within_ms + pause_ms,
        }
    )


KINDS: Final = (
    *(_kind(selector, action) for action in ACTIONS for selector in ALL_TARGETS),
    FaultKind(
        "leader-crash-behind",
        FAMILY,
        "the leader crashes (SIGKILL) while its followers are paused (SIGSTOP) and behind;"
        " they are resumed at once, the leader is started again later",
        BehindParameters,
        crash_leader_with_followers_behind,
        _crash_behind_effects,
    ),
)
