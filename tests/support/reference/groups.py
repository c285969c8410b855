"""What consumer groups made of the log, once more in plain Python and a record at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from spark_jobs.planted import PlantedRead, PlantedTrial

Counts = dict[str, int | None]


def group_counts(trial: PlantedTrial) -> Counts:
    """Return what the groups committed past and nobody of them processed, and what they processed again; null where there was no group."""
    groups = list(group_rows(trial))
    if not groups:
        return {"group_missed_records": None, "group_redelivered_reads": None}
    return {
        "group_missed_records": sum(row["missed_records"] for row in groups),
        "group_redelivered_reads": sum(row["redelivered_reads"] for row in groups),
    }


def group_rows(trial: PlantedTrial) -> Iterator[dict[str, Any]]:
    """Yield what was counted of each group."""
    for told in (json.loads(event.detail) for event in trial.events if event.kind == "group"):
        members = [
            row
            for row in trial.reads
            if row.consumer > 0 and row.consumer in told.get("consumers", [row.consumer])
        ]
        done = {(row.producer, row.seq) for row in members}
        log = [row for row in trial.log if row.intact and row.visible and row.producer is not None]
        log = [row for row in log if str(row.partition) in told["committed"]]
        behind = {
            (row.producer, row.seq)
            for row in log
            if row.offset < told["committed"][str(row.partition)]
        }
        places = Counter((row.partition, row.offset, row.producer, row.seq) for row in members)
        yield {
            "group": told.get("group", 1),
            "shown_records": len({(row.producer, row.seq) for row in log}),
            "processed_records": len(done - {(None, None)}),
            "missed_records": len(behind - done),
            "redelivered_reads": sum(times - 1 for times in places.values()),
            "processing_gap_ns": max(
                (
                    _stood_still(trial, members, partition)
                    for partition in {row.partition for row in members}
                ),
                default=0,
            ),
        }


def _stood_still(trial: PlantedTrial, members: list[PlantedRead], partition: int) -> int:
    begin, end = trial.phases.load_begin_ns, trial.phases.load_end_ns
    times = sorted(
        min(max(row.received_ns, begin), end) for row in members if row.partition == partition
    )
    return max(later - earlier for earlier, later in pairwise([begin, *times, end]))


def along(trial: PlantedTrial) -> list[int]:
    """Return the places of the reads that are the reader's along: of a trial with a group, those of consumer 0."""
    grouped = any(event.kind == "group" for event in trial.events)
    return [place for place, row in enumerate(trial.reads) if row.consumer == 0 or not grouped]
