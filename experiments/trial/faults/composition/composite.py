"""The needs and the effects of a requested fault, single or joined. Pure.

The effects of joined faults are the worst that the parts can do together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import did_you_mean, format_value
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.sweep.plan import ClusterNeed, FaultRequest
from ackbench.experiments.trial.faults import FAULTS, require_capabilities
from ackbench.experiments.trial.faults.core import FaultParameters
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.infra.kafka.spec import DiskKind, NetworkKind


def parameters_of(fault: FaultRequest) -> FaultParameters:
    """Return the parameters of a single fault."""
    return FAULTS[fault.kind].parameters.model_validate(fault.parameters)


def require_known_fault(fault: FaultRequest) -> None:
    """Check that this version can inject a fault of a plan, which another version may have made.

    Raises:
        ExperimentError: a kind or a parameter is unknown, or has a value that is not allowed.
    """
    for leaf in fault.leaves():
        if leaf.kind not in FAULTS:
            raise ExperimentError(
                f"unknown fault {format_value(leaf.kind)}{did_you_mean(leaf.kind, FAULTS)}: "
                "run the plan with the version of ackbench that has made it"
            )
        try:
            parameters_of(leaf)
        except ValidationError as error:
            model = FAULTS[leaf.kind].parameters
            reason = describe_validation_error(error, model, f"{leaf.kind}.")
            raise ExperimentError(reason) from error


def needs_load_s(fault: FaultRequest, topology: Topology) -> float:
    """Return how long the load has to last for the fault, with all its parts, to fall into it."""
    if not fault.parts:
        return parameters_of(fault).needs_load_s(topology)
    return (sum if fault.joined == ">>" else max)(
        needs_load_s(part, topology) for part in fault.parts
    )


# Requirements


def impossible_reason(fault: FaultRequest, topology: Topology) -> str | None:
    """Return why the fault is impossible with this topology; `None`: it is possible."""
    for leaf in fault.leaves():
        reason = parameters_of(leaf).impossible_reason(topology)
        if reason:
            return _with_name(leaf, reason, fault)
    return _conflicting_needs(fault)


def unnoticed_reason(fault: FaultRequest, client_timeout_s: float, acks: str) -> str | None:
    """Return why a producer with these settings cannot notice a part of the fault; `None`: it can.

    Args:
        fault: one fault, or several joined.
        client_timeout_s: how long the producer waits for a response.
        acks: the producer's `acks`.
    """
    for leaf in fault.leaves():
        reason = parameters_of(leaf).unnoticed_reason(client_timeout_s, acks)
        if reason:
            return _with_name(leaf, reason, fault)
    return None


def _with_name(leaf: FaultRequest, reason: str, fault: FaultRequest) -> str:
    return f"{leaf.kind}: {reason}" if fault.parts else reason


def _conflicting_needs(fault: FaultRequest) -> str | None:
    """Return which parts need different kinds of network, or of disk; `None`: no parts do."""
    for resource, default in (("network", "loopback"), ("disk", "folder")):
        needs = {getattr(FAULTS[leaf.kind], resource): leaf.kind for leaf in fault.leaves()}
        needs.pop(default, None)
        if len(needs) > 1:
            conflict = " and ".join(
                f"{kind} needs {resource} {needed}" for needed, kind in needs.items()
            )
            return f"{conflict}; a cluster has one kind of {resource}"
    return None


def needs_own_cluster(fault: FaultRequest) -> bool:
    """Return whether its effects can outlast the trial: no other trial may use the cluster."""
    return any(FAULTS[leaf.kind].needs_own_cluster for leaf in fault.leaves())


def cluster_for_fault(cluster: ClusterNeed, fault: FaultRequest) -> ClusterNeed:
    """Return the cluster with the network and the disks that the fault, or a part of it, needs."""
    kinds = [FAULTS[leaf.kind] for leaf in fault.leaves()]
    network: NetworkKind = next(
        (kind.network for kind in kinds if kind.network != "loopback"), "loopback"
    )
    disk: DiskKind = next((kind.disk for kind in kinds if kind.disk != "folder"), "folder")
    return replace(cluster, network=network, disk=disk)


def require_fault_capabilities(fault: FaultRequest) -> None:
    """Check that this machine can inject the fault, with all its parts.

    Raises:
        MachineError: as `experiments.trial.faults.require_capabilities`.
    """
    for kind in dict.fromkeys(leaf.kind for leaf in fault.leaves()):
        require_capabilities(kind)


# Effects


def effects_of(fault: FaultRequest, topology: Topology) -> FaultEffects:
    """Return the effects of the fault; of several, the worst that they can do together."""
    return _timed_effects(fault, topology).effects


@dataclass(frozen=True)
class _TimedEffects:
    """Effects of a fault, and when it begins."""

    begins_ms: float
    """From the moment from which its times count."""
    effects: FaultEffects


def _timed_effects(fault: FaultRequest, topology: Topology) -> _TimedEffects:
    if not fault.parts:
        effects = FAULTS[fault.kind].effects_of(fault.parameters, topology)
        return _TimedEffects(parameters_of(fault).at_s * 1000, effects)
    parts = [_timed_effects(part, topology) for part in fault.parts]
    joined = _in_turn(parts) if fault.joined == ">>" else _in_parallel(parts)
    return replace(joined, effects=joined.effects.model_copy(update={"kind": fault.kind}))


def _in_parallel(parts: Sequence[_TimedEffects]) -> _TimedEffects:
    """Return the effects of faults in parallel.

    At the worst all nodes are down or paused at the same time, and all pauses are of the same node,
    one after the other.
    """
    begins_ms = min(part.begins_ms for part in parts)
    times = {
        name: max(part.begins_ms + getattr(part.effects, name) for part in parts) - begins_ms
        for name in ("heals_after_ms", "heals_within_ms")
    }
    return _TimedEffects(
        begins_ms, _combine(parts, dict.fromkeys(_AMOUNTS, sum)).model_copy(update=times)
    )


def _in_turn(parts: Sequence[_TimedEffects]) -> _TimedEffects:
    """Return the effects of faults in turn.

    A crashed node runs again, with its page cache, when the next fault begins: no more nodes are
    down at a time than in the worst of the parts. A node that lost power may not have replicated
    again what it lost when the next one goes down, so these add up.
    """
    between_ms = sum(part.begins_ms for part in parts[1:])
    times = {
        name: sum(getattr(part.effects, name) for part in parts) + between_ms
        for name in ("heals_after_ms", "heals_within_ms")
    }
    loses_data = any(part.effects.power_loss or part.effects.loses_synced_data for part in parts)
    amounts: dict[str, _Rule] = dict.fromkeys(_AMOUNTS, max)
    if loses_data:
        amounts["nodes_down"] = sum
    return _TimedEffects(parts[0].begins_ms, _combine(parts, amounts).model_copy(update=times))


_Rule = Callable[[list[Any]], Any]
"""Combines the values of a field of `FaultEffects`."""
_COMMON_RULES: Final[Mapping[str, _Rule]] = {
    "known": all,
    "parts": sum,
    **dict.fromkeys(
        (
            "power_loss",
            "loses_synced_data",
            "corrupts_records",
            "may_affect_leader",
            "clients_cut_off",
            "responses_lost",
            "moves_leader",
            "forces_unclean_election",
            "adds_partitions",
            "deletes_topic",
            "restarts_producer",
            "resends_unacknowledged",
            "ends_transactional_producer",
            "delays_transactional_request",
            "interrupts_member",
            "zookeeper_server_down",
            "zookeeper_unavailable",
        ),
        any,
    ),
}
_AMOUNTS: Final = (
    "nodes_down",
    "nodes_paused",
    "pause_ms",
    "followers_out_of_sync",
    "nodes_isolated",
    "controllers_failed",
    "requests_held_ms",
)
"""The fields whose rules depend on how the faults are joined."""
_SET_BY_CALLER: Final = frozenset({"kind", "heals_after_ms", "heals_within_ms"})


def _combine(parts: Sequence[_TimedEffects], amounts: Mapping[str, _Rule]) -> FaultEffects:
    """Return the combined effects. If a part sets a field without a rule, they are unknown."""
    rules = {**_COMMON_RULES, **amounts}
    effects_of_parts = [part.effects for part in parts]
    combined = FaultEffects().model_copy(
        update={
            name: rule([getattr(effects, name) for effects in effects_of_parts])
            for name, rule in rules.items()
        }
    )
    without_rule = FaultEffects.model_fields.keys() - rules.keys() - _SET_BY_CALLER
    if any(
        getattr(effects, name) != FaultEffects.model_fields[name].default
        for effects in effects_of_parts
        for name in without_rule
    ):
        return combined.model_copy(update={"known": False, "may_affect_leader": True})
    return combined
