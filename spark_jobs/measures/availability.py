"""Each partition's longest gap: the longest time in which it owed an answer and gave none.

To producers it owes acknowledgements, to the concurrent consumer records.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from experiments.ledger.result_tables import Side
from experiments.ledger.schema import ACKED

_SIDES: Final = tuple(Side)
PARTITION_SIDE: Final = ("trial_no", "partition", "side")
_PACK: Final = "CAST(trial_no AS BIGINT) << 33 | CAST(side AS BIGINT) << 32 | partition"
"""The three columns as one BIGINT, `packed`: grouping and sorting by it takes half the time.

A partition's number has 31 bits, a side's has 1.
"""
_UNPACK: Final = {
    "trial_no": "CAST(packed >> 33 AS INT)",
    "partition": "CAST(packed & 2147483647 AS INT)",
    "side": "CAST(packed >> 32 & 1 AS INT)",
}
FINE_SLOT_NS: Final = 1_000_000
"""Answers are grouped by the millisecond, with the first and the last of each group.

A gap of a millisecond or more lies between two slots, so it is exact.
"""
COARSE_SLOT_NS: Final = 4_000_000
"""Slots this wide are a quarter as many. A gap of this length or more is still exact.

Partitions whose longest gap is shorter are measured again with `FINE_SLOT_NS`.
"""


def due_acknowledgements(attempts: DataFrame, trial_info: DataFrame) -> DataFrame:
    """Return what partitions owed the producers, as `longest_gaps` takes it.

    An acknowledgement is due until the attempt settles; if it never does, until all others have.

    Args:
        attempts: trial_no, partition, settled_ns, outcome; rows without a partition do not count.
        trial_info: trial_no, settled_ns; one row per trial.
    """
    due_ns = sf.coalesce("settled_ns", "all_settled_ns").alias("due_ns")
    answered_ns = sf.when(sf.col("outcome") == ACKED, sf.col("settled_ns")).alias("answered_ns")
    ends = sf.broadcast(trial_info.select("trial_no", sf.col("settled_ns").alias("all_settled_ns")))
    return (
        attempts.where("partition IS NOT NULL")
        .join(ends, "trial_no")
        .select("trial_no", "partition", _side(Side.PRODUCER), answered_ns, due_ns)
    )


def due_deliveries(reads: DataFrame, trial_info: DataFrame) -> DataFrame:
    """Return what partitions owed the concurrent consumer, as `longest_gaps` takes it.

    A record is due until the consumer receives it. If the consumer did not reach the end, further
    records are due until it stopped.

    Args:
        reads: trial_no, partition, received_ns.
        trial_info: trial_no, consumer_due_ns; one row per trial.
    """
    due_ns = sf.greatest("received_ns", "consumer_due_ns").alias("due_ns")
    ends = sf.broadcast(trial_info.select("trial_no", "consumer_due_ns"))
    return reads.join(ends, "trial_no").select(
        "trial_no",
        "partition",
        _side(Side.CONSUMER),
        sf.col("received_ns").alias("answered_ns"),
        due_ns,
    )


def _side(side: Side) -> Column:
    return sf.lit(_SIDES.index(side)).alias("side")


def longest_gaps(due: DataFrame, trial_info: DataFrame, slot_ns: int = FINE_SLOT_NS) -> DataFrame:
    """Return each partition's longest gap without an answer to one side.

    The edges count: from the begin of the load to the first answer, and from the last answer to the
    time until which answers were due. A partition that was added under load did not exist at the
    begin: its gaps count from its first answer or, if it gave none, from the first time at which
    an answer was given up.

    Args:
        due: trial_no, partition, side (a number), answered_ns (null: never), due_ns (until when the
            answer was due).
        trial_info: trial_no, load_begin_ns, partitions (at the begin); one row per trial.
        slot_ns: gaps of this length or more are exact.

    Returns:
        trial_no, partition, side, records (answered), gap_ns, began_ns (of several gaps of the same
        length, the earliest), answered (whether an answer ended the gap).
    """
    earlier = (
        Window.partitionBy("packed").orderBy("slot").rowsBetween(Window.unboundedPreceding, -1)
    )
    existed_ns = sf.when(sf.expr(f"{_UNPACK['partition']} < partitions"), sf.col("load_begin_ns"))
    since = sf.coalesce(sf.max("last_ns").over(earlier), existed_ns, sf.col("first_ns"))
    inner = sf.when(sf.col("first_ns").isNotNull(), _gap(since, sf.col("first_ns"), answered=True))
    trailing = _gap(
        sf.coalesce(sf.max("last_ns"), sf.min(existed_ns), sf.min("first_due_ns")),
        sf.max("due_ns"),
        answered=False,
    )
    return (
        due.transform(_slots, slot_ns)
        .withColumn("trial_no", sf.expr(_UNPACK["trial_no"]))
        .join(
            sf.broadcast(trial_info.select("trial_no", "load_begin_ns", "partitions")), "trial_no"
        )
        .withColumn("inner", inner)
        .groupBy("packed")
        .agg(
            sf.sum("records").alias("records"),
            sf.greatest(sf.max("inner"), trailing).alias("longest"),
        )
        .select(
            *(sf.expr(part).alias(name) for name, part in _UNPACK.items()),
            "records",
            "longest.gap_ns",
            (-sf.col("longest.minus_began_ns")).alias("began_ns"),
            "longest.answered",
        )
    )


def _slots(due: DataFrame, slot_ns: int) -> DataFrame:
    """Group a partition's answers by slots; one that never came has the slot of its due_ns."""
    slot = sf.expr(f"coalesce(answered_ns, due_ns) div {slot_ns}")
    answers = (
        sf.min("answered_ns").alias("first_ns"),
        sf.max("answered_ns").alias("last_ns"),
        sf.count("answered_ns").alias("records"),
    )
    return due.groupBy(sf.expr(_PACK).alias("packed"), slot.alias("slot")).agg(
        *answers, sf.max("due_ns").alias("due_ns"), sf.min("due_ns").alias("first_due_ns")
    )


def _gap(began_ns: Column, ended_ns: Column, *, answered: bool) -> Column:
    """Return a gap that compares by its length, then by how early it began."""
    return sf.struct(
        (ended_ns - began_ns).alias("gap_ns"),
        (-began_ns).alias("minus_began_ns"),
        sf.lit(answered).alias("answered"),
    )


def with_side_names(rows: DataFrame) -> DataFrame:
    """Replace the numbers of the sides by their names.

    Args:
        rows: of `longest_gaps`; the same columns are returned.
    """
    return rows.withColumn(
        "side", sf.element_at(sf.array(*map(sf.lit, _SIDES)), sf.col("side") + 1)
    )
