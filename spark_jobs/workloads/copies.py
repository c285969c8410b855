"""What copiers made of the log: what they passed over, what they copied more than once, and what the output lost.

Records are told by their ids, which a copy shares with what it is a copy of. The output is what Kafka holds at the end; that a copy is stored, or its
transaction committed, is what a copier was told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.workload_tables import COPIES
from spark_jobs.io.frames import Frames
from spark_jobs.io.ledgers import Ledger
from spark_jobs.measures.blocks import none

NOTHING: Final = COPIES.empty_table()
"""What a sweep has in which nothing was copied."""
_RECORD: Final = ("trial_no", "producer", "seq")
_SIDES: Final = ("stored", "passed", "told", "shown", "hidden")
_COUNTS: Final = {
    "copied_records": "CAST(shown > 0 AS LONG)",
    "missed_records": "CAST(passed > 0 AND shown = 0 AND told = 0 AS LONG)",
    "output_lost_records": "CAST(told > 0 AND shown = 0 AS LONG)",
    "repeated_copies": "greatest(shown - greatest(stored, 1L), 0L)",
    "hidden_copies": "hidden",
}
"""Of one record."""
_COMMITTED: Final = pa.schema(
    [
        *(pa.field(name, pa.int32()) for name in ("trial_no", "partition")),
        pa.field("committed_offset", pa.int64()),
    ]
)


def tables(frames: Frames, ledgers: Sequence[Ledger]) -> Mapping[str, Callable[[], DataFrame]]:
    """Return how the table is made, with `trial_no` in the place of `trial_id`; where no trial has an output, Spark is asked nothing."""
    output = frames.output
    return {} if output is None else {"copies": lambda: copies(frames, output, ledgers)}


def copies(frames: Frames, output: DataFrame, ledgers: Sequence[Ledger]) -> DataFrame:
    """Count what became of each record on its way from the log to the output.

    Args:
        frames: the ledgers' rows, with trial_no: all of the log, and what everybody read.
        output: of those trials that have one.
        ledgers: the trials in the order of their numbers.

    Returns:
        trial_no and the columns of `COPIES`; a row for each trial that has an output, unless nothing was ever written.
    """
    numbers = [
        number
        for number, ledger in enumerate(ledgers)
        if ledger.record.output_end_offsets is not None
    ]
    sides = (_log_side(frames, ledgers), _told_side(frames.reads), _output_side(output))
    united = (
        sides[0].unionByName(sides[1]).unionByName(sides[2]).where(sf.col("trial_no").isin(numbers))
    )
    records = united.groupBy(*_RECORD).agg(*(sf.sum(side).alias(side) for side in _SIDES))
    return records.groupBy("trial_no").agg(
        *(sf.sum(sf.expr(count)).alias(name) for name, count in _COUNTS.items())
    )


def of_trial(row: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the columns of `TRIALS` that tell of a group, of a trial that had copiers; nothing of one that had none.

    What a copier passed over and what the output lost are both missed: the application sees neither.
    """
    if row is None:
        return {}
    return {
        "group_missed_records": row["missed_records"] + row["output_lost_records"],
        "group_redelivered_reads": row["repeated_copies"],
    }


def _log_side(frames: Frames, ledgers: Sequence[Ledger]) -> DataFrame:
    """Return what the copiers were shown, and which of it their group has committed past."""
    committed = frames.log.sparkSession.createDataFrame(
        _committed(frames.events, [ledger.record.trial_id for ledger in ledgers])
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


def _told_side(reads: DataFrame) -> DataFrame:
    """Return what the copiers were told is stored, or committed."""
    return reads.where("consumer > 0 AND producer IS NOT NULL").select(
        *_RECORD, *_side(told=sf.lit(1))
    )


def _output_side(output: DataFrame) -> DataFrame:
    """Return what the output holds under an id of ours."""
    ours = output.where("intact AND producer IS NOT NULL")
    return ours.select(*_RECORD, *_side(shown=sf.col("visible"), hidden=~sf.col("visible")))


def _side(**said: Column) -> list[Column]:
    """Return what one side says of a row, and nothing of what the others say."""
    return [said.get(name, none()).cast("long").alias(name) for name in _SIDES]


def _committed(events: pa.Table, trial_ids: Sequence[str]) -> pa.Table:
    """Return how far each trial's group had committed each partition at the end, as its coordinator told."""
    numbers = {trial_id: number for number, trial_id in enumerate(trial_ids)}
    told = [
        (numbers[row["trial_id"]], json.loads(row["detail"])["committed"])
        for row in events.filter(pc.field("kind") == "group").to_pylist()
    ]
    rows = [
        {"trial_no": number, "partition": int(of), "committed_offset": offset}
        for number, offsets in told
        for of, offset in offsets.items()
    ]
    return pa.Table.from_pylist(rows, schema=_COMMITTED)
