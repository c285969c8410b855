"""Record fields and replays: whether records are read as they were sent, and replays are equal.

The producer's own client reports what was sent, the replays what was read; both as a digest of each
field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.schema import ACKED
from experiments.ledger.workload_tables import Field
from spark_jobs.io.frames import Frames, TablePlan
from spark_jobs.io.ledgers import Ledger
from spark_jobs.measures.blocks import zero

_ID: Final = ("trial_no", "producer", "seq")
_PLACE: Final = ("trial_no", "partition", "offset")
_DIGESTS: Final = {
    Field.KEY: "key_digest",
    Field.VALUE: "value_digest",
    Field.HEADERS: "headers_digest",
    Field.TIMESTAMP: "timestamp_ms",
}
_FIRST: Final = 1
"""The number of the replay with which the others are compared."""
_BEGINS: Final = pa.schema(
    [pa.field(name, pa.int32()) for name in ("trial_no", "replay", "partition")]
    + [pa.field(name, pa.int64()) for name in ("begin_offset", "at_ms")]
)


@dataclass(frozen=True)
class FieldPlans:
    """How to compute the two tables; `None` if no trial has replays."""

    fields: TablePlan | None = None
    replays: TablePlan | None = None


def plan_fields(frames: Frames, ledgers: Sequence[Ledger]) -> FieldPlans:
    """Return how to compute the tables `fields` and `replays`.

    Args:
        frames: the ledgers' rows, with trial_no.
        ledgers: the trials in the order of their numbers.
    """
    sent, read = frames.sent, frames.replays
    if sent is None or read is None:
        return FieldPlans()
    first = read.where(sf.col("replay") == _FIRST)
    return FieldPlans(
        fields=lambda: field_differences(sent, first).unionByName(
            offset_differences(frames.attempts, first)
        ),
        replays=lambda: replay_differences(read, _begins(read, ledgers)),
    )


def field_differences(sent: DataFrame, read: DataFrame) -> DataFrame:
    """Compare the fields of each record that was read with the fields that were sent.

    Each copy of a record is compared.

    Args:
        sent: trial_no, producer, seq, and a column for each digest.
        read: the same of the first replay; producer is null for foreign records.

    Returns:
        trial_no, field, compared_records, differing_records.
    """
    digests = list(_DIGESTS.values())
    as_sent = sent.select(*_ID, *(sf.col(name).alias(f"sent_{name}") for name in digests))
    both = read.select(*_ID, *digests).join(as_sent, list(_ID))
    compared = sf.lit(1).cast("long")
    comparisons = (
        _comparison(field, compared, (sf.col(name) != sf.col(f"sent_{name}")).cast("long"))
        for field, name in _DIGESTS.items()
    )
    return _sum(both.select("trial_no", sf.inline(sf.array(*comparisons))))


def offset_differences(attempts: DataFrame, read: DataFrame) -> DataFrame:
    """Compare the offset at which each record was acknowledged with the offsets where it was read.

    A record differs if none of its copies is there. A record that was never read is not compared.

    Args:
        attempts: trial_no, producer, seq, outcome, partition, offset (null: none was reported).
        read: trial_no, producer, seq, partition, offset.

    Returns:
        The columns of `field_differences`.
    """
    acked = attempts.where((sf.col("outcome") == ACKED) & sf.col("offset").isNotNull()).select(
        *_ID,
        sf.col("partition").alias("acked_partition"),
        sf.col("offset").alias("acked_offset"),
    )
    there = (sf.col("partition") == sf.col("acked_partition")) & (
        sf.col("offset") == sf.col("acked_offset")
    )
    found = read.join(acked, list(_ID)).groupBy(*_ID).agg(sf.bool_or(there).alias("there"))
    return _sum(
        found.select(
            "trial_no",
            sf.inline(
                sf.array(
                    _comparison(
                        Field.OFFSET,
                        sf.lit(1).cast("long"),
                        (~sf.col("there")).cast("long"),
                    )
                )
            ),
        )
    )


def replay_differences(read: DataFrame, begins: DataFrame) -> DataFrame:
    """Compare each replay with the first one, offset by offset.

    A replay by offsets should have all records from its begin on; a replay by timestamp, all
    records with this timestamp or a later one.

    Args:
        read: trial_no, replay, partition, offset and the digests.
        begins: trial_no, replay, partition, begin_offset (null: a replay by timestamp, and the
            partition has no record as late), at_ms (null: a replay by offsets).

    Returns:
        trial_no, replay, records, differing_records, absent_records.
    """
    parts = sf.struct("producer", "seq", *_DIGESTS.values())
    first = read.where(sf.col("replay") == _FIRST).select(
        *_PLACE, "timestamp_ms", parts.alias("at_first")
    )
    due = (sf.col("timestamp_ms") >= sf.col("at_ms")) | (
        sf.col("at_ms").isNull() & (sf.col("offset") >= sf.col("begin_offset"))
    )
    expected = first.join(sf.broadcast(begins), ["trial_no", "partition"]).select(
        *_PLACE, "replay", "at_first", sf.coalesce(due, sf.lit(False)).alias("due")
    )
    given = read.select(*_PLACE, "replay", parts.alias("given"))
    both = expected.join(given, [*_PLACE, "replay"], "full")
    counts = {
        "records": sf.col("given").isNotNull(),
        "differing_records": sf.col("given").isNotNull()
        & ~sf.col("given").eqNullSafe(sf.col("at_first")),
        "absent_records": sf.col("due") & sf.col("given").isNull(),
    }
    return both.groupBy("trial_no", "replay").agg(
        *(sf.coalesce(sf.count_if(count), zero()).alias(name) for name, count in counts.items())
    )


def _comparison(field: Field, compared: Column, differing: Column) -> Column:
    return sf.struct(
        sf.lit(field.value).alias("field"),
        compared.alias("compared_records"),
        differing.alias("differing_records"),
    )


def _sum(rows: DataFrame) -> DataFrame:
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
