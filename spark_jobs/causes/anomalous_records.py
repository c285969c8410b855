"""Which records something is wrong with: blocks of bitmaps tell where to look, and only those records are looked up in the ledger.

What is wrong with a record is told by its attempt and its copies together, so both are brought together by id. What is found has the columns
of `spark_jobs.causes.explanations.FOUND`, with the trial's number for its id.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.result_tables import Anomaly
from experiments.ledger.schema import ABORTED, ACKED, REJECTED, UNKNOWN
from spark_jobs.measures.blocks import BLOCK, bits, both, but, has, none, size, with_block

_ID: Final = ("trial_no", "producer", "seq")
_TOLD: Final = ("kind", "partition", "offset", "at_ns", "sent_ns", "first_offset")
_ATTEMPT: Final = (
    "struct<outcome:string,partition:int,offset:bigint,settled_ns:bigint,sent_ns:bigint>"
)
_PLACE: Final = "struct<partition:int,offset:bigint>"
_SIDES: Final = {"attempt": _ATTEMPT, "copy": _PLACE, "behind": _PLACE, "missed": "boolean"}
"""What the attempts, the log, the order of the log and the reads say of a record."""


def wanted(blocks: DataFrame, behind: DataFrame, marks: DataFrame) -> DataFrame:
    """Return which records to look up: absent though not refused, there though refused, aborted or never sent, there several times, late, or never received.

    Args:
        blocks: of `spark_jobs.measures.fates.record_blocks`.
        behind: of `spark_jobs.measures.order.reordered`.
        marks: trial_no, reader_at_end, a row a trial; without a reader that came to the end, nobody can say what was missed.

    Returns:
        The block's key; `wanted`, the bitmap of the records to look up, which of a block with more copies than records are all; and `missed`.
    """
    repeated = sf.when(sf.col("copies") > size(sf.col("present")), sf.col("present")).otherwise(
        none()
    )
    never_sent = but("present", ACKED, REJECTED, UNKNOWN, ABORTED)
    odd = [
        but(ACKED, "present"),
        but(UNKNOWN, "present"),
        both(REJECTED, "present"),
        both(ABORTED, "present"),
        never_sent,
        repeated,
    ]
    missed = sf.when(sf.col("reader_at_end"), but("present", "read")).otherwise(none())
    told = (
        blocks.where("block IS NOT NULL")
        .join(sf.broadcast(marks.select("trial_no", "reader_at_end")), "trial_no")
        .select(
            *BLOCK, reduce(Column.bitwiseOR, [*odd, missed]).alias("wanted"), missed.alias("missed")
        )
        .where("wanted != 0")
    )
    late = with_block(behind).select(*BLOCK, sf.col("bit").alias("wanted"), none().alias("missed"))
    return (
        told.unionByName(late)
        .groupBy(*BLOCK)
        .agg(bits("wanted").alias("wanted"), bits("missed").alias("missed"))
        .select(*BLOCK, "wanted", "missed")
    )


def found(attempts: DataFrame, log: DataFrame, behind: DataFrame, blocks: DataFrame) -> DataFrame:
    """Find what is wrong with the records of some blocks.

    Args:
        attempts: trial_no, producer, seq, outcome, partition, offset, settled_ns, sent_ns.
        log: trial_no, producer, seq, intact, partition, offset.
        behind: of `spark_jobs.measures.order.reordered`.
        blocks: of `wanted`.

    Returns:
        trial_no, producer, seq, kind, partition, offset, at_ns, sent_ns, first_offset: a row for each record and what is wrong with it, of
        DUPLICATED and PHANTOM for each copy, of REORDERED for each partition.
    """
    place = sf.struct("partition", "offset")
    attempted = _looked_up(attempts, blocks).select(
        *_ID,
        *_side("attempt", sf.struct("outcome", "partition", "offset", "settled_ns", "sent_ns")),
    )
    stored = _looked_up(log.where("intact"), blocks).select(
        *_ID, *_side("copy", place, missed=has("missed"))
    )
    sides = attempted.unionByName(stored).unionByName(behind.select(*_ID, *_side("behind", place)))
    united = (
        sf.max("attempt").alias("attempt"),
        sf.array_sort(sf.collect_list("copy")).alias("copies"),
        sf.collect_list("behind").alias("behind"),
        sf.coalesce(sf.bool_or("missed"), sf.lit(False)).alias("missed"),
    )
    kinds = sf.concat(_absent_or_refused(), _missed(), _of_its_copies(), _late())
    return (
        sides.groupBy(*_ID)
        .agg(*united)
        .select(*_ID, sf.inline(kinds))
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
    nameless = log.where("NOT intact OR producer IS NULL OR seq IS NULL")
    return nameless.select(
        "trial_no",
        *_nulls("int", "producer"),
        *_nulls("bigint", "seq"),
        kind.alias("kind"),
        "partition",
        "offset",
        *_no_times(),
    )


def found_again(redelivered: DataFrame) -> DataFrame:
    """Return reads that repeat others.

    Args:
        redelivered: of `spark_jobs.measures.reads.redelivered`.

    Returns:
        What `found` returns; at_ns is when it was received again.
    """
    kind, at = sf.lit(Anomaly.REDELIVERED.value).alias("kind"), sf.col("received_ns").alias("at_ns")
    return redelivered.select(
        *_ID, kind, "partition", "offset", at, *_nulls("bigint", "sent_ns", "first_offset")
    )


def _no_times() -> list[Column]:
    return _nulls("bigint", "at_ns", "sent_ns", "first_offset")


def _nulls(kind: str, *names: str) -> list[Column]:
    return [sf.lit(None).cast(kind).alias(name) for name in names]


def _looked_up(rows: DataFrame, blocks: DataFrame) -> DataFrame:
    return with_block(rows).join(blocks, list(BLOCK)).where(has("wanted"))


def _side(name: str, said: Column, missed: Column | None = None) -> list[Column]:
    """Return what one side says, and null for the others."""
    told = {name: said} if missed is None else {name: said, "missed": missed}
    return [told.get(side, sf.lit(None)).cast(kind).alias(side) for side, kind in _SIDES.items()]


def _absent_or_refused() -> Column:
    """What is wrong with it whatever copies it has beyond the first; kind null: nothing."""
    outcome, there = sf.col("attempt.outcome"), sf.size("copies") > 0
    absent = sf.when((outcome == ACKED) & ~there, Anomaly.LOST.value).when(
        (outcome == UNKNOWN) & ~there, Anomaly.UNKNOWN_ABSENT.value
    )
    place = {
        name: sf.coalesce(_first()[name], sf.col(f"attempt.{name}"))
        for name in ("partition", "offset")
    }
    unwanted = absent.when((outcome == REJECTED) & there, Anomaly.REJECTED_PRESENT.value).when(
        (outcome == ABORTED) & there, Anomaly.ABORTED_VISIBLE.value
    )
    return sf.array(_told(unwanted, place["partition"], place["offset"]))


def _missed() -> Column:
    """Nobody received it; it is told of its first copy."""
    return sf.array(
        _told(
            sf.when(sf.col("missed"), Anomaly.MISSED.value),
            _first()["partition"],
            _first()["offset"],
        )
    )


def _of_its_copies() -> Column:
    """Every copy beyond the first of a record that was attempted, and every copy of one that was not."""
    further = sf.slice("copies", 2, sf.greatest(sf.size("copies") - 1, sf.lit(0)))
    doubled = sf.transform(
        further,
        lambda copy: _told(
            sf.lit(Anomaly.DUPLICATED.value), copy["partition"], copy["offset"], _beside(copy)
        ),
    )
    strange = sf.transform(
        "copies",
        lambda copy: _told(sf.lit(Anomaly.PHANTOM.value), copy["partition"], copy["offset"]),
    )
    return sf.when(sf.col("attempt").isNull(), strange).otherwise(doubled)


def _late() -> Column:
    return sf.transform(
        "behind",
        lambda place: _told(sf.lit(Anomaly.REORDERED.value), place["partition"], place["offset"]),
    )


def _first() -> Column:
    return sf.get("copies", sf.lit(0))


def _beside(copy: Column) -> Column:
    """Where the first copy is, if that is in the same partition."""
    return sf.when(_first()["partition"] == copy["partition"], _first()["offset"])


def _told(
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
    return sf.struct(*(column.alias(name) for column, name in zip(columns, _TOLD, strict=True)))


def reaches(log: DataFrame) -> DataFrame:
    """Find which part of each producer's schedule every leader epoch appended to a partition.

    Args:
        log: trial_no, partition, producer, leader_epoch, seq, intact.

    Returns:
        The columns of `spark_jobs.causes.explanations.REACHES`, with trial_no for trial_id.
    """
    key = ("trial_no", "partition", "producer", "leader_epoch")
    ours = log.where("intact AND producer IS NOT NULL")
    return (
        ours.groupBy(*key)
        .agg(sf.min("seq").alias("first_seq"), sf.max("seq").alias("last_seq"))
        .select(*key, "first_seq", "last_seq")
    )
