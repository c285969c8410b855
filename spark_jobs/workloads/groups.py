"""What consumer groups made of the log: what each committed past and never processed, and what it processed more than once.

A record counts as processed when a member wrote it down. The members are a trial's consumers from 1 on, where it had a group; consumer 0 is the reader
along, and no member.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_jobs.measures.blocks import BLOCK, bits, but, none, read_again, size, with_block
from spark_jobs.measures.reads import READS, repeated_reads

_BLOCK: Final = (*BLOCK, "group")
"""The key of a block, once for each group."""
_PLACE: Final = ("trial_no", "group", "partition", "offset", "producer", "seq")
"""A record at its place, whichever member of a group has it."""
_COMMITTED: Final = pa.schema(
    [pa.field(name, pa.int32()) for name in ("trial_no", "group", "partition")]
    + [pa.field(name, pa.int64()) for name in ("committed_offset", "begin_offset")]
)
_MEMBERS: Final = pa.schema(
    [pa.field(name, pa.int32()) for name in ("trial_no", "consumer", "group")]
)
_PARTS: Final = ("shown", "passed", "expired", "read")
_ONLY: Final = 1
"""The number of a trial's group where there was one, and nobody told its number."""


@dataclass(frozen=True)
class GroupOffsets:
    """A group, as its trial told of it at its end."""

    number: int
    consumers: tuple[int, ...]
    """Its members; empty: all that are not the reader along."""
    committed: Mapping[int, int]
    """How far it had committed each partition."""
    begins: Mapping[int, int]
    """Where each partition's log began at the end; what is not named began at 0."""


Groups = Mapping[int, Sequence[GroupOffsets]]
"""Of each trial that had groups, by its number."""


def groups_of(
    events: pa.Table,
    trial_ids: Sequence[str],
    begins: Mapping[str, Mapping[int, int]] | None = None,
) -> Groups:
    """Return how the groups ended; a trial without a group is not in it.

    Args:
        events: trial_id, kind, detail; that of `group` is a JSON object with `committed`, and where there were several with `group` and `consumers`.
        trial_ids: the trials in the order of their numbers.
        begins: of trials whose logs did not begin at 0 any more at their end: where they did, by partition.
    """
    told: dict[str, list[GroupOffsets]] = {}
    for row in events.filter(pc.field("kind") == "group").to_pylist():
        this = json.loads(row["detail"])
        committed = {int(of): offset for of, offset in this["committed"].items()}
        group = GroupOffsets(
            this.get("group", _ONLY),
            tuple(this.get("consumers", ())),
            committed,
            (begins or {}).get(row["trial_id"], {}),
        )
        told.setdefault(row["trial_id"], []).append(group)
    return {number: told[trial_id] for number, trial_id in enumerate(trial_ids) if trial_id in told}


def along(reads: DataFrame, groups: Groups) -> DataFrame:
    """Return what the reader along read; of a trial without a group, what anybody read."""
    return reads.where(~_by_members(groups)) if groups else reads


def processed(reads: DataFrame, groups: Groups) -> DataFrame:
    """Return what members processed, each with its `group`; where no trial had a group, Spark computes nothing of it."""
    if not groups:
        return reads.where("false").withColumn("group", sf.lit(_ONLY))
    named = reads.where(_by_members(groups)).join(
        sf.broadcast(_members(reads, groups)), ["trial_no", "consumer"], "left"
    )
    return named.withColumn("group", sf.coalesce("group", sf.lit(_ONLY)))


def group_counts(of_groups: DataFrame, log: DataFrame, groups: Groups) -> DataFrame:
    """Count what each group made of the log.

    Args:
        of_groups: of `processed`: trial_no, group, consumer, partition, offset, producer, seq.
        log: trial_no, partition, offset, producer, seq, intact, visible.
        groups: of `groups_of`.

    Returns:
        trial_no, group; reads, records processed, each as often as it was; processed_records, distinct ids; shown_records, distinct ids in the log;
        missed_records, in the log below what the group committed, under an id that no member processed; expired_records, those of them that the log
        did not hold any more at the end. No row for a group of which neither tells anything.
    """
    there = log.where("intact AND visible AND producer IS NOT NULL").join(
        sf.broadcast(_committed(log, groups)), ["trial_no", "partition"]
    )
    passed = sf.when(sf.col("offset") < sf.col("committed_offset"), sf.col("bit"))
    expired = sf.when(
        (sf.col("offset") < sf.col("committed_offset"))
        & (sf.col("offset") < sf.col("begin_offset")),
        sf.col("bit"),
    )
    stored = with_block(there).select(
        *_BLOCK, *_side(shown=sf.col("bit"), passed=passed, expired=expired)
    )
    united = stored.unionByName(_read_blocks(of_groups)).groupBy(*_BLOCK)
    blocks = united.agg(
        *(bits(name).alias(name) for name in _PARTS), sf.sum("reads").alias("reads")
    )
    counts = {"shown_records": size(sf.col("shown")), "processed_records": size(sf.col("read"))}
    counts |= {
        "missed_records": size(but("passed", "read")),
        "expired_records": size(but("expired", "read")),
    }
    named = {
        name: sf.when(sf.col("block").isNotNull(), count).otherwise(none())
        for name, count in counts.items()
    }
    return blocks.groupBy("trial_no", "group").agg(
        sf.sum("reads").alias("reads"),
        *(sf.sum(count).alias(name) for name, count in named.items()),
    )


def processed_again(of_groups: DataFrame) -> DataFrame:
    """Count what any member of a group processed at a place where a member, itself or another, had processed the record before; the earliest is none.

    Args:
        of_groups: of `processed`.

    Returns:
        trial_no, group, redelivered_reads; no row for a group without any.
    """
    blocks = (
        _read_blocks(of_groups)
        .groupBy(*_BLOCK)
        .agg(bits("read").alias("read"), sf.sum("reads").alias("reads"))
    )
    repeated = repeated_reads(
        of_groups, blocks.where(read_again()).select(*BLOCK).distinct(), ("group",)
    )
    again = repeated.select(
        *READS,
        "group",
        sf.row_number().over(Window.partitionBy(*_PLACE).orderBy("received_ns")).alias("time"),
    ).where("time > 1")
    return again.groupBy("trial_no", "group").agg(sf.count("*").alias("redelivered_reads"))


def processing_gaps(of_groups: DataFrame, marks: DataFrame) -> DataFrame:
    """Return for how long a group processed nothing of a partition, at the longest, while the load lasted.

    Args:
        of_groups: of `processed`.
        marks: of `spark_jobs.io.frames.marks`.

    Returns:
        trial_no, group, partition, processing_gap_ns; no row for a partition of which the group processed nothing.
    """
    timed = of_groups.join(
        sf.broadcast(marks.select("trial_no", "load_begin_ns", "load_end_ns")), "trial_no"
    )
    at = sf.least(sf.greatest("received_ns", "load_begin_ns"), "load_end_ns")
    moments = timed.select(
        "trial_no", "group", "partition", "load_begin_ns", "load_end_ns", at.alias("at_ns")
    )
    before = sf.lag("at_ns").over(
        Window.partitionBy("trial_no", "group", "partition").orderBy("at_ns")
    )
    waits = moments.withColumn("waited_ns", sf.col("at_ns") - sf.coalesce(before, "load_begin_ns"))
    to_the_end = sf.max("load_end_ns") - sf.max("at_ns")
    return waits.groupBy("trial_no", "group", "partition").agg(
        sf.greatest(sf.max("waited_ns"), to_the_end).alias("processing_gap_ns")
    )


def of_trial(
    number: int,
    groups: Groups,
    counted: Sequence[Mapping[str, Any]],
    again: Sequence[Mapping[str, Any]],
) -> dict[str, int | None]:
    """Return a trial's columns, over all its groups; null where it had none."""
    if number not in groups:
        return {"group_missed_records": None, "group_redelivered_reads": None}
    return {
        "group_missed_records": sum(row["missed_records"] for row in counted),
        "group_redelivered_reads": sum(row["redelivered_reads"] for row in again),
    }


def _by_members(groups: Groups) -> Column:
    return sf.col("trial_no").isin(*groups) & (sf.col("consumer") > 0)


def _read_blocks(of_groups: DataFrame) -> DataFrame:
    return with_block(of_groups).select(
        *_BLOCK, *_side(read=sf.col("bit"), reads=sf.lit(1).cast("long"))
    )


def _side(**said: Column) -> Iterator[Column]:
    return (said.get(name, none()).alias(name) for name in (*_PARTS, "reads"))


def _committed(log: DataFrame, groups: Groups) -> DataFrame:
    rows = [
        {
            "trial_no": number,
            "group": group.number,
            "partition": of,
            "committed_offset": offset,
            "begin_offset": group.begins.get(of, 0),
        }
        for number, told in groups.items()
        for group in told
        for of, offset in group.committed.items()
    ]
    return log.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=_COMMITTED))


def _members(reads: DataFrame, groups: Groups) -> DataFrame:
    rows = [
        {"trial_no": number, "consumer": one, "group": group.number}
        for number, told in groups.items()
        for group in told
        for one in group.consumers
    ]
    return reads.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=_MEMBERS))
