"""A fault's course in sentences with figures, all on one clock: seconds since the fault began. Pure.

Each sentence says who tells it. What nobody told has no sentence: nothing is inferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.clients.librdkafka.log import timed_out_requests
from experiments.events.journal import Event
from experiments.faults.core.context import OBSERVED_PARTITION


def narrative_of(events: Sequence[Event]) -> tuple[str, ...]:
    """Return what became of a fault, by time; nothing, where there was none.

    Args:
        events: the trial's, by time.
    """
    begins = [event.at_ns for event in events if event.kind == "fault_begin"]
    if not begins:
        return ()
    since = [event for event in events if event.at_ns >= begins[0]]
    told = (
        *_fencing(since),
        *_leaders(events, begins[0]),
        *_isr(events, begins[0]),
        *_timeouts(since),
        *_restarts(since),
        *_cuts(since),
    )
    return tuple(
        f"{sentence} at +{(at_ns - begins[0]) / 1e9:.3f} s" for at_ns, sentence in sorted(told)
    )


def _fencing(since: Sequence[Event]) -> Iterator[tuple[int, str]]:
    for event in _of(since, "fenced"):
        yield event.at_ns, f"heartbeat missed: the active controller fenced node {event.node}"
    for event in _of(since, "unfenced"):
        yield event.at_ns, f"the active controller let node {event.node} in again"


def _leaders(events: Sequence[Event], begin_ns: int) -> Iterator[tuple[int, str]]:
    """Say of the observed partition who led before and after, and of the others how many moved."""
    led: dict[int | None, Event] = {}
    moved: dict[int | None, int] = {}
    for event in _of(events, "became_leader", "topic_deleted"):
        if event.kind == "topic_deleted":
            led.clear()  # who leads from then on leads another topic
            continue
        before = led.get(event.partition)
        led[event.partition] = event
        if event.at_ns < begin_ns or before is None:
            continue
        if event.partition == OBSERVED_PARTITION:
            epochs = f"epoch {before.leader_epoch} -> {event.leader_epoch}, which starts at offset {event.offset}"
            yield (
                event.at_ns,
                f"partition {event.partition} moved from leader {before.node} to {event.node}, {epochs},",
            )
        else:
            moved.setdefault(event.partition, event.at_ns)
    if moved:
        yield (
            max(moved.values()),
            f"{len(moved)} of the {len(led) - 1} other partitions had moved, the last of them",
        )


def _isr(events: Sequence[Event], begin_ns: int) -> Iterator[tuple[int, str]]:
    """Say when the observed partition's ISR was seen smaller than before the fault, and when it was seen full again."""
    seen = [event for event in _of(events, "isr") if event.partition == OBSERVED_PARTITION]
    before = next((event.detail for event in reversed(seen) if event.at_ns < begin_ns), None)
    for event in seen:
        if event.at_ns >= begin_ns and before is not None:
            became = (
                "was full again"
                if event.detail == before
                else f"went from {before or 'nothing'} to {event.detail or 'nothing'}"
            )
            yield event.at_ns, f"the ISR of partition {OBSERVED_PARTITION} {became}, as seen"


def _timeouts(since: Sequence[Event]) -> Iterator[tuple[int, str]]:
    events = [event for event in _of(since, "timed_out") if event.detail.startswith("producer")]
    if events:
        requests = sum(map(timed_out_requests, events))
        yield events[0].at_ns, f"{requests} requests timed out at the client, the first of them"


def _restarts(since: Sequence[Event]) -> Iterator[tuple[int, str]]:
    for event in _of(since, "fault_restart"):
        yield event.at_ns, f"node {event.node} was started again"


def _cuts(since: Sequence[Event]) -> Iterator[tuple[int, str]]:
    for event in _of(since, "truncated"):
        if event.partition == OBSERVED_PARTITION:
            yield (
                event.at_ns,
                f"node {event.node} cut its log of partition {event.partition} to offset {event.offset}",
            )


def _of(events: Sequence[Event], *kinds: str) -> Iterator[Event]:
    return (event for event in events if event.kind in kinds)
