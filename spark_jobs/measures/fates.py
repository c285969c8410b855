"""The fate of every record: attempts compared with the final read of the log, by bitmaps.

`docs/metrics.md` has the formulas, and says how a record with two outcomes is counted. Duplicates
are found in a second pass, over the few blocks that hold more copies than records.
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
    bitmap_union,
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
"""The fate of a record that is in the log, before duplicates are counted."""
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
    """Unite attempts, log and reads, one row per block.

    Args:
        attempts: trial_no, producer, seq, outcome.
        log: trial_no, producer, seq, intact.
        reads: trial_no, producer, seq.

    Returns:
        The block's key; a bitmap for each outcome, `present` (intact in the log) and `read`
        (received by any consumer); and three counts: `copies`, the intact rows of the log,
        `corrupt`, its other rows, whose ids are not reliable, and `reads`, the reads. In rows
        without a reliable id, the block is null.
    """
    rows = (
        attempts.transform(_attempt_bits)
        .unionByName(log.transform(_log_bits))
        .unionByName(reads.transform(_read_bits))
    )
    aggregates = (
        *(bitmap_union(name).alias(name) for name in _BITMAPS),
        *(sf.sum(name).alias(name) for name in _COUNTS),
    )
    return rows.groupBy(*BLOCK).agg(*aggregates).select(*BLOCK, *_BITMAPS, *_COUNTS)


def _attempt_bits(attempts: DataFrame) -> DataFrame:
    return with_block(attempts).select(
        *BLOCK,
        *_side(
            {outcome: sf.when(sf.col("outcome") == outcome, sf.col("bit")) for outcome in OUTCOMES}
        ),
    )


def _log_bits(log: DataFrame) -> DataFrame:
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


def _read_bits(reads: DataFrame) -> DataFrame:
    return with_block(reads).select(
        *BLOCK, *_side({"read": sf.col("bit"), "reads": sf.lit(1).cast("long")})
    )


def _side(columns: Mapping[str, Column]) -> Iterator[Column]:
    """Yield all bitmaps and counts, with 0 for those that another table of the ledger has."""
    return (columns.get(name, zero()).alias(name) for name in (*_BITMAPS, *_COUNTS))


def count_fates(blocks: DataFrame) -> DataFrame:
    """Count the records of each fate as if no record had duplicates; `with_duplicates` adds them.

    Args:
        blocks: of `record_blocks`.

    Returns:
        trial_no, outcome, fate, records, duplicated_records, copies; one row per trial and fate,
        also if no record has it.
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
    """Return the number of a block's records with each outcome and fate."""
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


def count_duplicates(duplicates: DataFrame, blocks: DataFrame) -> DataFrame:
    """Count duplicates by the outcome of their record.

    Args:
        duplicates: of `find_duplicates`.
        blocks: the blocks in which they were found.

    Returns:
        trial_no, outcome (null: never attempted), records, copies (without each record's first).
    """
    outcome = sf.coalesce(*(sf.when(contains_bit(name), name) for name in OUTCOMES))
    return (
        duplicates.join(blocks.select(*BLOCK, *OUTCOMES), list(BLOCK))
        .groupBy("trial_no", outcome.alias("outcome"))
        .agg(
            sf.count_distinct("producer", "block", "bit").alias("records"),
            sf.count("*").alias("copies"),
        )
        .select("trial_no", "outcome", "records", "copies")
    )


def with_duplicates(counted: DataFrame, duplicates: DataFrame) -> DataFrame:
    """Correct the fates: acknowledged records with duplicates move to DUPLICATED.

    Records with another outcome keep their fate.

    Args:
        counted: of `count_fates`.
        duplicates: of `count_duplicates`.

    Returns:
        What `count_fates` returns.
    """
    corrected = counted.unionByName(duplicates.transform(_corrections)).groupBy(*_KEY)
    return corrected.agg(*(sf.sum(name).alias(name) for name in _SUMS)).select(*_KEY, *_SUMS)


def _corrections(duplicates: DataFrame) -> DataFrame:
    """Return what duplicates add to and take from each fate."""
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
    return duplicates.select("trial_no", "outcome", sf.inline(chosen.otherwise(phantom)))


def _correction(fate: Fate, records: Column, duplicated_records: Column, copies: Column) -> Column:
    columns = {
        "fate": sf.lit(fate.value),
        "records": records,
        "duplicated_records": duplicated_records,
        "copies": copies,
    }
    return sf.struct(*(column.alias(name) for name, column in columns.items()))


def find_duplicates(log: DataFrame, blocks: DataFrame) -> DataFrame:
    """Find every intact copy of a record except its first, exactly.

    Args:
        log: trial_no, producer, seq, partition, offset, intact.
        blocks: of `record_blocks`, those that `spark_jobs.measures.blocks.has_duplicates` selects.

    Returns:
        The record's key, seq, partition, offset; `copy`, the copy's number from 2 on, by partition
        and offset; `repeats_there`, whether the same partition holds an earlier copy.
    """
    in_order = Window.partitionBy(*RECORD).orderBy("partition", "offset")
    first_there = sf.min("offset").over(Window.partitionBy(*RECORD, "partition"))
    return (
        with_block(log.where("intact"))
        .join(blocks.select(*BLOCK), list(BLOCK))
        .select(
            *(*RECORD, "seq", "partition", "offset"),
            sf.row_number().over(in_order).alias("copy"),
            (sf.col("offset") > first_there).alias("repeats_there"),
        )
        .where("copy > 1")
    )
