"""Records that lie behind later ones of the same producer, in the order of a partition's log."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

_STREAM: Final = ("trial_no", "partition", "producer")
"""Within one there is an order: Kafka promises it of what a producer sends to a partition, and of nothing more."""


def rows_out_of_order(log: DataFrame) -> DataFrame:
    """Find the rows of the log that lie behind a record with a higher seq of the same producer in the same partition, first copies and further ones.

    Args:
        log: trial_no, partition, offset, producer, seq, intact; corrupt rows and those without id are in no order.

    Returns:
        trial_no, partition, producer, seq, offset.
    """
    before = (
        Window.partitionBy(*_STREAM).orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    ours = log.where("intact AND seq IS NOT NULL").select(*_STREAM, "seq", "offset")
    return (
        ours.withColumn("highest_before", sf.max("seq").over(before))
        .where("highest_before > seq")
        .drop("highest_before")
    )


def reordered_rows(rows_behind: DataFrame, copies: DataFrame) -> DataFrame:
    """Leave of the rows behind those that are their record's first copy in their partition: a copy that comes late repeats, and reorders nothing.

    Args:
        rows_behind: of `behind`.
        copies: of `spark_jobs.measures.fates.find_duplicates`.

    Returns:
        What `behind` returns.
    """
    further = copies.where("repeats_there").select(*_STREAM, "seq", "offset")
    return rows_behind.join(further, [*_STREAM, "seq", "offset"], "left_anti")


def count_reordered_records(rows: DataFrame) -> DataFrame:
    """Count the records, each once in however many partitions it lies behind.

    Args:
        rows: of `reordered`.

    Returns:
        trial_no, reordered_records; no row for a trial without any.
    """
    return (
        rows.select("trial_no", "producer", "seq")
        .distinct()
        .groupBy("trial_no")
        .agg(sf.count("*").alias("reordered_records"))
    )
