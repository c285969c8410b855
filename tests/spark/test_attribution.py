"""Why records were lost, doubled, late or refused, on a few planted ones whose cause is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from experiments.ledger.measured import ANOMALIES, ATTRIBUTION
from experiments.ledger.record import FaultEvidence, Phases
from spark_jobs.anomalies import FOUND, REACHES, anomalies
from spark_jobs.attribution import attribution
from spark_jobs.evidence import evidence_of
from spark_jobs.planted import Epoch, Happened, PlantedTrial, together

MS = 1_000_000
PHASES = Phases(load_begin_ns=0, load_end_ns=900 * MS, fault_begin_ns=100 * MS, fault_end_ns=500 * MS, settled_ns=900 * MS, whole_ns=900 * MS)
LED_BY_2 = Happened(0, "leads", node=2, partition=0, leader_epoch=5, offset=0, source="broker", resolution_ns=MS)
LED_BY_1 = Happened(300 * MS, "leads", node=1, partition=0, leader_epoch=6, offset=80, source="broker", resolution_ns=MS)
IN_SYNC = Happened(0, "isr", partition=0, leader_epoch=5, source="watcher", detail="1,2")
SHRUNK = Happened(310 * MS, "isr", partition=0, leader_epoch=6, source="watcher", detail="1")
CUT_BY_2 = Happened(600 * MS, "truncated", node=2, partition=0, offset=80, source="broker", resolution_ns=MS, detail="node 2: Truncating to offset 80")
CRASH = (LED_BY_2, LED_BY_1, IN_SYNC, SHRUNK, CUT_BY_2)
QUIET = PlantedTrial("u", (), events=[LED_BY_2._replace(node=3)])
LINEAGE = (Epoch(1, 0, 5, 0), Epoch(1, 0, 6, 80), Epoch(2, 0, 5, 0), Epoch(2, 0, 6, 80))


class Bad(NamedTuple):
    """One row of what the finder tells."""

    kind: str = "LOST"
    seq: int | None = 0
    offset: int | None = None
    at_ns: int | None = 150 * MS
    sent_ns: int | None = 140 * MS
    first_offset: int | None = None
    producer: int | None = 0
    partition: int | None = 0
    trial_id: str = "t"


class Appended(NamedTuple):
    """Which sequence numbers of producer 0 an epoch appended."""

    leader_epoch: int | None
    first_seq: int
    last_seq: int
    trial_id: str = "t"
    partition: int = 0
    producer: int = 0


def tied(*bad: Bad, events: tuple[Happened, ...] = CRASH, epochs: tuple[Epoch, ...] = LINEAGE, appended: tuple[Appended, ...] = ()) -> list[dict[str, Any]]:
    """Return the rows of the table of anomalies."""
    return tied_table(*bad, events=events, epochs=epochs, appended=appended).to_pylist()  # type: ignore[no-any-return]


def tied_table(*bad: Bad, events: tuple[Happened, ...] = CRASH, epochs: tuple[Epoch, ...] = LINEAGE, appended: tuple[Appended, ...] = ()) -> pa.Table:
    """Tie planted anomalies to a planted trial's evidence."""
    trial = PlantedTrial("t", (), events=events, epochs=epochs, phases=PHASES, fault=FaultEvidence(kind="leader-crash-behind", targets=(2, 1), bit=True))
    tables = together([trial, QUIET])
    evidence = evidence_of([trial.record("planted"), QUIET.record("planted")], tables["events"], tables["epochs"])
    found = pa.Table.from_pylist([row._asdict() for row in bad], schema=FOUND)
    return anomalies(found, pa.Table.from_pylist([row._asdict() for row in appended], schema=REACHES), evidence)


def causes(*bad: Bad, events: tuple[Happened, ...] = CRASH, epochs: tuple[Epoch, ...] = LINEAGE, appended: tuple[Appended, ...] = ()) -> list[str]:
    """Return their causes, by kind and sequence number."""
    return [row["cause"] for row in tied(*bad, events=events, epochs=epochs, appended=appended)]


def test_a_lost_record_is_tied_to_all_that_was_so_when_it_was_acknowledged() -> None:
    """Acked by leader 2 in epoch 5 while the fault lasted, and cut with its log when it rejoined."""
    (row,) = tied(Bad(offset=80))
    assert {name: row[name] for name in ATTRIBUTION.names if name in ANOMALIES.names} == {
        "trial_id": "t",
        "kind": "LOST",
        "partition": 0,
        "phase": "during",
        "leader": 2,
        "leader_epoch": 5,
        "isr": "1,2",
        "cause": "TRUNCATED",
        "truncated_to": 80,
        "truncated_by": 2,
    }


@pytest.mark.parametrize(("offset", "cause"), [(79, "UNATTRIBUTED"), (80, "TRUNCATED"), (81, "TRUNCATED")])
def test_a_log_that_was_cut_to_an_offset_lost_that_offset_and_what_follows(offset: int, cause: str) -> None:
    """What lies below was not cut: its loss has another cause, and it is not known."""
    assert causes(Bad(offset=offset)) == [cause]


def test_all_of_it_may_be_told_in_one_moment() -> None:
    """Clocks are coarse: what bounds a time belongs to it."""
    led, cut = LED_BY_2._replace(at_ns=150 * MS), CUT_BY_2._replace(at_ns=150 * MS)
    assert causes(Bad(offset=80, at_ns=150 * MS, sent_ns=150 * MS), events=(led, cut), epochs=()) == ["TRUNCATED"]


def test_a_log_can_be_cut_to_nothing() -> None:
    """Also where nobody told from which offset its leader led."""
    led, cut = LED_BY_2._replace(offset=None), CUT_BY_2._replace(offset=0)
    assert causes(Bad(offset=0), events=(led, cut), epochs=()) == ["TRUNCATED"]


def test_another_partition_or_trial_explains_nothing() -> None:
    """Each has its own leaders, epochs and cuts."""
    rows = tied(Bad(offset=80, partition=1), Bad(offset=80, trial_id="u"), Bad(offset=80, trial_id="u", partition=1), Bad(offset=80))
    told = [(row["trial_id"], row["partition"], row["phase"], row["leader"], row["isr"], row["cause"]) for row in rows]
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
    assert causes(Bad(offset=80), events=(LED_BY_2, CUT_BY_2._replace(node=3)), epochs=()) == ["UNATTRIBUTED"]


def test_a_leader_that_does_not_know_that_it_was_replaced_goes_on_acknowledging() -> None:
    """Acked when leader 1 led already, by leader 2, which was cut off and whose log was cut when it learned."""
    (row,) = tied(Bad(offset=95, at_ns=400 * MS, sent_ns=390 * MS))
    assert (row["cause"], row["leader"], row["leader_epoch"], row["truncated_by"]) == ("TRUNCATED", 2, 5, 2)


def test_the_surviving_epochs_tell_of_a_truncation_that_no_log_tells_of() -> None:
    """Epoch 5 ends at 80 there, and leader 2 acknowledged offset 85 in it."""
    (row,) = tied(Bad(offset=85), events=(LED_BY_2, LED_BY_1))
    assert (row["cause"], row["leader_epoch"], row["truncated_to"], row["truncated_by"]) == ("TRUNCATED", 5, 80, None)


@pytest.mark.parametrize("way", [1, -1])
def test_of_one_moment_the_later_epoch_led_last_and_the_lower_cut_came_last(way: int) -> None:
    """In whatever order a file of many merged logs holds the events."""
    cuts = (CUT_BY_2, CUT_BY_2._replace(offset=60))
    (row,) = tied(Bad("UNKNOWN_ABSENT"), events=(LED_BY_2, LED_BY_1._replace(at_ns=0))[::way])
    lost = tied(Bad(seq=1, offset=70), Bad(seq=2, offset=90), events=(LED_BY_2, *cuts[::way]), epochs=())
    assert (row["leader_epoch"], [row["truncated_to"] for row in lost]) == (6, [60, 80])


@pytest.mark.parametrize("way", [1, -1])
def test_what_has_no_order_gets_one_that_is_not_the_files(way: int) -> None:
    """Two leaders without epochs, in one moment."""
    seen = [Happened(0, "leader", node=node, partition=0, source="watcher") for node in (1, 2)]
    assert [row["leader"] for row in tied(Bad("UNKNOWN_ABSENT"), events=tuple(seen[::way]), epochs=())] == [2]


@pytest.mark.parametrize("offset", [79, 85])
def test_epochs_that_the_replicas_do_not_agree_about_prove_nothing(offset: int) -> None:
    """Two checkpoints, two ends of epoch 5."""
    apart = (*LINEAGE[:3], Epoch(2, 0, 6, 85))
    assert causes(Bad(offset=offset), events=(LED_BY_2, LED_BY_1), epochs=apart) == ["UNATTRIBUTED"]


def test_the_watcher_stands_in_for_brokers_whose_logs_nobody_can_read() -> None:
    """A cluster of somebody else's: leaders and their epochs from metadata alone."""
    seen = tuple(event._replace(kind="leader", source="watcher", offset=None, resolution_ns=10 * MS) for event in (LED_BY_2, LED_BY_1))
    (row,) = tied(Bad(offset=85), events=seen)
    assert (row["cause"], row["leader"], row["leader_epoch"]) == ("TRUNCATED", 2, 5)


def test_what_the_watcher_saw_without_an_epoch_hides_nothing_that_a_broker_told() -> None:
    """The leader is the same, and the epoch is known."""
    seen = Happened(10 * MS, "leader", node=2, partition=0, source="watcher", resolution_ns=10 * MS)
    assert tied(Bad(offset=80), events=(*CRASH, seen))[0]["leader_epoch"] == 5


def test_a_record_without_offset_is_lost_in_the_seam_between_two_leaders() -> None:
    """acks=0: epoch 5 appended up to 10 and epoch 6 from 15; 11 to 14 were on their way, and 7 was not."""
    lost = [Bad(seq=seq) for seq in (7, 11, 14)]
    assert causes(*lost, appended=(Appended(5, 0, 10), Appended(6, 15, 99))) == ["UNATTRIBUTED", "NEVER_APPENDED", "NEVER_APPENDED"]


def test_a_record_that_nobody_acknowledged_was_sent_to_whom_its_producer_took_for_the_leader() -> None:
    """It learned of leader 1 at 450 ms, which led since 300 ms."""
    learned = Happened(450 * MS, "learned", node=1, partition=0, leader_epoch=6, source="client", resolution_ns=MS, detail="producer 0: leader 1")
    first = learned._replace(at_ns=10 * MS, node=2, leader_epoch=5, detail="producer 0: leader 2")
    of_another = learned._replace(at_ns=20 * MS, node=3, detail="producer 1: leader 3")
    lost = [Bad(seq=seq, at_ns=at) for seq, at in ((11, 400 * MS), (12, 460 * MS))]
    rows = tied(*lost, events=(*CRASH, first, learned, of_another), appended=(Appended(5, 0, 10), Appended(6, 15, 99)))
    assert [(row["cause"], row["leader"], row["leader_epoch"]) for row in rows] == [("NEVER_APPENDED", 2, 5), ("NEVER_APPENDED", 1, 6)]


def test_a_seam_is_no_wider_than_what_either_leader_appended() -> None:
    """Epoch 6 appended 12 before it appended 15: all that is lost after 12 was lost by epoch 6."""
    assert causes(Bad(seq=11), Bad(seq=13), appended=(Appended(5, 0, 10), Appended(6, 12, 99))) == ["NEVER_APPENDED", "UNATTRIBUTED"]


def test_the_last_leader_may_have_appended_nothing() -> None:
    """Everything after 10 was lost, and epoch 6 is known to have begun."""
    assert causes(Bad(seq=11), appended=(Appended(5, 0, 10),)) == ["NEVER_APPENDED"]


def test_seams_lie_between_all_that_earlier_and_all_that_later_epochs_appended() -> None:
    """In whatever order they are told; epoch 6 appended 30 early, so of 21 to 39 only what follows it is in the seam before epoch 7."""
    appended = (Appended(7, 40, 50), Appended(6, 15, 30), Appended(5, 0, 10))
    assert causes(*(Bad(seq=seq) for seq in (12, 25, 35, 45, 51)), appended=appended) == [*["NEVER_APPENDED", "UNATTRIBUTED"] * 2, "UNATTRIBUTED"]


@pytest.mark.parametrize(
    ("events", "epochs", "cause"),
    [
        (CRASH, (), "NEVER_APPENDED"),  # the brokers' logs alone
        ((), LINEAGE, "NEVER_APPENDED"),  # the checkpoints alone
        ((LED_BY_2._replace(kind="leader", leader_epoch=None),), LINEAGE, "NEVER_APPENDED"),
        ((), (), "UNATTRIBUTED"),
    ],
)
def test_whoever_tells_of_two_epochs_tells_of_a_seam(events: tuple[Happened, ...], epochs: tuple[Epoch, ...], cause: str) -> None:
    """Without anybody there is none."""
    assert causes(Bad(seq=11), events=events, epochs=epochs, appended=(Appended(5, 0, 10),)) == [cause]


def test_each_producer_has_its_own_seams() -> None:
    """Producer 1's 12 was lost where its own records went on."""
    appended = (Appended(5, 0, 10), Appended(6, 15, 99), Appended(5, 0, 20, producer=1), Appended(6, 25, 99, producer=1))
    assert causes(Bad(seq=12), Bad(seq=12, producer=1), appended=appended) == ["NEVER_APPENDED", "UNATTRIBUTED"]


def test_a_leader_acknowledges_nothing_before_its_epoch_starts() -> None:
    """Leader 1 led from 80 on, and cut its log to 60 later: offset 70 was not its to acknowledge, whatever the number of the record."""
    cut = Happened(700 * MS, "truncated", node=1, partition=0, offset=60, source="broker", resolution_ns=MS)
    rows = [Bad(seq=1000 + offset, offset=offset, at_ns=400 * MS, sent_ns=390 * MS) for offset in (70, 80)]
    assert causes(*rows, events=(LED_BY_2, LED_BY_1, cut), epochs=()) == ["UNATTRIBUTED", "TRUNCATED"]


@pytest.mark.parametrize(("offset", "ends"), [(79, None), (80, 80), (250, 80)])
def test_an_epoch_ends_where_the_next_one_starts(offset: int, ends: int | None) -> None:
    """Not where a later one does."""
    (row,) = tied(Bad(seq=1000, offset=offset), events=(LED_BY_2, LED_BY_1), epochs=(*LINEAGE, Epoch(1, 0, 7, 200), Epoch(2, 0, 7, 200)))
    assert row["truncated_to"] == ends


def test_without_a_change_of_leader_there_is_no_seam() -> None:
    """The end of what was appended proves nothing."""
    assert causes(Bad(seq=11), events=(LED_BY_2,), epochs=(Epoch(2, 0, 5, 0),), appended=(Appended(5, 0, 10),)) == ["UNATTRIBUTED"]


def test_a_log_that_does_not_tell_its_epochs_has_no_seams() -> None:
    """The client was not told the epoch of some records: they may lie anywhere."""
    assert causes(Bad(seq=11), appended=(Appended(5, 0, 10), Appended(None, 12, 13), Appended(6, 15, 99))) == ["UNATTRIBUTED"]


def test_copies_in_two_epochs_were_sent_to_two_leaders() -> None:
    """The first at 70 in epoch 5, the other at 90 in epoch 6, by whose leader it is told."""
    (row,) = tied(Bad("DUPLICATED", offset=90, first_offset=70))
    assert (row["cause"], row["leader"], row["leader_epoch"]) == ("RESENT", 1, 6)


TIMED_OUT = Happened(145 * MS, "timed_out", node=2, source="client", resolution_ns=MS, detail="producer 0: Timed out 3 in-flight requests")


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
        (TIMED_OUT._replace(kind="learned"), "UNATTRIBUTED"),
    ],
)
def test_a_client_that_gave_up_waiting_sent_it_again(kind: str, event: Happened, cause: str) -> None:
    """Sent at 140 ms, acknowledged at 150 ms, and both copies in one epoch."""
    elected = LED_BY_1._replace(at_ns=145 * MS, node=4)
    assert causes(Bad(kind, offset=20, first_offset=10), events=(LED_BY_2, elected, LED_BY_1, event), epochs=()) == [cause]


@pytest.mark.parametrize("kind", ["LOST", "UNKNOWN_ABSENT", "PHANTOM", "CORRUPT", "MISSED", "REDELIVERED"])
def test_what_the_client_gave_up_on_is_told_of_no_other_kind(kind: str) -> None:
    """Nor of a record that it had not taken by then."""
    assert causes(Bad(kind, offset=20, sent_ns=None), events=(LED_BY_2, TIMED_OUT)) == ["UNATTRIBUTED"]
    assert (causes(Bad(kind, offset=20), events=(LED_BY_2, TIMED_OUT)) == ["UNATTRIBUTED"]) == (kind != "UNKNOWN_ABSENT")


def test_an_unknown_record_that_is_absent_was_not_answered() -> None:
    """It never settled, and its connection broke."""
    broke = TIMED_OUT._replace(kind="disconnected", at_ns=800 * MS)
    assert causes(Bad("UNKNOWN_ABSENT", at_ns=None), events=(LED_BY_2, broke)) == ["UNANSWERED"]


def test_phases_end_where_the_next_one_begins() -> None:
    """During from the fault's begin on, after from its end on; a record of no known time has none."""
    rows = tied(*(Bad(seq=seq, at_ns=at) for seq, at in enumerate((100 * MS - 1, 100 * MS, 500 * MS - 1, 500 * MS, None))))
    assert [row["phase"] for row in rows] == ["before", "during", "during", "after", None]


def test_what_nobody_told_is_null() -> None:
    """A record without partition, and a trial without events."""
    (row,) = tied(Bad("UNKNOWN_ABSENT", partition=None), events=(), epochs=())
    assert (row["cause"], row["leader"], row["leader_epoch"], row["isr"], row["truncated_to"]) == ("UNATTRIBUTED", None, None, None, None)


def test_nothing_found_is_an_empty_table() -> None:
    """With the contract's columns."""
    assert tied_table().schema.equals(ANOMALIES)


def test_attribution_counts_what_has_all_in_common() -> None:
    """Three cut records, one of which was acknowledged before the fault, and one whose cause is not known."""
    table = attribution(tied_table(Bad(seq=1, offset=81, at_ns=160 * MS), Bad(seq=2, offset=90), Bad(seq=3, offset=80, at_ns=99 * MS), Bad(seq=4, offset=3)))
    named = ("phase", "cause", "truncated_by", "records", "first_offset", "last_offset", "first_at_ns", "last_at_ns")
    assert [tuple(row[name] for name in named) for row in table.to_pylist()] == [
        ("before", "TRUNCATED", 2, 1, 80, 80, 99 * MS, 99 * MS),
        ("during", "TRUNCATED", 2, 2, 81, 90, 150 * MS, 160 * MS),
        ("during", "UNATTRIBUTED", None, 1, 3, 3, 150 * MS, 150 * MS),
    ]


def test_attribution_adds_up_to_the_anomalies() -> None:
    """Nulls are a group like any other."""
    rows = [Bad(kind, seq=seq, offset=offset) for kind in ("LOST", "UNKNOWN_ABSENT", "PHANTOM") for seq, offset in enumerate((None, 5, 85))]
    assert sum(attribution(tied_table(*rows))["records"].to_pylist()) == len(rows)


def test_equal_anomalies_give_equal_tables_whatever_their_order() -> None:
    """The finder promises none."""
    rows = [Bad(seq=seq, offset=offset, partition=partition) for seq, offset, partition in ((3, 80, 1), (1, 85, 0), (2, None, None), (0, 3, 0))]
    assert tied_table(*rows).equals(tied_table(*reversed(rows)))
