"""The course of a fault in sentences with figures, in seconds since the fault began. Pure.

Each sentence is taken from an event: of the controller's, brokers' and clients' own logs, or of the
metadata poller. Nothing is inferred: what no event reports has no sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ackbench.experiments.trial.clients.librdkafka.log import timed_out_requests
from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.faults.core.context import OBSERVED_PARTITION

_TimedSentence = tuple[int, str]
"""When, in ns of the trial's clock, and what; the sentence lacks its time."""


def narrative_of(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the course of a trial's fault, ordered by time; empty if there was no fault.

    Args:
        events: all events of the trial, by time.
    """
    begins = [event.at_ns for event in events if event.kind == "fault_begin"]
    if not begins:
        return ()
    since_begin = [event for event in events if event.at_ns >= begins[0]]
    sentences = (
        *_fencing(since_begin),
        *_leader_changes(events, begins[0]),
        *_isr_changes(events, begins[0]),
        *_timed_out_requests(since_begin),
        *_restarts(since_begin),
        *_truncations(since_begin),
    )
    return tuple(
        f"{sentence} at +{(at_ns - begins[0]) / 1e9:.3f} s" for at_ns, sentence in sorted(sentences)
    )


def _fencing(since_begin: Sequence[Event]) -> Iterator[_TimedSentence]:
    for event in _of_kinds(since_begin, "fenced"):
        yield (event.at_ns, f"the active controller fenced node {event.node} (missed heartbeats)")
    for event in _of_kinds(since_begin, "unfenced"):
        yield event.at_ns, f"the active controller unfenced node {event.node}"


def _leader_changes(events: Sequence[Event], begin_ns: int) -> Iterator[_TimedSentence]:
    """Yield each leader change of the observed partition, and how many other partitions moved."""
    led: dict[int | None, Event] = {}
    moved: dict[int | None, int] = {}
    for event in _of_kinds(events, "became_leader", "topic_deleted"):
        if event.kind == "topic_deleted":
            led.clear()  # leaders from here on are those of another topic
            continue
        before = led.get(event.partition)
        led[event.partition] = event
        if event.at_ns < begin_ns or before is None:
            continue
        if event.partition == OBSERVED_PARTITION:
            sentence = (
                f"partition {event.partition} moved from leader {before.node} to {event.node},"
                f" epoch {before.leader_epoch} -> {event.leader_epoch},"
                f" which starts at offset {event.offset},"
            )
            yield event.at_ns, sentence
        else:
            moved.setdefault(event.partition, event.at_ns)
    if moved:
        yield (
            max(moved.values()),
            f"{len(moved)} of the {len(led) - 1} other partitions had moved, the last of them",
        )


def _isr_changes(events: Sequence[Event], begin_ns: int) -> Iterator[_TimedSentence]:
    """Yield when the observed partition's ISR changed, and when it was as before the fault."""
    changes = [event for event in _of_kinds(events, "isr") if event.partition == OBSERVED_PARTITION]
    before = next((event.detail for event in reversed(changes) if event.at_ns < begin_ns), None)
    for event in changes:
        if event.at_ns >= begin_ns and before is not None:
            change = (
                "was full again"
                if event.detail == before
                else f"went from {before or 'nothing'} to {event.detail or 'nothing'}"
            )
            yield event.at_ns, f"the ISR of partition {OBSERVED_PARTITION} {change}, observed"


def _timed_out_requests(since_begin: Sequence[Event]) -> Iterator[_TimedSentence]:
    events = [
        event
        for event in _of_kinds(since_begin, "timed_out")
        if event.detail.startswith("producer")
    ]
    if events:
        requests = sum(map(timed_out_requests, events))
        yield events[0].at_ns, f"{requests} requests timed out at the producers, the first of them"


def _restarts(since_begin: Sequence[Event]) -> Iterator[_TimedSentence]:
    for event in _of_kinds(since_begin, "fault_restart"):
        yield event.at_ns, f"node {event.node} was started again"


def _truncations(since_begin: Sequence[Event]) -> Iterator[_TimedSentence]:
    for event in _of_kinds(since_begin, "truncated"):
        if event.partition == OBSERVED_PARTITION:
            log = f"its log of partition {event.partition}"
            yield event.at_ns, f"node {event.node} truncated {log} to offset {event.offset}"


def _of_kinds(events: Sequence[Event], *kinds: str) -> Iterator[Event]:
    return (event for event in events if event.kind in kinds)
