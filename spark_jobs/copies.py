"""Records that are in the log more than once, place by place: a second pass over the few blocks that hold more copies than records."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from spark_jobs.blocks import BLOCK, RECORD, with_block


def copies(log: DataFrame, crowded_blocks: DataFrame) -> DataFrame:
    """Find every intact copy beyond the first of a record, exactly.

    Args:
        log: trial_no, producer, seq, partition, offset, intact.
        crowded_blocks: those of `spark_jobs.fates.record_blocks` that `spark_jobs.blocks.crowded` picks.

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
