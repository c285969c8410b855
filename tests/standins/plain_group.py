"""What a consumer group made of the log, once more in plain Python and a record at a time."""

from __future__ import annotations

import json
from collections import Counter

from spark_jobs.planted import PlantedTrial

Counts = dict[str, int | None]


def group_counts(trial: PlantedTrial) -> Counts:
    """Return what the group committed past and nobody processed, and what was processed again; null where there was no group."""
    told = [json.loads(event.detail)["committed"] for event in trial.events if event.kind == "group"]
    if not told:
        return {"group_missed_records": None, "group_redelivered_reads": None}
    members = [row for row in trial.reads if row.consumer > 0]
    done = {(row.producer, row.seq) for row in members}
    behind = {
        (row.producer, row.seq)
        for row in trial.log
        if row.intact and row.visible and row.producer is not None and row.offset < told[0].get(str(row.partition), 0)
    }
    places = Counter((row.partition, row.offset, row.producer, row.seq) for row in members)
    return {"group_missed_records": len(behind - done), "group_redelivered_reads": sum(times - 1 for times in places.values())}


def along(trial: PlantedTrial) -> list[int]:
    """Return the places of the reads that are the reader's along: of a trial with a group, those of consumer 0."""
    grouped = any(event.kind == "group" for event in trial.events)
    return [place for place, row in enumerate(trial.reads) if row.consumer == 0 or not grouped]
