"""The timeline of an incident: what the logs say, each line with its source, repetitions once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from ackbench.experiments.results.incidents.node_outages import AWAY, How, Incident
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
        if one.how in {How.CRASH, How.PAUSE, How.ISOLATED}:
            what = f"node {one.node} {AWAY[one.how]}"
            yield Entry(one.begin_s, what, one.evidence[0].source if one.evidence else "")


_TEXTS: Final[Mapping[Kind, str]] = {
    Kind.STARTING: "{by} starts",
    Kind.STARTED: "{by} has started",
    Kind.SIGNALLED: "{by} gets a signal ({detail})",
    Kind.STOPPED: "{who} has shut down cleanly",
    Kind.FENCED: "{who} is fenced: its session has ended",
    Kind.UNFENCED: "{who} is unfenced",
    Kind.NEW_CONTROLLER: "{who} is the active controller",
    Kind.NEW_LEADER: "{who} leads {partition}, ISR {isr}",
    Kind.NEW_EPOCH: "{by} follows in {partition}, leader epoch {detail}",
    Kind.WATERMARK_FELL: "{by}: the high watermark of {partition} fell",
    Kind.ISR: "ISR of {partition}: {isr}",
    Kind.UNCLEAN: "{partition}: a replica that was not in sync leads",
    Kind.TRUNCATED: "{by} truncates {partition} to {detail}",
    Kind.RECOVERING: "{by} recovers its log after no clean shutdown",
    Kind.EMPTY_DISK: "{by} has no data",
    Kind.DELETED_TOPIC: "topic {detail} is deleted",
    Kind.NEW_PARTITION: "partition {partition} is made",
    Kind.MOVING: "replicas move to other nodes",
    Kind.UNREACHABLE: "{by} cannot connect to {peer}",
    Kind.DISCONNECTED: "{by} is disconnected from {peer}",
    Kind.RETRIED: "{by} retries {partition}: {detail}",
    Kind.TOO_FEW_REPLICAS: "{partition}: fewer replicas in sync than the {detail} required",
    Kind.DELIVERY_TIMED_OUT: "{by}: records of {partition} time out",
    Kind.REQUEST_TIMED_OUT: "{by}: a request to {peer} times out",
    Kind.MEMBER_FAILED: "a member of a group is removed ({detail})",
}


def describe(one: Sighting) -> str:
    """Return what a line says, in a few words."""
    return _TEXTS.get(one.kind, f"{{by}}: {one.kind}").format(
        who=_party(one.node),
        by=_party(one.by),
        peer=f"node {one.node}" if one.node is not None and one.node >= 0 else "a broker",
        partition=one.partition or "a topic",
        isr=",".join(map(str, one.isr or ())) or "empty",
        detail=one.detail,
    )


def _party(node: int | None) -> str:
    return "a client" if node is None else f"node {node}"
