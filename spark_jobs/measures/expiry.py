"""Logs whose first records had expired at their end: what may be said of a record that was acknowledged there.

The log of such a trial holds what the reader along was given of the part that is gone, so that a record which it was given counts as any other. Of one that
nobody was given it is not known whether it was there: it is no loss for certain.
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
    """Return where partitions began at the end, of the trials in which any record had expired."""
    return {
        ledger.record.trial_id: ledger.record.begin_offsets
        for ledger in ledgers
        if ledger.record.begin_offsets
    }


def with_expired_unknown(frames: Frames, ledgers: Sequence[Ledger]) -> Frames:
    """Return the ledgers with nothing claimed of an acknowledged record whose place had expired and that nobody was given.

    Where another record was seen at its place, it was not there, and stays lost. Where nothing had expired in any trial, Spark computes nothing of it.

    Args:
        frames: as a `read_committed` application has them; of `spark_jobs.measures.transactions.read_committed_view`.
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
    claim = sf.when(sf.col("unseen"), sf.lit(UNKNOWN)).otherwise(sf.col("outcome"))
    return replace(
        frames,
        attempts=frames.attempts.join(unseen, list(_ID), "left")
        .withColumn("outcome", claim)
        .drop("unseen"),
    )


def _unseen(attempts: DataFrame, log: DataFrame, begins: DataFrame) -> DataFrame:
    """Return the ids of acknowledged records of which neither they nor their place was seen, and whose place had expired."""
    gone = (
        attempts.where(sf.col("outcome") == ACKED)
        .join(sf.broadcast(begins), ["trial_no", "partition"])
        .where("offset < begin_offset")
    )
    seen = log.where("intact").select(*_ID).where("producer IS NOT NULL")
    return (
        gone.join(seen, list(_ID), "left_anti")
        .join(log.select(*_PLACE), list(_PLACE), "left_anti")
        .select(*_ID)
    )
