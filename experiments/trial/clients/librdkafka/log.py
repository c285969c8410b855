"""The events in librdkafka's own log: when a client learned a leader, timed out, lost a connection.

The lines are those of librdkafka 2.16 with `debug=topic` (`rd_kafka_toppar_leader_update`,
`rd_kafka_broker_timeout_scan`, `rd_kafka_broker_fail`, `rd_kafka_offset_reset`) and, of idempotent
producers, `debug=eos` (`rd_kafka_idemp_drain_epoch_bump0`, `rd_kafka_idemp_drain_done`). Each
begins with the time on the trial's clock, which `client.Client` writes there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.kafka.logs import INT32, INT64, LONGEST_LINE

LEADER_LEARNED: Final = "leader_learned"
EPOCH_BUMPED: Final = "epoch_bumped"
RESOLUTION_NS: Final = 1_000_000
"""The thread that an event happens to logs it at once; on a busy machine within about this."""
_LINE: Final = re.compile(rf"(?P<at>{INT64}) \d (?P<facility>\S+) (?P<text>.*)")
_THREAD: Final = r"(?>\[thrd:.*?\]: )"
_TIMED_OUT: Final = re.compile(
    rf"{_THREAD}\S+/(?P<node>{INT32}): Timed out (?P<requests>{INT32}) in-flight, .*"
)
_REQUESTS: Final = re.compile(rf"Timed out (?P<requests>{INT32}) in-flight")
_DISCONNECTED: Final = re.compile(
    rf"{_THREAD}\S+/(?P<node>{INT32}): Disconnected\b.* in state UP.*"
)
_LEADER_UPDATE: Final = (
    rf"{_THREAD}{{topic}} \[(?P<partition>{INT32})\]: leader -?\d+ epoch -?\d+ -> "
    rf"leader (?P<node>-?{INT32}) epoch (?P<epoch>-?{INT32})"
)
_EPOCH_BUMP_REASON: Final = re.compile(
    rf"{_THREAD}Beginning partition drain .* epoch bump .*: (?P<reason>.*)"
)
_EPOCH_BUMPED: Final = re.compile(
    rf"{_THREAD}All partitions drained, bumped epoch to "
    rf"PID\{{Id:\d+,Epoch:(?P<epoch>{INT32})\}}"
)
_OFFSET_RESET: Final = (
    rf"{_THREAD}{{topic}} \[(?P<partition>{INT32})\]: "
    rf"offset reset \(at offset (?P<offset>{INT64}) .*\) "
    r"to offset (?:BEGINNING|END)\b.*requested offset not available.*"
)


def read_client_log(text: str, client: str, topic: str) -> Iterator[Event]:
    """Yield the events in a client's log, each kind in its order.

    They are `epoch_bumped`, `leader_learned`, `timed_out`, `disconnected` and `offset_reset`.
    librdkafka logs a leader with each metadata response; only a changed leader or leader epoch is
    an event.

    Args:
        text: the log.
        client: the client's name, with which the details begin: `producer 0`.
        topic: the topic whose leaders and offset resets are events.
    """
    yield from _epoch_bumps(text, client)
    leaders: dict[int | None, tuple[int | None, int | None]] = {}
    for event in _all_events(text, client, topic):
        leader = (event.node, event.leader_epoch)
        if event.kind != LEADER_LEARNED or leaders.get(event.partition) != leader:
            yield event
        if event.kind == LEADER_LEARNED:
            leaders[event.partition] = leader


def timed_out_requests(event: Event) -> int:
    """Return the number of requests in a `timed_out` event."""
    found = _REQUESTS.search(event.detail)
    return int(found["requests"]) if found else 0


def _all_events(text: str, client: str, topic: str) -> Iterator[Event]:
    leader_update = re.compile(_LEADER_UPDATE.replace("{topic}", re.escape(topic)))
    offset_reset = re.compile(_OFFSET_RESET.replace("{topic}", re.escape(topic)))
    for line in _lines(text):
        event = Event(
            int(line["at"]), "", Source.CLIENT, RESOLUTION_NS, detail=f"{client}: {line['text']}"
        )
        if found := leader_update.fullmatch(line["text"]):
            yield replace(
                event,
                kind=LEADER_LEARNED,
                node=_unless_negative(found["node"]),
                partition=int(found["partition"]),
                leader_epoch=_unless_negative(found["epoch"]),
            )
        elif found := offset_reset.fullmatch(line["text"]):
            yield replace(
                event,
                kind="offset_reset",
                partition=int(found["partition"]),
                offset=int(found["offset"]),
            )
        elif found := _TIMED_OUT.fullmatch(line["text"]):
            if int(found["requests"]):
                yield replace(event, kind="timed_out", node=int(found["node"]))
        elif found := _DISCONNECTED.fullmatch(line["text"]):
            yield replace(event, kind="disconnected", node=int(found["node"]))


def _lines(text: str) -> Iterator[re.Match[str]]:
    """Yield the log's lines; librdkafka writes none that is longer than 2 kB."""
    return filter(None, (_LINE.fullmatch(line[:LONGEST_LINE]) for line in text.splitlines()))


def _epoch_bumps(text: str, client: str) -> Iterator[Event]:
    """Yield when an idempotent producer bumped its epoch, with the first reason that led to it.

    Such a producer first drains: it waits for the responses to all requests in flight. Every
    partition whose records time out meanwhile is one more reason.
    """
    reasons: list[str] = []
    for line in _lines(text):
        if found := _EPOCH_BUMP_REASON.fullmatch(line["text"]):
            reasons.append(found["reason"])
        elif found := _EPOCH_BUMPED.fullmatch(line["text"]):
            more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
            reason = reasons[0] if reasons else "no reason is logged"
            yield Event(
                int(line["at"]),
                EPOCH_BUMPED,
                Source.CLIENT,
                RESOLUTION_NS,
                detail=f"{client}: producer epoch {found['epoch']}: {reason}{more}",
            )
            reasons.clear()


def _unless_negative(number: str) -> int | None:
    """Return a node id or leader epoch; `None` for -1, librdkafka's mark for "none"."""
    return int(number) if int(number) >= 0 else None
