"""What became of every record: attempts against the final read of the log and against what was read, by bitmaps.

The formulas, and where a record with two claims goes, are in `docs/metrics.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from experiments.ledger.result_tables import Fate
from experiments.ledger.schema import ABORTED, ACKED, REJECTED, UNKNOWN
from spark_jobs.measures.blocks import (
    BLOCK,
    RECORD,
    bits,
    cardinality,
    contains_bit,
    difference,
    intersection,
    with_block,
    zero,
)

OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN, ABORTED)
PRESENT: Final = {
    ACKED: Fate.DELIVERED_ONCE,
    REJECTED: Fate.REJECTED_PRESENT,
    UNKNOWN: Fate.UNKNOWN_PRESENT,
    ABORTED: Fate.ABORTED_VISIBLE,
}
"""The fate of a record that is in the log, before copies beyond the first are looked for."""
ABSENT: Final = {
    ACKED: Fate.LOST,
    REJECTED: Fate.REJECTED,
    UNKNOWN: Fate.UNKNOWN_ABSENT,
    ABORTED: Fate.ABORTED,
}
_KEY: Final = ("trial_no", "outcome", "fate")
_SUMS: Final = ("records", "duplicated_records", "copies")
_BITMAPS: Final = (*OUTCOMES, "present", "read")
_COUNTS: Final = ("copies", "corrupt", "reads")


def record_blocks(attempts: DataFrame, log: DataFrame, reads: DataFrame) -> DataFrame:
    """Unite all sides of the ledger, a row a block.

    Args:
        attempts: trial_no, producer, seq, outcome.
        log: trial_no, producer, seq, intact.
        reads: trial_no, producer, seq.

    Returns:
        The block's key; the bitmaps of the outcomes, `present` (intact in the log) and `read` (received by any consumer); `copies`, the
        intact rows of the log; `corrupt`, its other rows, whose ids cannot be relied on; `reads`, what was received. Rows without an id to rely on
        have the block null.
    """
    marks = (
        attempts.transform(_attempt_marks)
        .unionByName(log.transform(_log_marks))
        .unionByName(reads.transform(_read_marks))
    )
    aggregates = (
        *(bits(name).alias(name) for name in _BITMAPS),
        *(sf.sum(name).alias(name) for name in _COUNTS),
    )
    return marks.groupBy(*BLOCK).agg(*aggregates).select(*BLOCK, *_BITMAPS, *_COUNTS)


def _attempt_marks(attempts: DataFrame) -> DataFrame:
    return with_block(attempts).select(
        *BLOCK,
        *_side(
            {outcome: sf.when(sf.col("outcome") == outcome, sf.col("bit")) for outcome in OUTCOMES}
        ),
    )


def _log_marks(log: DataFrame) -> DataFrame:
    intact = sf.col("intact")
    key = (sf.when(intact, sf.col(name)).alias(name) for name in ("producer", "block"))
    return with_block(log).select(
        "trial_no",
        *key,
        *_side(
            {
                "present": sf.when(intact, sf.col("bit")),
                "copies": intact.cast("long"),
                "corrupt": (~intact).cast("long"),
            }
        ),
    )


def _read_marks(reads: DataFrame) -> DataFrame:
    return with_block(reads).select(
        *BLOCK, *_side({"read": sf.col("bit"), "reads": sf.lit(1).cast("long")})
    )


def _side(said: Mapping[str, Column]) -> Iterator[Column]:
    """Yield what one side of the ledger says of a block, and nothing of what the others say."""
    return (said.get(name, zero()).alias(name) for name in (*_BITMAPS, *_COUNTS))


def count_fates(blocks: DataFrame) -> DataFrame:
    """Count the records of each fate as if no record had a copy beyond its first; `with_further_copies` adds those.

    Args:
        blocks: of `record_blocks`.

    Returns:
        trial_no, outcome, fate, records, duplicated_records, copies: a row for every trial and fate, also where it has no record.
    """
    counts = _counts()
    totals = blocks.groupBy("trial_no").agg(
        *(sf.sum(count).alias(fate) for (_, fate), count in counts.items())
    )
    rows = (
        sf.struct(
            sf.lit(outcome).alias("outcome"),
            sf.lit(fate).alias("fate"),
            sf.col(fate).alias("records"),
        )
        for outcome, fate in counts
    )
    in_log = sf.when(~sf.col("fate").isin(*ABSENT.values()), sf.col("records")).otherwise(zero())
    return totals.select("trial_no", sf.inline(sf.array(*rows))).select(
        *_KEY, "records", zero().alias("duplicated_records"), in_log.alias("copies")
    )


def _counts() -> dict[tuple[str | None, Fate], Column]:
    """Return, for each outcome and fate, how many records of a block have it."""
    return {
        **{
            (outcome, fate): cardinality(intersection(outcome, "present"))
            for outcome, fate in PRESENT.items()
        },
        **{
            (outcome, fate): cardinality(difference(outcome, "present"))
            for outcome, fate in ABSENT.items()
        },
        (ACKED, Fate.DUPLICATED): zero(),
        (None, Fate.PHANTOM): sf.when(sf.col("block").isNull(), sf.col("copies")).otherwise(
            cardinality(difference("present", *OUTCOMES))
        ),
        (None, Fate.CORRUPT): sf.col("corrupt"),
    }


def count_duplicates(copies: DataFrame, crowded_blocks: DataFrame) -> DataFrame:
    """Count the copies beyond the first by the outcome of their record.

    Args:
        copies: of `spark_jobs.measures.fates.find_duplicates`.
        crowded_blocks: the blocks that those were found in.

    Returns:
        trial_no, outcome (null: never attempted), records, copies beyond the first.
    """
    outcome = sf.coalesce(*(sf.when(contains_bit(name), name) for name in OUTCOMES))
    return (
        copies.join(crowded_blocks.select(*BLOCK, *OUTCOMES), list(BLOCK))
        .groupBy("trial_no", outcome.alias("outcome"))
        .agg(
            sf.count_distinct("producer", "block", "bit").alias("records"),
            sf.count("*").alias("copies"),
        )
        .select("trial_no", "outcome", "records", "copies")
    )


def with_duplicates(counted: DataFrame, further: DataFrame) -> DataFrame:
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
    acked = sf.array(
        _correction(Fate.DELIVERED_ONCE, -records, zero(), -records),
        _correction(Fate.DUPLICATED, records, records, records + copies),
    )
    phantom = sf.array(_correction(Fate.PHANTOM, copies, zero(), copies))
    chosen = sf.when(outcome == ACKED, acked)
    for name in (REJECTED, UNKNOWN, ABORTED):
        chosen = chosen.when(
            outcome == name, sf.array(_correction(PRESENT[name], zero(), records, copies))
        )
    return further.select("trial_no", "outcome", sf.inline(chosen.otherwise(phantom)))


def _correction(fate: Fate, records: Column, duplicated_records: Column, copies: Column) -> Column:
    columns = {
        "fate": sf.lit(fate.value),
        "records": records,
        "duplicated_records": duplicated_records,
        "copies": copies,
    }
    return sf.struct(*(column.alias(name) for name, column in columns.items()))


# ---------- Records that are in the log more than once, place by place: a second pass over the few blocks that hold more copies than records.


def find_duplicates(log: DataFrame, crowded_blocks: DataFrame) -> DataFrame:
    """Find every intact copy beyond the first of a record, exactly.

    Args:
        log: trial_no, producer, seq, partition, offset, intact.
        crowded_blocks: those of `spark_jobs.measures.fates.record_blocks` that `spark_jobs.measures.blocks.has_duplicates` picks.

    Returns:
        The record's key, seq, partition, offset; `copy`, from 2 by partition and offset; `repeats_there`, whether an earlier one lies in the same
        partition.
    """
    in_order = Window.partitionBy(*RECORD).orderBy("partition", "offset")
    first_there = sf.min("offset").over(Window.partitionBy(*RECORD, "partition"))
    return (
        with_block(log.where("intact"))
        .join(crowded_blocks.select(*BLOCK), list(BLOCK))
        .select(
            *(*RECORD, "seq", "partition", "offset"),
            sf.row_number().over(in_order).alias("copy"),
            (sf.col("offset") > first_there).alias("repeats_there"),
        )
        .where("copy > 1")
    )
