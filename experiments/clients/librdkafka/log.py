"""What librdkafka's own log tells of a fault: when a client learned of a leader, gave up waiting, lost a connection. Pure.

The lines are those of librdkafka 2.16 with `debug=topic` (`rd_kafka_toppar_leader_update`, `rd_kafka_broker_timeout_scan`,
`rd_kafka_broker_fail`, `rd_kafka_offset_reset`), each with the trial's clock in front (`handle.Client`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from experiments.events.journal import Event
from experiments.ledger.schema import Source

LEARNED: Final = "leader_learned"
RESOLUTION_NS: Final = 1_000_000
"""The log is written by the thread to which it happens, at once; on a busy machine within about this."""
_LINE: Final = re.compile(r"(?P<at>\d+) \d (?P<facility>\S+) (?P<text>.*)")
_TIMED_OUT: Final = re.compile(
    r"\[thrd:.*\]: \S+/(?P<node>\d+): Timed out (?P<requests>\d+) in-flight, .*"
)
_REQUESTS: Final = re.compile(r"Timed out (?P<requests>\d+) in-flight")
_DISCONNECTED: Final = re.compile(r"\[thrd:.*\]: \S+/(?P<node>\d+): Disconnected\b.* in state UP.*")

_RESET: Final = r": offset reset \(at offset (?P<offset>\d+) .*\) to offset (?:BEGINNING|END)\b.*requested offset not available.*"


def read_client_log(text: str, client: str, topic: str) -> Iterator[Event]:
    """Give what a client's log tells, in its order: `learned`, `timed_out`, `disconnected`, `offset_reset`.

    Args:
        text: the log.
        client: who it is, as the details begin: `producer 0`.
        topic: whose partitions' leaders are meant.
    """
    told: dict[int | None, tuple[int | None, int | None]] = {}
    for event in _events(text, client, topic):
        leader = (event.node, event.leader_epoch)
        if (
            event.kind != LEARNED or told.get(event.partition) != leader
        ):  # each answer tells the leader, whether it is news or not
            yield event
        if event.kind == LEARNED:
            told[event.partition] = leader


def _events(text: str, client: str, topic: str) -> Iterator[Event]:
    learned = re.compile(
        rf"\[thrd:.*\]: {re.escape(topic)} \[(?P<partition>\d+)\]: leader -?\d+ epoch -?\d+ -> leader (?P<node>-?\d+) epoch (?P<epoch>-?\d+)"
    )
    reset = re.compile(rf"\[thrd:.*\]: {re.escape(topic)} \[(?P<partition>\d+)\]{_RESET}")
    for line in filter(None, map(_LINE.fullmatch, text.splitlines())):
        about = Event(
            int(line["at"]), "", Source.CLIENT, RESOLUTION_NS, detail=f"{client}: {line['text']}"
        )
        if found := learned.fullmatch(line["text"]):
            yield replace(
                about,
                kind=LEARNED,
                node=_known(found["node"]),
                partition=int(found["partition"]),
                leader_epoch=_known(found["epoch"]),
            )
        elif found := reset.fullmatch(line["text"]):
            yield replace(
                about,
                kind="offset_reset",
                partition=int(found["partition"]),
                offset=int(found["offset"]),
            )
        elif found := _TIMED_OUT.fullmatch(line["text"]):
            if int(found["requests"]):
                yield replace(about, kind="timed_out", node=int(found["node"]))
        elif found := _DISCONNECTED.fullmatch(line["text"]):
            yield replace(about, kind="disconnected", node=int(found["node"]))


def timed_out_requests(event: Event) -> int:
    """Return how many requests a `timed_out` event tells of."""
    found = _REQUESTS.search(event.detail)
    return int(found["requests"]) if found else 0


def _known(number: str) -> int | None:
    """-1 stands for a leader, or an epoch, that there is not."""
    return int(number) if int(number) >= 0 else None
