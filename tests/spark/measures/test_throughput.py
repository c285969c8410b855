"""Rates over the load window, on a few rows."""

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from spark_jobs.measures.throughput import throughput

ATTEMPTS = "trial_no int, settled_ns bigint, outcome string"
PHASES = "trial_no int, load_begin_ns bigint, load_end_ns bigint"
RATES = "trial_no int, attempted_per_s double, acked_per_s double"
S = 10**9


def test_acknowledgements_count_inside_the_load_window(spark: SparkSession) -> None:
    """What was acknowledged later, or not at all, was offered all the same."""
    attempts = spark.createDataFrame(
        [(7, 2 * S, "acked"), (7, 5 * S, "acked"), (7, 1 * S, "rejected"), (7, None, "unknown")],
        ATTEMPTS,
    )
    found = throughput(attempts, spark.createDataFrame([(7, 1 * S, 3 * S)], PHASES))
    assertDataFrameEqual(found, spark.createDataFrame([(7, 2.0, 0.5)], RATES), ignoreNullable=True)


def test_a_window_without_length_has_no_rate(spark: SparkSession) -> None:
    """One record alone has a time and no pace."""
    found = throughput(
        spark.createDataFrame([(7, 1, "acked")], ATTEMPTS),
        spark.createDataFrame([(7, 1, 1)], PHASES),
    )
    assertDataFrameEqual(
        found, spark.createDataFrame([(7, None, None)], RATES), ignoreNullable=True
    )
