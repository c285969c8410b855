"""Copiers: the records that they missed or copied repeatedly, and the copies that the output lost.

A copy carries the id of its original. The output is what Kafka stores at the end. That a copy is
stored, or its transaction committed, is what Kafka reported to the copier.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.io.frames import Frames, TablePlan
from spark_jobs.io.ledgers import Ledger
from spark_jobs.measures.blocks import zero

_RECORD: Final = ("trial_no", "producer", "seq")
_SIDES: Final = ("stored", "passed", "reported", "shown", "hidden")
_COUNTS: Final = {
    "copied_records": "CAST(shown > 0 AS LONG)",
    "missed_records": "CAST(passed > 0 AND shown = 0 AND reported = 0 AS LONG)",
    "output_lost_records": "CAST(reported > 0 AND shown = 0 AS LONG)",
    "repeated_copies": "greatest(shown - greatest(stored, 1L), 0L)",
    "hidden_copies": "hidden",
}
"""The counts of one record, by column of `COPIES`."""
_COMMITTED: Final = pa.schema(
    [
        *(pa.field(name, pa.int32()) for name in ("trial_no", "partition")),
        pa.field("committed_offset", pa.int64()),
    ]
)


def plan_copies(frames: Frames, ledgers: Sequence[Ledger]) -> TablePlan | None:
    """Return how to compute the table `copies`; `None` if no trial has an output.

    Args:
        frames: the ledgers' rows, with trial_no.
        ledgers: the trials in the order of their numbers.
    """
    output = frames.output
    return None if output is None else lambda: copies(frames, output, ledgers)


def copies(frames: Frames, output: DataFrame, ledgers: Sequence[Ledger]) -> DataFrame:
    """Count what became of each record on its way from the log to the output.

    Args:
        frames: the ledgers' rows, with trial_no: the entire log, and all consumers' reads.
        output: of the trials that have one.
        ledgers: the trials in the order of their numbers.

    Returns:
        trial_no and the columns of `COPIES`; one row per trial that has an output, unless nothing
        was ever written.
    """
    numbers = [
        number
        for number, ledger in enumerate(ledgers)
        if ledger.record.output_end_offsets is not None
    ]
    sides = (
        _log_side(frames, ledgers),
        _reported_side(frames.reads),
        _output_side(output),
    )
    united = (
        sides[0].unionByName(sides[1]).unionByName(sides[2]).where(sf.col("trial_no").isin(numbers))
    )
    records = united.groupBy(*_RECORD).agg(*(sf.sum(side).alias(side) for side in _SIDES))
    return records.groupBy("trial_no").agg(
        *(sf.sum(sf.expr(count)).alias(name) for name, count in _COUNTS.items())
    )


def trial_columns(row: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the group columns of `TRIALS` for a trial with copiers; nothing for any other trial.

    Records that a copier missed and copies that the output lost both count as missed, because the
    application sees neither.

    Args:
        row: the trial's row of `COPIES`; `None`: it has none.
    """
    if row is None:
        return {}
    return {
        "group_missed_records": row["missed_records"] + row["output_lost_records"],
        "group_redelivered_reads": row["repeated_copies"],
    }


def _log_side(frames: Frames, ledgers: Sequence[Ledger]) -> DataFrame:
    """Return the records visible to copiers, and which of them the group has committed past."""
    committed = frames.log.sparkSession.createDataFrame(
        _committed_offsets(frames.events, [ledger.record.trial_id for ledger in ledgers])
    )
    shown = frames.log.where("intact AND visible AND producer IS NOT NULL").join(
        sf.broadcast(committed), ["trial_no", "partition"], "left"
    )
    return shown.select(
        *_RECORD,
        *_side(
            stored=sf.lit(1),
            passed=sf.coalesce(sf.col("offset") < sf.col("committed_offset"), sf.lit(False)),
        ),
    )


def _reported_side(reads: DataFrame) -> DataFrame:
    """Return the records whose copy was reported to a copier as stored, or committed."""
    return reads.where("consumer > 0 AND producer IS NOT NULL").select(
        *_RECORD, *_side(reported=sf.lit(1))
    )


def _output_side(output: DataFrame) -> DataFrame:
    """Return the copies in the output that have an id of their trial."""
    with_id = output.where("intact AND producer IS NOT NULL")
    return with_id.select(*_RECORD, *_side(shown=sf.col("visible"), hidden=~sf.col("visible")))


def _side(**columns: Column) -> list[Column]:
    """Return one side's columns of the union, and zeros for the others' columns."""
    return [columns.get(name, zero()).cast("long").alias(name) for name in _SIDES]


def _committed_offsets(events: pa.Table, trial_ids: Sequence[str]) -> pa.Table:
    """Return each group's committed offsets at the end, as the group coordinator reported them."""
    numbers = {trial_id: number for number, trial_id in enumerate(trial_ids)}
    committed = [
        (numbers[row["trial_id"]], json.loads(row["detail"])["committed"])
        for row in events.filter(pc.field("kind") == "group").to_pylist()
    ]
    rows = [
        {"trial_no": number, "partition": int(partition), "committed_offset": offset}
        for number, offsets in committed
        for partition, offset in offsets.items()
    ]
    return pa.Table.from_pylist(rows, schema=_COMMITTED)
