"""The longest time in which a partition answered nothing though it was due: no acknowledgement to the producers, no record to the consumer along."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from experiments.ledger.result_tables import Side
from experiments.ledger.schema import ACKED

_SIDES: Final = tuple(Side)
PARTITION_SIDE: Final = ("trial_no", "partition", "side")
_WAY: Final = "CAST(trial_no AS BIGINT) << 33 | CAST(side AS BIGINT) << 32 | partition"
"""The three as one long: rows are grouped and sorted by it in half the time. A partition's number has 31 bits, a side's one."""
_APART: Final = {
    "trial_no": "CAST(way >> 33 AS INT)",
    "partition": "CAST(way & 2147483647 AS INT)",
    "side": "CAST(way >> 32 & 1 AS INT)",
}
FINE_SLOT_NS: Final = 1_000_000
"""Answers are united by the millisecond, each with its first and last: a gap of a millisecond or more lies between two slots, so it is exact."""
COARSE_SLOT_NS: Final = 4_000_000
"""Of slots this wide there are a quarter, and a longest gap that is as long or longer is as exact; what has none is looked at again."""


def due_acknowledgements(attempts: DataFrame, marks: DataFrame) -> DataFrame:
    """Return what partitions owed the producers, as `gaps` takes it: until an attempt settled; what never settled until all was.

    Args:
        attempts: trial_no, partition, settled_ns, outcome; rows without a partition have none to blame.
        marks: trial_no, settled_ns, a row a trial.
    """
    due_ns = sf.coalesce("settled_ns", "all_settled_ns").alias("due_ns")
    answered_ns = sf.when(sf.col("outcome") == ACKED, sf.col("settled_ns")).alias("answered_ns")
    ends = sf.broadcast(marks.select("trial_no", sf.col("settled_ns").alias("all_settled_ns")))
    return (
        attempts.where("partition IS NOT NULL")
        .join(ends, "trial_no")
        .select("trial_no", "partition", _side(Side.PRODUCER), answered_ns, due_ns)
    )


def due_deliveries(reads: DataFrame, marks: DataFrame) -> DataFrame:
    """Return what partitions owed the consumer, as `gaps` takes it: each record until it came, and where not all came, further ones until it gave up.

    Args:
        reads: trial_no, partition, received_ns.
        marks: trial_no, consumer_due_ns, a row a trial.
    """
    due_ns = sf.greatest("received_ns", "consumer_due_ns").alias("due_ns")
    ends = sf.broadcast(marks.select("trial_no", "consumer_due_ns"))
    return reads.join(ends, "trial_no").select(
        "trial_no",
        "partition",
        _side(Side.CONSUMER),
        sf.col("received_ns").alias("answered_ns"),
        due_ns,
    )


def _side(side: Side) -> Column:
    return sf.lit(_SIDES.index(side)).alias("side")


def longest_gaps(due: DataFrame, marks: DataFrame, slot_ns: int = FINE_SLOT_NS) -> DataFrame:
    """Find each partition's longest gap without an answer to one side.

    The edges count: from the begin of the load to the first answer, and from the last one to the end of what was due. A partition that was added under
    load was not there at the begin: of it, gaps are from its first answer on, or from when something of it was first given up, if it never gave one.

    Args:
        due: trial_no, partition, side (a number), answered_ns (null: it never was), due_ns (until when it was due).
        marks: trial_no, load_begin_ns, partitions (at the begin), a row a trial.
        slot_ns: from here on, a gap is exact.

    Returns:
        trial_no, partition, side, records (answered), gap_ns, began_ns (the earliest, where several are as long), answered (an answer ended it).
    """
    earlier = Window.partitionBy("way").orderBy("slot").rowsBetween(Window.unboundedPreceding, -1)
    there_ns = sf.when(sf.expr(f"{_APART['partition']} < partitions"), sf.col("load_begin_ns"))
    since = sf.coalesce(sf.max("last_ns").over(earlier), there_ns, sf.col("first_ns"))
    inner = sf.when(sf.col("first_ns").isNotNull(), _gap(since, sf.col("first_ns"), answered=True))
    trailing = _gap(
        sf.coalesce(sf.max("last_ns"), sf.min(there_ns), sf.min("first_due_ns")),
        sf.max("due_ns"),
        answered=False,
    )
    return (
        due.transform(_slots, slot_ns)
        .withColumn("trial_no", sf.expr(_APART["trial_no"]))
        .join(sf.broadcast(marks.select("trial_no", "load_begin_ns", "partitions")), "trial_no")
        .withColumn("inner", inner)
        .groupBy("way")
        .agg(
            sf.sum("records").alias("records"),
            sf.greatest(sf.max("inner"), trailing).alias("longest"),
        )
        .select(
            *(sf.expr(part).alias(name) for name, part in _APART.items()),
            "records",
            "longest.gap_ns",
            (-sf.col("longest.minus_began_ns")).alias("began_ns"),
            "longest.answered",
        )
    )


def _slots(due: DataFrame, slot_ns: int) -> DataFrame:
    """Unite a partition's answers by slots; what was never answered stands where it was given up."""
    slot = sf.expr(f"coalesce(answered_ns, due_ns) div {slot_ns}")
    answers = (
        sf.min("answered_ns").alias("first_ns"),
        sf.max("answered_ns").alias("last_ns"),
        sf.count("answered_ns").alias("records"),
    )
    return due.groupBy(sf.expr(_WAY).alias("way"), slot.alias("slot")).agg(
        *answers, sf.max("due_ns").alias("due_ns"), sf.min("due_ns").alias("first_due_ns")
    )


def _gap(began_ns: Column, ended_ns: Column, *, answered: bool) -> Column:
    """A gap that compares by its length, then by how early it began."""
    return sf.struct(
        (ended_ns - began_ns).alias("gap_ns"),
        (-began_ns).alias("minus_began_ns"),
        sf.lit(answered).alias("answered"),
    )


def with_side_names(found: DataFrame) -> DataFrame:
    """Give the sides their names again.

    Args:
        found: of `gaps`; the same columns are returned.
    """
    return found.withColumn(
        "side", sf.element_at(sf.array(*map(sf.lit, _SIDES)), sf.col("side") + 1)
    )
