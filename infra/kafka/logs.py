"""What brokers and controllers log about a fault: fencing, leadership, ISR, truncation, recovery.

The lines are Kafka's own, from 3.9 on: `ReplicationControlManager` and `BrokerHeartbeatManager`
(under ZooKeeper `KafkaController`), `state.change.logger`, `Partition`, `UnifiedLog`, `LogLoader`
and `LogManager`. `log4j2.properties` gives them their prefix. A controller replays old records when
it starts, so only lines about decisions of the active controller count as fencing.

A line that is about such an event and cannot be parsed becomes an `unparsed` event; it is never
dropped. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

RESOLUTION_NS: Final = 1_000_000
"""Log lines have timestamps in whole milliseconds, rounded down."""
UNPARSED: Final = "unparsed"
LONGEST_LINE: Final = 8_192
"""In characters. A line of an event is far shorter, and the formats take more than linear time."""
TIMESTAMP: Final = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d,\d{3}"
INT32: Final = r"1?\d{1,9}"
INT64: Final = r"[0-8]?\d{1,18}"
"""Numbers that fit into 32 and 64 bits, as the columns of the events do."""
_PREFIX: Final = re.compile(rf"\[({TIMESTAMP})Z\] [A-Z]+ ")


@dataclass(frozen=True)
class BrokerLogEvent:
    """One event of a node's log."""

    wall_ns: int
    """The end of the line's millisecond, in nanoseconds since the epoch by the node's wall clock:
    the event did not happen later."""
    logged_by: int
    """The node whose log it is."""
    kind: str
    """`fenced`, `unfenced`, `became_leader`, `truncated`, `isr_changed`, `recovering`, `recovered`,
    `loaded`, `shut_down`, or `unparsed`.

    When a node starts it loads each log. The event is `recovered` instead of `loaded` where the
    node had to recover the log because it was not shut down cleanly.
    """
    line: str
    """Verbatim."""
    node: int | None = None
    """The node that was fenced or unfenced, became leader, truncated, recovered or loaded its log,
    or shut down cleanly."""
    partition: int | None = None
    leader_epoch: int | None = None
    offset: int | None = None
    """`became_leader`: the first offset of the leader epoch. `truncated`: the new log end offset.
    `recovering`: the base offset of the segment. `loaded` and `recovered`: the log end offset."""
    isr: tuple[int, ...] | None = None
    """Sorted; of `became_leader` and `isr_changed`."""


@dataclass(frozen=True)
class _LineFormat:
    """The format of the log lines of one kind of event."""

    kind: str
    markers: tuple[str, ...]
    """Every line of this kind contains all of these, also when the rest cannot be parsed."""
    pattern: re.Pattern[str]
    """What follows the prefix, to the end of the line."""

    def is_expected(self, line: str) -> bool:
        """Return whether a line should have this format."""
        return all(marker in line for marker in self.markers)


def read_broker_log(text: str, logged_by: int, topic: str) -> tuple[BrokerLogEvent, ...]:
    """Return the events of a part of a node's log, in the order of its lines.

    Args:
        text: the part, from the start of a line on.
        logged_by: the node whose log it is.
        topic: events of partitions are limited to this topic; all events of brokers are included.
    """
    formats, wall_ns = _line_formats(topic), 0
    events: list[BrokerLogEvent] = []
    for line in _lines(text):
        prefix = _PREFIX.match(line)
        at_ns = end_of_millisecond(prefix.group(1)) if prefix else None
        wall_ns = wall_ns if at_ns is None else at_ns
        is_readable = prefix and at_ns is not None and len(line) <= LONGEST_LINE
        message = line[prefix.end() :] if prefix and is_readable else None
        for line_format in formats:
            if line_format.is_expected(line):
                events += _parse_line(line, message, wall_ns, logged_by, line_format)
    return tuple(_without_repeated_isr(_mark_recovered(events)))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines.

    A crashed process may leave half a line without a line end. The next process appends to it, so
    a prefix in the middle of a line starts another line.
    """
    for line in text.splitlines():
        starts = [prefix.start() for prefix in _PREFIX.finditer(line) if prefix.start()]
        for start, end in zip([0, *starts], [*starts, len(line)], strict=True):
            yield line[start:end]


def _parse_line(
    line: str, message: str | None, wall_ns: int, logged_by: int, line_format: _LineFormat
) -> Iterator[BrokerLogEvent]:
    """Yield the line's event; under ZooKeeper a line can be about several nodes."""
    match = line_format.pattern.fullmatch(message) if message is not None else None
    if match is None:
        yield BrokerLogEvent(wall_ns, logged_by, UNPARSED, line[:LONGEST_LINE])
        return
    fields = match.groupdict()
    node, partition, epoch, offset = (
        None if fields.get(name) is None else int(fields[name])
        for name in ("node", "partition", "epoch", "offset")
    )
    others = map(int, filter(None, (fields.get("others") or "").split(",")))
    isr = _parse_isr(fields["isr"]) if "isr" in fields else None
    for one in (logged_by if node is None else node, *others):
        yield BrokerLogEvent(
            wall_ns, logged_by, line_format.kind, line, one, partition, epoch, offset, isr
        )


def _parse_isr(text: str) -> tuple[int, ...]:
    return tuple(sorted(map(int, text.split(",")))) if text else ()


def _mark_recovered(events: Iterable[BrokerLogEvent]) -> Iterator[BrokerLogEvent]:
    """Turn `loaded` into `recovered` where the log was recovered while it was loaded."""
    recovering: set[int | None] = set()
    for event in events:
        if event.kind == "recovering":
            recovering.add(event.partition)
        if event.kind == "loaded" and event.partition in recovering:
            recovering.discard(event.partition)
            yield replace(event, kind="recovered")
        else:
            yield event


def _without_repeated_isr(events: Iterable[BrokerLogEvent]) -> Iterator[BrokerLogEvent]:
    """Drop the second line about one ISR change.

    A leader logs a change when the controller accepts it, and again when the metadata arrives.
    """
    known: dict[int | None, tuple[int, ...] | None] = {}
    for event in events:
        if event.kind == "isr_changed" and known.get(event.partition) == event.isr:
            continue
        if event.kind in {"isr_changed", "became_leader"}:
            known[event.partition] = event.isr
        yield event


def _line_formats(topic: str) -> tuple[_LineFormat, ...]:
    name, isr = re.escape(topic), rf"({INT32}(,{INT32})*)?"
    partition = rf"{name}-(?P<partition>{INT32})"
    nodes = rf"(?P<node>{INT32})(?P<others>(,{INT32})*)"
    zookeeper_controller = r"\(kafka\.controller\.KafkaController\)"
    loader = rf"\[LogLoader partition={partition}, dir=(?>.*?\] )"
    unified_log = rf"\[UnifiedLog partition={partition}, dir=(?>.*?\] )"
    # `kafka.log` up to 4.0
    logger = r"\((org\.apache\.kafka\.storage\.internals\.log|kafka\.log)\.UnifiedLog\)"

    def line_format(kind: str, *markers: str, pattern: str) -> _LineFormat:
        return _LineFormat(kind, markers, re.compile(pattern))

    return (
        line_format(
            "fenced",
            "] Fencing broker ",
            pattern=rf"\[QuorumController id=\d+\] Fencing broker (?P<node>{INT32}) at epoch .*\)",
        ),
        line_format(
            "unfenced",
            " to unfence has been granted",
            pattern=r"\[QuorumController id=\d+\] "
            rf"The request from broker (?P<node>{INT32}) to unfence .*\)",
        ),
        line_format(
            "fenced",
            "[Controller id=",
            "] Broker failure callback for ",
            pattern=r"\[Controller id=\d+\] "
            rf"Broker failure callback for {nodes} {zookeeper_controller}",
        ),
        line_format(
            "unfenced",
            "[Controller id=",
            "] New broker startup callback for ",
            pattern=r"\[Controller id=\d+\] "
            rf"New broker startup callback for {nodes} {zookeeper_controller}",
        ),
        line_format(
            "became_leader",
            f"] Leader {topic}-",
            " starts at ",
            pattern=rf"\[Broker id=\d+\] Leader {partition} with topic id "
            rf"(?>.*?starts at leader epoch )(?P<epoch>{INT32}) from offset (?P<offset>{INT64}) "
            rf"(?>with .*?ISR \[)(?P<isr>{isr})\],.*\)",
        ),
        line_format(
            "isr_changed",
            f" the become-leader state change for {topic}-",
            pattern=r"\[Broker id=\d+\] Skipped the become-leader state change for "
            rf"{partition} with topic id (?>.*? leader epoch (?=\d+\.))"
            rf"(?P<epoch>{INT32})(?>\. Current .*?ISR \[)(?P<isr>{isr})\],.*\)",
        ),
        line_format(
            "isr_changed",
            f"[Partition {topic}-",
            "ISR updated to ",
            pattern=rf"\[Partition {partition} broker=\d+\] ISR updated to (?P<isr>{isr}) .*\)",
        ),
        line_format(
            "truncated",
            f"[UnifiedLog partition={topic}-",
            " Truncating to offset ",
            pattern=rf"{unified_log}Truncating to offset (?P<offset>{INT64}) {logger}",
        ),
        line_format(
            "truncated",
            f"[UnifiedLog partition={topic}-",
            " Truncate and start at offset ",
            pattern=rf"{unified_log}Truncate and start at offset (?P<offset>{INT64}),.* {logger}",
        ),
        line_format(
            "truncated",
            f"[LogLoader partition={topic}-",
            "] Corruption found in segment ",
            pattern=rf"{loader}Corruption found in segment \d+, "
            rf"truncating to offset (?P<offset>{INT64}) \(.*\)",
        ),
        line_format(
            "recovering",
            f"[LogLoader partition={topic}-",
            "] Recovering unflushed segment ",
            pattern=rf"{loader}Recovering unflushed segment (?P<offset>{INT64})\. "
            r"\d+(/\d+)? recovered for (?>.*?\. \().*\)",
        ),
        line_format(
            "loaded",
            "Completed load of Log(dir=",
            f", topic={topic}, partition=",
            pattern=rf"Completed load of Log\(dir=(?>.*?, topic={name}, partition=)"
            rf"(?P<partition>{INT32})(?>, .*?logEndOffset=)(?P<offset>{INT64})\) with .*\)",
        ),
        line_format(
            "shut_down",
            "Server id=",
            "] shut down completed",
            pattern=rf"\[(BrokerServer|KafkaServer) id=(?P<node>{INT32})\] "
            r"shut down completed \(.*\)",
        ),
        # `ControllerServer` reports the beginning of its shutdown only. It waits for this thread
        # last.
        line_format(
            "shut_down",
            "[QuorumController id=",
            "] closed event queue.",
            pattern=rf"\[QuorumController id=(?P<node>{INT32})\] closed event queue\. \(.*\)",
        ),
    )


def end_of_millisecond(timestamp: str) -> int | None:
    """Return the end of a timestamp's millisecond, in nanoseconds since the epoch.

    `None`: there is no such day or time.
    """
    try:
        moment = datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S,%f").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (int(moment.timestamp()) * 1000 + moment.microsecond // 1000 + 1) * 1_000_000
