"""The rules attribute the planted cause to each planted record."""

from __future__ import annotations

import pytest
from support.builders.crash import (
    CRASH,
    LEADER_1,
    LEADER_2,
    LINEAGE,
    MS,
    TRUNCATED_BY_2,
    AnomalousRecord,
    Appended,
    attributed,
    causes,
)

from ackbench.spark_jobs.planted import QUIET, PlantedEpoch, PlantedEvent


@pytest.mark.parametrize(
    ("offset", "cause"), [(79, "UNATTRIBUTED"), (80, "TRUNCATED"), (81, "TRUNCATED")]
)
def test_a_truncation_explains_losses_from_its_offset_on(offset: int, cause: str) -> None:
    """A record below it was not truncated: the cause of its loss is unknown."""
    assert causes(AnomalousRecord(offset=offset)) == [cause]


def test_all_events_may_have_the_same_time() -> None:
    """Clocks are coarse, so the bounds of a time are inclusive."""
    led, truncation = LEADER_2._replace(at_ns=150 * MS), TRUNCATED_BY_2._replace(at_ns=150 * MS)
    assert causes(
        AnomalousRecord(offset=80, at_ns=150 * MS, sent_ns=150 * MS),
        events=(led, truncation),
        epochs=(),
    ) == ["TRUNCATED"]


def test_a_log_can_be_truncated_to_offset_0() -> None:
    """This holds even if the start offset of the leader is unknown."""
    led, truncation = LEADER_2._replace(offset=None), TRUNCATED_BY_2._replace(offset=0)
    assert causes(AnomalousRecord(offset=0), events=(led, truncation), epochs=()) == ["TRUNCATED"]


@pytest.mark.parametrize(
    ("offset", "at_ms", "cause"),
    [
        (5, 250, "DELETED"),
        (5, 300, "DELETED"),
        (5, 301, "UNATTRIBUTED"),
        (None, 200, "DELETED"),
        (None, 201, "UNATTRIBUTED"),
    ],
)
def test_a_deleted_topic_explains_losses_acknowledged_before_its_recreation(
    offset: int | None, at_ms: int, cause: str
) -> None:
    """Records without an offset must be older than the request to delete."""
    deleted = PlantedEvent(200 * MS, "topic_deleted")
    recreated = PlantedEvent(300 * MS, "topic_recreated")
    assert causes(
        AnomalousRecord(offset=offset, at_ns=at_ms * MS, sent_ns=190 * MS),
        events=(LEADER_2, deleted, recreated),
        epochs=(),
    ) == [cause]


@pytest.mark.parametrize("kind", ["UNKNOWN_ABSENT", "MISSED"])
def test_a_deleted_topic_explains_no_other_kind(kind: str) -> None:
    """Only a loss is explained, although the time would fit."""
    deleted = PlantedEvent(200 * MS, "topic_deleted")
    recreated = PlantedEvent(300 * MS, "topic_recreated")
    assert causes(
        AnomalousRecord(kind, offset=5), events=(LEADER_2, deleted, recreated), epochs=()
    ) == ["UNATTRIBUTED"]


def test_a_deletion_without_recreation_explains_nothing() -> None:
    """It is unknown until when the old topic could acknowledge records."""
    deleted = PlantedEvent(200 * MS, "topic_deleted")
    assert causes(AnomalousRecord(offset=5), events=(LEADER_2, deleted), epochs=()) == [
        "UNATTRIBUTED"
    ]


def test_another_partition_or_trial_explains_nothing() -> None:
    """Each has its own leaders, epochs and truncations."""
    of_two_partitions = (AnomalousRecord(offset=80, partition=1), AnomalousRecord(offset=80))
    of_crash = attributed(*of_two_partitions)
    of_quiet = attributed(
        *of_two_partitions, events=(LEADER_2._replace(node=3),), epochs=(), phases=QUIET
    )
    context = [
        (row["partition"], row["phase"], row["leader"], row["isr"], row["cause"])
        for row in (*of_crash, *of_quiet)
    ]
    assert context == [
        (0, "during", 2, "1,2", "TRUNCATED"),
        (1, "during", None, None, "UNATTRIBUTED"),
        (0, None, 3, None, "UNATTRIBUTED"),
        (1, None, None, None, "UNATTRIBUTED"),
    ]


def test_a_truncation_before_the_record_was_sent_explains_nothing() -> None:
    """It belongs to an earlier fault."""
    earlier = TRUNCATED_BY_2._replace(at_ns=130 * MS)
    assert causes(AnomalousRecord(offset=80), events=(LEADER_2, earlier), epochs=()) == [
        "UNATTRIBUTED"
    ]


def test_a_followers_truncation_explains_nothing() -> None:
    """It removes no record that only the leader had acknowledged."""
    assert causes(
        AnomalousRecord(offset=80), events=(LEADER_2, TRUNCATED_BY_2._replace(node=3)), epochs=()
    ) == ["UNATTRIBUTED"]


def test_a_replaced_leader_that_does_not_know_it_can_acknowledge() -> None:
    """Leader 2 is partitioned from the others, and truncates its log once it learns of leader 1."""
    (row,) = attributed(AnomalousRecord(offset=95, at_ns=400 * MS, sent_ns=390 * MS))
    assert (row["cause"], row["leader"], row["leader_epoch"], row["truncated_by"]) == (
        "TRUNCATED",
        2,
        5,
        2,
    )


def test_surviving_epochs_prove_a_truncation_that_no_log_reports() -> None:
    """Epoch 5 ends at offset 80, and leader 2 acknowledged offset 85 in it."""
    (row,) = attributed(AnomalousRecord(offset=85), events=(LEADER_2, LEADER_1))
    assert (row["cause"], row["leader_epoch"], row["truncated_to"], row["truncated_by"]) == (
        "TRUNCATED",
        5,
        80,
        None,
    )


@pytest.mark.parametrize("way", [1, -1])
def test_at_equal_times_higher_epochs_and_lower_truncations_are_later(way: int) -> None:
    """The order of the rows in the file does not matter."""
    truncations = (TRUNCATED_BY_2, TRUNCATED_BY_2._replace(offset=60))
    (row,) = attributed(
        AnomalousRecord("UNKNOWN_ABSENT"), events=(LEADER_2, LEADER_1._replace(at_ns=0))[::way]
    )
    lost = attributed(
        AnomalousRecord(seq=1, offset=70),
        AnomalousRecord(seq=2, offset=90),
        events=(LEADER_2, *truncations[::way]),
        epochs=(),
    )
    assert (row["leader_epoch"], [row["truncated_to"] for row in lost]) == (6, [60, 80])


@pytest.mark.parametrize("way", [1, -1])
def test_events_without_an_order_get_a_reproducible_one(way: int) -> None:
    """Two leaders without epochs have the same time."""
    seen = [PlantedEvent(0, "leader", node=node, partition=0, source="metadata") for node in (1, 2)]
    assert [
        row["leader"]
        for row in attributed(
            AnomalousRecord("UNKNOWN_ABSENT"), events=tuple(seen[::way]), epochs=()
        )
    ] == [2]


@pytest.mark.parametrize("offset", [79, 85])
def test_epochs_on_which_the_replicas_disagree_prove_nothing(offset: int) -> None:
    """Two checkpoints have different ends of epoch 5."""
    apart = (*LINEAGE[:3], PlantedEpoch(2, 0, 6, 85))
    assert causes(AnomalousRecord(offset=offset), events=(LEADER_2, LEADER_1), epochs=apart) == [
        "UNATTRIBUTED"
    ]


def test_the_metadata_poller_replaces_logs_that_cannot_be_read() -> None:
    """For an external cluster, leaders and epochs come from metadata alone."""
    seen = tuple(
        event._replace(kind="leader", source="metadata", offset=None, resolution_ns=10 * MS)
        for event in (LEADER_2, LEADER_1)
    )
    (row,) = attributed(AnomalousRecord(offset=85), events=seen)
    assert (row["cause"], row["leader"], row["leader_epoch"]) == ("TRUNCATED", 2, 5)


def test_an_observation_without_an_epoch_hides_no_broker_event() -> None:
    """The leader is the same, and its epoch is known."""
    seen = PlantedEvent(
        10 * MS, "leader", node=2, partition=0, source="metadata", resolution_ns=10 * MS
    )
    assert attributed(AnomalousRecord(offset=80), events=(*CRASH, seen))[0]["leader_epoch"] == 5


def test_a_record_without_offset_is_lost_between_two_leader_epochs() -> None:
    """acks=0: epoch 5 appended up to 10, epoch 6 from 15; 11 to 14 were in transit, 7 was not."""
    lost = [AnomalousRecord(seq=seq) for seq in (7, 11, 14)]
    assert causes(*lost, appended=(Appended(5, 0, 10), Appended(6, 15, 99))) == [
        "UNATTRIBUTED",
        "NEVER_APPENDED",
        "NEVER_APPENDED",
    ]


def test_an_unacknowledged_record_was_sent_to_the_leader_known_to_its_producer() -> None:
    """The producer learned about leader 1 at 450 ms; it led from 300 ms on."""
    learned = PlantedEvent(
        450 * MS,
        "leader_learned",
        node=1,
        partition=0,
        leader_epoch=6,
        source="client",
        resolution_ns=MS,
        detail="producer 0: leader 1",
    )
    first = learned._replace(at_ns=10 * MS, node=2, leader_epoch=5, detail="producer 0: leader 2")
    other_producers = learned._replace(at_ns=20 * MS, node=3, detail="producer 1: leader 3")
    lost = [AnomalousRecord(seq=seq, at_ns=at) for seq, at in ((11, 400 * MS), (12, 460 * MS))]
    rows = attributed(
        *lost,
        events=(*CRASH, first, learned, other_producers),
        appended=(Appended(5, 0, 10), Appended(6, 15, 99)),
    )
    assert [(row["cause"], row["leader"], row["leader_epoch"]) for row in rows] == [
        ("NEVER_APPENDED", 2, 5),
        ("NEVER_APPENDED", 1, 6),
    ]


def test_an_epoch_boundary_ends_at_the_first_record_of_the_next_epoch() -> None:
    """Epoch 6 appended 12, so records after 12 were lost in epoch 6."""
    assert causes(
        AnomalousRecord(seq=11),
        AnomalousRecord(seq=13),
        appended=(Appended(5, 0, 10), Appended(6, 12, 99)),
    ) == ["NEVER_APPENDED", "UNATTRIBUTED"]


def test_the_last_leader_may_have_appended_nothing() -> None:
    """All records after 10 were lost, and epoch 6 is known to have begun."""
    assert causes(AnomalousRecord(seq=11), appended=(Appended(5, 0, 10),)) == ["NEVER_APPENDED"]


def test_the_first_leader_may_have_appended_nothing() -> None:
    """All records before 15 were lost, and epoch 5 is known to have existed."""
    assert causes(
        AnomalousRecord(seq=14), AnomalousRecord(seq=16), appended=(Appended(6, 15, 99),)
    ) == ["NEVER_APPENDED", "UNATTRIBUTED"]


def test_boundaries_are_between_all_earlier_and_all_later_epochs() -> None:
    """Epoch 6 appended 30, so only 31 to 39 are between it and epoch 7."""
    appended = (Appended(7, 40, 50), Appended(6, 15, 30), Appended(5, 0, 10))
    assert causes(
        *(AnomalousRecord(seq=seq) for seq in (12, 25, 35, 45, 51)), appended=appended
    ) == [*["NEVER_APPENDED", "UNATTRIBUTED"] * 2, "UNATTRIBUTED"]


@pytest.mark.parametrize(
    ("events", "epochs", "cause"),
    [
        (CRASH, (), "NEVER_APPENDED"),  # the brokers' logs alone
        ((), LINEAGE, "NEVER_APPENDED"),  # the checkpoints alone
        ((LEADER_2._replace(kind="leader", leader_epoch=None),), LINEAGE, "NEVER_APPENDED"),
        ((), (), "UNATTRIBUTED"),
    ],
)
def test_each_source_of_two_epochs_proves_a_boundary(
    events: tuple[PlantedEvent, ...], epochs: tuple[PlantedEpoch, ...], cause: str
) -> None:
    """Without any source there is none."""
    assert causes(
        AnomalousRecord(seq=11), events=events, epochs=epochs, appended=(Appended(5, 0, 10),)
    ) == [cause]


def test_each_producer_has_its_own_boundaries() -> None:
    """Producer 1's record 12 is within what epoch 5 appended of it."""
    appended = (
        Appended(5, 0, 10),
        Appended(6, 15, 99),
        Appended(5, 0, 20, producer=1),
        Appended(6, 25, 99, producer=1),
    )
    assert causes(
        AnomalousRecord(seq=12), AnomalousRecord(seq=12, producer=1), appended=appended
    ) == ["NEVER_APPENDED", "UNATTRIBUTED"]


@pytest.mark.parametrize(("start_offset", "epochs"), [(80, ()), (None, LINEAGE)])
def test_a_leader_acknowledges_nothing_before_its_epoch_starts(
    start_offset: int | None, epochs: tuple[PlantedEpoch, ...]
) -> None:
    """Leader 1 led from 80 on and truncated to 60 later: it cannot have acknowledged offset 70."""
    truncation = PlantedEvent(
        700 * MS, "truncated", node=1, partition=0, offset=60, source="broker", resolution_ns=MS
    )
    rows = [
        AnomalousRecord(seq=1000 + offset, offset=offset, at_ns=400 * MS, sent_ns=390 * MS)
        for offset in (70, 80)
    ]
    assert causes(
        *rows, events=(LEADER_2, LEADER_1._replace(offset=start_offset), truncation), epochs=epochs
    ) == ["UNATTRIBUTED", "TRUNCATED"]


@pytest.mark.parametrize(("offset", "ends"), [(79, None), (80, 80), (250, 80)])
def test_an_epoch_ends_where_the_next_one_starts(offset: int, ends: int | None) -> None:
    """The start of a later epoch does not count."""
    (row,) = attributed(
        AnomalousRecord(seq=1000, offset=offset),
        events=(LEADER_2, LEADER_1),
        epochs=(*LINEAGE, PlantedEpoch(1, 0, 7, 200), PlantedEpoch(2, 0, 7, 200)),
    )
    assert row["truncated_to"] == ends


def test_without_a_change_of_leader_there_is_no_boundary() -> None:
    """The last appended record proves nothing."""
    assert causes(
        AnomalousRecord(seq=11),
        events=(LEADER_2,),
        epochs=(PlantedEpoch(2, 0, 5, 0),),
        appended=(Appended(5, 0, 10),),
    ) == ["UNATTRIBUTED"]


def test_a_log_with_unknown_epochs_has_no_boundaries() -> None:
    """Records of an unknown epoch may belong to any."""
    assert causes(
        AnomalousRecord(seq=11),
        appended=(Appended(5, 0, 10), Appended(None, 12, 13), Appended(6, 15, 99)),
    ) == ["UNATTRIBUTED"]


def test_copies_in_two_epochs_were_sent_to_two_leaders() -> None:
    """The first copy is at 70 in epoch 5, the duplicate at 90 in epoch 6."""
    (row,) = attributed(AnomalousRecord("DUPLICATED", offset=90, first_offset=70))
    assert (row["cause"], row["leader"], row["leader_epoch"]) == ("RESENT", 1, 6)


@pytest.mark.parametrize(("offset", "first_offset"), [(90, None), (None, 70), (90, 80)])
def test_copies_in_one_epoch_or_with_an_unknown_offset_prove_nothing(
    offset: int | None, first_offset: int | None
) -> None:
    """A copy without offset may be in another partition."""
    assert causes(AnomalousRecord("DUPLICATED", offset=offset, first_offset=first_offset)) == [
        "UNATTRIBUTED"
    ]


BUMPED = PlantedEvent(
    120 * MS,
    "epoch_bumped",
    source="client",
    resolution_ns=MS,
    detail="producer 0: producer epoch 7: 3 message(s) timed out on t [0], and 2 more",
)
COPY_IN_EPOCH_7 = AnomalousRecord("DUPLICATED", offset=90, first_offset=70, bumped_epoch=7)


@pytest.mark.parametrize(
    ("bump", "cause"),
    [
        (BUMPED, "EPOCH_BUMPED_AFTER_TIMEOUT"),
        (BUMPED._replace(detail=BUMPED.detail.replace("epoch 7", "epoch 6")), "EPOCH_BUMPED"),
        (BUMPED._replace(detail=BUMPED.detail.replace("producer 0", "producer 1")), "EPOCH_BUMPED"),
        (
            BUMPED._replace(detail="producer 0: producer epoch 7: skipped sequence numbers"),
            "EPOCH_BUMPED",
        ),
    ],
)
def test_a_copy_under_a_bumped_producer_epoch_is_explained_by_the_bump(
    bump: PlantedEvent, cause: str
) -> None:
    """Although its copies are in two leader epochs too: a broker could not recognize it at all."""
    assert causes(COPY_IN_EPOCH_7, events=(*CRASH, bump)) == [cause]


def test_only_duplicates_are_explained_by_a_bumped_epoch() -> None:
    """Copies under one epoch have no bumped epoch, whatever the producer's log says."""
    assert causes(
        AnomalousRecord("DUPLICATED", offset=90, first_offset=80), events=(*CRASH, BUMPED)
    ) == ["UNATTRIBUTED"]


TIMED_OUT = PlantedEvent(
    145 * MS,
    "timed_out",
    node=2,
    source="client",
    resolution_ns=MS,
    detail="producer 0: Timed out 3 in-flight requests",
)


@pytest.mark.parametrize("kind", ["DUPLICATED", "REORDERED", "REJECTED_PRESENT"])
@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (TIMED_OUT, "RESENT"),
        (TIMED_OUT._replace(kind="disconnected"), "RESENT"),
        (TIMED_OUT._replace(at_ns=151 * MS), "RESENT"),  # its resolution is 1 ms
        (TIMED_OUT._replace(at_ns=152 * MS), "UNATTRIBUTED"),  # after it was acknowledged
        (TIMED_OUT._replace(at_ns=140 * MS), "RESENT"),  # at the time of sending
        (TIMED_OUT._replace(at_ns=139 * MS), "UNATTRIBUTED"),  # before that
        (TIMED_OUT._replace(detail="producer 1: Timed out"), "UNATTRIBUTED"),  # another producer's
        (TIMED_OUT._replace(detail="consumer 0: Timed out"), "UNATTRIBUTED"),
        (TIMED_OUT._replace(node=1), "UNATTRIBUTED"),  # not the leader yet
        (TIMED_OUT._replace(node=4), "RESENT"),  # just elected
        (TIMED_OUT._replace(node=None), "UNATTRIBUTED"),
        (TIMED_OUT._replace(kind="leader_learned"), "UNATTRIBUTED"),
    ],
)
def test_a_failed_request_explains_a_resent_record(
    kind: str, event: PlantedEvent, cause: str
) -> None:
    """Sent at 140 ms, acknowledged at 150 ms, and both copies are in one epoch."""
    elected = LEADER_1._replace(at_ns=145 * MS, node=4)
    assert causes(
        AnomalousRecord(kind, offset=20, first_offset=10),
        events=(LEADER_2, elected, LEADER_1, event),
        epochs=(),
    ) == [cause]


@pytest.mark.parametrize(
    "kind", ["LOST", "UNKNOWN_ABSENT", "PHANTOM", "CORRUPT", "MISSED", "REDELIVERED"]
)
def test_a_failed_request_explains_no_other_kind(kind: str) -> None:
    """Nor does it explain a record that the client had not accepted by then."""
    assert causes(AnomalousRecord(kind, offset=20, sent_ns=None), events=(LEADER_2, TIMED_OUT)) == [
        "UNATTRIBUTED"
    ]
    assert (
        causes(AnomalousRecord(kind, offset=20), events=(LEADER_2, TIMED_OUT)) == ["UNATTRIBUTED"]
    ) == (kind != "UNKNOWN_ABSENT")


def test_an_absent_record_of_unknown_outcome_was_unanswered() -> None:
    """It never settled, and the client lost its connection."""
    broke = TIMED_OUT._replace(kind="disconnected", at_ns=800 * MS)
    assert causes(AnomalousRecord("UNKNOWN_ABSENT", at_ns=None), events=(LEADER_2, broke)) == [
        "UNANSWERED"
    ]
