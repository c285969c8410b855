"""What the concurrent consumer missed, and what it received again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from spark_jobs.measures.blocks import BLOCK, cardinality, difference

_PLACE: Final = ("trial_no", "consumer", "partition", "offset", "producer", "seq")
"""A record at its offset, as one consumer receives it."""
READS: Final = (*_PLACE, "intended_ns", "received_ns")


def count_reads(blocks: DataFrame) -> DataFrame:
    """Count missed records, received records and reads.

    Args:
        blocks: of `spark_jobs.measures.fates.record_blocks`.

    Returns:
        trial_no; missed_records, ids in the log that no consumer received; read_records, distinct
        ids received; reads, rows.
    """
    counts = {
        "missed_records": cardinality(difference("present", "read")),
        "read_records": cardinality(sf.col("read")),
        "reads": sf.col("reads"),
    }
    return blocks.groupBy("trial_no").agg(
        *(sf.sum(count).alias(name) for name, count in counts.items())
    )


def suspect_reads(reads: DataFrame, suspects: DataFrame, also: Sequence[str] = ()) -> DataFrame:
    """Return the reads of the blocks in which something may have been read twice.

    Reads without an id are among them.

    Args:
        reads: trial_no, consumer, partition, offset, producer, seq, intended_ns, received_ns.
        suspects: the blocks that `spark_jobs.measures.blocks.has_repeated_reads` selects.
        also: further columns of the reads to keep.
    """
    keys = suspects.select(*(sf.col(name).alias(f"suspect_{name}") for name in BLOCK))
    same = (sf.col("trial_no") == sf.col("suspect_trial_no")) & sf.col("producer").eqNullSafe(
        sf.col("suspect_producer")
    )
    block = sf.shiftright("seq", 6)
    return reads.join(keys, same & block.eqNullSafe(sf.col("suspect_block")), "left_semi").select(
        *READS, *also
    )


def find_redelivered(repeated: DataFrame) -> DataFrame:
    """Return the reads of a record at an offset where the same consumer received it before.

    The earliest read is no redelivery. A truncated log uses offsets again: another record at the
    same offset is no redelivery either.

    Args:
        repeated: of `suspect_reads`.
    """
    earlier = Window.partitionBy(*_PLACE).orderBy("received_ns")
    return (
        repeated.select(*READS, sf.row_number().over(earlier).alias("time"))
        .where("time > 1")
        .drop("time")
    )


def count_redelivered_reads(rows: DataFrame) -> DataFrame:
    """Count redelivered reads.

    Args:
        rows: of `find_redelivered`.

    Returns:
        trial_no, redelivered_reads; no row for a trial without any.
    """
    return rows.groupBy("trial_no").agg(sf.count("*").alias("redelivered_reads"))
