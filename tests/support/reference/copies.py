"""What copiers made of the log, once more in plain Python and a record at a time."""

from __future__ import annotations

import json
from collections import Counter

from spark_jobs.planted import PlantedLogRow, PlantedTrial

Counts = dict[str, int]


def copy_counts(trial: PlantedTrial) -> Counts | None:
    """Return what `results/copies.parquet` has to say of a trial; `None` where nothing was copied."""
    if trial.output is None:
        return None
    (committed,) = [
        json.loads(event.detail)["committed"] for event in trial.events if event.kind == "group"
    ]
    stored = Counter((row.producer, row.seq) for row in trial.log if _counts(row) and row.visible)
    passed = {
        (row.producer, row.seq)
        for row in trial.log
        if _counts(row) and row.visible and row.offset < committed.get(str(row.partition), 0)
    }
    shown = Counter((row.producer, row.seq) for row in trial.output if _counts(row) and row.visible)
    told = {
        (row.producer, row.seq)
        for row in trial.reads
        if row.consumer > 0 and row.producer is not None
    }
    return {
        "copied_records": len(shown),
        "missed_records": len(passed - set(shown) - told),
        "output_lost_records": len(told - set(shown)),
        "repeated_copies": sum(
            max(0, times - max(1, stored[record])) for record, times in shown.items()
        ),
        "hidden_copies": sum(_counts(row) and not row.visible for row in trial.output),
    }


def _counts(row: PlantedLogRow) -> bool:
    return row.intact and row.producer is not None
