"""What had expired is no loss by itself: it counts as it was seen while it was there, and where nobody saw it, nobody knows."""

import json
from collections.abc import Callable

import pyarrow as pa

from spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

Measure = Callable[..., dict[str, pa.Table]]
BEGIN = 6
"""Offsets below this had expired."""


def test_an_expired_record_counts_as_it_was_seen(measured: Measure) -> None:
    """Seen: delivered. Another one in its place: lost. Nobody saw anything there: not known. Above the log's begin nothing is forgiven."""
    attempts = [
        PlantedAttempt(0, seq, offset=offset)
        for seq, offset in ((0, 0), (1, 1), (2, 2), (3, 1), (4, 6), (5, 7), (6, None))
    ]
    log = [
        PlantedLogRow(0, 0, 0),
        PlantedLogRow(0, 1, 1),
        PlantedLogRow(0, 4, 6),
    ]  # seq 2 expired unseen; seq 3 lost its place to seq 1; seq 5 is gone though its place is not
    trial = PlantedTrial("000-expired", attempts, log, begin_offsets={0: BEGIN})
    without = PlantedTrial("001-nothing-expired", attempts, log)
    found, plainly = (_counts(row) for row in measured(trial, without)["trials"].to_pylist())
    assert found == {
        "acked_records": 6,
        "unknown_records": 1,
        "lost_low_records": 3,
        "lost_high_records": 4,
    }
    assert plainly == {
        "acked_records": 7,
        "unknown_records": 0,
        "lost_low_records": 4,
        "lost_high_records": 4,
    }


def _counts(row: dict[str, int]) -> dict[str, int]:
    return {
        name: row[name]
        for name in ("acked_records", "unknown_records", "lost_low_records", "lost_high_records")
    }


def test_what_a_group_passed_over_is_told_apart_by_whether_it_had_expired(
    measured: Measure,
) -> None:
    """It committed to 10 and never processed 3, 4, 5 and 8: three of them had expired by the end."""
    stored = [PlantedLogRow(0, seq, seq) for seq in range(12)]
    reads = [PlantedRead(0, seq, seq, consumer=1) for seq in (0, 1, 2, 6, 7, 9)]
    events = [
        PlantedEvent(1, "group", detail=json.dumps({"committed": {"0": 10}, "at_end": False}))
    ]
    trial = PlantedTrial(
        "000-slow",
        [PlantedAttempt(0, seq, offset=seq) for seq in range(12)],
        stored,
        reads,
        events=events,
        begin_offsets={0: BEGIN},
    )
    (row,) = measured(trial)["groups"].to_pylist()
    assert (
        row["shown_records"],
        row["processed_records"],
        row["missed_records"],
        row["expired_records"],
    ) == (12, 6, 4, 3)
