"""What changed between two answers, how well the moment is known, and what is no news."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.events.clock import now_ns
from experiments.events.journal import Event, Journal
from experiments.ledger.schema import Source
from experiments.trial.metadata_poller import MetadataChanges
from infra.kafka.spec import ControllerView, PartitionState


@pytest.fixture
def journal() -> Journal:
    """An empty one."""
    return Journal()


@pytest.fixture
def changes(journal: Journal) -> MetadataChanges:
    """That has seen partition 0 led by node 1 in epoch 5, asked for just now."""
    seen = MetadataChanges(journal)
    seen.note_partitions((led(1, epoch=5),), now_ns())
    return seen


def led(leader: int | None, epoch: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    """Partition 0."""
    return PartitionState("trial", 0, leader, (1, 2, 3), isr, epoch)


def last(journal: Journal, kind: str) -> Event:
    """The last event of a kind."""
    return journal.events(kind)[-1]


def test_a_new_leader_is_told_with_its_epoch(changes: MetadataChanges, journal: Journal) -> None:
    """Who led before and who leads, by the watcher."""
    changes.note_partitions((led(2, epoch=6),), now_ns())
    event = last(journal, "leader")
    assert (event.source, event.node, event.partition, event.leader_epoch, event.detail) == (
        Source.METADATA,
        2,
        0,
        6,
        "1 -> 2",
    )


def test_the_same_leader_in_a_new_epoch_is_news(changes: MetadataChanges, journal: Journal) -> None:
    """It lost the partition and got it back between two looks."""
    changes.note_partitions((led(1, epoch=7),), now_ns())
    assert last(journal, "leader").leader_epoch == 7


def test_that_nobody_leads_is_told(changes: MetadataChanges, journal: Journal) -> None:
    """As no node, not as node -1."""
    changes.note_partitions((led(None, epoch=6),), now_ns())
    assert (last(journal, "leader").node, last(journal, "leader").detail) == (None, "1 -> none")


def test_an_isr_is_told_by_its_members_in_order(changes: MetadataChanges, journal: Journal) -> None:
    """The order in which Kafka has them says nothing."""
    changes.note_partitions((led(1, epoch=5, isr=(3, 2, 1)),), now_ns())
    changes.note_partitions((led(1, epoch=5, isr=(3, 1)),), now_ns())
    assert [event.detail for event in journal.events("isr")] == ["1,2,3", "1,3"]


def test_a_change_happened_since_the_last_answer_was_asked_for(
    changes: MetadataChanges, journal: Journal
) -> None:
    """Not since it came: the broker may have looked at once."""
    asked_ns = now_ns()
    changes.note_partitions((led(1, epoch=5),), asked_ns)
    changes.note_partitions((led(2, epoch=6),), now_ns())
    event = last(journal, "leader")
    assert event.resolution_ns is not None
    assert event.at_ns - event.resolution_ns == asked_ns


def test_the_first_answer_tells_what_is_and_not_since_when(journal: Journal) -> None:
    """Its moment is the moment of seeing."""
    MetadataChanges(journal).note_partitions((led(1, epoch=0),), now_ns())
    assert {event.resolution_ns for event in journal.events()} == {None}


def test_an_answer_from_an_older_epoch_is_no_news(
    changes: MetadataChanges, journal: Journal
) -> None:
    """A broker that stood still answers with what it knew before."""
    changes.note_partitions((led(2, epoch=6),), now_ns())
    before = len(journal.events())
    changes.note_partitions((led(1, epoch=5),), now_ns())
    assert len(journal.events()) == before


def test_a_topic_made_again_under_its_name_begins_its_epochs_anew(
    changes: MetadataChanges, journal: Journal
) -> None:
    """Its id is another one; what a broker still says of the old one is no news any more, however high its epoch."""
    again = replace(led(2, epoch=0), topic_id="another")
    changes.note_partitions((again, replace(again, partition=1)), now_ns())
    assert (last(journal, "leader").node, last(journal, "leader").leader_epoch) == (2, 0)
    changes.note_partitions((led(3, epoch=6),), now_ns())
    assert last(journal, "leader").node == 2


def test_an_answer_to_an_older_request_is_no_news(
    changes: MetadataChanges, journal: Journal
) -> None:
    """A slow broker answers after a quick one that was asked later."""
    asked_ns = now_ns()
    changes.note_partitions((led(1, epoch=5, isr=(1, 2)),), asked_ns)
    changes.note_partitions((led(1, epoch=5, isr=(1, 2, 3)),), asked_ns - 1)
    assert last(journal, "isr").detail == "1,2"


def test_a_gap_is_told_once_with_its_begin_and_its_end(
    changes: MetadataChanges, journal: Journal
) -> None:
    """However many looks fail in it; and what changed in it is known to the whole gap."""
    for _ in range(3):
        changes.note_blind("nobody answered")
    changes.note_partitions((led(1, epoch=5),), now_ns())
    assert [
        event.kind for event in journal.events("metadata_unavailable", "metadata_available")
    ] == ["metadata_unavailable", "metadata_available"]


def test_another_active_controller_is_told_once(changes: MetadataChanges, journal: Journal) -> None:
    """By its node, and its epoch in words."""
    for view in (ControllerView(1, 3), ControllerView(1, 3), ControllerView(2, 4)):
        changes.note_controller(view, now_ns())
    assert [(event.node, event.detail) for event in journal.events("controller")] == [
        (1, "epoch 3"),
        (2, "epoch 4"),
    ]
