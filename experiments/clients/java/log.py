"""What the Java clients' own log tells: the settings they run with, their version, and of a fault what `client_log` reads from librdkafka's. Pure.

The lines are those of Kafka 3.9 to 4.3 (`NetworkClient`, `Metadata`, `AbstractConfig`, `AppInfoParser`), with the head that
`log4j2-client.properties` gives them, by the wall clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from experiments.events.journal import Event
from experiments.ledger.schema import Source

RESOLUTION_NS: Final = 1_000_000
"""Lines tell the millisecond in which they were made, cut off."""
_LINE: Final = re.compile(r"\[(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{3})Z\] [A-Z]+ (?P<text>.*)")
_GAVE_UP: Final = re.compile(r"Disconnecting from node (?P<node>\d+) due to request timeout\.")
_CANCELLED: Final = re.compile(
    r"Cancelled in-flight \S+ request .* due to node (?P<node>\d+) being disconnected"
)
_DISCONNECTED: Final = re.compile(r"\] Node (?P<node>\d+) disconnected\.")
_SETTING: Final = re.compile(r"^\t(?P<name>[a-z0-9.]+) = (?P<value>.*)$", re.MULTILINE)
_NOT_SET: Final = "null"
_VERSION: Final = re.compile(r"Kafka version: (?P<version>\S+)")


def read_java_log(text: str, client: str, topic: str, ahead_ns: int) -> Iterator[Event]:
    """Give what a client's log tells, in its order: `learned`, `timed_out`, `disconnected`.

    Args:
        text: the log.
        client: who it is, as the details begin: `producer 0`.
        topic: whose partitions' leaders are meant.
        ahead_ns: how far the trial's clock is before the wall clock.
    """
    told: dict[int | None, tuple[int | None, int | None]] = {}
    lines = [found for found in map(_LINE.fullmatch, text.splitlines()) if found]
    for number, line in enumerate(lines):
        at_ns = _end_of_millisecond(line["at"]) + ahead_ns
        about = Event(
            at_ns,
            "",
            Source.CLIENT,
            RESOLUTION_NS + abs(ahead_ns),
            detail=f"{client}: {line['text']}",
        )
        if found := _GAVE_UP.search(line["text"]):
            count = _cancelled_behind(lines, number + 1, found["node"])
            yield replace(
                about,
                kind="timed_out",
                node=int(found["node"]),
                detail=f"{client}: Timed out {count} in-flight: {line['text']}",
            )
        elif found := _DISCONNECTED.search(line["text"]):
            yield replace(about, kind="disconnected", node=int(found["node"]))
        for event in _learned(about, line["text"], topic):
            if told.get(event.partition) != (
                event.node,
                event.leader_epoch,
            ):  # each answer tells the leader, whether it is news or not
                told[event.partition] = (event.node, event.leader_epoch)
                yield event


def effective_settings(text: str) -> dict[str, str]:
    """Return the settings that the client says it runs with, by name; lists as Kafka's properties spell them, and what is null left out."""
    told = (
        (found["name"], _unbracketed(found["value"].strip())) for found in _SETTING.finditer(text)
    )
    return {name: value for name, value in told if value != _NOT_SET}


def version_in(text: str) -> str | None:
    """Return the version that the client says it is of."""
    found = _VERSION.search(text)
    return found["version"] if found else None


def _cancelled_behind(lines: list[re.Match[str]], begin: int, node: str) -> int:
    """How many requests were given up with the connection: a line each, right behind."""
    count = 0
    for line in lines[begin:]:
        cancelled = _CANCELLED.search(line["text"])
        if cancelled is None or cancelled["node"] != node:
            break
        count += 1
    return count


def _learned(about: Event, text: str, topic: str) -> Iterator[Event]:
    """Give what a line tells of the leaders of a topic's partitions."""
    if "Updated cluster metadata" not in text:
        return
    form = rf"partition={re.escape(topic)}-(?P<partition>\d+), leader=Optional(?P<leader>\S*), leaderEpoch=Optional(?P<epoch>\S*),"
    for found in re.finditer(form, text):
        yield replace(
            about,
            kind="leader_learned",
            detail=f"{about.detail.partition(': ')[0]}: {found[0]}",
            node=_known(found["leader"]),
            partition=int(found["partition"]),
            leader_epoch=_known(found["epoch"]),
        )


def _known(optional: str) -> int | None:
    """Java writes `Optional[3]` and `Optional.empty`."""
    return int(optional[1:-1]) if optional.startswith("[") else None


def _unbracketed(value: str) -> str:
    return (
        value[1:-1].replace(", ", ",") if value.startswith("[") and value.endswith("]") else value
    )


def _end_of_millisecond(stamp: str) -> int:
    moment = datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S,%f").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000 + (moment.microsecond + 1000) * 1000
