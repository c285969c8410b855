"""A fault's course in sentences: each figure is an event's, and what nobody told is not said."""

from __future__ import annotations

from experiments.events.journal import Event
from experiments.faults.core.narrative import narrative_of
from experiments.ledger.schema import Source

BEGIN = 1_000_000_000_000


def at(after_s: float, kind: str, **told: object) -> Event:
    """An event so many seconds after the fault began."""
    return Event(BEGIN + round(after_s * 1e9), kind, **told)  # type: ignore[arg-type]  # a test's shorthand


BEGUN = at(0, "fault_begin")
LED = at(-5, "became_leader", node=3, partition=0, leader_epoch=0, offset=0)


def test_without_a_fault_there_is_no_course() -> None:
    """A control's leaders are nobody's doing."""
    assert narrative_of((LED,)) == ()


def test_the_election_is_told_with_both_leaders_epochs_and_the_offset() -> None:
    """By the brokers' own lines; the leader before the fault is no news."""
    moved = at(5.25, "became_leader", node=1, partition=0, leader_epoch=1, offset=13802)
    assert narrative_of((LED, BEGUN, moved)) == (
        "partition 0 moved from leader 3 to 1, epoch 0 -> 1, which starts at offset 13802, at +5.250 s",
    )


def test_partitions_beside_the_observed_one_are_counted() -> None:
    """Six sentences for six partitions would hide the first."""
    others = [
        at(-5, "became_leader", node=3, partition=number, leader_epoch=0, offset=0)
        for number in (1, 2)
    ]
    moved = at(4, "became_leader", node=1, partition=2, leader_epoch=1, offset=5)
    assert narrative_of((LED, *others, BEGUN, moved)) == (
        "1 of the 2 other partitions had moved, the last of them at +4.000 s",
    )


def test_who_leads_a_topic_that_was_made_again_moved_from_nobody() -> None:
    """Its epochs begin anew."""
    assert (
        narrative_of(
            (
                LED,
                BEGUN,
                at(0.1, "topic_deleted"),
                at(1, "became_leader", node=1, partition=0, leader_epoch=0, offset=0),
            )
        )
        == ()
    )


def test_sentences_stand_by_time() -> None:
    """The controller noticed, the leader was cut back, the ISR was full."""
    isr = [
        at(when, "isr", partition=0, detail=detail)
        for when, detail in ((-1, "1,2,3"), (4.2, "1,2"), (9, "1,2,3"))
    ]
    events = (
        isr[0],
        BEGUN,
        at(4.1, "fenced", node=3),
        isr[1],
        at(8.5, "truncated", node=3, partition=0, offset=77),
        isr[2],
    )
    assert narrative_of(events) == (
        "heartbeat missed: the active controller fenced node 3 at +4.100 s",
        "the ISR of partition 0 went from 1,2,3 to 1,2, as seen at +4.200 s",
        "node 3 cut its log of partition 0 to offset 77 at +8.500 s",
        "the ISR of partition 0 was full again, as seen at +9.000 s",
    )


def test_requests_that_timed_out_are_summed_over_the_producers() -> None:
    """The reader's own are another matter."""
    line = "[thrd:x]: 127.0.0.1:1/1: Timed out 4 in-flight, 0 retry-queued, 0 out-queue, 0 partially-sent requests"
    events = [
        at(1, "timed_out", source=Source.CLIENT, detail=f"{who}: {line}")
        for who in ("producer 0", "producer 1", "reader 0")
    ]
    assert narrative_of((BEGUN, *events)) == (
        "8 requests timed out at the client, the first of them at +1.000 s",
    )
