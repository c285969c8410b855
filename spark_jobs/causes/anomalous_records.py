"""Anomalous records: which records of the suspect blocks have which anomaly.

Blocks of bitmaps (`spark_jobs.measures.blocks`) show which records are suspect, and only those are
looked up in the ledger. An anomaly follows from a record's attempt and its copies together, so both
are joined by id. The results have the columns of
`spark_jobs.causes.explanations.ANOMALOUS_RECORDS`, with `trial_no` instead of `trial_id`.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.result_tables import Anomaly
from experiments.ledger.schema import ABORTED, ACKED, REJECTED, UNKNOWN
from spark_jobs.measures.blocks import (
    BLOCK,
    bitmap_union,
    cardinality,
    contains_bit,
    difference,
    intersection,
    with_block,
    zero,
)

_ID: Final = ("trial_no", "producer", "seq")
_ANOMALY: Final = ("kind", "partition", "offset", "at_ns", "sent_ns", "first_offset")
_ATTEMPT: Final = (
    "struct<outcome:string,partition:int,offset:bigint,settled_ns:bigint,sent_ns:bigint>"
)
_PLACE: Final = "struct<partition:int,offset:bigint>"
_SIDES: Final = {"attempt": _ATTEMPT, "copy": _PLACE, "behind": _PLACE, "missed": "boolean"}
"""What the attempts, the log, the log's order and the reads contribute to a record, by column."""


def suspect_records(blocks: DataFrame, behind: DataFrame, trial_info: DataFrame) -> DataFrame:
    """Return which records to look up.

    These are records that are absent although they were not rejected; present although they were
    rejected, aborted or never sent; present several times; out of order; or never received.

    Args:
        blocks: of `spark_jobs.measures.fates.record_blocks`.
        behind: of `spark_jobs.measures.order.reordered_rows`.
        trial_info: trial_no, consumer_at_end; one row per trial. If the concurrent consumer did not
            reach the end, it is unknown what it missed.

    Returns:
        The block's key; `wanted`, the bitmap of the records to look up (of a block with more copies
        than records: all that are present); and `missed`, the bitmap of those never received.
    """
    repeated = sf.when(
        sf.col("copies") > cardinality(sf.col("present")), sf.col("present")
    ).otherwise(zero())
    never_sent = difference("present", ACKED, REJECTED, UNKNOWN, ABORTED)
    odd = [
        difference(ACKED, "present"),
        difference(UNKNOWN, "present"),
        intersection(REJECTED, "present"),
        intersection(ABORTED, "present"),
        never_sent,
        repeated,
    ]
    missed = sf.when(sf.col("consumer_at_end"), difference("present", "read")).otherwise(zero())
    suspect = (
        blocks.where("block IS NOT NULL")
        .join(sf.broadcast(trial_info.select("trial_no", "consumer_at_end")), "trial_no")
        .select(
            *BLOCK, reduce(Column.bitwiseOR, [*odd, missed]).alias("wanted"), missed.alias("missed")
        )
        .where("wanted != 0")
    )
    late = with_block(behind).select(*BLOCK, sf.col("bit").alias("wanted"), zero().alias("missed"))
    return (
        suspect.unionByName(late)
        .groupBy(*BLOCK)
        .agg(bitmap_union("wanted").alias("wanted"), bitmap_union("missed").alias("missed"))
        .select(*BLOCK, "wanted", "missed")
    )


def find_anomalies(
    attempts: DataFrame, log: DataFrame, behind: DataFrame, blocks: DataFrame
) -> DataFrame:
    """Return the anomalies of the suspect records.

    Args:
        attempts: trial_no, producer, seq, outcome, partition, offset, settled_ns, sent_ns.
        log: trial_no, producer, seq, intact, partition, offset.
        behind: of `spark_jobs.measures.order.reordered_rows`.
        blocks: of `suspect_records`.

    Returns:
        trial_no, producer, seq, kind, partition, offset, at_ns, sent_ns, first_offset. One row per
        record and anomaly; DUPLICATED and PHANTOM: one per copy; REORDERED: one per partition.
    """
    place = sf.struct("partition", "offset")
    attempted = _look_up(attempts, blocks).select(
        *_ID,
        *_side("attempt", sf.struct("outcome", "partition", "offset", "settled_ns", "sent_ns")),
    )
    stored = _look_up(log.where("intact"), blocks).select(
        *_ID, *_side("copy", place, missed=contains_bit("missed"))
    )
    sides = attempted.unionByName(stored).unionByName(behind.select(*_ID, *_side("behind", place)))
    united = (
        sf.max("attempt").alias("attempt"),
        sf.array_sort(sf.collect_list("copy")).alias("copies"),
        sf.collect_list("behind").alias("behind"),
        sf.coalesce(sf.bool_or("missed"), sf.lit(False)).alias("missed"),
    )
    kinds = sf.concat(_lost_or_unwanted(), _missed(), _duplicates_or_phantoms(), _reordered())
    return (
        sides.groupBy(*_ID)
        .agg(*united)
        .select(*_ID, sf.inline(kinds))
        .where("kind IS NOT NULL")
        .select(*_ID, *_ANOMALY)
    )


def find_without_id(log: DataFrame) -> DataFrame:
    """Return the rows of the log that have no reliable id: foreign or corrupt records.

    Args:
        log: trial_no, producer, seq, intact, partition, offset.

    Returns:
        The columns of `find_anomalies`; producer and seq are null.
    """
    kind = sf.when(sf.col("intact"), Anomaly.PHANTOM.value).otherwise(Anomaly.CORRUPT.value)
    without_id = log.where("NOT intact OR producer IS NULL OR seq IS NULL")
    return without_id.select(
        "trial_no",
        *_nulls("int", "producer"),
        *_nulls("bigint", "seq"),
        kind.alias("kind"),
        "partition",
        "offset",
        *_nulls("bigint", "at_ns", "sent_ns", "first_offset"),
    )


def find_redelivered(redelivered: DataFrame) -> DataFrame:
    """Return the repeated reads as anomalies.

    Args:
        redelivered: of `spark_jobs.measures.reads.find_redelivered`.

    Returns:
        The columns of `find_anomalies`; at_ns is the time of the repeated receipt.
    """
    kind, at = sf.lit(Anomaly.REDELIVERED.value).alias("kind"), sf.col("received_ns").alias("at_ns")
    return redelivered.select(
        *_ID, kind, "partition", "offset", at, *_nulls("bigint", "sent_ns", "first_offset")
    )


def appended_ranges(log: DataFrame) -> DataFrame:
    """Return the sequence numbers that each leader epoch appended to a partition, by producer.

    Args:
        log: trial_no, partition, producer, leader_epoch, seq, intact.

    Returns:
        The columns of `spark_jobs.causes.explanations.APPENDED_RANGES`, with `trial_no` instead of
        `trial_id`.
    """
    key = ("trial_no", "partition", "producer", "leader_epoch")
    intact = log.where("intact AND producer IS NOT NULL")
    return (
        intact.groupBy(*key)
        .agg(sf.min("seq").alias("first_seq"), sf.max("seq").alias("last_seq"))
        .select(*key, "first_seq", "last_seq")
    )


def _nulls(kind: str, *names: str) -> list[Column]:
    return [sf.lit(None).cast(kind).alias(name) for name in names]


def _look_up(rows: DataFrame, blocks: DataFrame) -> DataFrame:
    return with_block(rows).join(blocks, list(BLOCK)).where(contains_bit("wanted"))


def _side(name: str, value: Column, missed: Column | None = None) -> list[Column]:
    """Return the columns of `_SIDES`: one side's own value, and null for the others."""
    values = {name: value} if missed is None else {name: value, "missed": missed}
    return [values.get(side, sf.lit(None)).cast(kind).alias(side) for side, kind in _SIDES.items()]


def _lost_or_unwanted() -> Column:
    """Return a record's anomaly by its outcome and whether it is present; null kind: none."""
    outcome, there = sf.col("attempt.outcome"), sf.size("copies") > 0
    absent = sf.when((outcome == ACKED) & ~there, Anomaly.LOST.value).when(
        (outcome == UNKNOWN) & ~there, Anomaly.UNKNOWN_ABSENT.value
    )
    place = {
        name: sf.coalesce(_first_copy()[name], sf.col(f"attempt.{name}"))
        for name in ("partition", "offset")
    }
    unwanted = absent.when((outcome == REJECTED) & there, Anomaly.REJECTED_PRESENT.value).when(
        (outcome == ABORTED) & there, Anomaly.ABORTED_VISIBLE.value
    )
    return sf.array(_anomaly(unwanted, place["partition"], place["offset"]))


def _missed() -> Column:
    """Return MISSED with the place of the first copy, for a record that was never received."""
    return sf.array(
        _anomaly(
            sf.when(sf.col("missed"), Anomaly.MISSED.value),
            _first_copy()["partition"],
            _first_copy()["offset"],
        )
    )


def _duplicates_or_phantoms() -> Column:
    """Return every copy after the first; for a record that was never attempted, every copy."""
    further = sf.slice("copies", 2, sf.greatest(sf.size("copies") - 1, sf.lit(0)))
    duplicates = sf.transform(
        further,
        lambda copy: _anomaly(
            sf.lit(Anomaly.DUPLICATED.value),
            copy["partition"],
            copy["offset"],
            _first_offset_in_partition_of(copy),
        ),
    )
    phantoms = sf.transform(
        "copies",
        lambda copy: _anomaly(sf.lit(Anomaly.PHANTOM.value), copy["partition"], copy["offset"]),
    )
    return sf.when(sf.col("attempt").isNull(), phantoms).otherwise(duplicates)


def _reordered() -> Column:
    return sf.transform(
        "behind",
        lambda place: _anomaly(
            sf.lit(Anomaly.REORDERED.value), place["partition"], place["offset"]
        ),
    )


def _first_copy() -> Column:
    return sf.get("copies", sf.lit(0))


def _first_offset_in_partition_of(copy: Column) -> Column:
    """Return the first copy's offset if it is in the same partition as the given copy, or null."""
    return sf.when(_first_copy()["partition"] == copy["partition"], _first_copy()["offset"])


def _anomaly(
    kind: Column, partition: Column, offset: Column, first_offset: Column | None = None
) -> Column:
    first = sf.lit(None) if first_offset is None else first_offset
    columns = (
        kind.cast("string"),
        partition,
        offset,
        sf.col("attempt.settled_ns"),
        sf.col("attempt.sent_ns"),
        first.cast("bigint"),
    )
    return sf.struct(*(column.alias(name) for column, name in zip(columns, _ANOMALY, strict=True)))
