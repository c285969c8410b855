"""Rates over the load window, on a few rows."""

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.throughput import throughput

ATTEMPTS = "trial_no int, settled_ns bigint, outcome string"
TRIAL_INFO = "trial_no int, load_begin_ns bigint, load_end_ns bigint"
RATES = "trial_no int, attempted_per_s double, acked_per_s double"
S = 10**9


def test_acknowledgements_count_inside_the_load_window(spark: SparkSession) -> None:
    """Attempts that were acknowledged later, or not at all, count as attempted."""
    attempts = spark.createDataFrame(
        [(7, 2 * S, "acked"), (7, 5 * S, "acked"), (7, 1 * S, "rejected"), (7, None, "unknown")],
        ATTEMPTS,
    )
    found = throughput(attempts, spark.createDataFrame([(7, 1 * S, 3 * S)], TRIAL_INFO))
    assertDataFrameEqual(found, spark.createDataFrame([(7, 2.0, 0.5)], RATES), ignoreNullable=True)


def test_a_window_of_length_zero_has_no_rate(spark: SparkSession) -> None:
    """A single record has a time, but no rate."""
    found = throughput(
        spark.createDataFrame([(7, 1, "acked")], ATTEMPTS),
        spark.createDataFrame([(7, 1, 1)], TRIAL_INFO),
    )
    assertDataFrameEqual(
        found, spark.createDataFrame([(7, None, None)], RATES), ignoreNullable=True
    )
