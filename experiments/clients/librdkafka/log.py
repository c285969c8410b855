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

from experiments.events.journal import Event
from experiments.ledger.schema import Source

LEADER_LEARNED: Final = "leader_learned"
EPOCH_BUMPED: Final = "epoch_bumped"
RESOLUTION_NS: Final = 1_000_000
"""The thread that an event happens to logs it at once; on a busy machine within about this."""
_LINE: Final = re.compile(r"(?P<at>\d+) \d (?P<facility>\S+) (?P<text>.*)")
_TIMED_OUT: Final = re.compile(
    r"\[thrd:.*\]: \S+/(?P<node>\d+): Timed out (?P<requests>\d+) in-flight, .*"
)
_REQUESTS: Final = re.compile(r"Timed out (?P<requests>\d+) in-flight")
_DISCONNECTED: Final = re.compile(r"\[thrd:.*\]: \S+/(?P<node>\d+): Disconnected\b.* in state UP.*")
_LEADER_UPDATE: Final = (
    r"\[thrd:.*\]: {topic} \[(?P<partition>\d+)\]: leader -?\d+ epoch -?\d+ -> "
    r"leader (?P<node>-?\d+) epoch (?P<epoch>-?\d+)"
)
_EPOCH_BUMP_REASON: Final = re.compile(
    r"\[thrd:.*\]: Beginning partition drain .* epoch bump .*: (?P<reason>.*)"
)
_EPOCH_BUMPED: Final = re.compile(
    r"\[thrd:.*\]: All partitions drained, bumped epoch to PID\{Id:\d+,Epoch:(?P<epoch>\d+)\}"
)
_OFFSET_RESET: Final = (
    r"\[thrd:.*\]: {topic} \[(?P<partition>\d+)\]: offset reset \(at offset (?P<offset>\d+) .*\) "
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
    for line in filter(None, map(_LINE.fullmatch, text.splitlines())):
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


def _epoch_bumps(text: str, client: str) -> Iterator[Event]:
    """Yield when an idempotent producer bumped its epoch, with the first reason that led to it.

    Such a producer first drains: it waits for the responses to all requests in flight. Every
    partition whose records time out meanwhile is one more reason.
    """
    reasons: list[str] = []
    for line in filter(None, map(_LINE.fullmatch, text.splitlines())):
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
