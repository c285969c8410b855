"""What happened in each tenth of a second, on a few rows."""

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.throughput import timeline

ATTEMPTS = "trial_no int, sent_ns bigint, settled_ns bigint, outcome string"
READS = "trial_no int, received_ns bigint"
MARKS = "trial_no int, load_begin_ns bigint"
TIMELINE = (
    "trial_no int, slot bigint, sent_records bigint, acked_records bigint, read_records bigint"
)
SLOT = 100_000_000
BEGIN = 7 * SLOT + 3


def test_everything_is_counted_when_it_happened(spark: SparkSession) -> None:
    """Sent in one slot, acknowledged in the next one, read in the one after that; only what was acknowledged counts as such."""
    attempts = [
        (7, BEGIN, BEGIN + SLOT, "acked"),
        (7, BEGIN + SLOT - 1, BEGIN + SLOT, "rejected"),
        (7, None, None, "unknown"),
    ]
    reads = [(7, BEGIN + 2 * SLOT), (7, BEGIN + 3 * SLOT - 1)]
    found = timeline(
        spark.createDataFrame(attempts, ATTEMPTS),
        spark.createDataFrame(reads, READS),
        spark.createDataFrame([(7, BEGIN)], MARKS),
    )
    expected = [(7, 0, 2, 0, 0), (7, 1, 0, 1, 0), (7, 2, 0, 0, 2)]
    assertDataFrameEqual(found, spark.createDataFrame(expected, TIMELINE), ignoreNullable=True)


def test_slots_begin_with_the_load_and_go_on_below_zero(spark: SparkSession) -> None:
    """A nanosecond before the load is in slot -1."""
    reads = spark.createDataFrame([(7, BEGIN - 1), (7, BEGIN - SLOT), (7, BEGIN - SLOT - 1)], READS)
    found = timeline(
        spark.createDataFrame([], ATTEMPTS), reads, spark.createDataFrame([(7, BEGIN)], MARKS)
    )
    assertDataFrameEqual(
        found,
        spark.createDataFrame([(7, -1, 0, 0, 2), (7, -2, 0, 0, 1)], TIMELINE),
        ignoreNullable=True,
    )
