"""The timeline of an incident: what the logs say, each line with its source, repetitions once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from ackbench.experiments.results.incidents.node_outages import How, Incident
from ackbench.experiments.results.incidents.sightings import Kind, Sighting

_AGAIN_S: Final = 10.0
"""The same within so long is one entry."""
_LEFT_OUT: Final = frozenset({Kind.VERSION, Kind.CREATED_LOG})


@dataclass(frozen=True)
class Entry:
    """One line of the timeline."""

    at_s: float
    what: str
    source: str
    """`server-1/server.log:1234`."""
    times: int = 1

    @property
    def moment(self) -> str:
        """The time of day, UTC."""
        return moment_text(self.at_s)[11:]


def moment_text(at_s: float) -> str:
    """Return a moment to the millisecond, UTC: `2026-11-27 18:08:12.870`."""
    moment = datetime.fromtimestamp(at_s, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def timeline(incident: Incident) -> tuple[Entry, ...]:
    """Return the entries, in order."""
    entries: dict[str, Entry] = {}
    done: list[Entry] = []
    for one in incident.sightings:
        if one.at_s < incident.begin_s or one.kind in _LEFT_OUT:
            continue
        what = describe(one)
        before = entries.get(what)
        if before and one.at_s - before.at_s < _AGAIN_S:
            entries[what] = replace(before, times=before.times + 1)
            continue
        if before:
            done.append(before)
        entries[what] = Entry(one.at_s, what, one.source)
    return tuple(sorted([*done, *entries.values(), *_outage_entries(incident)], key=_order))


def _order(entry: Entry) -> tuple[float, str]:
    return entry.at_s, entry.what


def _outage_entries(incident: Incident) -> Iterator[Entry]:
    """Yield what follows from several lines: how a node was away."""
    for one in incident.outages:
        seen = one.evidence[0].source if one.evidence else ""
        if one.how in {How.CRASH, How.PAUSE, How.ISOLATED}:
            yield Entry(one.begin_s, f"node {one.node} {_AWAY[one.how]}", seen)


_AWAY: Final = {
    How.CRASH: "is gone, without a shutdown",
    How.PAUSE: "does not run for a while",
    How.ISOLATED: "runs, and reaches others no more",
}


def describe(one: Sighting) -> str:
    """Return what a line says, in a few words."""
    who = f"node {one.node}" if one.node is not None else "a client"
    by = f"node {one.by}" if one.by is not None else "a client"
    isr = ",".join(map(str, one.isr or ()))
    texts = {
        Kind.STARTING: f"{by} starts",
        Kind.STARTED: f"{by} has started",
        Kind.SIGNALLED: f"{by} gets a signal ({one.detail})",
        Kind.STOPPED: f"{who} has shut down cleanly",
        Kind.FENCED: f"{who} is fenced: its session has ended",
        Kind.UNFENCED: f"{who} is unfenced",
        Kind.NEW_CONTROLLER: f"{who} is the active controller",
        Kind.NEW_LEADER: f"{who} leads {one.partition}, ISR {isr or 'empty'}",
        Kind.NEW_EPOCH: f"{by} follows in {one.partition}, leader epoch {one.detail}",
        Kind.WATERMARK_FELL: f"{by}: the high watermark of {one.partition} fell",
        Kind.ISR: f"ISR of {one.partition}: {isr or 'empty'}",
        Kind.UNCLEAN: f"{one.partition}: a replica that was not in sync leads",
        Kind.TRUNCATED: f"{by} truncates {one.partition} to {one.detail}",
        Kind.RECOVERING: f"{by} recovers its log after no clean shutdown",
        Kind.EMPTY_DISK: f"{by} has no data",
        Kind.DELETED_TOPIC: f"topic {one.detail} is deleted",
        Kind.NEW_PARTITION: f"partition {one.partition} is made",
        Kind.MOVING: "replicas move to other nodes",
        Kind.UNREACHABLE: f"{by} cannot connect to {_peer(one)}",
        Kind.DISCONNECTED: f"{by} is disconnected from {_peer(one)}",
        Kind.RETRIED: f"{by} retries {one.partition}: {one.detail}",
        Kind.DELIVERY_TIMED_OUT: f"{by}: records of {one.partition or 'a topic'} time out",
        Kind.REQUEST_TIMED_OUT: f"{by}: a request to {_peer(one)} times out",
        Kind.MEMBER_FAILED: f"a member of a group is removed ({one.detail})",
    }
    return texts.get(one.kind, f"{by}: {one.kind}")


def _peer(one: Sighting) -> str:
    return f"node {one.node}" if one.node is not None and one.node >= 0 else "a broker"
