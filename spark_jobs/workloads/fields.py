"""Whether records are read as they were sent, field by field, and whether replays are alike.

What was sent is known from the producer's own client, what was read from the replays; both as digests of each field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.schema import ACKED
from experiments.ledger.workload_tables import FIELDS, REPLAY_DIFFERENCES, Field
from spark_jobs.io.frames import Frames
from spark_jobs.io.ledgers import Ledger
from spark_jobs.measures.blocks import none

NOTHING: Final = {"fields": FIELDS.empty_table(), "replays": REPLAY_DIFFERENCES.empty_table()}
"""What a sweep has of which nobody asks it."""
_ID: Final = ("trial_no", "producer", "seq")
_PLACE: Final = ("trial_no", "partition", "offset")
_DIGESTS: Final = {
    Field.KEY: "key_digest",
    Field.VALUE: "value_digest",
    Field.HEADERS: "headers_digest",
    Field.TIMESTAMP: "timestamp_ms",
}
_FIRST: Final = 1
_BEGINS: Final = pa.schema(
    [pa.field(name, pa.int32()) for name in ("trial_no", "replay", "partition")]
    + [pa.field(name, pa.int64()) for name in ("begin_offset", "at_ms")]
)


def tables(frames: Frames, ledgers: Sequence[Ledger]) -> Mapping[str, Callable[[], DataFrame]]:
    """Return how each table is made, with `trial_no` in the place of `trial_id`; where no trial has replays, Spark is asked nothing.

    Args:
        frames: the ledgers' rows, with trial_no.
        ledgers: the trials in the order of their numbers.
    """
    sent, read = frames.sent, frames.replays
    if sent is None or read is None:
        return {}
    first = read.where(sf.col("replay") == _FIRST)
    return {
        "fields": lambda: fields(sent, first).unionByName(offsets(frames.attempts, first)),
        "replays": lambda: replays(read, _begins(read, ledgers)),
    }


def fields(sent: DataFrame, read: DataFrame) -> DataFrame:
    """Compare each record that was read, and each further copy of it, with what it was made of as it was sent.

    Args:
        sent: trial_no, producer, seq, and a column for each digest.
        read: the same of the first replay; producer is null where it carries no mark of the trial.

    Returns:
        trial_no, field, compared_records, differing_records.
    """
    digests = list(_DIGESTS.values())
    as_sent = sent.select(*_ID, *(sf.col(name).alias(f"sent_{name}") for name in digests))
    both = read.select(*_ID, *digests).join(as_sent, list(_ID))
    compared = sf.lit(1).cast("long")
    told = (
        _told(field, compared, (sf.col(name) != sf.col(f"sent_{name}")).cast("long"))
        for field, name in _DIGESTS.items()
    )
    return _summed(both.select("trial_no", sf.inline(sf.array(*told))))


def offsets(attempts: DataFrame, read: DataFrame) -> DataFrame:
    """Look for each acknowledged record at the place that its acknowledgement told; of a record that was not read at all, nothing is said.

    Args:
        attempts: trial_no, producer, seq, outcome, partition, offset (null: none was told).
        read: trial_no, producer, seq, partition, offset.

    Returns:
        What `fields` returns.
    """
    told = attempts.where((sf.col("outcome") == ACKED) & sf.col("offset").isNotNull())
    told = told.select(
        *_ID, sf.col("partition").alias("told_partition"), sf.col("offset").alias("told_offset")
    )
    there = (sf.col("partition") == sf.col("told_partition")) & (
        sf.col("offset") == sf.col("told_offset")
    )
    found = read.join(told, list(_ID)).groupBy(*_ID).agg(sf.bool_or(there).alias("there"))
    return _summed(
        found.select(
            "trial_no",
            sf.inline(
                sf.array(
                    _told(Field.OFFSET, sf.lit(1).cast("long"), (~sf.col("there")).cast("long"))
                )
            ),
        )
    )


def replays(read: DataFrame, begins: DataFrame) -> DataFrame:
    """Compare each replay with the first one, place by place.

    Args:
        read: trial_no, replay, partition, offset and the digests.
        begins: trial_no, replay, partition, begin_offset (null: it was asked by a timestamp, and the partition has none so late), at_ms (null: by offsets).

    Returns:
        trial_no, replay, records, differing_records, absent_records. By offsets, a replay is to have all from its begin on; by a timestamp, all that carries
        this one or a later one.
    """
    parts = sf.struct("producer", "seq", *_DIGESTS.values())
    first = read.where(sf.col("replay") == _FIRST).select(
        *_PLACE, "timestamp_ms", parts.alias("at_first")
    )
    due = (sf.col("timestamp_ms") >= sf.col("at_ms")) | (
        sf.col("at_ms").isNull() & (sf.col("offset") >= sf.col("begin_offset"))
    )
    wanted = first.join(sf.broadcast(begins), ["trial_no", "partition"]).select(
        *_PLACE, "replay", "at_first", sf.coalesce(due, sf.lit(False)).alias("due")
    )
    given = read.select(*_PLACE, "replay", parts.alias("given"))
    both = wanted.join(given, [*_PLACE, "replay"], "full")
    counts = {
        "records": sf.col("given").isNotNull(),
        "differing_records": sf.col("given").isNotNull()
        & ~sf.col("given").eqNullSafe(sf.col("at_first")),
        "absent_records": sf.col("due") & sf.col("given").isNull(),
    }
    return both.groupBy("trial_no", "replay").agg(
        *(sf.coalesce(sf.count_if(count), none()).alias(name) for name, count in counts.items())
    )


def _told(field: Field, compared: Column, differing: Column) -> Column:
    return sf.struct(
        sf.lit(field.value).alias("field"),
        compared.alias("compared_records"),
        differing.alias("differing_records"),
    )


def _summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("trial_no", "field").agg(
        *(sf.sum(name).alias(name) for name in ("compared_records", "differing_records"))
    )


def _begins(read: DataFrame, ledgers: Sequence[Ledger]) -> DataFrame:
    rows = [
        {
            "trial_no": number,
            "replay": replay.number,
            "partition": partition,
            "begin_offset": replay.begin_offsets.get(partition),
            "at_ms": replay.at_ms,
        }
        for number, ledger in enumerate(ledgers)
        for replay in ledger.record.replays
        for partition in ledger.record.end_offsets
    ]
    return read.sparkSession.createDataFrame(pa.Table.from_pylist(rows, schema=_BEGINS))
