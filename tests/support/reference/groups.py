"""The reference for consumer groups and copy workloads, record by record in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ackbench.spark_jobs.planted import PlantedLogRow, PlantedRead, PlantedTrial

Counts = dict[str, int | None]


def group_counts(trial: PlantedTrial) -> Counts:
    """Return the records that groups committed without processing, and those processed again.

    Null if there was no group.
    """
    groups = list(group_rows(trial))
    if not groups:
        return dict.fromkeys(
            ("group_missed_records", "group_redelivered_reads", "group_processing_gap_ns")
        )
    return {
        "group_missed_records": sum(row["missed_records"] for row in groups),
        "group_redelivered_reads": sum(row["redelivered_reads"] for row in groups),
        "group_processing_gap_ns": max(row["processing_gap_ns"] for row in groups),
    }


def group_rows(trial: PlantedTrial) -> Iterator[dict[str, Any]]:
    """Yield the counts of each group."""
    for group in (json.loads(event.detail) for event in trial.events if event.kind == "group"):
        members = [
            row
            for row in trial.reads
            if row.consumer > 0 and row.consumer in group.get("consumers", [row.consumer])
        ]
        processed = {(row.producer, row.seq) for row in members}
        log = [row for row in trial.log if row.intact and row.visible and row.producer is not None]
        log = [row for row in log if str(row.partition) in group["committed"]]
        committed = {
            (row.producer, row.seq)
            for row in log
            if row.offset < group["committed"][str(row.partition)]
        }
        places = Counter((row.partition, row.offset, row.producer, row.seq) for row in members)
        yield {
            "group": group.get("group", 1),
            "shown_records": len({(row.producer, row.seq) for row in log}),
            "processed_records": len(processed - {(None, None)}),
            "missed_records": len(committed - processed),
            "redelivered_reads": sum(times - 1 for times in places.values()),
            "processing_gap_ns": max(
                (
                    _longest_gap_ns(trial, members, partition)
                    for partition in {row.partition for row in members}
                ),
                default=trial.phases.load_end_ns - trial.phases.load_begin_ns,
            ),
        }


def _longest_gap_ns(trial: PlantedTrial, members: list[PlantedRead], partition: int) -> int:
    begin, end = trial.phases.load_begin_ns, trial.phases.load_end_ns
    times = sorted(
        min(max(row.received_ns, begin), end) for row in members if row.partition == partition
    )
    return max(later - earlier for earlier, later in pairwise([begin, *times, end]))


def copy_counts(trial: PlantedTrial) -> dict[str, int] | None:
    """Return a trial's row of the table `copies`; `None` if it was no copy workload."""
    if trial.output is None:
        return None
    (committed,) = [
        json.loads(event.detail)["committed"] for event in trial.events if event.kind == "group"
    ]
    stored = Counter((row.producer, row.seq) for row in trial.log if _is_known(row) and row.visible)
    committed_past = {
        (row.producer, row.seq)
        for row in trial.log
        if _is_known(row) and row.visible and row.offset < committed.get(str(row.partition), 0)
    }
    output = Counter(
        (row.producer, row.seq) for row in trial.output if _is_known(row) and row.visible
    )
    processed = {
        (row.producer, row.seq)
        for row in trial.reads
        if row.consumer > 0 and row.producer is not None
    }
    return {
        "copied_records": len(output),
        "missed_records": len(committed_past - set(output) - processed),
        "output_lost_records": len(processed - set(output)),
        "repeated_copies": sum(
            max(0, times - max(1, stored[record])) for record, times in output.items()
        ),
        "hidden_copies": sum(_is_known(row) and not row.visible for row in trial.output),
    }


def _is_known(row: PlantedLogRow) -> bool:
    return row.intact and row.producer is not None
