"""The narrative of a fault: each figure comes from an event; without an event, no sentence."""

from __future__ import annotations

from support.golden_files import Says

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.faults.core.narrative import narrative_of

BEGIN = 1_000_000_000_000


def at(after_s: float, kind: str, **fields: object) -> Event:
    """Return an event, given the seconds since the fault began."""
    return Event(BEGIN + round(after_s * 1e9), kind, **fields)  # type: ignore[arg-type]


BEGUN = at(0, "fault_begin")
LED = at(-5, "became_leader", node=3, partition=0, leader_epoch=0, offset=0)


def test_without_a_fault_there_is_no_narrative() -> None:
    """A control's leaders are not the effect of a fault."""
    assert narrative_of((LED,)) == ()


def test_a_leader_change_has_both_leaders_epochs_and_the_offset(says: Says) -> None:
    """From the brokers' logs; the leader before the fault has no sentence."""
    moved = at(5.25, "became_leader", node=1, partition=0, leader_epoch=1, offset=13802)
    says(narrative_of((LED, BEGUN, moved)))


def test_leader_changes_of_other_partitions_are_counted(says: Says) -> None:
    """Six sentences for six partitions would hide the first."""
    others = [
        at(-5, "became_leader", node=3, partition=number, leader_epoch=0, offset=0)
        for number in (1, 2)
    ]
    moved = at(4, "became_leader", node=1, partition=2, leader_epoch=1, offset=5)
    says(narrative_of((LED, *others, BEGUN, moved)))


def test_the_first_leader_of_a_recreated_topic_is_no_leader_change() -> None:
    """Its leader epochs begin at 0 again."""
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


def test_sentences_are_ordered_by_time(says: Says) -> None:
    """The controller fenced the node, the leader truncated its log, the ISR was full."""
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
    says(narrative_of(events))


def test_requests_that_timed_out_are_summed_over_the_producers(says: Says) -> None:
    """Those of the concurrent consumer do not count."""
    line = (
        "[thrd:x]: 127.0.0.1:1/1: Timed out 4 in-flight, 0 retry-queued, 0 out-queue, "
        "0 partially-sent requests"
    )
    events = [
        at(1, "timed_out", source=Source.CLIENT, detail=f"{client}: {line}")
        for client in ("producer 0", "producer 1", "consumer 0")
    ]
    says(narrative_of((BEGUN, *events)))
