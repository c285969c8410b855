"""Parsing of the Java clients' log: settings, version, and the events around a fault.

The events are those that `librdkafka.log` reads from librdkafka's log. The lines are those of Kafka
3.9 to 4.3 (`NetworkClient`, `Metadata`, `AbstractConfig`, `AppInfoParser`), with the prefix of
`log4j2-client.properties`, on the wall clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.kafka.logs import INT32, LONGEST_LINE, TIMESTAMP, end_of_millisecond
from ackbench.infra.kafka.secrets import is_reference

RESOLUTION_NS: Final = 1_000_000
"""A line's timestamp is the millisecond in which it was written, rounded down."""
_LINE: Final = re.compile(rf"\[(?P<at>{TIMESTAMP})Z\] [A-Z]+ (?P<text>.*)")
_REQUEST_TIMEOUT: Final = re.compile(
    rf"Disconnecting from node (?P<node>{INT32}) due to request timeout\."
)
_CANCELLED: Final = re.compile(
    rf"Cancelled in-flight \S+ request .* due to node (?P<node>{INT32}) being disconnected"
)
_FAILED: Final = re.compile(
    rf"Got error produce response with correlation id (?P<id>{INT32}) .*: NETWORK_EXCEPTION"
)
_INVALID_METADATA: Final = "Received invalid metadata error"
"""Follows each of those."""
_DISCONNECTED: Final = re.compile(rf"\] Node (?P<node>{INT32}) disconnected\.")
_REMOVED: Final = re.compile(
    "all assigned partitions as lost|UNKNOWN_MEMBER_ID|FENCED_MEMBER_EPOCH|FENCED_INSTANCE_ID"
)
"""`ConsumerCoordinator.onJoinPrepare`; a heartbeat's errors of both protocols."""
_SETTING: Final = re.compile(r"^\t(?P<name>[a-z0-9.]+) = (?P<value>.*)$", re.MULTILINE)
_SETTINGS: Final = "Config values:"
"""Precedes the settings of a client (`AbstractConfig.logAll`)."""
_NOT_SET: Final = "null"
_VERSION: Final = re.compile(r"Kafka version: (?P<version>\S+)")


def read_java_log(text: str, client: str, topic: str, ahead_ns: int) -> Iterator[Event]:
    """Yield the events in a client's log, in its order.

    The kinds are `leader_learned`, `timed_out` and `disconnected`.

    Args:
        text: the log.
        client: the client's name, with which each detail begins: `producer 0`.
        topic: the topic whose leaders to report.
        ahead_ns: how far the trial's clock is ahead of the wall clock.
    """
    known_leaders: dict[int | None, tuple[int | None, int | None]] = {}
    lines = [match for match in map(_LINE.fullmatch, text.splitlines()) if match]
    for number, line in enumerate(lines):
        wall_ns = end_of_millisecond(line["at"])
        if wall_ns is None:
            continue
        at_ns, begin = wall_ns + ahead_ns, line["text"][:LONGEST_LINE]
        event = Event(
            at_ns, "", Source.CLIENT, RESOLUTION_NS + abs(ahead_ns), detail=f"{client}: {begin}"
        )
        if match := _REQUEST_TIMEOUT.search(begin):
            count = _count_cancelled(lines, number + 1, match["node"])
            yield replace(
                event,
                kind="timed_out",
                node=int(match["node"]),
                detail=f"{client}: Timed out {count} in-flight: {begin}",
            )
        elif match := _DISCONNECTED.search(begin):
            yield replace(event, kind="disconnected", node=int(match["node"]))
        for learned in _parse_leaders(event, line["text"], topic):
            # Every metadata response contains the leader, changed or not.
            leader = (learned.node, learned.leader_epoch)
            if known_leaders.get(learned.partition) != leader:
                known_leaders[learned.partition] = leader
                yield learned


def was_removed(text: str, since_ms: int) -> bool:
    """Return whether the client says that its group has removed it, at this time or later.

    Args:
        text: the log.
        since_ms: on the wall clock.
    """
    for line in filter(None, map(_LINE.fullmatch, text.splitlines())):
        wall_ns = end_of_millisecond(line["at"])
        if wall_ns and wall_ns >= since_ms * RESOLUTION_NS and _REMOVED.search(line["text"]):
            return True
    return False


def effective_settings(text: str, requested: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the client reports at its start, by name.

    Of a program with two clients, as a copier, these are the settings of the first one.

    Lists are comma-separated, as in Kafka's properties files. Settings that are null are left out.
    References stay references.

    Args:
        text: the client's log.
        requested: the settings of the trial, for those that the client does not report.
    """
    first = _SETTINGS.join(text.split(_SETTINGS)[:2])
    references = {name: value for name, value in requested.items() if is_reference(name, value)}
    settings = (
        (match["name"], _unbracketed(match["value"].strip())) for match in _SETTING.finditer(first)
    )
    reported = {name: value for name, value in settings if value != _NOT_SET}
    return {**requested, **reported, **references}


def version_in(text: str) -> str | None:
    """Return the version that the client reports, or `None`."""
    match = _VERSION.search(text)
    return match["version"] if match else None


def _count_cancelled(lines: list[re.Match[str]], begin: int, node: str) -> int:
    """Return how many requests were cancelled with the connection: one line each, from `begin`."""
    count = 0
    for line in lines[begin:]:
        cancelled = _CANCELLED.search(line["text"][:LONGEST_LINE])
        if cancelled is None or cancelled["node"] != node:
            break
        count += 1
    return count or _count_failed(lines, begin)


def _count_failed(lines: list[re.Match[str]], begin: int) -> int:
    """Return how many produce requests failed with a connection, as clients before 3.0 log it."""
    requests = set()
    for line in lines[begin:]:
        text = line["text"][:LONGEST_LINE]
        if failed := _FAILED.search(text):
            requests.add(failed["id"])
        elif _INVALID_METADATA not in text:
            break
    return len(requests)


def _parse_leaders(event: Event, text: str, topic: str) -> Iterator[Event]:
    """Yield one event per partition of the topic in a line about updated metadata."""
    if "Updated cluster metadata" not in text:
        return
    pattern = (
        rf"partition={re.escape(topic)}-(?P<partition>{INT32}), "
        rf"leader=Optional(?:\[(?P<leader>{INT32})\]|\.empty), "
        rf"leaderEpoch=Optional(?:\[(?P<epoch>{INT32})\]|\.empty),"
    )
    for match in re.finditer(pattern, text):
        yield replace(
            event,
            kind="leader_learned",
            detail=f"{event.detail.partition(': ')[0]}: {match[0]}",
            node=_number(match["leader"]),
            partition=int(match["partition"]),
            leader_epoch=_number(match["epoch"]),
        )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _unbracketed(value: str) -> str:
    return (
        value[1:-1].replace(", ", ",") if value.startswith("[") and value.endswith("]") else value
    )
