"""Anomalous records are found in a planted ledger with one of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.causes.anomalous_records import (
    appended_ranges,
    find_anomalies,
    find_redelivered,
    find_without_id,
    suspect_records,
)
from spark_jobs.io.frames import frames_from_tables
from spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedTrial, combined_tables

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
LOST = (1, 2, "LOST", 0, 77, 12, 3, None)
BLOCKS = (
    "trial_no string, producer int, block bigint, acked bigint, rejected bigint, unknown bigint, "
    "present bigint, copies bigint, read bigint"
)
OF_EVERYTHING = [
    ("t", 1, 0, 0b1111, 0b11000000, 0b110000, 0b1010011, 6, 0b1010011),
    ("t", 1, 1, 0, 0, 0, 1, 2, 1),
    ("t", 2, 2, 0b100, 0, 0, 0b100, 1, 0b100),
    ("t", None, None, 0, 0, 0, 0, 1, 0),
]
BEHIND = "trial_no string, partition int, producer int, seq bigint, offset bigint"


def planted(spark: SparkSession, *trials: PlantedTrial) -> tuple[DataFrame, DataFrame]:
    """Return the attempts and the log of trials in memory."""
    frames = frames_from_tables(spark, combined_tables(trials))
    attempts, log = (
        frame.withColumnRenamed("trial_id", "trial_no") for frame in (frames.attempts, frames.log)
    )
    return attempts, log


def suspect(
    spark: SparkSession,
    blocks: Sequence[tuple[Any, ...]],
    behind: Sequence[tuple[Any, ...]] = (),
    *,
    at_end: bool | None = True,
) -> DataFrame:
    """Return the suspect records of trials without transactions.

    Args:
        spark: the session.
        blocks: of the schema `BLOCKS`.
        behind: of the schema `BEHIND`.
        at_end: whether the concurrent consumer reached the end; `None`: unknown.
    """
    marks = spark.createDataFrame(
        [("t", at_end), ("u", at_end)], "trial_no string, consumer_at_end boolean"
    )
    return spark.createDataFrame(
        [(*block, 0) for block in blocks], f"{BLOCKS}, aborted bigint"
    ).transform(suspect_records, spark.createDataFrame(list(behind), BEHIND), marks)


def found_in(
    spark: SparkSession,
    trial: PlantedTrial,
    blocks: DataFrame,
    behind: Sequence[tuple[Any, ...]] = (),
) -> list[tuple[Any, ...]]:
    """Return the anomalies of a planted trial, sorted."""
    attempts, log = planted(spark, trial)
    rows = find_anomalies(
        attempts, log, spark.createDataFrame(list(behind), BEHIND), blocks
    ).collect()
    return sorted((tuple(row[name] for name in NAMES) for row in rows), key=str)


def test_every_planted_anomaly_is_found_and_nothing_else(spark: SparkSession) -> None:
    """Each has its place, when it was settled, and the offset of the first copy."""
    assert found_in(spark, EVERYTHING, suspect(spark, OF_EVERYTHING)) == sorted(
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


def test_rows_without_a_reliable_id_are_reported_by_their_offset(spark: SparkSession) -> None:
    """The id in a corrupt row is ignored."""
    rows = find_without_id(planted(spark, EVERYTHING)[1]).collect()
    assert sorted(tuple(row[name] for name in NAMES) for row in rows) == [
        (None, None, "CORRUPT", 0, 6, None, None, None),
        (None, None, "PHANTOM", 0, 7, None, None, None),
    ]


def test_only_suspect_records_are_selected(spark: SparkSession) -> None:
    """All present ones of a block with duplicates; none of a clean block, or without an id."""
    rows = suspect(
        spark, [*OF_EVERYTHING, ("u", 1, 0, 0b111, 0b1000, 0b10000, 0b10101, 3, 0b10101)]
    ).collect()
    assert sorted(tuple(row) for row in rows) == [
        ("t", 1, 0, 0b1111111, 0),
        ("t", 1, 1, 1, 0),
        ("u", 1, 0, 0b10, 0),
    ]


def test_equal_ids_of_two_trials_are_different_records(spark: SparkSession) -> None:
    """The record that one trial lost is present in the other."""
    attempts, log = planted(
        spark,
        PlantedTrial("t", [PlantedAttempt(1, 2)]),
        PlantedTrial("u", [PlantedAttempt(1, 2)], [PlantedLogRow(1, 2, 0)]),
    )
    blocks = suspect(spark, [("t", 1, 0, 0b100, 0, 0, 0, 0, 0)])
    assert [
        (row.trial_no, row.kind)
        for row in find_anomalies(
            attempts, log, spark.createDataFrame([], BEHIND), blocks
        ).collect()
    ] == [("t", "LOST")]


@pytest.mark.parametrize(("at_end", "kinds"), [(True, ["MISSED"]), (False, []), (None, [])])
def test_missed_records_are_reported_only_if_the_consumer_reached_the_end(
    spark: SparkSession, at_end: bool | None, kinds: list[str]
) -> None:
    """Otherwise it is unknown what the consumer would have received."""
    blocks = suspect(spark, [("t", 0, 0, 0b11, 0, 0, 0b11, 2, 0b10)], at_end=at_end)
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, 0, settled_ns=10, sent_ns=1), PlantedAttempt(0, 1)],
        [PlantedLogRow(0, 0, 4), PlantedLogRow(0, 1, 5)],
    )
    assert found_in(spark, trial, blocks) == [(0, 0, kind, 0, 4, 10, 1, None) for kind in kinds]


def test_a_reordered_record_has_the_times_of_its_attempt(spark: SparkSession) -> None:
    """It is reported once for each partition."""
    late = [("t", 0, 0, 0, 9), ("t", 1, 0, 0, 7)]
    trial = PlantedTrial(
        "t", [PlantedAttempt(0, 0, settled_ns=10, sent_ns=1)], [PlantedLogRow(0, 0, 9)]
    )
    assert found_in(spark, trial, suspect(spark, [], late), late) == [
        (0, 0, "REORDERED", 0, 9, 10, 1, None),
        (0, 0, "REORDERED", 1, 7, 10, 1, None),
    ]


def test_a_record_can_have_several_anomalies(spark: SparkSession) -> None:
    """This one was rejected, is in the log twice, and was never received."""
    trial = PlantedTrial(
        "t", [PlantedAttempt(0, 0, "rejected")], [PlantedLogRow(0, 0, 3), PlantedLogRow(0, 0, 4)]
    )
    blocks = suspect(spark, [("t", 0, 0, 0, 1, 0, 1, 2, 0)])
    assert [row[2:4] + row[4:5] for row in found_in(spark, trial, blocks)] == [
        ("DUPLICATED", 0, 4),
        ("MISSED", 0, 3),
        ("REJECTED_PRESENT", 0, 3),
    ]


def test_a_redelivery_has_the_time_of_its_repeated_receipt(spark: SparkSession) -> None:
    """It has no attempt, and so no time of sending."""
    reads = [("t", 0, 0, 5, 1, 2, 0, 99)]
    columns = (
        "trial_no string, consumer int, partition int, offset bigint, producer int, seq bigint, "
        "intended_ns bigint, received_ns bigint"
    )
    (row,) = find_redelivered(spark.createDataFrame(reads, columns)).collect()
    assert tuple(row[name] for name in NAMES) == (1, 2, "REDELIVERED", 0, 5, 99, None, None)


def test_an_appended_range_is_an_epochs_first_and_last_seq(spark: SparkSession) -> None:
    """Corrupt and foreign rows do not count."""
    rows = (
        *(PlantedLogRow(0, seq, seq, leader_epoch=5) for seq in (0, 1, 2)),
        *(PlantedLogRow(0, seq, seq, leader_epoch=6) for seq in (7, 9)),
        PlantedLogRow(0, 99, 10, intact=False, leader_epoch=6),
        PlantedLogRow(None, None, 11, leader_epoch=6),
        PlantedLogRow(0, 4, 4, partition=1, leader_epoch=None),
    )
    ranges = appended_ranges(
        planted(spark, PlantedTrial("t", [PlantedAttempt(0, 0)], rows))[1]
    ).collect()
    assert sorted((tuple(row) for row in ranges), key=str) == [
        ("t", 0, 0, 5, 0, 2),
        ("t", 0, 0, 6, 7, 9),
        ("t", 1, 0, None, 4, 4),
    ]
