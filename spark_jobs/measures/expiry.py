"""Logs whose first records had expired before the final read.

The ledger's log contains the expired records that the concurrent consumer received, so these count
as any other. If no consumer received an acknowledged record before it expired, its fate is
unknown: it may have been stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.schema import ACKED, UNKNOWN
from spark_jobs.io.frames import Frames
from spark_jobs.io.ledgers import Ledger

_BEGINS: Final = pa.schema(
    [
        pa.field("trial_no", pa.int32()),
        pa.field("partition", pa.int32()),
        pa.field("begin_offset", pa.int64()),
    ]
)
_ID: Final = ("trial_no", "producer", "seq")
_PLACE: Final = ("trial_no", "partition", "offset")


def log_start_offsets(ledgers: Sequence[Ledger]) -> Mapping[str, Mapping[int, int]]:
    """Return each partition's first offset at the final read, of trials with expired records."""
    return {
        ledger.record.trial_id: ledger.record.begin_offsets
        for ledger in ledgers
        if ledger.record.begin_offsets
    }


def with_expired_unknown(frames: Frames, ledgers: Sequence[Ledger]) -> Frames:
    """Return the ledgers, with the outcome unknown for records that expired before any read.

    If another record was read at the same offset, the record was not stored there: it stays lost.
    If no trial has expired records, Spark computes nothing.

    Args:
        frames: as a `read_committed` application sees them; of
            `spark_jobs.measures.transactions.read_committed_view`.
        ledgers: the trials, in the order of their numbers.
    """
    rows = [
        {"trial_no": number, "partition": partition, "begin_offset": begin}
        for number, ledger in enumerate(ledgers)
        for partition, begin in ledger.record.begin_offsets.items()
    ]
    if not rows:
        return frames
    begins = frames.attempts.sparkSession.createDataFrame(
        pa.Table.from_pylist(rows, schema=_BEGINS)
    )
    unseen = _unseen(frames.attempts, frames.log, begins).withColumn("unseen", sf.lit(True))
    outcome = sf.when(sf.col("unseen"), sf.lit(UNKNOWN)).otherwise(sf.col("outcome"))
    return replace(
        frames,
        attempts=frames.attempts.join(unseen, list(_ID), "left")
        .withColumn("outcome", outcome)
        .drop("unseen"),
    )


def _unseen(attempts: DataFrame, log: DataFrame, begins: DataFrame) -> DataFrame:
    """Return the acknowledged records at expired offsets that no consumer read."""
    expired = (
        attempts.where(sf.col("outcome") == ACKED)
        .join(sf.broadcast(begins), ["trial_no", "partition"])
        .where("offset < begin_offset")
    )
    seen = log.where("intact").select(*_ID).where("producer IS NOT NULL")
    return (
        expired.join(seen, list(_ID), "left_anti")
        .join(log.select(*_PLACE), list(_PLACE), "left_anti")
        .select(*_ID)
    )
