"""Which of ackbench's faults is most like an incident, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.incidents.node_outages import AWAY, How, Incident, NodeOutage
from ackbench.experiments.results.incidents.sightings import Kind, Sighting

_BEFORE_S: Final = 15.0
_TOO_FEW_REPLICAS: Final = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
_STORM: Final = 3
"""So many crashes of one node are a storm."""


@dataclass(frozen=True)
class Likeness:
    """A fault that is like the incident."""

    fault: str
    """As in `ackbench faults`."""
    reasons: tuple[str, ...]
    """What speaks for it, as clauses."""
    evidence: tuple[Sighting, ...] = ()
    parameters: dict[str, float] = field(default_factory=dict)
    at_s: float = 0.0
    """When it began."""


def likenesses(incident: Incident) -> tuple[Likeness, ...]:
    """Return the faults that are like an incident, the most alike first.

    What names its own cause comes before what follows from nodes that were away, and this before
    what only clients saw.
    """
    found: dict[str, Likeness] = {}
    for read in _READERS:
        for one in read(incident):
            found.setdefault(one.fault, one)
    return tuple(found.values())


def _disks(incident: Incident) -> Iterator[Likeness]:
    full = tuple(incident.of(Kind.DISK_FULL))
    failed = tuple(incident.of(Kind.DISK_FAILED))
    if full:
        yield Likeness("disk-full", ("a disk had no space left",), full[:2], at_s=full[0].at_s)
    elif failed:
        yield Likeness("log-dir-gone", ("a log directory failed",), failed[:2], at_s=failed[0].at_s)
    corrupt = tuple(incident.of(Kind.CORRUPT))
    if corrupt:
        yield Likeness(
            "bit-flip", ("stored records were corrupt",), corrupt[:2], at_s=corrupt[0].at_s
        )


def _topics(incident: Incident) -> Iterator[Likeness]:
    """Yield what administrators do: topics deleted, partitions added."""
    deleted = list(incident.of(Kind.DELETED_TOPIC))
    known: set[str] = set()
    for one in incident.of(Kind.NEW_PARTITION, Kind.NEW_LEADER, Kind.ISR, before=True):
        topic, _, number = one.partition.rpartition("-")
        if one.kind is not Kind.NEW_PARTITION or incident.begin_s > one.at_s:
            known.add(topic)
            continue
        again = next((d for d in deleted if d.detail == topic and d.at_s <= one.at_s), None)
        if again:
            reasons = (f"{topic} was deleted and made again",)
            yield Likeness("topic-recreated", reasons, (again, one), at_s=again.at_s)
            return
        if topic in known and int(number) > 0 and _is_later(incident, topic, one.at_s):
            reasons = (f"{topic} got more partitions",)
            yield Likeness("partitions-raised", reasons, (one,), at_s=one.at_s)
            return
        known.add(topic)


def _is_later(incident: Incident, topic: str, at_s: float) -> bool:
    """Return whether a partition was made well after the first of its topic."""
    first = next((one.at_s for one in incident.sightings if one.topic == topic), at_s)
    return at_s - first > 1.0


def _nodes(incident: Incident) -> Iterator[Likeness]:
    """Yield the faults of nodes that were away.

    Where no log says how, a crash comes first, then a pause: brokers see no difference.
    """
    outages = [one for one in incident.outages if one.how is not How.UNKNOWN]
    if outages:
        yield from _repeated(outages)
        yield from _of_outages(incident, max(_begun_together(outages), key=_severity))
    elif incident.outages:
        outages = max(_begun_together(incident.outages), key=_severity)
        for how in (How.CRASH, How.PAUSE):
            assumed = [replace(one, how=how) for one in outages]
            yield from _of_outages(incident, assumed, AWAY[How.UNKNOWN])


def _severity(outages: Sequence[NodeOutage]) -> tuple[int, int, float]:
    """Return how much a group of outages decides: processes that ended more than others."""
    ended = sum(one.how in {How.CRASH, How.STOP} for one in outages)
    return (min(ended, 1), len({one.node for one in outages}), -outages[0].begin_s)


def _begun_together(outages: Sequence[NodeOutage]) -> list[list[NodeOutage]]:
    """Return the outages of one kind that began together."""
    groups: list[list[NodeOutage]] = []
    for one in sorted(outages, key=lambda one: (one.how, one.begin_s)):
        if groups and one.began_with(groups[-1][0]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _repeated(outages: Sequence[NodeOutage]) -> Iterator[Likeness]:
    """Yield what several outages after each other are."""
    evidence = tuple(one for outage in outages for one in outage.evidence[:1])
    begun = outages[0].begin_s
    in_recovery = [one for one in outages if one.in_recovery and one.how is How.CRASH]
    crashes = Counter(one.node for one in outages if one.how is How.CRASH)
    most = max(crashes.values(), default=0)
    if most >= _STORM:
        node = crashes.most_common(1)[0][0]
        reasons = (f"node {node} crashed {most} times",)
        yield Likeness("restart-storm", reasons, evidence, {"times": float(most)}, begun)
    elif in_recovery:
        reasons = (f"node {in_recovery[0].node} crashed again while it recovered its log",)
        yield Likeness("crash-in-recovery", reasons, evidence, at_s=begun)
    restarted = [one for one in outages if one.how in {How.CRASH, How.STOP} and one.end_s]
    in_turn = [
        (one, other)
        for one, other in pairwise(restarted)
        if one.node != other.node and other.begin_s >= (one.end_s or 0) - 0.5
    ]
    nodes = {one.node for one in restarted}
    if len(nodes) > 1 and len(in_turn) >= len(nodes) - 1:
        clean = all(one.how is How.STOP for one in restarted)
        reasons = (f"nodes {_names(nodes)} were restarted in turn",)
        name = "rolling-restart-clean" if clean else "rolling-restart-hard"
        yield Likeness(name, reasons, evidence, at_s=begun)


def _of_outages(
    incident: Incident, outages: Sequence[NodeOutage], how_away: str = ""
) -> Iterator[Likeness]:
    nodes = {one.node for one in outages}
    begin_s = outages[0].begin_s
    how = outages[0].how
    evidence = tuple(seen for one in outages for seen in one.evidence)
    parameters = _parameters(outages, how)
    away = f"node{'s' if len(nodes) > 1 else ''} {_names(nodes)} {how_away or AWAY[how]}"
    brokers = nodes & incident.brokers
    led = [partition for node in sorted(nodes) for partition in incident.led_by(node, begin_s)]

    def like(fault: str, *reasons: str) -> Likeness:
        return Likeness(fault, (away, *reasons), evidence, parameters, begin_s)

    if any(one.with_empty_disk for one in outages):
        yield like("node-replaced", "it came back without its data")
    unclean = next(incident.of(Kind.UNCLEAN), None)
    alone = _alone_in_isr(incident, nodes, begin_s)
    if unclean and (not brokers or len(brokers) != incident.total_brokers):
        yield Likeness(
            "unclean-election",
            (away, "a replica that was not in sync was elected"),
            (*evidence, unclean),
            parameters,
            begin_s,
        )
    elif alone and how is How.CRASH:
        yield Likeness(
            "isr-shrunk-leader-crash",
            (away, f"it was alone in the ISR of {alone.partition}"),
            (alone, *evidence),
            parameters,
            begin_s,
        )
    if how is How.ISOLATED and len(nodes) > 1:
        yield like("split-majority", "they were cut off together")
    else:
        target, reason = _target(incident, outages, led)
        yield like(f"{target}-{how}", reason)


def _target(
    incident: Incident, outages: Sequence[NodeOutage], led: Sequence[str]
) -> tuple[str, str]:
    """Return which nodes were away, as faults name them, and what says so."""
    first = outages[0]
    brokers = {one.node for one in outages} & incident.brokers
    total = incident.total_brokers
    if first.how is not How.ISOLATED and len(brokers) >= total > 0:
        return "all", f"these are all {total} brokers" if total > 1 else "it is the only broker"
    if first.how is not How.ISOLATED and len(brokers) > 1 and len(brokers) * 2 > total:
        return "majority", f"these are {len(brokers)} of {total} brokers"
    if first.node == incident.controller_at(first.begin_s - 0.1) or not brokers:
        return "controller", "it was the active controller"
    if led:
        return "leader", f"it led {format_list(led[:3])}"
    if incident.names_leaders:
        return "follower", "it led no partition of an application"
    return "leader", "what it led is not in the files"


def _parameters(outages: Sequence[NodeOutage], how: How) -> dict[str, float]:
    """Return how long the nodes were away, by the name that the fault has for it."""
    ends = [(one.begin_s, one.restarted_s or one.end_s) for one in outages]
    longest = max((end - begin for begin, end in ends if end is not None), default=0.0)
    name = {How.PAUSE: "pause_s", How.ISOLATED: "lasts_s"}.get(how, "restart_after_s")
    return {name: round(longest, 1)} if longest > 0 else {}


def _alone_in_isr(incident: Incident, nodes: set[int], at_s: float) -> Sighting | None:
    """Return what says that a node which then went away was alone in an ISR."""
    last: dict[str, Sighting] = {}
    for one in incident.of(Kind.ISR, Kind.NEW_LEADER, before=True):
        if at_s - _BEFORE_S < one.at_s <= at_s and one.isr is not None:
            last[one.partition] = one
    for one in last.values():
        if len(one.isr or ()) == 1 and set(one.isr or ()) <= nodes:
            return one
    return None


def _replicas(incident: Incident) -> Iterator[Likeness]:
    """Yield what happens between live nodes: leaders and replicas that move, ISRs that shrink."""
    away = [one for one in incident.outages if one.how is not How.UNKNOWN]
    if away:
        return
    moving = tuple(incident.of(Kind.MOVING))
    if moving:
        reasons = ("replicas moved to other nodes",)
        yield Likeness("reassignment", reasons, moving[:2], at_s=moving[0].at_s)
    too_few = tuple(
        one
        for one in incident.of(Kind.TOO_FEW_REPLICAS, Kind.RETRIED)
        if one.kind is Kind.TOO_FEW_REPLICAS or one.detail in _TOO_FEW_REPLICAS
    )
    if too_few:
        reasons = ("a leader had too few replicas in sync, and no node was seen away",)
        yield Likeness("followers-throttled", reasons, too_few[:2], at_s=too_few[0].at_s)
    isr: dict[str, tuple[int, ...]] = {}
    for one in incident.of(Kind.ISR, Kind.NEW_LEADER, before=True):
        if one.isr is None:
            continue
        before, inside = isr.get(one.partition, ()), one.at_s >= incident.begin_s
        if inside and one.kind is Kind.ISR and len(one.isr) < len(before):
            reasons = (f"the ISR of {one.partition} shrank while all nodes ran",)
            yield Likeness("followers-throttled", reasons, (one,), at_s=one.at_s)
            break
        isr[one.partition] = one.isr
    leaders: dict[str, int | None] = {}
    for one in incident.of(Kind.NEW_LEADER, before=True):
        known = leaders.get(one.partition)
        if one.at_s < incident.begin_s:
            leaders[one.partition] = one.node
            continue
        if known not in {None, one.node}:
            reasons = (f"the leader of {one.partition} changed while all nodes ran",)
            yield Likeness("preferred-leader-change", reasons, (one,), at_s=one.at_s)
            break
        leaders[one.partition] = one.node
    else:
        yield from _epochs(incident)


def _epochs(incident: Incident) -> Iterator[Likeness]:
    """Yield a change of the leader of which only followers' logs are there."""
    epochs: dict[str, str] = {}
    for one in incident.of(Kind.NEW_EPOCH, before=True):
        is_first = one.partition not in epochs and one.detail in {"0", ""}
        changed = epochs.get(one.partition) != one.detail and not is_first
        epochs[one.partition] = one.detail
        if changed and one.at_s >= incident.begin_s:
            reasons = (f"{one.partition} got another leader, and no node was seen away",)
            yield Likeness("preferred-leader-change", reasons, (one,), at_s=one.at_s)
            return


_SEEN_BY_CLIENTS: Final[tuple[tuple[Kind, str, str], ...]] = (
    (Kind.PRODUCER_FENCED, "producer-fenced", "a producer was fenced by another one"),
    (Kind.SLOW_MEMBER, "consumer-stall", "a member did not poll for max.poll.interval.ms"),
    (Kind.MEMBER_FAILED, "consumer-crash", "a member was removed from its group"),
    (Kind.COORDINATOR_LOST, "group-coordinator-crash", "clients lost their group's coordinator"),
    (Kind.REQUEST_TIMED_OUT, "responses-dropped", "requests timed out while no broker was away"),
    (Kind.DELIVERY_TIMED_OUT, "client-isolated", "records waited until their time-out"),
    (Kind.UNREACHABLE, "client-isolated", "clients reached no broker, and no broker was away"),
    (Kind.DISCONNECTED, "relay-reset", "connections of clients broke while no broker was away"),
)


def _clients(incident: Incident) -> Iterator[Likeness]:
    """Yield what only clients' logs show."""
    for kind, fault, reason in _SEEN_BY_CLIENTS:
        seen = [one for one in incident.of(kind) if one.by is None or kind is Kind.MEMBER_FAILED]
        if seen:
            yield Likeness(fault, (reason,), tuple(seen[:2]), at_s=seen[0].at_s)


_READERS: Final[tuple[Callable[[Incident], Iterator[Likeness]], ...]] = (
    _disks,
    _topics,
    _nodes,
    _replicas,
    _clients,
)


def _names(nodes: set[int]) -> str:
    return format_list([str(node) for node in sorted(nodes)])
