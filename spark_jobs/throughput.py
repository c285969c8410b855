"""What was offered and what was acknowledged, a second of the load window."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from experiments.ledger.schema import ACKED


def throughput(attempts: DataFrame, phases: DataFrame) -> DataFrame:
    """Return rates over the window from the first to the last intended time.

    Args:
        attempts: trial_id, settled_ns, outcome.
        phases: trial_id, load_begin_ns, load_end_ns, a row a trial.

    Returns:
        trial_id, attempted_per_s, acked_per_s (acknowledged inside the window); both null where the window has no length.
    """
    in_time = (F.col("outcome") == ACKED) & (F.col("settled_ns") <= F.col("load_end_ns"))
    window_s = F.nullif(F.col("load_end_ns") - F.col("load_begin_ns"), F.lit(0)) / F.lit(1e9)
    return (
        attempts.join(F.broadcast(phases.select("trial_id", "load_begin_ns", "load_end_ns")), "trial_id")
        .groupBy("trial_id", window_s.alias("window_s"))
        .agg(F.count("*").alias("attempted"), F.count_if(in_time).alias("acked"))
        .select("trial_id", (F.col("attempted") / F.col("window_s")).alias("attempted_per_s"), (F.col("acked") / F.col("window_s")).alias("acked_per_s"))
    )
