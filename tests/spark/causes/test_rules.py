"""By which rule a record has its cause, on a few planted ones of which it is known."""

from __future__ import annotations

import pytest
from support.builders.crash import (
    CRASH,
    CUT_BY_2,
    LED_BY_1,
    LED_BY_2,
    LINEAGE,
    MS,
    Appended,
    Bad,
    causes,
    tied,
)

from spark_jobs.planted import PlantedEpoch, PlantedEvent


@pytest.mark.parametrize(
    ("offset", "cause"), [(79, "UNATTRIBUTED"), (80, "TRUNCATED"), (81, "TRUNCATED")]
)
def test_a_log_that_was_cut_to_an_offset_lost_that_offset_and_what_follows(
    offset: int, cause: str
) -> None:
    """What lies below was not cut: its loss has another cause, and it is not known."""
    assert causes(Bad(offset=offset)) == [cause]


def test_all_of_it_may_be_told_in_one_moment() -> None:
    """Clocks are coarse: what bounds a time belongs to it."""
    led, cut = LED_BY_2._replace(at_ns=150 * MS), CUT_BY_2._replace(at_ns=150 * MS)
    assert causes(
        Bad(offset=80, at_ns=150 * MS, sent_ns=150 * MS), events=(led, cut), epochs=()
    ) == ["TRUNCATED"]


def test_a_log_can_be_cut_to_nothing() -> None:
    """Also where nobody told from which offset its leader led."""
    led, cut = LED_BY_2._replace(offset=None), CUT_BY_2._replace(offset=0)
    assert causes(Bad(offset=0), events=(led, cut), epochs=()) == ["TRUNCATED"]


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
def test_what_a_deleted_topic_had_went_with_it(offset: int | None, at_ms: int, cause: str) -> None:
    """Acknowledged before the new topic was there; without an offset, before the deletion was asked for."""
    deleted = PlantedEvent(200 * MS, "topic_deleted")
    recreated = PlantedEvent(300 * MS, "topic_recreated")
    assert causes(
        Bad(offset=offset, at_ns=at_ms * MS, sent_ns=190 * MS),
        events=(LED_BY_2, deleted, recreated),
        epochs=(),
    ) == [cause]


def test_another_partition_or_trial_explains_nothing() -> None:
    """Each has its own leaders, epochs and cuts."""
    rows = tied(
        Bad(offset=80, partition=1),
        Bad(offset=80, trial_id="u"),
        Bad(offset=80, trial_id="u", partition=1),
        Bad(offset=80),
    )
    told = [
        (row["trial_id"], row["partition"], row["phase"], row["leader"], row["isr"], row["cause"])
        for row in rows
    ]
    assert told == [
        ("t", 0, "during", 2, "1,2", "TRUNCATED"),
        ("t", 1, "during", None, None, "UNATTRIBUTED"),
        ("u", 0, None, 3, None, "UNATTRIBUTED"),
        ("u", 1, None, None, None, "UNATTRIBUTED"),
    ]


def test_a_log_that_was_cut_before_the_record_was_sent_explains_nothing() -> None:
    """An earlier fault's truncation."""
    earlier = CUT_BY_2._replace(at_ns=130 * MS)
    assert causes(Bad(offset=80), events=(LED_BY_2, earlier), epochs=()) == ["UNATTRIBUTED"]


def test_the_log_of_a_broker_that_did_not_lead_explains_nothing() -> None:
    """A follower's truncation loses nothing that was acknowledged by its leader."""
    assert causes(Bad(offset=80), events=(LED_BY_2, CUT_BY_2._replace(node=3)), epochs=()) == [
        "UNATTRIBUTED"
    ]


def test_a_leader_that_does_not_know_that_it_was_replaced_goes_on_acknowledging() -> None:
    """Acked when leader 1 led already, by leader 2, which was cut off and whose log was cut when it learned."""
    (row,) = tied(Bad(offset=95, at_ns=400 * MS, sent_ns=390 * MS))
    assert (row["cause"], row["leader"], row["leader_epoch"], row["truncated_by"]) == (
        "TRUNCATED",
        2,
        5,
        2,
    )


def test_the_surviving_epochs_tell_of_a_truncation_that_no_log_tells_of() -> None:
    """Epoch 5 ends at 80 there, and leader 2 acknowledged offset 85 in it."""
    (row,) = tied(Bad(offset=85), events=(LED_BY_2, LED_BY_1))
    assert (row["cause"], row["leader_epoch"], row["truncated_to"], row["truncated_by"]) == (
        "TRUNCATED",
        5,
        80,
        None,
    )


@pytest.mark.parametrize("way", [1, -1])
def test_of_one_moment_the_later_epoch_led_last_and_the_lower_cut_came_last(way: int) -> None:
    """In whatever order a file of many merged logs holds the events."""
    cuts = (CUT_BY_2, CUT_BY_2._replace(offset=60))
    (row,) = tied(Bad("UNKNOWN_ABSENT"), events=(LED_BY_2, LED_BY_1._replace(at_ns=0))[::way])
    lost = tied(
        Bad(seq=1, offset=70), Bad(seq=2, offset=90), events=(LED_BY_2, *cuts[::way]), epochs=()
    )
    assert (row["leader_epoch"], [row["truncated_to"] for row in lost]) == (6, [60, 80])


@pytest.mark.parametrize("way", [1, -1])
def test_what_has_no_order_gets_one_that_is_not_the_files(way: int) -> None:
    """Two leaders without epochs, in one moment."""
    seen = [PlantedEvent(0, "leader", node=node, partition=0, source="metadata") for node in (1, 2)]
    assert [
        row["leader"] for row in tied(Bad("UNKNOWN_ABSENT"), events=tuple(seen[::way]), epochs=())
    ] == [2]


@pytest.mark.parametrize("offset", [79, 85])
def test_epochs_that_the_replicas_do_not_agree_about_prove_nothing(offset: int) -> None:
    """Two checkpoints, two ends of epoch 5."""
    apart = (*LINEAGE[:3], PlantedEpoch(2, 0, 6, 85))
    assert causes(Bad(offset=offset), events=(LED_BY_2, LED_BY_1), epochs=apart) == ["UNATTRIBUTED"]


def test_the_watcher_stands_in_for_brokers_whose_logs_nobody_can_read() -> None:
    """A cluster of somebody else's: leaders and their epochs from metadata alone."""
    seen = tuple(
        event._replace(kind="leader", source="metadata", offset=None, resolution_ns=10 * MS)
        for event in (LED_BY_2, LED_BY_1)
    )
    (row,) = tied(Bad(offset=85), events=seen)
    assert (row["cause"], row["leader"], row["leader_epoch"]) == ("TRUNCATED", 2, 5)


def test_what_the_watcher_saw_without_an_epoch_hides_nothing_that_a_broker_told() -> None:
    """The leader is the same, and the epoch is known."""
    seen = PlantedEvent(
        10 * MS, "leader", node=2, partition=0, source="metadata", resolution_ns=10 * MS
    )
    assert tied(Bad(offset=80), events=(*CRASH, seen))[0]["leader_epoch"] == 5


def test_a_record_without_offset_is_lost_in_the_seam_between_two_leaders() -> None:
    """acks=0: epoch 5 appended up to 10 and epoch 6 from 15; 11 to 14 were on their way, and 7 was not."""
    lost = [Bad(seq=seq) for seq in (7, 11, 14)]
    assert causes(*lost, appended=(Appended(5, 0, 10), Appended(6, 15, 99))) == [
        "UNATTRIBUTED",
        "NEVER_APPENDED",
        "NEVER_APPENDED",
    ]


def test_a_record_that_nobody_acknowledged_was_sent_to_whom_its_producer_took_for_the_leader() -> (
    None
):
    """It learned of leader 1 at 450 ms, which led since 300 ms."""
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
    of_another = learned._replace(at_ns=20 * MS, node=3, detail="producer 1: leader 3")
    lost = [Bad(seq=seq, at_ns=at) for seq, at in ((11, 400 * MS), (12, 460 * MS))]
    rows = tied(
        *lost,
        events=(*CRASH, first, learned, of_another),
        appended=(Appended(5, 0, 10), Appended(6, 15, 99)),
    )
    assert [(row["cause"], row["leader"], row["leader_epoch"]) for row in rows] == [
        ("NEVER_APPENDED", 2, 5),
        ("NEVER_APPENDED", 1, 6),
    ]


def test_a_seam_is_no_wider_than_what_either_leader_appended() -> None:
    """Epoch 6 appended 12 before it appended 15: all that is lost after 12 was lost by epoch 6."""
    assert causes(Bad(seq=11), Bad(seq=13), appended=(Appended(5, 0, 10), Appended(6, 12, 99))) == [
        "NEVER_APPENDED",
        "UNATTRIBUTED",
    ]


def test_the_last_leader_may_have_appended_nothing() -> None:
    """Everything after 10 was lost, and epoch 6 is known to have begun."""
    assert causes(Bad(seq=11), appended=(Appended(5, 0, 10),)) == ["NEVER_APPENDED"]


def test_the_first_leader_may_have_appended_nothing() -> None:
    """Everything before 15 was lost, and epoch 5 is known to have been."""
    assert causes(Bad(seq=14), Bad(seq=16), appended=(Appended(6, 15, 99),)) == [
        "NEVER_APPENDED",
        "UNATTRIBUTED",
    ]


def test_seams_lie_between_all_that_earlier_and_all_that_later_epochs_appended() -> None:
    """In whatever order they are told; epoch 6 appended 30 early, so of 21 to 39 only what follows it is in the seam before epoch 7."""
    appended = (Appended(7, 40, 50), Appended(6, 15, 30), Appended(5, 0, 10))
    assert causes(*(Bad(seq=seq) for seq in (12, 25, 35, 45, 51)), appended=appended) == [
        *["NEVER_APPENDED", "UNATTRIBUTED"] * 2,
        "UNATTRIBUTED",
    ]


@pytest.mark.parametrize(
    ("events", "epochs", "cause"),
    [
        (CRASH, (), "NEVER_APPENDED"),  # the brokers' logs alone
        ((), LINEAGE, "NEVER_APPENDED"),  # the checkpoints alone
        ((LED_BY_2._replace(kind="leader", leader_epoch=None),), LINEAGE, "NEVER_APPENDED"),
        ((), (), "UNATTRIBUTED"),
    ],
)
def test_whoever_tells_of_two_epochs_tells_of_a_seam(
    events: tuple[PlantedEvent, ...], epochs: tuple[PlantedEpoch, ...], cause: str
) -> None:
    """Without anybody there is none."""
    assert causes(Bad(seq=11), events=events, epochs=epochs, appended=(Appended(5, 0, 10),)) == [
        cause
    ]


def test_each_producer_has_its_own_seams() -> None:
    """Producer 1's 12 was lost where its own records went on."""
    appended = (
        Appended(5, 0, 10),
        Appended(6, 15, 99),
        Appended(5, 0, 20, producer=1),
        Appended(6, 25, 99, producer=1),
    )
    assert causes(Bad(seq=12), Bad(seq=12, producer=1), appended=appended) == [
        "NEVER_APPENDED",
        "UNATTRIBUTED",
    ]


@pytest.mark.parametrize(("told", "epochs"), [(80, ()), (None, LINEAGE)])
def test_a_leader_acknowledges_nothing_before_its_epoch_starts(
    told: int | None, epochs: tuple[PlantedEpoch, ...]
) -> None:
    """Leader 1 led from 80 on, and cut its log to 60 later: offset 70 was not its to acknowledge, whatever the number of the record."""
    cut = PlantedEvent(
        700 * MS, "truncated", node=1, partition=0, offset=60, source="broker", resolution_ns=MS
    )
    rows = [
        Bad(seq=1000 + offset, offset=offset, at_ns=400 * MS, sent_ns=390 * MS)
        for offset in (70, 80)
    ]
    assert causes(*rows, events=(LED_BY_2, LED_BY_1._replace(offset=told), cut), epochs=epochs) == [
        "UNATTRIBUTED",
        "TRUNCATED",
    ]


@pytest.mark.parametrize(("offset", "ends"), [(79, None), (80, 80), (250, 80)])
def test_an_epoch_ends_where_the_next_one_starts(offset: int, ends: int | None) -> None:
    """Not where a later one does."""
    (row,) = tied(
        Bad(seq=1000, offset=offset),
        events=(LED_BY_2, LED_BY_1),
        epochs=(*LINEAGE, PlantedEpoch(1, 0, 7, 200), PlantedEpoch(2, 0, 7, 200)),
    )
    assert row["truncated_to"] == ends


def test_without_a_change_of_leader_there_is_no_seam() -> None:
    """The end of what was appended proves nothing."""
    assert causes(
        Bad(seq=11),
        events=(LED_BY_2,),
        epochs=(PlantedEpoch(2, 0, 5, 0),),
        appended=(Appended(5, 0, 10),),
    ) == ["UNATTRIBUTED"]


def test_a_log_that_does_not_tell_its_epochs_has_no_seams() -> None:
    """The client was not told the epoch of some records: they may lie anywhere."""
    assert causes(
        Bad(seq=11), appended=(Appended(5, 0, 10), Appended(None, 12, 13), Appended(6, 15, 99))
    ) == ["UNATTRIBUTED"]


def test_copies_in_two_epochs_were_sent_to_two_leaders() -> None:
    """The first at 70 in epoch 5, the other at 90 in epoch 6, by whose leader it is told."""
    (row,) = tied(Bad("DUPLICATED", offset=90, first_offset=70))
    assert (row["cause"], row["leader"], row["leader_epoch"]) == ("RESENT", 1, 6)


@pytest.mark.parametrize(("offset", "first_offset"), [(90, None), (None, 70), (90, 80)])
def test_copies_of_which_one_is_elsewhere_or_both_are_in_one_epoch_tell_nothing(
    offset: int | None, first_offset: int | None
) -> None:
    """In another partition, perhaps."""
    assert causes(Bad("DUPLICATED", offset=offset, first_offset=first_offset)) == ["UNATTRIBUTED"]


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
        (TIMED_OUT._replace(at_ns=151 * MS), "RESENT"),  # its clock is good to a millisecond
        (TIMED_OUT._replace(at_ns=152 * MS), "UNATTRIBUTED"),  # after it was acknowledged
        (TIMED_OUT._replace(at_ns=140 * MS), "RESENT"),  # in the moment in which it was sent
        (TIMED_OUT._replace(at_ns=139 * MS), "UNATTRIBUTED"),  # before that
        (TIMED_OUT._replace(detail="producer 1: Timed out"), "UNATTRIBUTED"),  # somebody else's
        (TIMED_OUT._replace(detail="reader 0: Timed out"), "UNATTRIBUTED"),
        (TIMED_OUT._replace(node=1), "UNATTRIBUTED"),  # not the leader yet
        (TIMED_OUT._replace(node=4), "RESENT"),  # just elected
        (TIMED_OUT._replace(node=None), "UNATTRIBUTED"),
        (TIMED_OUT._replace(kind="leader_learned"), "UNATTRIBUTED"),
    ],
)
def test_a_client_that_gave_up_waiting_sent_it_again(
    kind: str, event: PlantedEvent, cause: str
) -> None:
    """Sent at 140 ms, acknowledged at 150 ms, and both copies in one epoch."""
    elected = LED_BY_1._replace(at_ns=145 * MS, node=4)
    assert causes(
        Bad(kind, offset=20, first_offset=10),
        events=(LED_BY_2, elected, LED_BY_1, event),
        epochs=(),
    ) == [cause]


@pytest.mark.parametrize(
    "kind", ["LOST", "UNKNOWN_ABSENT", "PHANTOM", "CORRUPT", "MISSED", "REDELIVERED"]
)
def test_what_the_client_gave_up_on_is_told_of_no_other_kind(kind: str) -> None:
    """Nor of a record that it had not taken by then."""
    assert causes(Bad(kind, offset=20, sent_ns=None), events=(LED_BY_2, TIMED_OUT)) == [
        "UNATTRIBUTED"
    ]
    assert (causes(Bad(kind, offset=20), events=(LED_BY_2, TIMED_OUT)) == ["UNATTRIBUTED"]) == (
        kind != "UNKNOWN_ABSENT"
    )


def test_an_unknown_record_that_is_absent_was_not_answered() -> None:
    """It never settled, and its connection broke."""
    broke = TIMED_OUT._replace(kind="disconnected", at_ns=800 * MS)
    assert causes(Bad("UNKNOWN_ABSENT", at_ns=None), events=(LED_BY_2, broke)) == ["UNANSWERED"]
