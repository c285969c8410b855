"""The longest time in which a partition acknowledged nothing though load was due."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from experiments.ledger.schema import ACKED

_PARTITION: Final = ("trial_id", "partition")
_SLOT_NS: Final = 1_000_000
"""Acknowledgements are united by the millisecond, each with its first and last: a gap of a millisecond or more lies between two slots, so it is exact."""


def gaps(attempts: DataFrame, phases: DataFrame) -> DataFrame:
    """Find each partition's longest gap without an acknowledgement.

    The edges count: from the begin of the load to the first acknowledgement, and from the last one to the end of what was due.

    Args:
        attempts: trial_id, partition, intended_ns, settled_ns, outcome; rows without a partition have none to blame.
        phases: trial_id, load_begin_ns, settled_ns, a row a trial.

    Returns:
        trial_id, partition, acked_records, gap_ns, began_ns (the earliest, where several are as long).
    """
    earlier = Window.partitionBy(*_PARTITION).orderBy("slot").rowsBetween(Window.unboundedPreceding, -1)
    since = sf.coalesce(sf.max("last_ack_ns").over(earlier), sf.col("load_begin_ns"))
    inner = sf.when(sf.col("first_ack_ns").isNotNull(), _gap(since, sf.col("first_ack_ns")))
    trailing = _gap(sf.coalesce(sf.max("last_ack_ns"), sf.min("load_begin_ns")), sf.max("due_until_ns"))
    return (
        attempts.transform(_slots, phases)
        .withColumn("inner", inner)
        .groupBy(*_PARTITION)
        .agg(sf.sum("acked_records").alias("acked_records"), sf.greatest(sf.max("inner"), trailing).alias("longest"))
        .select(*_PARTITION, "acked_records", sf.col("longest.gap_ns").alias("gap_ns"), (-sf.col("longest.minus_began_ns")).alias("began_ns"))
    )


def _slots(attempts: DataFrame, phases: DataFrame) -> DataFrame:
    """Unite a partition's settlements by the millisecond. What never settled is due until the trial's last settlement."""
    ends = sf.coalesce(sf.col("settled_ns"), sf.col("all_settled_ns"))
    trial = phases.select("trial_id", "load_begin_ns", sf.col("settled_ns").alias("all_settled_ns"))
    acked_ns = sf.when(sf.col("outcome") == ACKED, sf.col("end_ns"))
    return (
        attempts.where("partition IS NOT NULL")
        .join(sf.broadcast(trial), "trial_id")
        .select(*_PARTITION, "load_begin_ns", "outcome", ends.alias("end_ns"))
        .groupBy(*_PARTITION, "load_begin_ns", sf.expr(f"end_ns div {_SLOT_NS}").alias("slot"))
        .agg(
            sf.min(acked_ns).alias("first_ack_ns"),
            sf.max(acked_ns).alias("last_ack_ns"),
            sf.count(acked_ns).alias("acked_records"),
            sf.max("end_ns").alias("due_until_ns"),
        )
    )


def _gap(began_ns: Column, ended_ns: Column) -> Column:
    """A gap that compares by its length, then by how early it began."""
    return sf.struct((ended_ns - began_ns).alias("gap_ns"), (-began_ns).alias("minus_began_ns"))
