"""Anomalous records are found in a planted ledger with one of each kind."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured import measure_planted

from ackbench.spark_jobs.causes.anomalies import anomalies_of
from ackbench.spark_jobs.causes.anomalous_records import (
    ANOMALOUS_RECORDS,
    APPENDED_RANGES,
    appended_ranges,
    merge_ranges,
)
from ackbench.spark_jobs.io.arrays import to_arrays
from ackbench.spark_jobs.measures.read_committed import unit_of
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedBatch,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

EVERYTHING = PlantedTrial(
    "t",
    attempts=(
        PlantedAttempt(1, 0, settled_ns=10, sent_ns=1, offset=0),
        PlantedAttempt(
            1, 1, settled_ns=11, sent_ns=2, offset=1
        ),  # three copies, one in another partition
        PlantedAttempt(1, 2, settled_ns=12, sent_ns=3, offset=77),  # lost
        PlantedAttempt(1, 3, settled_ns=13, sent_ns=4),  # corrupt: lost too
        PlantedAttempt(1, 4, "unknown", settled_ns=None, sent_ns=5),  # in the log twice
        PlantedAttempt(
            1, 5, "unknown", settled_ns=None, sent_ns=None, partition=None
        ),  # not in the log
        PlantedAttempt(1, 6, "rejected", settled_ns=16, sent_ns=7),  # in the log
        PlantedAttempt(1, 7, "rejected", settled_ns=17, sent_ns=8),
        PlantedAttempt(2, 130, settled_ns=18, sent_ns=9, offset=12),  # no anomaly in its block
    ),
    log=(
        *(PlantedLogRow(1, seq, offset) for offset, seq in enumerate((0, 1, 4, 1, 4, 6))),
        PlantedLogRow(1, 1, 3, partition=1),
        PlantedLogRow(1, 3, 6, intact=False),
        PlantedLogRow(None, None, 7),
        PlantedLogRow(1, 64, 8),  # never attempted, twice
        PlantedLogRow(1, 64, 9),
        PlantedLogRow(2, 130, 12),
    ),
)
NAMES = ("producer", "seq", "kind", "partition", "offset", "at_ns", "sent_ns", "first_offset")
Row = tuple[Any, ...]


def anomalous(trial: PlantedTrial) -> pa.Table:
    """Return the anomalous records of a planted trial."""
    anomalies = anomalies_of(unit_of(trial.rows()))
    assert anomalies.schema.equals(ANOMALOUS_RECORDS)
    return anomalies


def found_in(trial: PlantedTrial, *kinds: str) -> list[Row]:
    """Return the anomalies of a planted trial, sorted; without kinds, all of them."""
    rows = [tuple(row[name] for name in NAMES) for row in anomalous(trial).to_pylist()]
    return sorted((row for row in rows if not kinds or row[2] in kinds), key=str)


def ended(*, at_end: bool) -> PlantedEvent:
    """Return the event that reports how the concurrent consumer ended."""
    return PlantedEvent(99, "consumer_end", detail=json.dumps({"at_end": at_end}))


def test_every_planted_anomaly_is_found_and_nothing_else() -> None:
    """Each has its place, when it was settled, and the offset of the first copy."""
    assert [row for row in found_in(EVERYTHING) if row[0] is not None] == sorted(
        [
            (1, 1, "DUPLICATED", 0, 3, 11, 2, 1),
            (1, 1, "DUPLICATED", 1, 3, 11, 2, None),
            (1, 2, "LOST", 0, 77, 12, 3, None),
            (1, 3, "LOST", 0, None, 13, 4, None),
            (1, 4, "DUPLICATED", 0, 4, None, 5, 2),
            (1, 5, "UNKNOWN_ABSENT", None, None, None, None, None),
            (1, 6, "REJECTED_PRESENT", 0, 5, 16, 7, None),
            (1, 64, "PHANTOM", 0, 8, None, None, None),
            (1, 64, "PHANTOM", 0, 9, None, None, None),
        ],
        key=str,
    )


def test_rows_without_a_reliable_id_are_reported_by_their_offset() -> None:
    """The id in a corrupt row is ignored."""
    assert [row for row in found_in(EVERYTHING) if row[0] is None] == [
        (None, None, "CORRUPT", 0, 6, None, None, None),
        (None, None, "PHANTOM", 0, 7, None, None, None),
    ]


def test_records_without_an_anomaly_are_not_reported() -> None:
    """Record 1 was lost; the others are as their outcomes allow."""
    outcomes = ("acked", "acked", "acked", "rejected", "unknown")
    trial = PlantedTrial(
        "u",
        [PlantedAttempt(1, seq, outcome) for seq, outcome in enumerate(outcomes)],
        [PlantedLogRow(1, seq, seq) for seq in (0, 2, 4)],
        [PlantedRead(1, seq, seq) for seq in (0, 2, 4)],
        events=[ended(at_end=True)],
    )
    assert [row[:3] for row in found_in(trial)] == [(1, 1, "LOST")]


def test_equal_ids_of_two_trials_are_different_records() -> None:
    """The record that one trial lost is present in the other."""
    tables = measure_planted(
        PlantedTrial("t", [PlantedAttempt(1, 2)]),
        PlantedTrial("u", [PlantedAttempt(1, 2)], [PlantedLogRow(1, 2, 0)]),
    )
    assert [(row["trial_id"], row["kind"]) for row in tables["anomalies"].to_pylist()] == [
        ("t", "LOST")
    ]


@pytest.mark.parametrize(("at_end", "kinds"), [(True, ["MISSED"]), (False, []), (None, [])])
def test_missed_records_are_reported_only_if_the_consumer_reached_the_end(
    at_end: bool | None, kinds: list[str]
) -> None:
    """Otherwise it is unknown what the consumer would have received."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, 0, settled_ns=10, sent_ns=1), PlantedAttempt(0, 1)],
        [PlantedLogRow(0, 0, 4), PlantedLogRow(0, 1, 5)],
        [PlantedRead(0, 1, 5)],
        events=[] if at_end is None else [ended(at_end=at_end)],
    )
    assert found_in(trial) == [(0, 0, kind, 0, 4, 10, 1, None) for kind in kinds]


def test_a_reordered_record_has_the_times_of_its_attempt() -> None:
    """It is reported once for each partition."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, 0, settled_ns=10, sent_ns=1), PlantedAttempt(0, 1)],
        [
            PlantedLogRow(0, 1, 8),
            PlantedLogRow(0, 0, 9),
            PlantedLogRow(0, 1, 6, partition=1),
            PlantedLogRow(0, 0, 7, partition=1),
        ],
    )
    assert found_in(trial, "REORDERED") == [
        (0, 0, "REORDERED", 0, 9, 10, 1, None),
        (0, 0, "REORDERED", 1, 7, 10, 1, None),
    ]


def test_a_record_can_have_several_anomalies() -> None:
    """This one was rejected, is in the log twice, and was never received."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, 0, "rejected")],
        [PlantedLogRow(0, 0, 3), PlantedLogRow(0, 0, 4)],
        events=[ended(at_end=True)],
    )
    assert [row[2:5] for row in found_in(trial)] == [
        ("DUPLICATED", 0, 4),
        ("MISSED", 0, 3),
        ("REJECTED_PRESENT", 0, 3),
    ]


def test_a_redelivery_has_the_time_of_its_repeated_receipt() -> None:
    """It is an anomaly of the read, and so has no time of sending."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(1, 2)],
        [PlantedLogRow(1, 2, 5)],
        [PlantedRead(1, 2, 5, received_ns=at) for at in (99, 70)],
    )
    assert found_in(trial) == [(1, 2, "REDELIVERED", 0, 5, 99, None, None)]


def ranges_of(*rows: PlantedLogRow) -> pa.Table:
    """Return what each leader epoch appended of planted rows."""
    return appended_ranges(to_arrays(PlantedTrial("t", [PlantedAttempt(0, 0)], rows).rows()).log)


def as_set(ranges: pa.Table) -> set[Row]:
    """Return the rows of a table."""
    return {tuple(row.values()) for row in ranges.to_pylist()}


def test_an_appended_range_is_an_epochs_first_and_last_seq() -> None:
    """Corrupt and foreign rows do not count."""
    ranges = ranges_of(
        *(PlantedLogRow(0, seq, seq, leader_epoch=5) for seq in (0, 1, 2)),
        *(PlantedLogRow(0, seq, seq, leader_epoch=6) for seq in (7, 9)),
        PlantedLogRow(0, 99, 10, intact=False, leader_epoch=6),
        PlantedLogRow(None, None, 11, leader_epoch=6),
        PlantedLogRow(0, 4, 4, partition=1, leader_epoch=None),
    )
    assert ranges.schema.equals(APPENDED_RANGES)
    assert as_set(ranges) == {(0, 0, 5, 0, 2), (0, 0, 6, 7, 9), (1, 0, None, 4, 4)}


LOG_ROWS = st.lists(
    st.builds(
        PlantedLogRow,
        producer=st.integers(0, 2),
        seq=st.integers(0, 9),
        offset=st.integers(0, 9),
        partition=st.integers(0, 1),
        leader_epoch=st.sampled_from([None, 0, 1]),
        intact=st.sampled_from([True, True, False]),
        timestamp_ms=st.just(0),
        visible=st.just(value=True),
    ),
    max_size=8,
)


@given(LOG_ROWS, LOG_ROWS, LOG_ROWS)
def test_ranges_of_parts_merge_to_those_of_all_rows(
    one: list[PlantedLogRow], other: list[PlantedLogRow], third: list[PlantedLogRow]
) -> None:
    """In any order and association; a null epoch is an epoch like any other."""
    parts = [ranges_of(*rows) for rows in (one, other, third)]
    expected = as_set(ranges_of(*one, *other, *third))
    assert as_set(merge_ranges(merge_ranges(parts[0], parts[1]), parts[2])) == expected
    assert as_set(merge_ranges(parts[2], merge_ranges(parts[1], parts[0]))) == expected


def bumped_epochs(*batches: PlantedBatch) -> list[int | None]:
    """Return the producer epochs of the duplicates of record 0, at the offsets 10 and 20."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, 0, offset=0)],
        [PlantedLogRow(0, 0, offset) for offset in (0, 10, 20)],
        batches=batches,
    )
    return anomalous(trial)["bumped_epoch"].to_pylist()  # type: ignore[no-any-return]


def test_a_copy_has_the_producer_epoch_of_its_batch_where_the_first_copy_has_another_one() -> None:
    """The batches come in any order, and have more records than these."""
    assert bumped_epochs(PlantedBatch(18, 20, 2), PlantedBatch(0, 4), PlantedBatch(8, 12, 1)) == [
        1,
        2,
    ]


@pytest.mark.parametrize(
    "batches",
    [
        (),
        (PlantedBatch(0, 4), PlantedBatch(8, 12), PlantedBatch(18, 20)),  # one epoch
        (PlantedBatch(0, 4), PlantedBatch(8, 9, 1), PlantedBatch(11, 19, 1)),  # beside the copies
        (PlantedBatch(8, 12, 1), PlantedBatch(18, 20, 2)),  # the first copy's is unknown
        (PlantedBatch(0, 4), PlantedBatch(8, 12, 1, 1001), PlantedBatch(18, 20, 1, 1001)),
        (PlantedBatch(0, 4), PlantedBatch(8, 20, 1, partition=1)),
    ],
)
def test_no_epoch_is_bumped_without_two_known_epochs_of_one_producer(
    batches: tuple[PlantedBatch, ...],
) -> None:
    """A restarted producer has another producer id: it did not bump its epoch."""
    assert bumped_epochs(*batches) == [None, None]


def test_a_ledger_without_batches_has_no_bumped_epochs() -> None:
    """The producers are not idempotent, or the files were not accessible."""
    anomalies = anomalous(EVERYTHING)
    assert anomalies["bumped_epoch"].null_count == len(anomalies)
