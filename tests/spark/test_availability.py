"""The longest gap without an acknowledgement, on a few rows."""

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.availability import gaps

ATTEMPTS = "trial_id string, partition int, intended_ns bigint, settled_ns bigint, outcome string"
PHASES = "trial_id string, load_begin_ns bigint, settled_ns bigint"
GAPS = "trial_id string, partition int, acked_records bigint, gap_ns bigint, began_ns bigint"
MS = 1_000_000


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        ([(9, "acked"), (11, "acked"), (19, "acked")], (3, 9, 0)),  # from the begin of the load
        ([(2, "acked"), (12, "acked"), (15, "acked")], (3, 10, 2)),  # between two acknowledgements
        ([(2, "acked"), (14, "rejected")], (1, 12, 2)),  # to the end of what was due
        ([(2, "acked"), (None, "unknown")], (1, 18, 2)),  # what never settled was due to the end
        ([(5, "acked"), (10, "acked")], (2, 5, 0)),  # the earliest of two as long; nothing was due afterwards
        ([(7, "rejected"), (9, "unknown")], (0, 9, 0)),  # nothing acknowledged at all
    ],
)
def test_the_longest_gap_counts_its_edges(spark: SparkSession, settled: list[tuple[int | None, str]], expected: tuple[int, int, int]) -> None:
    """The load begins at 0, and the trial's last settlement is at 20 ms."""
    attempts = spark.createDataFrame([("t", 0, 0, None if at is None else at * MS, outcome) for at, outcome in settled], ATTEMPTS)
    phases = spark.createDataFrame([("t", 0, 20 * MS)], PHASES)
    acked, gap_ms, began_ms = expected
    assertDataFrameEqual(gaps(attempts, phases), spark.createDataFrame([("t", 0, acked, gap_ms * MS, began_ms * MS)], GAPS), ignoreNullable=True)


def test_a_gap_is_exact_to_the_nanosecond(spark: SparkSession) -> None:
    """Acknowledgements of one millisecond are united by their first and last."""
    attempts = spark.createDataFrame([("t", 0, 0, at, "acked") for at in (100, 999_999, 3_000_001, 3_500_000)], ATTEMPTS)
    found = gaps(attempts, spark.createDataFrame([("t", 0, 4 * MS)], PHASES))
    assertDataFrameEqual(found, spark.createDataFrame([("t", 0, 4, 2_000_002, 999_999)], GAPS), ignoreNullable=True)


def test_each_partition_has_its_own_gap(spark: SparkSession) -> None:
    """A record without a partition has none to blame."""
    attempts = spark.createDataFrame([("t", 0, 0, 3 * MS, "acked"), ("t", 1, 0, 5 * MS, "acked"), ("t", None, 0, None, "unknown")], ATTEMPTS)
    found = gaps(attempts, spark.createDataFrame([("t", 0, 20 * MS)], PHASES))
    assertDataFrameEqual(found, spark.createDataFrame([("t", 0, 1, 3 * MS, 0), ("t", 1, 1, 5 * MS, 0)], GAPS), ignoreNullable=True)
