"""Consumer groups: the records that a group committed past without processing, and redeliveries.

A record counts as processed when a member wrote it to its ledger. A trial's consumers from 1 on are
the members, if it had a group; consumer 0 is the concurrent consumer and not a member.
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

from spark_jobs.measures.blocks import (
    BLOCK,
    bitmap_union,
    cardinality,
    difference,
    has_repeated_reads,
    with_block,
    zero,
)
from spark_jobs.measures.reads import READS, suspect_reads

_BLOCK: Final = (*BLOCK, "group")
"""The key of a block, once for each group."""
_PLACE: Final = ("trial_no", "group", "partition", "offset", "producer", "seq")
"""A record at its place in the log, whichever member of a group received it."""
_COMMITTED: Final = pa.schema(
    [pa.field(name, pa.int32()) for name in ("trial_no", "group", "partition")]
    + [pa.field(name, pa.int64()) for name in ("committed_offset", "begin_offset")]
)
_MEMBERS: Final = pa.schema(
    [pa.field(name, pa.int32()) for name in ("trial_no", "consumer", "group")]
)
_BITMAPS: Final = ("shown", "passed", "expired", "read")
_ONLY_GROUP: Final = 1
"""The number of a trial's group if the trial had one and its event has no number."""


@dataclass(frozen=True)
class GroupOffsets:
    """A consumer group's members and offsets at the end of its trial."""

    number: int
    consumers: tuple[int, ...]
    """Its members; empty: every consumer except the concurrent consumer."""
    committed: Mapping[int, int]
    """The committed offset by partition."""
    begins: Mapping[int, int]
    """The first offset of the log by partition, at the end; 0 for partitions without an entry."""


Groups = Mapping[int, Sequence[GroupOffsets]]
"""The groups of each trial that had any, by the trial's number."""


def groups_by_trial(
    events: pa.Table,
    trial_ids: Sequence[str],
    begins: Mapping[str, Mapping[int, int]] | None = None,
) -> Groups:
    """Return how the groups ended; a trial without a group has no entry.

    Args:
        events: trial_id, kind, detail; the detail of `group` is a JSON object with `committed` and,
            if there were several groups, with `group` and `consumers`.
        trial_ids: the trials in the order of their numbers.
        begins: the first offset of each log at the end, by trial and partition, for trials whose
            logs did not begin at 0 then.
    """
    groups: dict[str, list[GroupOffsets]] = {}
    for row in events.filter(pc.field("kind") == "group").to_pylist():
        detail = json.loads(row["detail"])
        committed = {int(partition): offset for partition, offset in detail["committed"].items()}
        group = GroupOffsets(
            detail.get("group", _ONLY_GROUP),
            tuple(detail.get("consumers", ())),
            committed,
            (begins or {}).get(row["trial_id"], {}),
        )
        groups.setdefault(row["trial_id"], []).append(group)
    return {
        number: groups[trial_id] for number, trial_id in enumerate(trial_ids) if trial_id in groups
    }


def concurrent_reads(reads: DataFrame, groups: Groups) -> DataFrame:
    """Return the concurrent consumer's reads; of a trial without a group, all reads."""
    return reads.where(~_by_members(groups)) if groups else reads


def member_reads(reads: DataFrame, groups: Groups) -> DataFrame:
    """Return what members processed, each with its `group`; if no trial had a group, no rows."""
    if not groups:
        return reads.where("false").withColumn("group", sf.lit(_ONLY_GROUP))
    with_group = reads.where(_by_members(groups)).join(
        sf.broadcast(_members(reads, groups)), ["trial_no", "consumer"], "left"
    )
    return with_group.withColumn("group", sf.coalesce("group", sf.lit(_ONLY_GROUP)))


def group_counts(processed: DataFrame, log: DataFrame, groups: Groups) -> DataFrame:
    """Count what each group processed and missed.

    Args:
        processed: of `member_reads`: trial_no, group, consumer, partition, offset, producer, seq.
        log: trial_no, partition, offset, producer, seq, intact, visible.
        groups: of `groups_by_trial`.

    Returns:
        trial_no, group; reads, the number of times that records were processed; processed_records,
        distinct ids; shown_records, distinct ids in the log; missed_records, ids in the log below
        the group's committed offset that no member processed; expired_records, those of them that
        retention had deleted from the log by the end. A group without a row in `processed` and in
        `log` has no row.
    """
    visible = log.where("intact AND visible AND producer IS NOT NULL").join(
        sf.broadcast(_committed_offsets(log, groups)), ["trial_no", "partition"]
    )
    passed = sf.when(sf.col("offset") < sf.col("committed_offset"), sf.col("bit"))
    expired = sf.when(
        (sf.col("offset") < sf.col("committed_offset"))
        & (sf.col("offset") < sf.col("begin_offset")),
        sf.col("bit"),
    )
    stored = with_block(visible).select(
        *_BLOCK, *_side(shown=sf.col("bit"), passed=passed, expired=expired)
    )
    united = stored.unionByName(_read_blocks(processed)).groupBy(*_BLOCK)
    blocks = united.agg(
        *(bitmap_union(name).alias(name) for name in _BITMAPS), sf.sum("reads").alias("reads")
    )
    counts = {
        "shown_records": cardinality(sf.col("shown")),
        "processed_records": cardinality(sf.col("read")),
    }
    counts |= {
        "missed_records": cardinality(difference("passed", "read")),
        "expired_records": cardinality(difference("expired", "read")),
    }
    with_id = {
        name: sf.when(sf.col("block").isNotNull(), count).otherwise(zero())
        for name, count in counts.items()
    }
    return blocks.groupBy("trial_no", "group").agg(
        sf.sum("reads").alias("reads"),
        *(sf.sum(count).alias(name) for name, count in with_id.items()),
    )


def group_redeliveries(processed: DataFrame) -> DataFrame:
    """Count the reads of a record at an offset where a member of the group had processed it before.

    The earlier read may be the same member's or another's; the earliest read does not count.

    Args:
        processed: of `member_reads`.

    Returns:
        trial_no, group, redelivered_reads; no row for a group without any.
    """
    blocks = (
        _read_blocks(processed)
        .groupBy(*_BLOCK)
        .agg(bitmap_union("read").alias("read"), sf.sum("reads").alias("reads"))
    )
    repeated = suspect_reads(
        processed,
        blocks.where(has_repeated_reads()).select(*BLOCK).distinct(),
        ("group",),
    )
    again = repeated.select(
        *READS,
        "group",
        sf.row_number().over(Window.partitionBy(*_PLACE).orderBy("received_ns")).alias("time"),
    ).where("time > 1")
    return again.groupBy("trial_no", "group").agg(sf.count("*").alias("redelivered_reads"))


def processing_gaps(processed: DataFrame, trial_info: DataFrame) -> DataFrame:
    """Return the longest time during the load in which a group processed nothing of a partition.

    Args:
        processed: of `member_reads`.
        trial_info: of `spark_jobs.io.frames.trial_info`.

    Returns:
        trial_no, group, partition, processing_gap_ns; no row for a partition of which the group
        processed nothing.
    """
    timed = processed.join(
        sf.broadcast(trial_info.select("trial_no", "load_begin_ns", "load_end_ns")),
        "trial_no",
    )
    at = sf.least(sf.greatest("received_ns", "load_begin_ns"), "load_end_ns")
    times = timed.select(
        "trial_no",
        "group",
        "partition",
        "load_begin_ns",
        "load_end_ns",
        at.alias("at_ns"),
    )
    before = sf.lag("at_ns").over(
        Window.partitionBy("trial_no", "group", "partition").orderBy("at_ns")
    )
    waits = times.withColumn("waited_ns", sf.col("at_ns") - sf.coalesce(before, "load_begin_ns"))
    to_the_end = sf.max("load_end_ns") - sf.max("at_ns")
    return waits.groupBy("trial_no", "group", "partition").agg(
        sf.greatest(sf.max("waited_ns"), to_the_end).alias("processing_gap_ns")
    )


def trial_columns(
    number: int,
    groups: Groups,
    counted: Sequence[Mapping[str, Any]],
    redelivered: Sequence[Mapping[str, Any]],
) -> dict[str, int | None]:
    """Return a trial's columns of `TRIALS`, summed over its groups; null if it had none.

    Args:
        number: of the trial.
        groups: of `groups_by_trial`.
        counted: the trial's rows of `group_counts`.
        redelivered: the trial's rows of `group_redeliveries`.
    """
    if number not in groups:
        return {"group_missed_records": None, "group_redelivered_reads": None}
    return {
        "group_missed_records": sum(row["missed_records"] for row in counted),
        "group_redelivered_reads": sum(row["redelivered_reads"] for row in redelivered),
    }


def _by_members(groups: Groups) -> Column:
    return sf.col("trial_no").isin(*groups) & (sf.col("consumer") > 0)


def _read_blocks(processed: DataFrame) -> DataFrame:
    return with_block(processed).select(
        *_BLOCK, *_side(read=sf.col("bit"), reads=sf.lit(1).cast("long"))
    )


def _side(**columns: Column) -> Iterator[Column]:
    """Yield one side's columns of the union, and zeros for the others' columns."""
    return (columns.get(name, zero()).alias(name) for name in (*_BITMAPS, "reads"))


def _committed_offsets(log: DataFrame, groups: Groups) -> DataFrame:
    rows = [
        {
            "trial_no": number,
            "group": group.number,
            "partition": partition,
            "committed_offset": offset,
            "begin_offset": group.begins.get(partition, 0),
        }
        for number, trial_groups in groups.items()
        for group in trial_groups
        for partition, offset in group.committed.items()
    ]
    return log.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=_COMMITTED))


def _members(reads: DataFrame, groups: Groups) -> DataFrame:
    rows = [
        {"trial_no": number, "consumer": consumer, "group": group.number}
        for number, trial_groups in groups.items()
        for group in trial_groups
        for consumer in group.consumers
    ]
    return reads.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=_MEMBERS))
