"""The longest gap without an answer, on a few rows."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.availability import (
    due_acknowledgements,
    due_deliveries,
    longest_gaps,
    with_side_names,
)

ATTEMPTS = "trial_no int, partition int, settled_ns bigint, outcome string"
READS = "trial_no int, partition int, received_ns bigint"
MARKS = (
    "trial_no int, partitions int, load_begin_ns bigint, settled_ns bigint, consumer_due_ns bigint"
)
GAPS = "trial_no int, partition int, side string, records bigint, gap_ns bigint, began_ns bigint, answered boolean"
MS = 1_000_000
Row = tuple[int, int, str, int, int, int, bool]


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        (
            [(9, "acked"), (11, "acked"), (19, "acked")],
            (3, 9, 0, True),
        ),  # from the begin of the load
        (
            [(2, "acked"), (12, "acked"), (15, "acked")],
            (3, 10, 2, True),
        ),  # between two acknowledgements
        ([(2, "acked"), (14, "rejected")], (1, 12, 2, False)),  # to the end of what was due
        (
            [(2, "acked"), (None, "unknown")],
            (1, 18, 2, False),
        ),  # what never settled was due to the end
        (
            [(5, "acked"), (10, "acked")],
            (2, 5, 0, True),
        ),  # the earliest of two as long; nothing was due afterwards
        ([(7, "rejected"), (9, "unknown")], (0, 9, 0, False)),  # nothing acknowledged at all
    ],
)
def test_the_longest_gap_counts_its_edges(
    spark: SparkSession, settled: list[tuple[int | None, str]], expected: tuple[int, int, int, bool]
) -> None:
    """The load begins at 0, and the trial's last settlement is at 20 ms."""
    attempts = spark.createDataFrame(
        [(7, 0, None if at is None else at * MS, outcome) for at, outcome in settled], ATTEMPTS
    )
    records, gap_ms, began_ms, answered = expected
    _are(
        _producers(attempts, _marks(spark, 20 * MS)),
        (7, 0, "producer", records, gap_ms * MS, began_ms * MS, answered),
    )


def test_a_gap_is_exact_to_the_nanosecond(spark: SparkSession) -> None:
    """Acknowledgements of one millisecond are united by their first and last."""
    attempts = spark.createDataFrame(
        [(7, 0, at, "acked") for at in (100, 999_999, 3_000_001, 3_500_000)], ATTEMPTS
    )
    _are(
        _producers(attempts, _marks(spark, 4 * MS)), (7, 0, "producer", 4, 2_000_002, 999_999, True)
    )


def test_each_partition_has_its_own_gap(spark: SparkSession) -> None:
    """A record without a partition has none to blame."""
    attempts = spark.createDataFrame(
        [(7, 0, 3 * MS, "acked"), (7, 1, 5 * MS, "acked"), (7, None, None, "unknown")], ATTEMPTS
    )
    _are(
        _producers(attempts, _marks(spark, 20 * MS)),
        (7, 0, "producer", 1, 3 * MS, 0, True),
        (7, 1, "producer", 1, 5 * MS, 0, True),
    )


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        (
            [(11, "acked"), (14, "acked"), (19, "acked")],
            (3, 5, 14, True),
        ),  # not from the begin of the load
        ([(11, "acked")], (1, 0, 11, True)),
        ([(12, "rejected"), (16, "rejected")], (0, 4, 12, False)),  # it never took one
    ],
)
def test_a_partition_that_was_added_under_load_was_not_silent_before(
    spark: SparkSession, settled: list[tuple[int, str]], expected: tuple[int, int, int, bool]
) -> None:
    """The topic has two partitions when the load begins, and this is the third."""
    attempts = spark.createDataFrame(
        [(7, 2, at * MS, outcome) for at, outcome in settled], ATTEMPTS
    )
    records, gap_ms, began_ms, answered = expected
    _are(
        _producers(attempts, _marks(spark, 20 * MS)),
        (7, 2, "producer", records, gap_ms * MS, began_ms * MS, answered),
    )


def test_a_consumer_that_came_to_the_end_had_nothing_more_to_read(spark: SparkSession) -> None:
    """What it waited for after its last record is no gap; that the producers had settled earlier or later says nothing of it."""
    reads = spark.createDataFrame([(7, 0, 4 * MS), (7, 0, 5 * MS)], READS)
    _are(_consumers(reads, _marks(spark, 20 * MS)), (7, 0, "consumer", 2, 4 * MS, 0, True))


def test_a_consumer_that_did_not_come_to_the_end_waited_until_it_gave_up(
    spark: SparkSession,
) -> None:
    """Here at 30 ms."""
    reads = spark.createDataFrame([(7, 0, 4 * MS), (7, 0, 5 * MS)], READS)
    _are(
        _consumers(reads, _marks(spark, 20 * MS, 30 * MS)),
        (7, 0, "consumer", 2, 25 * MS, 5 * MS, False),
    )


def test_the_sides_do_not_see_each_other(spark: SparkSession) -> None:
    """A partition can acknowledge what no consumer is shown."""
    marks = _marks(spark, 20 * MS)
    attempts, reads = (
        spark.createDataFrame([(7, 0, 3 * MS, "acked")], ATTEMPTS),
        spark.createDataFrame([(7, 0, 9 * MS)], READS),
    )
    both = due_acknowledgements(attempts, marks).unionByName(due_deliveries(reads, marks))
    _are(
        longest_gaps(both, marks),
        (7, 0, "producer", 1, 3 * MS, 0, True),
        (7, 0, "consumer", 1, 9 * MS, 0, True),
    )


def _marks(spark: SparkSession, settled_ns: int, consumer_due_ns: int | None = None) -> DataFrame:
    return spark.createDataFrame([(7, 2, 0, settled_ns, consumer_due_ns)], MARKS)


def _producers(attempts: DataFrame, marks: DataFrame) -> DataFrame:
    return longest_gaps(due_acknowledgements(attempts, marks), marks)


def _consumers(reads: DataFrame, marks: DataFrame) -> DataFrame:
    return longest_gaps(due_deliveries(reads, marks), marks)


def _are(found: DataFrame, *expected: Row) -> None:
    assertDataFrameEqual(
        with_side_names(found),
        found.sparkSession.createDataFrame(list(expected), GAPS),
        ignoreNullable=True,
    )
