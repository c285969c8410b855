"""The rate of attempts and acknowledgements, and counts for each tenth of a second."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.result_tables import TIMELINE_SLOT_NS
from experiments.ledger.schema import ACKED


def throughput(attempts: DataFrame, trial_info: DataFrame) -> DataFrame:
    """Return the rates over the window from the first to the last intended time.

    Args:
        attempts: trial_no, settled_ns, outcome.
        trial_info: trial_no, load_begin_ns, load_end_ns; one row per trial.

    Returns:
        trial_no, attempted_per_s, acked_per_s (acknowledged inside the window); both null if the
        window's length is 0.
    """
    in_time = (sf.col("outcome") == ACKED) & (sf.col("settled_ns") <= sf.col("load_end_ns"))
    window_s = sf.nullif(sf.col("load_end_ns") - sf.col("load_begin_ns"), sf.lit(0)) / sf.lit(1e9)
    return (
        attempts.join(
            sf.broadcast(trial_info.select("trial_no", "load_begin_ns", "load_end_ns")), "trial_no"
        )
        .groupBy("trial_no", window_s.alias("window_s"))
        .agg(sf.count("*").alias("attempted"), sf.count_if(in_time).alias("acked"))
        .select(
            "trial_no",
            (sf.col("attempted") / sf.col("window_s")).alias("attempted_per_s"),
            (sf.col("acked") / sf.col("window_s")).alias("acked_per_s"),
        )
    )


_COUNTS: Final = ("sent_records", "acked_records", "read_records")


def timeline(attempts: DataFrame, reads: DataFrame, trial_info: DataFrame) -> DataFrame:
    """Count the records that were sent, acknowledged and received in each tenth of a second.

    A slot in which nothing happened has no row.

    Args:
        attempts: trial_no, sent_ns, settled_ns, outcome; a record is sent when the client accepts
            it, and acknowledged when it settles.
        reads: trial_no, received_ns; every read counts, also of records without an id.
        trial_info: trial_no, load_begin_ns; one row per trial.

    Returns:
        trial_no, slot (0 begins with the load; below 0: before it), sent_records, acked_records,
        read_records.
    """
    sent = attempts.where("sent_ns IS NOT NULL").select(
        "trial_no", sf.col("sent_ns").alias("at_ns"), *_one("sent_records")
    )
    acked = attempts.where(sf.col("outcome") == ACKED).select(
        "trial_no", sf.col("settled_ns").alias("at_ns"), *_one("acked_records")
    )
    read = reads.select("trial_no", sf.col("received_ns").alias("at_ns"), *_one("read_records"))
    slot = sf.expr(
        f"(at_ns - load_begin_ns - pmod(at_ns - load_begin_ns, {TIMELINE_SLOT_NS}))"
        f" div {TIMELINE_SLOT_NS}"
    )
    return (
        sent.unionByName(acked)
        .unionByName(read)
        .join(sf.broadcast(trial_info.select("trial_no", "load_begin_ns")), "trial_no")
        .groupBy("trial_no", slot.alias("slot"))
        .agg(*(sf.sum(name).alias(name) for name in _COUNTS))
    )


def _one(counted: str) -> tuple[Column, ...]:
    return tuple(sf.lit(int(name == counted)).cast("long").alias(name) for name in _COUNTS)
