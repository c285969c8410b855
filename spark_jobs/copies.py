"""Records that are in the log more than once, place by place: a second pass over the few blocks that hold more copies than records."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from spark_jobs.blocks import BLOCK, RECORD, with_block


def copies(log: DataFrame, crowded_blocks: DataFrame) -> DataFrame:
    """Find every intact copy of the records that have more than one, exactly.

    Args:
        log: trial_no, producer, seq, partition, offset, intact.
        crowded_blocks: those of `spark_jobs.fates.record_blocks` that `spark_jobs.blocks.crowded` picks.

    Returns:
        The record's key, seq, partition, offset; `copy`, from 1 by partition and offset; `copy_there`, from 1 within its partition; `first_offset`, that
        of copy 1.
    """
    of_record = Window.partitionBy(*RECORD)
    in_order = of_record.orderBy("partition", "offset")
    return (
        with_block(log.where("intact"))
        .join(crowded_blocks.select(*BLOCK), list(BLOCK))
        .select(
            *(*RECORD, "seq", "partition", "offset"),
            sf.count("*").over(of_record).alias("of"),
            sf.row_number().over(in_order).alias("copy"),
            sf.row_number().over(Window.partitionBy(*RECORD, "partition").orderBy("offset")).alias("copy_there"),
            sf.first("offset").over(in_order).alias("first_offset"),
        )
        .where("of > 1")
        .drop("of")
    )
