"""Counts for each tenth of a second, on a few rows."""

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.throughput import timeline

ATTEMPTS = "trial_no int, sent_ns bigint, settled_ns bigint, outcome string"
READS = "trial_no int, received_ns bigint"
TRIAL_INFO = "trial_no int, load_begin_ns bigint"
TIMELINE = (
    "trial_no int, slot bigint, sent_records bigint, acked_records bigint, read_records bigint"
)
SLOT = 100_000_000
BEGIN = 7 * SLOT + 3


def test_events_are_counted_in_the_slot_of_their_time(spark: SparkSession) -> None:
    """A record is sent in one slot, acknowledged in the next one, and read in the one after."""
    attempts = [
        (7, BEGIN, BEGIN + SLOT, "acked"),
        (7, BEGIN + SLOT - 1, BEGIN + SLOT, "rejected"),
        (7, None, None, "unknown"),
    ]
    reads = [(7, BEGIN + 2 * SLOT), (7, BEGIN + 3 * SLOT - 1)]
    found = timeline(
        spark.createDataFrame(attempts, ATTEMPTS),
        spark.createDataFrame(reads, READS),
        spark.createDataFrame([(7, BEGIN)], TRIAL_INFO),
    )
    expected = [(7, 0, 2, 0, 0), (7, 1, 0, 1, 0), (7, 2, 0, 0, 2)]
    assertDataFrameEqual(found, spark.createDataFrame(expected, TIMELINE), ignoreNullable=True)


def test_slots_before_the_load_are_negative(spark: SparkSession) -> None:
    """A nanosecond before the load is in slot -1."""
    reads = spark.createDataFrame([(7, BEGIN - 1), (7, BEGIN - SLOT), (7, BEGIN - SLOT - 1)], READS)
    found = timeline(
        spark.createDataFrame([], ATTEMPTS), reads, spark.createDataFrame([(7, BEGIN)], TRIAL_INFO)
    )
    assertDataFrameEqual(
        found,
        spark.createDataFrame([(7, -1, 0, 0, 2), (7, -2, 0, 0, 1)], TIMELINE),
        ignoreNullable=True,
    )
