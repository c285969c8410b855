"""Records out of order: in a partition's log, a later record of their producer precedes them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

_STREAM: Final = ("trial_no", "partition", "producer")
"""Kafka guarantees an order only among the records that one producer sends to one partition."""


def rows_out_of_order(log: DataFrame) -> DataFrame:
    """Find the rows after a record with a higher seq of the same producer and partition.

    Duplicates are included.

    Args:
        log: trial_no, partition, offset, producer, seq, intact; corrupt rows and rows without an
            id have no order.

    Returns:
        trial_no, partition, producer, seq, offset.
    """
    before = (
        Window.partitionBy(*_STREAM).orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    )
    rows = log.where("intact AND seq IS NOT NULL").select(*_STREAM, "seq", "offset")
    return (
        rows.withColumn("highest_before", sf.max("seq").over(before))
        .where("highest_before > seq")
        .drop("highest_before")
    )


def reordered_rows(out_of_order: DataFrame, duplicates: DataFrame) -> DataFrame:
    """Return the rows that are their record's first copy in their partition.

    A later copy is a duplicate, and reorders nothing.

    Args:
        out_of_order: of `rows_out_of_order`.
        duplicates: of `spark_jobs.measures.fates.find_duplicates`.

    Returns:
        What `rows_out_of_order` returns.
    """
    repeats = duplicates.where("repeats_there").select(*_STREAM, "seq", "offset")
    return out_of_order.join(repeats, [*_STREAM, "seq", "offset"], "left_anti")


def count_reordered_records(rows: DataFrame) -> DataFrame:
    """Count the reordered records, each once, in however many partitions it is out of order.

    Args:
        rows: of `reordered_rows`.

    Returns:
        trial_no, reordered_records; no row for a trial without any.
    """
    return (
        rows.select("trial_no", "producer", "seq")
        .distinct()
        .groupBy("trial_no")
        .agg(sf.count("*").alias("reordered_records"))
    )
