"""Which records something is wrong with: the blocks of bitmaps tell where to look, and only those records are looked up in the ledger.

What is wrong with a record is told by its attempt and its copies together, so both are brought together by id. What is found has the columns
of `spark_jobs.anomalies.FOUND`, with the trial's number for its id.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.measured import Anomaly
from experiments.ledger.schema import ACKED, REJECTED, UNKNOWN
from spark_jobs.blocks import BLOCK, size, with_block

_TRIAL: Final = BLOCK[0]
_ID: Final = (_TRIAL, "producer", "seq")
_TOLD: Final = ("kind", "partition", "offset", "at_ns", "sent_ns", "first_offset")
_ATTEMPT: Final = ("outcome", "partition", "offset", "settled_ns", "sent_ns")


def wanted(blocks: DataFrame) -> DataFrame:
    """Return the blocks in which a record is absent that was not refused, there although it was refused or never sent, or there several times.

    Args:
        blocks: of `spark_jobs.fates.record_blocks`.

    Returns:
        The block's key and `wanted`, the bitmap of the records to look up; of a block with more copies than records, all of them.
    """
    present, absent = sf.col("present"), sf.bitwise_not("present")
    strangers = present.bitwiseAND(sf.bitwise_not(sf.col(ACKED).bitwiseOR(sf.col(REJECTED)).bitwiseOR(sf.col(UNKNOWN))))
    lost = sf.col(ACKED).bitwiseOR(sf.col(UNKNOWN)).bitwiseAND(absent)
    repeated = sf.when(sf.col("copies") > size(present), present).otherwise(sf.lit(0).cast("long"))
    bitmap = lost.bitwiseOR(strangers).bitwiseOR(sf.col(REJECTED).bitwiseAND(present)).bitwiseOR(repeated)
    return blocks.where("block IS NOT NULL").select(*BLOCK, bitmap.alias("wanted")).where("wanted != 0")


def found(attempts: DataFrame, log: DataFrame, blocks: DataFrame) -> DataFrame:
    """Find what is wrong with the records of some blocks.

    Args:
        attempts: trial_no, producer, seq, outcome, partition, offset, settled_ns, sent_ns.
        log: trial_no, producer, seq, intact, partition, offset.
        blocks: of `wanted`.

    Returns:
        trial_no, producer, seq, kind, partition, offset, at_ns, sent_ns, first_offset: a row for each record and what is wrong with it, of
        DUPLICATED and PHANTOM for each copy.
    """
    copy = sf.struct("partition", "offset")
    attempted = _looked_up(attempts, blocks).select(
        *_ID, sf.struct(*_ATTEMPT).alias("attempt"), sf.lit(None).cast("struct<partition:int,offset:bigint>").alias("copy")
    )
    stored = _looked_up(log.where("intact"), blocks).select(*_ID, sf.lit(None).cast(attempted.schema["attempt"].dataType).alias("attempt"), copy.alias("copy"))
    return (
        attempted.unionByName(stored)
        .groupBy(*_ID)
        .agg(sf.max("attempt").alias("attempt"), sf.array_sort(sf.collect_list("copy")).alias("copies"))
        .select(*_ID, sf.inline(sf.concat(_of_the_record(), _of_its_copies())))
        .where("kind IS NOT NULL")
        .select(*_ID, *_TOLD)
    )


def found_without_id(log: DataFrame) -> DataFrame:
    """Find the rows of the log that have no id to rely on: of other origin, or corrupt.

    Args:
        log: trial_no, producer, seq, intact, partition, offset.

    Returns:
        What `found` returns; producer and seq are null.
    """
    kind = sf.when(sf.col("intact"), Anomaly.PHANTOM.value).otherwise(Anomaly.CORRUPT.value)
    unknown = [sf.lit(None).cast(of).alias(name) for name, of in (("producer", "int"), ("seq", "bigint"))]
    at, sent, first = (sf.lit(None).cast("bigint").alias(name) for name in ("at_ns", "sent_ns", "first_offset"))
    return log.where("NOT intact OR producer IS NULL OR seq IS NULL").select(_TRIAL, *unknown, kind.alias("kind"), "partition", "offset", at, sent, first)


def _looked_up(rows: DataFrame, blocks: DataFrame) -> DataFrame:
    return with_block(rows).join(blocks, list(BLOCK)).where(sf.col("wanted").bitwiseAND(sf.col("bit")) != 0)


def _of_the_record() -> Column:
    """What is wrong with it whatever copies it has beyond the first; kind null: nothing."""
    outcome, there = sf.col("attempt.outcome"), sf.size("copies") > 0
    absent = sf.when((outcome == ACKED) & ~there, Anomaly.LOST.value).when((outcome == UNKNOWN) & ~there, Anomaly.UNKNOWN_ABSENT.value)
    kind = absent.when((outcome == REJECTED) & there, Anomaly.REJECTED_PRESENT.value)
    partition, offset = (sf.coalesce(sf.get("copies", sf.lit(0))[name], sf.col(f"attempt.{name}")) for name in ("partition", "offset"))
    return sf.array(_told(kind, partition, offset, sf.lit(None).cast("bigint")))


def _of_its_copies() -> Column:
    """Every copy beyond the first of a record that was attempted, and every copy of one that was not."""
    first = sf.get("copies", sf.lit(0))
    further = sf.when(sf.col("attempt").isNull(), sf.col("copies")).otherwise(sf.slice("copies", 2, sf.greatest(sf.size("copies") - 1, sf.lit(0))))

    def told(copy: Column) -> Column:
        kind = sf.when(sf.col("attempt").isNull(), Anomaly.PHANTOM.value).otherwise(Anomaly.DUPLICATED.value)
        beside = sf.when(sf.col("attempt").isNotNull() & (first["partition"] == copy["partition"]), first["offset"])
        return _told(kind, copy["partition"], copy["offset"], beside)

    return sf.transform(further, told)


def _told(kind: Column, partition: Column, offset: Column, first_offset: Column) -> Column:
    columns = (kind, partition, offset, sf.col("attempt.settled_ns"), sf.col("attempt.sent_ns"), first_offset)
    return sf.struct(*(column.alias(name) for column, name in zip(columns, _TOLD, strict=True)))


def reaches(log: DataFrame) -> DataFrame:
    """Find which part of each producer's schedule every leader epoch appended to a partition.

    Args:
        log: trial_no, partition, producer, leader_epoch, seq, intact.

    Returns:
        The columns of `spark_jobs.anomalies.REACHES`, with trial_no for trial_id.
    """
    key = (_TRIAL, "partition", "producer", "leader_epoch")
    ours = log.where("intact AND producer IS NOT NULL")
    return ours.groupBy(*key).agg(sf.min("seq").alias("first_seq"), sf.max("seq").alias("last_seq")).select(*key, "first_seq", "last_seq")
