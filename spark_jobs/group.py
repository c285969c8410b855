"""What a consumer group made of the log: what it committed past and never processed, and what it processed more than once.

A record counts as processed when a member wrote it down. The members are a trial's consumers from 1 on, where it had a group;
consumer 0 is the reader along, and no member.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_jobs.blocks import BLOCK, bits, but, none, read_again, size, with_block
from spark_jobs.reading import READS, repeated_reads

_PLACE: Final = ("trial_no", "partition", "offset", "producer", "seq")
"""A record at its place, whichever member has it."""
_COMMITTED: Final = pa.schema([pa.field("trial_no", pa.int32()), pa.field("partition", pa.int32()), pa.field("committed_offset", pa.int64())])

Groups = Mapping[int, Mapping[int, int]]
"""Of each trial that had a group, by its number: how far that had committed each partition at the end."""


def groups_of(events: pa.Table, trial_ids: Sequence[str]) -> Groups:
    """Return how far the groups had committed; a trial without a group is not in it.

    Args:
        events: trial_id, kind, detail; that of `group` is a JSON object with `committed`.
        trial_ids: the trials in the order of their numbers.
    """
    told = {row["trial_id"]: json.loads(row["detail"])["committed"] for row in events.filter(pc.field("kind") == "group").to_pylist()}
    return {number: {int(of): offset for of, offset in told[trial_id].items()} for number, trial_id in enumerate(trial_ids) if trial_id in told}


def along(reads: DataFrame, groups: Groups) -> DataFrame:
    """Return what the reader along read; of a trial without a group, what anybody read."""
    return reads.where(~_by_members(groups)) if groups else reads


def processed(reads: DataFrame, groups: Groups) -> DataFrame:
    """Return what members processed; where no trial had a group, Spark computes nothing of it."""
    return reads.where(_by_members(groups)) if groups else reads.where("false")


def group_counts(of_group: DataFrame, log: DataFrame, groups: Groups) -> DataFrame:
    """Count what a group made of the log.

    Args:
        of_group: of `processed`: trial_no, consumer, partition, offset, producer, seq.
        log: trial_no, partition, offset, producer, seq, intact, visible.
        groups: of `groups_of`.

    Returns:
        trial_no; group_reads, records processed, each as often as it was; group_missed_records, in the log below what the group committed, under an id
        that no member processed; no row for a trial of which neither tells anything.
    """
    passed = log.join(sf.broadcast(_committed(log, groups)), ["trial_no", "partition"]).where("intact AND visible AND producer IS NOT NULL")
    behind = with_block(passed.where("offset < committed_offset")).select(*BLOCK, sf.col("bit").alias("passed"), none().alias("read"), none().alias("reads"))
    united = behind.unionByName(_read_blocks(of_group)).groupBy(*BLOCK)
    blocks = united.agg(bits("passed").alias("passed"), bits("read").alias("read"), sf.sum("reads").alias("reads"))
    missed = sf.when(sf.col("block").isNotNull(), size(but("passed", "read"))).otherwise(none())
    return blocks.groupBy("trial_no").agg(sf.sum("reads").alias("group_reads"), sf.sum(missed).alias("group_missed_records"))


def processed_again(of_group: DataFrame) -> DataFrame:
    """Count what any member processed at a place where a member, itself or another, had processed the record before; the earliest is none.

    Args:
        of_group: of `processed`.

    Returns:
        trial_no, group_redelivered_reads; no row for a trial without any.
    """
    blocks = _read_blocks(of_group).groupBy(*BLOCK).agg(bits("read").alias("read"), sf.sum("reads").alias("reads"))
    repeated = repeated_reads(of_group, blocks.where(read_again()))
    again = repeated.select(*READS, sf.row_number().over(Window.partitionBy(*_PLACE).orderBy("received_ns")).alias("time")).where("time > 1")
    return again.groupBy("trial_no").agg(sf.count("*").alias("group_redelivered_reads"))


def of_trial(number: int, groups: Groups, row: Mapping[str, Any]) -> dict[str, int | None]:
    """Return a trial's columns; null where it had no group."""
    names = ("group_missed_records", "group_redelivered_reads")
    return {name: row.get(name, 0) if number in groups else None for name in names}


def _by_members(groups: Groups) -> Column:
    return sf.col("trial_no").isin(*groups) & (sf.col("consumer") > 0)


def _read_blocks(of_group: DataFrame) -> DataFrame:
    return with_block(of_group).select(*BLOCK, none().alias("passed"), sf.col("bit").alias("read"), sf.lit(1).cast("long").alias("reads"))


def _committed(log: DataFrame, groups: Groups) -> DataFrame:
    rows = [dict(zip(_COMMITTED.names, (number, *of), strict=True)) for number, partitions in groups.items() for of in partitions.items()]
    return log.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=_COMMITTED))
