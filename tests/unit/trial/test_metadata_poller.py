"""Changes between two metadata answers become events; outdated answers are ignored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.metadata_poller import MetadataChanges
from ackbench.infra.kafka.spec import ControllerView, PartitionState


@pytest.fixture
def journal() -> Journal:
    """Return an empty journal."""
    return Journal()


@pytest.fixture
def changes(journal: Journal) -> MetadataChanges:
    """Return changes after a first answer: node 1 leads partition 0 in epoch 5."""
    changes = MetadataChanges(journal)
    changes.note_partitions((led(1, epoch=5),), now_ns())
    return changes


def led(leader: int | None, epoch: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    """Return the state of partition 0."""
    return PartitionState("trial", 0, leader, (1, 2, 3), isr, epoch)


def last(journal: Journal, kind: str) -> Event:
    """Return the last event of a kind."""
    return journal.events(kind)[-1]


def test_a_new_leader_is_noted_with_its_epoch(changes: MetadataChanges, journal: Journal) -> None:
    """The detail has the leader before and after."""
    changes.note_partitions((led(2, epoch=6),), now_ns())
    event = last(journal, "leader")
    assert (event.source, event.node, event.partition, event.leader_epoch, event.detail) == (
        Source.METADATA,
        2,
        0,
        6,
        "1 -> 2",
    )


def test_the_same_leader_in_a_new_epoch_is_a_change(
    changes: MetadataChanges, journal: Journal
) -> None:
    """It lost the leadership and got it back between two polls."""
    changes.note_partitions((led(1, epoch=7),), now_ns())
    assert last(journal, "leader").leader_epoch == 7


def test_a_partition_without_a_leader_is_noted(changes: MetadataChanges, journal: Journal) -> None:
    """The event has no node, not node -1."""
    changes.note_partitions((led(None, epoch=6),), now_ns())
    assert (last(journal, "leader").node, last(journal, "leader").detail) == (None, "1 -> none")


def test_an_isr_is_noted_in_sorted_order(changes: MetadataChanges, journal: Journal) -> None:
    """Another order of the same brokers is no change."""
    changes.note_partitions((led(1, epoch=5, isr=(3, 2, 1)),), now_ns())
    changes.note_partitions((led(1, epoch=5, isr=(3, 1)),), now_ns())
    assert [event.detail for event in journal.events("isr")] == ["1,2,3", "1,3"]


def test_a_change_happened_since_the_previous_request(
    changes: MetadataChanges, journal: Journal
) -> None:
    """Not since its answer: the broker may have read its state at once."""
    requested_ns = now_ns()
    changes.note_partitions((led(1, epoch=5),), requested_ns)
    changes.note_partitions((led(2, epoch=6),), now_ns())
    event = last(journal, "leader")
    assert event.resolution_ns is not None
    assert event.at_ns - event.resolution_ns == requested_ns


def test_the_first_answer_has_no_resolution(journal: Journal) -> None:
    """It shows a state, not since when it holds."""
    MetadataChanges(journal).note_partitions((led(1, epoch=0),), now_ns())
    assert {event.resolution_ns for event in journal.events()} == {None}


def test_an_answer_from_an_older_epoch_is_ignored(
    changes: MetadataChanges, journal: Journal
) -> None:
    """A broker that was paused answers with what it knew before."""
    changes.note_partitions((led(2, epoch=6),), now_ns())
    before = len(journal.events())
    changes.note_partitions((led(1, epoch=5),), now_ns())
    assert len(journal.events()) == before


def test_a_recreated_topic_begins_its_epochs_at_0(
    changes: MetadataChanges, journal: Journal
) -> None:
    """It has another id; answers about the old one are ignored, however high their epoch."""
    recreated = replace(led(2, epoch=0), topic_id="another")
    changes.note_partitions((recreated, replace(recreated, partition=1)), now_ns())
    assert (last(journal, "leader").node, last(journal, "leader").leader_epoch) == (2, 0)
    changes.note_partitions((led(3, epoch=6),), now_ns())
    assert last(journal, "leader").node == 2


def test_an_answer_to_an_older_request_is_ignored(
    changes: MetadataChanges, journal: Journal
) -> None:
    """A slow broker can answer after a fast one that was asked later."""
    requested_ns = now_ns()
    changes.note_partitions((led(1, epoch=5, isr=(1, 2)),), requested_ns)
    changes.note_partitions((led(1, epoch=5, isr=(1, 2, 3)),), requested_ns - 1)
    assert last(journal, "isr").detail == "1,2"


def test_a_gap_is_noted_once_with_its_begin_and_its_end(
    changes: MetadataChanges, journal: Journal
) -> None:
    """However many polls fail in it."""
    for _ in range(3):
        changes.note_unavailable("no broker answered")
    changes.note_partitions((led(1, epoch=5),), now_ns())
    assert [
        event.kind for event in journal.events("metadata_unavailable", "metadata_available")
    ] == ["metadata_unavailable", "metadata_available"]


def test_another_active_controller_is_noted_once(
    changes: MetadataChanges, journal: Journal
) -> None:
    """The event has its node; the detail has its epoch."""
    for view in (ControllerView(1, 3), ControllerView(1, 3), ControllerView(2, 4)):
        changes.note_controller(view, now_ns())
    assert [(event.node, event.detail) for event in journal.events("controller")] == [
        (1, "epoch 3"),
        (2, "epoch 4"),
    ]


def test_a_broker_that_is_gone_is_noted_once(changes: MetadataChanges, journal: Journal) -> None:
    """And again when it was back meanwhile."""
    for gone in ({3}, {3}, set[int](), {3}):
        changes.note_gone(frozenset(gone))
    assert [(event.node, event.detail) for event in journal.events("broker_left")] == [
        (3, "broker 3 left the cluster and refuses connections")
    ] * 2
