"""Which nodes were not there, how and when, from their own logs and the controllers'."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from ackbench.experiments.planning.properties import kafka_properties, known_versions
from ackbench.experiments.results.incidents.sightings import Kind, ReadLog, Sighting

_RETURN_S: Final = 120.0
"""A start within so long after an end belongs to it."""
_SOON_S: Final = 20.0
"""Within so long after a node has gone, its partitions have another leader, if ever."""
_ALONE_S: Final = 1.0
_SESSION: Final = "broker.session.timeout.ms"
_TOGETHER_S: Final = 2.0
"""Nodes that went away within so long went away together."""
_CUT_OFF: Final = frozenset(
    {Kind.UNREACHABLE, Kind.MISSED_HEARTBEAT, Kind.DISCONNECTED, Kind.REQUEST_TIMED_OUT}
)
_LEADS: Final = (Kind.NEW_LEADER, Kind.UNCLEAN)
"""The kinds of lines that say who leads."""
_INTERNAL: Final = "__"
"""How topics begin that no application has made."""


class How(StrEnum):
    """How a node was away."""

    CRASH = "crash"
    """It started again, or did not, and had not been shut down."""
    STOP = "stop"
    """It shut down cleanly."""
    PAUSE = "pause"
    """It did not run, and went on: it logged nothing meanwhile and did not start again."""
    ISOLATED = "isolated"
    """It ran, and reached others no more."""
    UNKNOWN = "unknown"
    """Its own log is not among the files."""


AWAY: Final = {
    How.CRASH: "ended without a shutdown",
    How.STOP: "shut down cleanly",
    How.PAUSE: "did not run for a while, and went on",
    How.ISOLATED: "ran and reached others no more",
    How.UNKNOWN: "was missed for its session, and its own log is not among the files",
}
"""How a node was away, as a predicate."""


@dataclass(frozen=True)
class NodeOutage:
    """A time in which a node was not there."""

    node: int
    how: How
    begin_s: float
    """When it was first noticed."""
    end_s: float | None
    """`None`: the logs end before."""
    evidence: tuple[Sighting, ...] = ()
    in_recovery: bool = False
    """Whether it ended before it had started completely."""
    with_empty_disk: bool = False
    """Whether it came back without its data."""
    restarted_s: float | None = None
    """When its process began again; `None`: it did not."""
    since_s: float | None = None
    """Its last sign of life; `None`: when it was noticed."""

    def began_with(self, other: NodeOutage) -> bool:
        """Return whether it may have begun when an earlier one did."""
        since_s = self.begin_s if self.since_s is None else self.since_s
        end_s = other.end_s if other.end_s is not None else float("inf")
        return (
            self.how is other.how
            and since_s - other.begin_s < _TOGETHER_S
            and self.begin_s - other.begin_s < _SOON_S
            and self.begin_s < end_s
        )


class Incident:
    """All logs of an incident, and what follows from them together."""

    def __init__(
        self, logs: Sequence[ReadLog], begin_s: float | None = None, topics: Collection[str] = ()
    ) -> None:
        """Take what was read of each file.

        Args:
            logs: what was read.
            begin_s: when the time in question begins; `None`: with the logs.
            topics: those in question; none: all.
        """
        self._topics = frozenset(topics)
        self.logs = tuple(logs)
        self.begin_s = begin_s if begin_s is not None else 0.0
        self.sightings = tuple(
            sorted(
                (one for log in logs for one in log.sightings if self._is_in_question(one)),
                key=lambda one: one.at_s,
            )
        )

    def _is_in_question(self, sighting: Sighting) -> bool:
        topic = sighting.topic
        return not topic or (
            topic in self._topics if self._topics else not topic.startswith(_INTERNAL)
        )

    def of(self, *kinds: Kind, before: bool = False) -> Iterator[Sighting]:
        """Yield the sightings of these kinds in the time in question, in their order.

        Args:
            kinds: what the lines say.
            before: also those from before that time.
        """
        return (
            one
            for one in self.sightings
            if one.kind in kinds and (before or one.at_s >= self.begin_s)
        )

    @cached_property
    def brokers(self) -> frozenset[int]:
        """The brokers that the logs name; see `total_brokers`."""
        own = {log.node for log in self.logs if "broker" in log.roles and log.node is not None}
        named = {one.node for one in self.of(Kind.FENCED, Kind.UNFENCED) if one.node is not None}
        of_leaders = self.of(*_LEADS, before=True)
        leaders = {one.node for one in of_leaders if one.node is not None}
        return frozenset({*own, *named, *leaders})

    @cached_property
    def total_brokers(self) -> int:
        """The number of brokers, if those that are named may be all; 0: unknown.

        One alone is all of them only if it says itself that it is a broker.
        """
        own = any(log.node in self.brokers and "broker" in log.roles for log in self.logs)
        return len(self.brokers) if own or len(self.brokers) > 1 else 0

    @property
    def names_leaders(self) -> bool:
        """The logs say who led a partition of an application."""
        return any(one.partition for one in self.of(*_LEADS, before=True))

    @cached_property
    def session_s(self) -> float:
        """How long brokers are missed before they are fenced."""
        printed = [log.file.settings.get("KafkaConfig", {}).get(_SESSION) for log in self.logs]
        known = [int(one) for one in printed if one and one.isdecimal()]
        return max(known, default=_default_session_ms()) / 1000

    @cached_property
    def end_s(self) -> float:
        """The moment of the last line of all."""
        return max((log.last_s for log in self.logs if log.last_s is not None), default=0.0)

    @cached_property
    def outages(self) -> tuple[NodeOutage, ...]:
        """Each time that a node was away, in order."""
        restarts = [one for log in self.logs for one in self._restarts(log)]
        fences = list(self._fences(restarts))
        controllers = self._lost_controllers([*restarts, *fences])
        return tuple(sorted([*restarts, *fences, *controllers], key=lambda one: one.begin_s))

    def _restarts(self, log: ReadLog) -> Iterator[NodeOutage]:
        if (node := log.node) is None:
            return
        stopped: Sighting | None = None
        clean, started = False, True
        own = [one for one in log.sightings if one.node == node or one.kind is Kind.EMPTY_DISK]
        for one in own:
            if one.kind in {Kind.SIGNALLED, Kind.STOPPED}:
                stopped = stopped or one
                clean = clean or one.kind is Kind.STOPPED
            elif one.kind is Kind.STARTED:
                started = True
            elif one.kind is Kind.STARTING:
                before = _last_before(log.moments_s, one.at_s)
                if stopped or before is not None:
                    ended = stopped if clean else None
                    yield self._outage(log, one, ended, before, started=started)
                stopped, clean, started = None, False, False
        if stopped and clean:
            yield NodeOutage(node, How.STOP, stopped.at_s, None, (stopped,))
        elif log.last_s is not None and (fence := self._never_unfenced(node, log.last_s)):
            yield NodeOutage(node, How.CRASH, log.last_s, None, (fence,))

    def _outage(
        self,
        log: ReadLog,
        starting: Sighting,
        stopped: Sighting | None,
        before: float | None,
        *,
        started: bool,
    ) -> NodeOutage:
        node = log.node if log.node is not None else -1
        back = next(
            (
                one.at_s
                for one in log.sightings
                if one.kind is Kind.STARTED and 0 <= one.at_s - starting.at_s < _RETURN_S
            ),
            None,
        )
        after = [one for one in log.sightings if 0 <= one.at_s - starting.at_s < _SOON_S]
        recovering = tuple(one for one in after if one.kind is Kind.RECOVERING)[:1]
        return NodeOutage(
            node,
            How.STOP if stopped else How.CRASH,
            stopped.at_s if stopped else self._missed_since(node, before, starting.at_s),
            back if back is not None else starting.at_s,
            (*([stopped] if stopped else []), starting, *recovering),
            in_recovery=not started,
            with_empty_disk=self._came_back_empty(log, starting, after),
            restarted_s=starting.at_s,
            since_s=None if stopped else before,
        )

    def _missed_since(self, node: int, from_s: float | None, to_s: float) -> float:
        """Return when a node went away: others say it sooner than its own next line."""
        noticed = (
            one.at_s
            for one in self.sightings
            if one.node == node
            and one.by != node
            and one.kind in {Kind.DISCONNECTED, Kind.UNREACHABLE, Kind.FENCED}
            and (from_s or 0.0) <= one.at_s <= to_s
        )
        return next(noticed, from_s if from_s is not None else to_s)

    def _came_back_empty(self, log: ReadLog, starting: Sighting, after: Sequence[Sighting]) -> bool:
        """Return whether a node makes logs again that it had before."""
        had = {
            one.partition
            for one in self.sightings
            if one.at_s < starting.at_s and log.node in (one.isr or ()) and one.partition
        }
        made = {one.partition for one in after if one.kind is Kind.CREATED_LOG}
        return bool(had & made) or any(one.kind is Kind.EMPTY_DISK for one in after)

    def _never_unfenced(self, node: int, from_s: float) -> Sighting | None:
        fences = [one for one in self.of(Kind.FENCED) if one.node == node and one.at_s >= from_s]
        returned = any(one.node == node and one.at_s > from_s for one in self.of(Kind.UNFENCED))
        return fences[0] if fences and not returned else None

    def _fences(self, restarts: Sequence[NodeOutage]) -> Iterator[NodeOutage]:
        """Yield the times in which a broker was fenced without a restart of its own."""
        seen: dict[int, float] = {}
        for fence in self.of(Kind.FENCED):
            node = fence.node
            if node is None or fence.at_s < seen.get(node, 0.0):
                continue
            end = next(
                (
                    one.at_s
                    for one in self.of(Kind.UNFENCED)
                    if one.node == node and one.at_s > fence.at_s
                ),
                None,
            )
            seen[node] = end if end is not None else self.end_s
            if any(_overlaps(one, fence.at_s) for one in restarts if one.node == node):
                continue
            how = self._how_away(node, fence.at_s, end)
            since_s = self._cut_off_since(node, fence.at_s) if how is How.ISOLATED else None
            begin_s = fence.at_s - self.session_s
            yield NodeOutage(node, how, begin_s, end, (fence,), since_s=since_s)

    def _cut_off_since(self, node: int, at_s: float) -> float:
        """Return when a node first missed others, before it was missed itself."""
        return next(
            (
                one.at_s
                for one in self.sightings
                if one.by == node and one.kind in _CUT_OFF and 0 <= at_s - one.at_s < _SOON_S
            ),
            at_s,
        )

    def _how_away(self, node: int, begin_s: float, end_s: float | None) -> How:
        """Return how a node was away that did not start again."""
        own = [log for log in self.logs if log.node == node]
        if not own:
            return How.UNKNOWN
        until = (end_s if end_s is not None else self.end_s) - _ALONE_S
        cut_off = any(
            begin_s - _ALONE_S < one.at_s < until and one.kind in _CUT_OFF
            for log in own
            for one in log.sightings
        )
        return How.ISOLATED if cut_off else How.PAUSE

    def _lost_controllers(self, others: Sequence[NodeOutage]) -> Iterator[NodeOutage]:
        """Yield the times at which the active controller was lost without a restart of its own."""
        before: Sighting | None = None
        for one in self.of(Kind.NEW_CONTROLLER, before=True):
            in_question = one.at_s >= self.begin_s
            if in_question and before and before.node not in {None, one.node}:
                node = int(before.node or 0)
                known = any(o.node == node and abs(o.begin_s - one.at_s) < _SOON_S for o in others)
                if not known:
                    how = self._how_away(node, one.at_s - 3 * _ALONE_S, one.at_s + 3 * _ALONE_S)
                    yield NodeOutage(node, how, one.at_s, None, (one,))
            before = one

    def controller_at(self, at_s: float) -> int | None:
        """Return the active controller at a moment; `None`: unknown."""
        known = [o for o in self.of(Kind.NEW_CONTROLLER, before=True) if o.at_s <= at_s]
        return known[-1].node if known else None

    def led_by(self, node: int, at_s: float) -> list[str]:
        """Return the partitions of applications that a node led when it went away."""
        leaders: dict[str, int | None] = {}
        for one in self.of(*_LEADS, Kind.DELETED_TOPIC, before=True):
            if one.kind is Kind.DELETED_TOPIC and one.at_s <= at_s:
                leaders = {p: n for p, n in leaders.items() if p.rpartition("-")[0] != one.topic}
            elif one.kind in _LEADS and one.at_s <= at_s:
                leaders[one.partition] = one.node
            elif one.at_s - at_s < _SOON_S and one.partition and one.detail == str(node):
                leaders.setdefault(one.partition, node)
        return sorted(name for name, leader in leaders.items() if leader == node)


def _default_session_ms() -> int:
    of_brokers = kafka_properties(known_versions()[-1]).broker
    return int(next(one.default for one in of_brokers if one.name == _SESSION))


def _last_before(moments_s: Sequence[float], at_s: float) -> float | None:
    place = bisect_left(moments_s, at_s - 0.05)
    return moments_s[place - 1] if place else None


def _overlaps(outage: NodeOutage, at_s: float) -> bool:
    end = outage.end_s if outage.end_s is not None else float("inf")
    return outage.begin_s - _SOON_S <= at_s <= end + _ALONE_S
