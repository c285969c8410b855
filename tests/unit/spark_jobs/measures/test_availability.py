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
TRIAL_INFO = (
    "trial_no int, partitions int, load_begin_ns bigint, settled_ns bigint, consumer_due_ns bigint"
)
GAPS = (
    "trial_no int, partition int, side string, records bigint, gap_ns bigint, began_ns bigint, "
    "answered boolean"
)
MS = 1_000_000
Row = tuple[int, int, str, int, int, int, bool]


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        # From the begin of the load.
        ([(9, "acked"), (11, "acked"), (19, "acked")], (3, 9, 0, True)),
        # Between two acknowledgements.
        ([(2, "acked"), (12, "acked"), (15, "acked")], (3, 10, 2, True)),
        # Until the last time at which an acknowledgement was due.
        ([(2, "acked"), (14, "rejected")], (1, 12, 2, False)),
        # An attempt that never settled was due until the end.
        ([(2, "acked"), (None, "unknown")], (1, 18, 2, False)),
        # The earliest of two gaps of the same length; nothing was due afterwards.
        ([(5, "acked"), (10, "acked")], (2, 5, 0, True)),
        # Without any acknowledgement.
        ([(7, "rejected"), (9, "unknown")], (0, 9, 0, False)),
    ],
)
def test_the_longest_gap_counts_its_edges(
    spark: SparkSession, settled: list[tuple[int | None, str]], expected: tuple[int, int, int, bool]
) -> None:
    """The load begins at 0, and the last attempt settles at 20 ms."""
    attempts = spark.createDataFrame(
        [(7, 0, None if at is None else at * MS, outcome) for at, outcome in settled], ATTEMPTS
    )
    records, gap_ms, began_ms, answered = expected
    _assert_gaps(
        _producer_gaps(attempts, _trial_info(spark, 20 * MS)),
        (7, 0, "producer", records, gap_ms * MS, began_ms * MS, answered),
    )


def test_a_gap_is_exact_to_the_nanosecond(spark: SparkSession) -> None:
    """Acknowledgements of the same millisecond are grouped, with their first and last time."""
    attempts = spark.createDataFrame(
        [(7, 0, at, "acked") for at in (100, 999_999, 3_000_001, 3_500_000)], ATTEMPTS
    )
    _assert_gaps(
        _producer_gaps(attempts, _trial_info(spark, 4 * MS)),
        (7, 0, "producer", 4, 2_000_002, 999_999, True),
    )


def test_each_partition_has_its_own_gap(spark: SparkSession) -> None:
    """A record without a partition does not count."""
    attempts = spark.createDataFrame(
        [(7, 0, 3 * MS, "acked"), (7, 1, 5 * MS, "acked"), (7, None, None, "unknown")], ATTEMPTS
    )
    _assert_gaps(
        _producer_gaps(attempts, _trial_info(spark, 20 * MS)),
        (7, 0, "producer", 1, 3 * MS, 0, True),
        (7, 1, "producer", 1, 5 * MS, 0, True),
    )


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        # Not from the begin of the load.
        ([(11, "acked"), (14, "acked"), (19, "acked")], (3, 5, 14, True)),
        ([(11, "acked")], (1, 0, 11, True)),
        # It never acknowledged a record.
        ([(12, "rejected"), (16, "rejected")], (0, 4, 12, False)),
    ],
)
def test_a_partition_added_under_load_was_not_unavailable_before(
    spark: SparkSession, settled: list[tuple[int, str]], expected: tuple[int, int, int, bool]
) -> None:
    """The topic has two partitions when the load begins, and this is the third."""
    attempts = spark.createDataFrame(
        [(7, 2, at * MS, outcome) for at, outcome in settled], ATTEMPTS
    )
    records, gap_ms, began_ms, answered = expected
    _assert_gaps(
        _producer_gaps(attempts, _trial_info(spark, 20 * MS)),
        (7, 2, "producer", records, gap_ms * MS, began_ms * MS, answered),
    )


def test_a_consumer_that_reached_the_end_has_no_gap_after_its_last_record(
    spark: SparkSession,
) -> None:
    """This does not depend on when the producers settled."""
    reads = spark.createDataFrame([(7, 0, 4 * MS), (7, 0, 5 * MS)], READS)
    _assert_gaps(
        _consumer_gaps(reads, _trial_info(spark, 20 * MS)), (7, 0, "consumer", 2, 4 * MS, 0, True)
    )


def test_a_consumer_that_did_not_reach_the_end_has_a_gap_until_it_stopped(
    spark: SparkSession,
) -> None:
    """Here it stopped at 30 ms."""
    reads = spark.createDataFrame([(7, 0, 4 * MS), (7, 0, 5 * MS)], READS)
    _assert_gaps(
        _consumer_gaps(reads, _trial_info(spark, 20 * MS, 30 * MS)),
        (7, 0, "consumer", 2, 25 * MS, 5 * MS, False),
    )


def test_producers_and_the_consumer_have_gaps_of_their_own(spark: SparkSession) -> None:
    """A partition can acknowledge records that no consumer receives."""
    info = _trial_info(spark, 20 * MS)
    attempts, reads = (
        spark.createDataFrame([(7, 0, 3 * MS, "acked")], ATTEMPTS),
        spark.createDataFrame([(7, 0, 9 * MS)], READS),
    )
    both = due_acknowledgements(attempts, info).unionByName(due_deliveries(reads, info))
    _assert_gaps(
        longest_gaps(both, info),
        (7, 0, "producer", 1, 3 * MS, 0, True),
        (7, 0, "consumer", 1, 9 * MS, 0, True),
    )


def _trial_info(
    spark: SparkSession, settled_ns: int, consumer_due_ns: int | None = None
) -> DataFrame:
    return spark.createDataFrame([(7, 2, 0, settled_ns, consumer_due_ns)], TRIAL_INFO)


def _producer_gaps(attempts: DataFrame, info: DataFrame) -> DataFrame:
    return longest_gaps(due_acknowledgements(attempts, info), info)


def _consumer_gaps(reads: DataFrame, info: DataFrame) -> DataFrame:
    return longest_gaps(due_deliveries(reads, info), info)


def _assert_gaps(found: DataFrame, *expected: Row) -> None:
    assertDataFrameEqual(
        with_side_names(found),
        found.sparkSession.createDataFrame(list(expected), GAPS),
        ignoreNullable=True,
    )
