"""The steps of a planted outage are found."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ackbench.experiments.ledger.result_tables import OUTAGES
from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Phases
from ackbench.spark_jobs.causes.evidence import trial_evidence
from ackbench.spark_jobs.causes.outages import outage_rows
from ackbench.spark_jobs.planted import PlantedEvent, PlantedTrial

MS = 1_000_000
PHASES = Phases(
    load_begin_ns=0,
    load_end_ns=900 * MS,
    fault_begin_ns=100 * MS,
    fault_end_ns=500 * MS,
    settled_ns=900 * MS,
    healthy_ns=900 * MS,
)
LED = PlantedEvent(
    0,
    "became_leader",
    node=2,
    partition=0,
    leader_epoch=5,
    offset=0,
    source="broker",
    resolution_ns=MS,
)
FENCED = PlantedEvent(250 * MS, "fenced", node=2, source="broker", resolution_ns=MS)
LEADS = PlantedEvent(
    260 * MS,
    "became_leader",
    node=1,
    partition=0,
    leader_epoch=6,
    offset=80,
    source="broker",
    resolution_ns=MS,
)
SEEN = PlantedEvent(
    270 * MS,
    "leader",
    node=1,
    partition=0,
    leader_epoch=6,
    source="metadata",
    resolution_ns=10 * MS,
)
LEARNED = PlantedEvent(
    280 * MS,
    "leader_learned",
    node=1,
    partition=0,
    leader_epoch=6,
    source="client",
    resolution_ns=MS,
    detail="producer 0: leader 1",
)
CRASH = (LED, FENCED, LEADS, SEEN, LEARNED)
GAP = {
    "partition": 0,
    "side": "producer",
    "began_ns": 99 * MS,
    "gap_ns": 201 * MS,
    "answered": True,
    "longest": True,
}


def found(
    *events: PlantedEvent, phases: Phases = PHASES, targets: tuple[int, ...] = (2, 3), **gap: Any
) -> list[dict[str, Any]]:
    """Return the outages of one planted trial with one gap, without trial_id and the gap's own."""
    trial = PlantedTrial(
        "t",
        (),
        events=events,
        phases=phases,
        fault=FaultEvidence(kind="leader-crash", targets=targets, took_effect=True),
    )
    tables = trial.tables()
    evidence = trial_evidence(trial.record("planted"), tables["events"], tables["epochs"])
    row = {**GAP, **gap}
    row["ended_ns"] = row["began_ns"] + row["gap_ns"] + row.get("stalled_ns", 0)
    left_out = {"trial_id", "began_ns", "longest"}
    rows: list[dict[str, Any]] = pa.Table.from_pylist(
        list(outage_rows([row], evidence)),
        pa.schema([field for field in OUTAGES if field.name not in left_out]),
    ).to_pylist()
    return rows


def observed_ms(
    *events: PlantedEvent, phases: Phases = PHASES, targets: tuple[int, ...] = (2, 3), **gap: Any
) -> dict[str, float | None]:
    """Return when each step was observed, in milliseconds; `None`: not observed."""
    rows = found(*events, phases=phases, targets=targets, **gap)
    return {row["step"]: None if row["at_ns"] is None else row["at_ns"] / MS for row in rows}


def test_every_planted_step_is_found_with_its_source_and_resolution() -> None:
    """Steps have the order in which they are due."""
    rows = found(*CRASH)
    assert {tuple(row.values())[:2] for row in rows} == {(0, "producer")}
    assert [tuple(row.values())[2:] for row in rows] == [
        ("last_before", 99 * MS, "ledger", None),
        ("detected", 250 * MS, "broker", MS),
        ("elected", 260 * MS, "broker", MS),
        ("learned", 280 * MS, "client", MS),
        ("first_after", 300 * MS, "ledger", None),
    ]


def test_without_a_brokers_log_the_election_is_the_metadata_pollers() -> None:
    """It has the poller's resolution."""
    (row,) = (row for row in found(LED, FENCED, SEEN) if row["step"] == "elected")
    assert (row["at_ns"], row["source"], row["resolution_ns"]) == (270 * MS, "metadata", 10 * MS)


def test_a_brokers_log_of_the_election_precedes_earlier_observations() -> None:
    """The poller's observation precedes what a client learned, which is no evidence of it."""
    learned = LEARNED._replace(at_ns=255 * MS)
    assert observed_ms(LED, SEEN._replace(at_ns=257 * MS), LEADS, learned)["elected"] == 260
    assert observed_ms(LED, SEEN, learned)["elected"] == 270


def test_a_fault_that_never_ended_has_an_outage() -> None:
    """It lasts to the end of the trial."""
    assert len(found(*CRASH, phases=PHASES.model_copy(update={"fault_end_ns": None}))) == 5


def test_a_pause_without_change_of_leader_has_two_steps() -> None:
    """No broker was fenced or elected, and the client had nothing to learn."""
    assert observed_ms(LED) == {
        "last_before": 99,
        "detected": None,
        "elected": None,
        "learned": None,
        "first_after": 300,
    }


def test_each_side_learns_on_its_own() -> None:
    """The producer's knowledge is not the consumer's."""
    assert observed_ms(*CRASH, side="consumer")["learned"] is None
    learned = LEARNED._replace(at_ns=290 * MS, detail="consumer 0: leader 1")
    assert observed_ms(*CRASH, learned, side="consumer")["learned"] == 290


def test_events_after_the_gap_are_not_part_of_it() -> None:
    """The restarted leader is elected again after the first acknowledgement."""
    later = [event._replace(at_ns=event.at_ns + 200 * MS) for event in (FENCED, LEADS, LEARNED)]
    assert observed_ms(LED, *later) == {
        "last_before": 99,
        "detected": None,
        "elected": None,
        "learned": None,
        "first_after": 300,
    }


@pytest.mark.parametrize(("late_ns", "elected"), [(0, 300 * MS), (1, None)])
def test_a_step_without_resolution_must_lie_within_the_gap(
    late_ns: int, elected: int | None
) -> None:
    """Its time is exact."""
    marks = found(LED, LEADS._replace(at_ns=300 * MS + late_ns, resolution_ns=None))
    assert [row["at_ns"] for row in marks if row["step"] == "elected"] == [elected]


def test_the_first_moment_of_a_gap_is_part_of_it() -> None:
    """The leader before the gap led by then; another partition's leader does not matter."""
    at_once = [
        event._replace(at_ns=99 * MS) for event in (FENCED, LED, LEADS._replace(partition=1))
    ]
    assert observed_ms(*at_once, LEADS) == {
        "last_before": 99,
        "detected": 99,
        "elected": 260,
        "learned": None,
        "first_after": 300,
    }


def test_of_several_leaders_before_the_gap_the_last_one_counts() -> None:
    """Its epoch is not a new one, and its fencing is the detection."""
    earlier = LED._replace(node=3, leader_epoch=4)
    assert (
        observed_ms(earlier, LED._replace(at_ns=MS), LEADS._replace(leader_epoch=5), FENCED)[
            "elected"
        ]
        is None
    )
    assert (
        observed_ms(
            earlier, LED._replace(at_ns=MS), FENCED._replace(node=3, at_ns=240 * MS), FENCED
        )["detected"]
        == 250
    )


def test_without_a_leader_no_election_is_reported() -> None:
    """Nor is a leader known to be new if the one before it is unknown."""
    assert observed_ms(LED, SEEN._replace(node=None))["elected"] is None
    assert observed_ms(SEEN)["elected"] is None


@pytest.mark.parametrize(("late_ms", "expected"), [(1, 301), (2, None)])
def test_a_step_may_follow_the_gap_by_its_resolution(late_ms: int, expected: int | None) -> None:
    """Log lines have milliseconds; the observed time is kept as it is."""
    assert (
        observed_ms(LED, FENCED, LEADS, LEARNED._replace(at_ns=(300 + late_ms) * MS))["learned"]
        == expected
    )


def test_fencing_the_leader_precedes_fencing_another_target() -> None:
    """Node 3 was fenced earlier, but did not lead."""
    assert (
        observed_ms(LED, FENCED._replace(node=3, at_ns=240 * MS), FENCED, LEADS)["detected"] == 250
    )


@pytest.mark.parametrize("targets", [(2, 3), (3,)])
def test_fencing_a_follower_counts_if_the_leader_was_not_fenced(targets: tuple[int, ...]) -> None:
    """With acks=all and for consumers, the partition waits until a lost follower is fenced."""
    assert observed_ms(LED, FENCED._replace(node=3), targets=targets)["detected"] == 250


def test_fencing_a_broker_that_is_no_target_does_not_count() -> None:
    """The fault did not cause it."""
    assert observed_ms(LED, FENCED._replace(node=3), targets=(2,))["detected"] is None


def test_a_leader_that_returns_in_a_new_epoch_is_elected() -> None:
    """With replication factor 1 the new leader is the same node."""
    assert observed_ms(LED, FENCED, LEADS._replace(node=2), LEARNED._replace(node=2)) == {
        "last_before": 99,
        "detected": 250,
        "elected": 260,
        "learned": 280,
        "first_after": 300,
    }


def test_stale_metadata_with_the_old_leader_is_not_learning() -> None:
    """A broker that does not know the new leader yet can answer so."""
    stale = LEARNED._replace(at_ns=200 * MS, node=2, leader_epoch=5)
    assert observed_ms(*CRASH, stale)["learned"] == 280


def test_without_epochs_a_new_leader_is_another_node() -> None:
    """The client's log does not always have the epoch."""
    learned = [
        LEARNED._replace(leader_epoch=None, at_ns=at, node=node)
        for at, node in ((200 * MS, 2), (285 * MS, 1))
    ]
    assert observed_ms(LED, FENCED, LEADS, *learned)["learned"] == 285


def test_a_gap_that_nothing_ended_has_no_last_step() -> None:
    """It begins when its first record was due, though nothing was acknowledged before."""
    marks = observed_ms(*CRASH, began_ns=0, gap_ns=900 * MS, answered=False)
    assert (marks["last_before"], marks["first_after"]) == (0, None)


@pytest.mark.parametrize(
    ("gap_ms", "longest", "steps"), [(999, True, 5), (999, False, 0), (1000, False, 5)]
)
def test_a_gap_that_is_not_the_longest_is_an_outage_from_a_second_on(
    gap_ms: int, steps: int, *, longest: bool
) -> None:
    """The longest one is, whatever its length; what a stall explains does not count."""
    assert len(found(*CRASH, gap_ns=gap_ms * MS, stalled_ns=500 * MS, longest=longest)) == steps


@pytest.mark.parametrize(
    ("began_ms", "gap_ms", "rows"),
    [(0, 99, 0), (0, 100, 5), (899, 10, 5), (900, 10, 5), (901, 10, 0)],
)
def test_only_gaps_that_overlap_the_fault_are_outages(
    began_ms: int, gap_ms: int, rows: int
) -> None:
    """The fault begins at 100 ms, and the ISR is complete at 900 ms."""
    assert len(found(*CRASH, began_ns=began_ms * MS, gap_ns=gap_ms * MS)) == rows


def test_a_trial_without_fault_has_no_outages() -> None:
    """Its gaps have another origin: the load or the harness."""
    quiet = PHASES.model_copy(update={"fault_begin_ns": None, "fault_end_ns": None})
    assert len(found(*CRASH, phases=quiet)) == 0
