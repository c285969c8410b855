"""What brokers and controllers write in their own logs about a fault: who was fenced, who leads from which offset, whose log was cut or recovered. Pure.

The lines are Kafka's own (from 3.9 on: `ReplicationControlManager` and `BrokerHeartbeatManager`, under ZooKeeper the `KafkaController`; the
`state.change.logger`, `Partition`, `UnifiedLog`, `LogLoader`, `LogManager`) with the head that `log4j2.properties` gives them. Controllers replay
old records when they start, so only what the active one decides is taken for fencing. A line that speaks of such a thing and cannot be read is
told as `unread`, never left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

RESOLUTION_NS: Final = 1_000_000
"""Log lines tell the millisecond in which they were made, cut off."""
UNPARSED: Final = "unparsed"
_HEAD: Final = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{3})Z\] [A-Z]+ ")


@dataclass(frozen=True)
class BrokerLogEvent:
    """One line of a node's log that tells something; nanoseconds since the epoch by that machine's wall clock."""

    wall_ns: int
    """The end of its millisecond, so that it was not written later."""
    speaker: int
    """The node whose log it is."""
    kind: str
    """`fenced`, `unfenced`, `leads`, `truncated`, `isr_changed`, `recovering`, `recovered`, `loaded`, `shut_down`, or `unread`.

    A log that is loaded when a node starts is `recovered` where that node had to recover it, as it had not been shut down cleanly.
    """
    line: str
    """Verbatim."""
    node: int | None = None
    """Who was fenced or unfenced, who leads, whose log was cut, recovered or loaded, who shut down cleanly."""
    partition: int | None = None
    leader_epoch: int | None = None
    offset: int | None = None
    """Where the leader's epoch starts; to which the log was cut; from which it is recovered, a segment's first; where it ends once it is loaded."""
    isr: tuple[int, ...] | None = None
    """By number; of `leads` and `isr_changed`."""


@dataclass(frozen=True)
class _Form:
    """A line that tells something."""

    kind: str
    telltales: tuple[str, ...]
    """What a line holds that is meant to have this form: each of these."""
    form: re.Pattern[str]
    """What follows the head, to the end."""

    def is_meant(self, line: str) -> bool:
        """Whether a line should have this form."""
        return all(telltale in line for telltale in self.telltales)


def read_broker_log(text: str, speaker: int, topic: str) -> tuple[BrokerLogEvent, ...]:
    """Return what a part of a node's log tells of brokers, and of the topic's partitions; in its order.

    Args:
        text: the part, from the begin of a line on.
        speaker: whose log it is.
        topic: whose partitions are meant.
    """
    forms, last_ns = _forms(topic), 0
    found: list[BrokerLogEvent] = []
    for line in _lines(text):
        head = _HEAD.match(line)
        last_ns = _end_of_millisecond(head.group(1)) if head else last_ns
        meant = (form for form in forms if form.is_meant(line))
        found += (
            told
            for form in meant
            for told in _read(line, line[head.end() :] if head else None, last_ns, speaker, form)
        )
    return tuple(_without_repeats(_with_recovered(found)))


def _lines(text: str) -> Iterator[str]:
    """Give the lines; where a killed process left half a line, the one that the next process wrote behind it begins anew."""
    for line in text.splitlines():
        begins = [head.start() for head in _HEAD.finditer(line) if head.start()]
        for begin, end in zip([0, *begins], [*begins, len(line)], strict=True):
            yield line[begin:end]


def _read(
    line: str, message: str | None, wall_ns: int, speaker: int, form: _Form
) -> Iterator[BrokerLogEvent]:
    """Give what the line tells: one thing, or under ZooKeeper the same of several nodes."""
    found = form.form.fullmatch(message) if message is not None else None
    if found is None:
        yield BrokerLogEvent(wall_ns, speaker, UNPARSED, line)
        return
    told = found.groupdict()
    node, partition, epoch, offset = (
        None if told.get(name) is None else int(told[name])
        for name in ("node", "partition", "epoch", "offset")
    )
    isr = (
        tuple(sorted(map(int, told["isr"].split(","))))
        if told.get("isr")
        else ()
        if "isr" in told
        else None
    )
    for one in [
        speaker if node is None else node,
        *map(int, filter(None, (told.get("others") or "").split(","))),
    ]:
        yield BrokerLogEvent(wall_ns, speaker, form.kind, line, one, partition, epoch, offset, isr)


def _with_recovered(lines: Iterable[BrokerLogEvent]) -> Iterator[BrokerLogEvent]:
    """Tell of a log that was recovered when it was loaded."""
    recovering: set[int | None] = set()
    for line in lines:
        if line.kind == "recovering":
            recovering.add(line.partition)
        yield (
            replace(line, kind="recovered")
            if line.kind == "loaded" and line.partition in recovering
            else line
        )
        if line.kind == "loaded":
            recovering.discard(line.partition)


def _without_repeats(lines: Iterable[BrokerLogEvent]) -> Iterator[BrokerLogEvent]:
    """A leader tells of one change of its ISR when the controller agreed, and when the metadata came back: the first counts."""
    known: dict[int | None, tuple[int, ...] | None] = {}
    for line in lines:
        if line.kind == "isr_changed" and known.get(line.partition) == line.isr:
            continue
        if line.kind in {"isr_changed", "became_leader"}:
            known[line.partition] = line.isr
        yield line


def _forms(topic: str) -> tuple[_Form, ...]:
    name = re.escape(topic)
    partition = rf"{name}-(?P<partition>\d+)"
    several, keeper = r"(?P<node>\d+)(?P<others>(,\d+)*)", r"\(kafka\.controller\.KafkaController\)"
    loader = rf"\[LogLoader partition={partition}, dir=.*\]"
    store = r"\((org\.apache\.kafka\.storage\.internals\.log|kafka\.log)\.UnifiedLog\)"  # the second up to 4.0
    told = {
        (
            "fenced",
            "] Fencing broker ",
        ): r"\[QuorumController id=\d+\] Fencing broker (?P<node>\d+) at epoch .*\)",
        (
            "unfenced",
            " to unfence has been granted",
        ): r"\[QuorumController id=\d+\] The request from broker (?P<node>\d+) to unfence .*\)",
        (
            "fenced",
            "[Controller id=",
            "] Broker failure callback for ",
        ): rf"\[Controller id=\d+\] Broker failure callback for {several} {keeper}",
        (
            "unfenced",
            "[Controller id=",
            "] New broker startup callback for ",
        ): rf"\[Controller id=\d+\] New broker startup callback for {several} {keeper}",
        ("became_leader", f"] Leader {topic}-", " starts at "): (
            rf"\[Broker id=\d+\] Leader {partition} with topic id .* starts at leader epoch (?P<epoch>\d+) from offset (?P<offset>\d+) with .*"
            r"ISR \[(?P<isr>[\d,]*)\],.*\)"
        ),
        ("isr_changed", f" the become-leader state change for {topic}-"): (
            rf"\[Broker id=\d+\] Skipped the become-leader state change for {partition} with topic id .* leader epoch (?P<epoch>\d+)\. Current .*"
            r"ISR \[(?P<isr>[\d,]*)\],.*\)"
        ),
        (
            "isr_changed",
            f"[Partition {topic}-",
            "ISR updated to ",
        ): rf"\[Partition {partition} broker=\d+\] ISR updated to (?P<isr>[\d,]*) .*\)",
        ("truncated", f"[UnifiedLog partition={topic}-", " Truncating to offset "): (
            rf"\[UnifiedLog partition={partition}, dir=.*\] Truncating to offset (?P<offset>\d+) {store}"
        ),
        ("truncated", f"[UnifiedLog partition={topic}-", " Truncate and start at offset "): (
            rf"\[UnifiedLog partition={partition}, dir=.*\] Truncate and start at offset (?P<offset>\d+),.* {store}"
        ),
        ("truncated", f"[LogLoader partition={topic}-", "] Corruption found in segment "): (
            rf"{loader} Corruption found in segment \d+, truncating to offset (?P<offset>\d+) \(.*\)"
        ),
        ("recovering", f"[LogLoader partition={topic}-", "] Recovering unflushed segment "): (
            rf"{loader} Recovering unflushed segment (?P<offset>\d+)\. \d+(/\d+)? recovered for .*\. \(.*\)"
        ),
        ("loaded", "Completed load of Log(dir=", f", topic={topic}, partition="): (
            rf"Completed load of Log\(dir=.*, topic={name}, partition=(?P<partition>\d+), .*logEndOffset=(?P<offset>\d+)\) with .*\)"
        ),
        (
            "shut_down",
            "Server id=",
            "] shut down completed",
        ): r"\[(BrokerServer|KafkaServer) id=(?P<node>\d+)\] shut down completed \(.*\)",
    }
    return tuple(
        _Form(kind, tuple(telltales), re.compile(form)) for (kind, *telltales), form in told.items()
    )


def _end_of_millisecond(told: str) -> int:
    moment = datetime.strptime(told, "%Y-%m-%dT%H:%M:%S,%f").replace(tzinfo=UTC)
    return (int(moment.timestamp()) * 1000 + moment.microsecond // 1000 + 1) * 1_000_000
