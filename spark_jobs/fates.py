"""What became of every record: attempts against the final read of the log, by bitmaps.

The formulas, and where a record with two claims goes, are in `docs/metrics.md`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.measured import Fate
from experiments.ledger.schema import ACKED, REJECTED, UNKNOWN
from spark_jobs.blocks import BLOCK, bits, none, size, with_block

OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN)
PRESENT: Final = {ACKED: Fate.DELIVERED_ONCE, REJECTED: Fate.REJECTED_PRESENT, UNKNOWN: Fate.UNKNOWN_PRESENT}
"""The fate of a record that is in the log, before copies beyond the first are looked for."""
ABSENT: Final = {ACKED: Fate.LOST, REJECTED: Fate.REJECTED, UNKNOWN: Fate.UNKNOWN_ABSENT}
_KEY: Final = ("trial_id", "outcome", "fate")
_SUMS: Final = ("records", "duplicated_records", "copies")


def record_blocks(attempts: DataFrame, log: DataFrame) -> DataFrame:
    """Unite both sides of the ledger, a row a block.

    Args:
        attempts: trial_id, producer, seq, outcome.
        log: trial_id, producer, seq, intact.

    Returns:
        The block's key; the bitmaps `acked`, `rejected`, `unknown` and `present` (intact in the log); `copies`, the intact rows
        of the log; `corrupt`, its other rows, whose ids cannot be relied on: they and the rows without id have the block null.
    """
    return (
        attempts.transform(_attempt_marks)
        .unionByName(log.transform(_log_marks))
        .groupBy(*BLOCK)
        .agg(*(bits(name).alias(name) for name in (*OUTCOMES, "present")), sf.sum("copies").alias("copies"), sf.sum("corrupt").alias("corrupt"))
        .select(*BLOCK, *OUTCOMES, "present", "copies", "corrupt")
    )


def _attempt_marks(attempts: DataFrame) -> DataFrame:
    marks = (sf.when(sf.col("outcome") == outcome, sf.col("bit")).otherwise(none()).alias(outcome) for outcome in OUTCOMES)
    return with_block(attempts).select(*BLOCK, *marks, *(none().alias(name) for name in ("present", "copies", "corrupt")))


def _log_marks(log: DataFrame) -> DataFrame:
    intact = sf.col("intact")
    key = (sf.when(intact, sf.col(name)).alias(name) for name in ("producer", "block"))
    sides = {"present": sf.when(intact, sf.coalesce("bit", none())).otherwise(none()), "copies": intact.cast("long"), "corrupt": (~intact).cast("long")}
    return with_block(log).select("trial_id", *key, *(none().alias(name) for name in OUTCOMES), *(mark.alias(name) for name, mark in sides.items()))


def fates(blocks: DataFrame) -> DataFrame:
    """Count the records of each fate as if no record had a copy beyond its first; `with_further_copies` adds those.

    Args:
        blocks: of `record_blocks`.

    Returns:
        trial_id, outcome, fate, records, duplicated_records, copies: a row for every trial and fate, also where it has no record.
    """
    counts = _counts()
    totals = blocks.groupBy("trial_id").agg(*(sf.sum(count).alias(fate) for (_, fate), count in counts.items()))
    rows = (sf.struct(sf.lit(outcome).alias("outcome"), sf.lit(fate).alias("fate"), sf.col(fate).alias("records")) for outcome, fate in counts)
    in_log = sf.when(~sf.col("fate").isin(*ABSENT.values()), sf.col("records")).otherwise(none())
    return totals.select("trial_id", sf.inline(sf.array(*rows))).select(*_KEY, "records", none().alias("duplicated_records"), in_log.alias("copies"))


def _counts() -> dict[tuple[str | None, Fate], Column]:
    """Return, for each outcome and fate, how many records of a block have it."""
    present, strangers = sf.col("present"), sf.col("present")
    for outcome in OUTCOMES:
        strangers = strangers.bitwiseAND(sf.bitwise_not(outcome))
    return {
        **{(outcome, fate): size(sf.col(outcome).bitwiseAND(present)) for outcome, fate in PRESENT.items()},
        **{(outcome, fate): size(sf.col(outcome).bitwiseAND(sf.bitwise_not(present))) for outcome, fate in ABSENT.items()},
        (ACKED, Fate.DUPLICATED): none(),
        (None, Fate.PHANTOM): sf.when(sf.col("block").isNull(), sf.col("copies")).otherwise(size(strangers)),
        (None, Fate.CORRUPT): sf.col("corrupt"),
    }


def further_copies(log: DataFrame, crowded_blocks: DataFrame) -> DataFrame:
    """Find the records with more than one intact copy, exactly, by a second pass over crowded blocks alone.

    Args:
        log: trial_id, producer, seq, intact.
        crowded_blocks: those of `record_blocks` that `spark_jobs.blocks.crowded` picks.

    Returns:
        trial_id, outcome (null: never attempted), records, copies beyond the first.
    """
    outcome = sf.coalesce(*(sf.when(sf.col(name).bitwiseAND(sf.col("bit")) != 0, name) for name in OUTCOMES))
    return (
        with_block(log.where("intact"))
        .join(crowded_blocks.select(*BLOCK, *OUTCOMES), list(BLOCK))
        .groupBy(*BLOCK, "bit", outcome.alias("outcome"))
        .agg((sf.count("*") - 1).alias("further"))
        .where("further > 0")
        .groupBy("trial_id", "outcome")
        .agg(sf.count("*").alias("records"), sf.sum("further").alias("copies"))
        .select("trial_id", "outcome", "records", "copies")
    )


def with_further_copies(counted: DataFrame, further: DataFrame) -> DataFrame:
    """Correct the fates by the further copies: acknowledged records move to DUPLICATED, all others keep their fate.

    Args:
        counted: of `fates`.
        further: of `further_copies`.

    Returns:
        What `fates` returns.
    """
    corrected = counted.unionByName(further.transform(_corrections)).groupBy(*_KEY)
    return corrected.agg(*(sf.sum(name).alias(name) for name in _SUMS)).select(*_KEY, *_SUMS)


def _corrections(further: DataFrame) -> DataFrame:
    """Return what the further copies add to and take from each fate."""
    records, copies, outcome = sf.col("records"), sf.col("copies"), sf.col("outcome")
    acked = sf.array(_correction(Fate.DELIVERED_ONCE, -records, none(), -records), _correction(Fate.DUPLICATED, records, records, records + copies))
    phantom = sf.array(_correction(Fate.PHANTOM, copies, none(), copies))
    others = {name: sf.array(_correction(PRESENT[name], none(), records, copies)) for name in (REJECTED, UNKNOWN)}
    chosen = sf.when(outcome == ACKED, acked).when(outcome == REJECTED, others[REJECTED]).when(outcome == UNKNOWN, others[UNKNOWN]).otherwise(phantom)
    return further.select("trial_id", "outcome", sf.inline(chosen))


def _correction(fate: Fate, records: Column, duplicated_records: Column, copies: Column) -> Column:
    columns = {"fate": sf.lit(fate.value), "records": records, "duplicated_records": duplicated_records, "copies": copies}
    return sf.struct(*(column.alias(name) for name, column in columns.items()))
