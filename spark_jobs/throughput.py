"""What was offered and what was acknowledged, a second of the load window."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.schema import ACKED


def throughput(attempts: DataFrame, marks: DataFrame) -> DataFrame:
    """Return rates over the window from the first to the last intended time.

    Args:
        attempts: trial_no, settled_ns, outcome.
        marks: trial_no, load_begin_ns, load_end_ns, a row a trial.

    Returns:
        trial_no, attempted_per_s, acked_per_s (acknowledged inside the window); both null where the window has no length.
    """
    in_time = (sf.col("outcome") == ACKED) & (sf.col("settled_ns") <= sf.col("load_end_ns"))
    window_s = sf.nullif(sf.col("load_end_ns") - sf.col("load_begin_ns"), sf.lit(0)) / sf.lit(1e9)
    return (
        attempts.join(sf.broadcast(marks.select("trial_no", "load_begin_ns", "load_end_ns")), "trial_no")
        .groupBy("trial_no", window_s.alias("window_s"))
        .agg(sf.count("*").alias("attempted"), sf.count_if(in_time).alias("acked"))
        .select("trial_no", (sf.col("attempted") / sf.col("window_s")).alias("attempted_per_s"), (sf.col("acked") / sf.col("window_s")).alias("acked_per_s"))
    )
