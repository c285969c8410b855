"""What a fault asks of its trial and does in it, read off the request: of a single one as its kind says, of several joined. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from experiments.faults import FAULTS, require_capabilities
from experiments.faults.core import FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.sweep.plan import ClusterNeed, FaultRequest


def parameters_of(fault: FaultRequest) -> FaultParameters:
    """Return a single fault's parameters."""
    return FAULTS[fault.kind].parameters.model_validate(fault.parameters)


def heals_at_s(fault: FaultRequest) -> float:
    """Return when the last heal has been asked for, seconds after the load began."""
    if not fault.parts:
        return parameters_of(fault).heals_at_s()
    return (sum if fault.joined == ">>" else max)(map(heals_at_s, fault.parts))


def impossible_reason(fault: FaultRequest, shape: Topology) -> str | None:
    """Say why there can be no such fault on such a cluster; `None`: there can."""
    alone = (
        _said_of(leaf, parameters_of(leaf).impossible_reason(shape), fault)
        for leaf in fault.leaves()
    )
    return next(filter(None, (*alone, _contradiction(fault))), None)


def unnoticed_reason(fault: FaultRequest, client_timeout_s: float, acks: str) -> str | None:
    """Say why a producer with these settings could not notice the fault, or a part of it; `None`: it can."""
    reasons = (
        _said_of(leaf, parameters_of(leaf).unnoticed_reason(client_timeout_s, acks), fault)
        for leaf in fault.leaves()
    )
    return next(filter(None, reasons), None)


def needs_own_cluster(fault: FaultRequest) -> bool:
    """Whether what it does can outlive its trial."""
    return any(FAULTS[leaf.kind].needs_own_cluster for leaf in fault.leaves())


def cluster_for_fault(cluster: ClusterNeed, fault: FaultRequest) -> ClusterNeed:
    """Return the cluster with the network and the disks that its fault needs; of several, what any of them needs."""
    kinds = [FAULTS[leaf.kind] for leaf in fault.leaves()]
    network = next((kind.network for kind in kinds if kind.network != "loopback"), "loopback")
    disk = next((kind.disk for kind in kinds if kind.disk != "folder"), "folder")
    return cluster.model_copy(update={"network": network, "disk": disk})


def require_fault_capabilities(fault: FaultRequest) -> None:
    """See that this machine can do it.

    Raises:
        MachineError: as `require_means`.
    """
    for kind in dict.fromkeys(leaf.kind for leaf in fault.leaves()):
        require_capabilities(kind)


def effects_of(fault: FaultRequest, shape: Topology) -> FaultEffects:
    """Return what it does; of several, what they do together at the worst."""
    return _course(fault, shape).effects


def _said_of(leaf: FaultRequest, reason: str | None, fault: FaultRequest) -> str | None:
    return f"{leaf.kind}: {reason}" if reason and fault.parts else reason


def _contradiction(fault: FaultRequest) -> str | None:
    """A cluster stands on one kind of network and one kind of disk."""
    for what in ("network", "disk"):
        wanted = {
            getattr(FAULTS[leaf.kind], what): leaf.kind
            for leaf in fault.leaves()
            if getattr(FAULTS[leaf.kind], what) not in {"loopback", "folder"}
        }
        if len(wanted) > 1:
            return (
                " and ".join(f"{kind} needs a {what} of {its}" for its, kind in wanted.items())
                + ": no cluster has both"
            )
    return None


@dataclass(frozen=True)
class _TimeSpan:
    """A fault, and when it begins, counted from where its own times count from."""

    begins_ms: float
    effects: FaultEffects


def _course(fault: FaultRequest, shape: Topology) -> _TimeSpan:
    if not fault.parts:
        return _TimeSpan(
            parameters_of(fault).at_s * 1000, FAULTS[fault.kind].effects_of(fault.parameters, shape)
        )
    parts = [_course(part, shape) for part in fault.parts]
    joined = _in_turn(parts) if fault.joined == ">>" else _together(parts)
    return replace(joined, effects=joined.effects.model_copy(update={"kind": fault.kind}))


def _together(parts: Sequence[_TimeSpan]) -> _TimeSpan:
    """All at once, at the worst: what dies is dead and what stands still does so at the same time, on one node or on as many as there are."""
    begins_ms = min(part.begins_ms for part in parts)
    times = {
        name: max(part.begins_ms + getattr(part.effects, name) for part in parts) - begins_ms
        for name in ("heals_after_ms", "heals_within_ms")
    }
    return _TimeSpan(begins_ms, _joined(parts, _TOGETHER).model_copy(update=times))


def _in_turn(parts: Sequence[_TimeSpan]) -> _TimeSpan:
    """Each runs when the next one strikes, its page cache with it: at no time more is dead than in the worst of them.

    A node that lost power is another matter: it may not have copied back what it lost when the next one dies.
    """
    lasting_ms = sum(part.begins_ms for part in parts[1:])
    times = {
        name: sum(getattr(part.effects, name) for part in parts) + lasting_ms
        for name in ("heals_after_ms", "heals_within_ms")
    }
    adds_up = any(part.effects.power_loss or part.effects.loses_synced_data for part in parts)
    rules = {**_IN_TURN, "nodes_down": sum} if adds_up else _IN_TURN
    return _TimeSpan(parts[0].begins_ms, _joined(parts, rules).model_copy(update=times))


_Rule = Callable[[list[Any]], Any]
_EITHER: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
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
            ),
            any,
        ),
        **dict.fromkeys(("moves_leader", "forces_unclean_election", "deletes_topic"), any),
        **dict.fromkeys(
            (
                "restarts_producer",
                "resends_unacknowledged",
                "ends_transactional_producer",
                "interrupts_member",
                "zookeeper_server_down",
                "zookeeper_unavailable",
            ),
            any,
        ),
    }
)
_COUNTED: Final = (
    "nodes_down",
    "nodes_paused",
    "pause_ms",
    "followers_out_of_sync",
    "nodes_isolated",
    "requests_held_ms",
)
_TOGETHER: Final[Mapping[str, _Rule]] = MappingProxyType(
    {**_EITHER, **dict.fromkeys(_COUNTED, sum)}
)
_IN_TURN: Final[Mapping[str, _Rule]] = MappingProxyType({**_EITHER, **dict.fromkeys(_COUNTED, max)})
"""How a field of several natures becomes one."""
_TIMED: Final = frozenset({"kind", "heals_after_ms", "heals_within_ms"})


def _joined(parts: Sequence[_TimeSpan], rules: Mapping[str, _Rule]) -> FaultEffects:
    """Return the whole's nature; where a part does something of which no rule is known here, nothing is known of the whole."""
    effects_of_all = [part.effects for part in parts]
    joined = FaultEffects(kind="").model_copy(
        update={
            name: rule([getattr(effects, name) for effects in effects_of_all])
            for name, rule in rules.items()
        }
    )
    others = [
        name for name in FaultEffects.model_fields if name not in rules and name not in _TIMED
    ]
    strange = any(
        getattr(effects, name) != FaultEffects.model_fields[name].default
        for effects in effects_of_all
        for name in others
    )
    return (
        joined.model_copy(update={"known": False, "may_affect_leader": True}) if strange else joined
    )
