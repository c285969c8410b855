"""The reference for anomalies: every anomalous record, copy and read, found in plain Python."""

from __future__ import annotations

import json
from collections import Counter

from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedTrial

RecordId = tuple[int | None, int | None]
FoundAnomaly = tuple[str, int | None, int | None, int | None, int | None, int | None]
"""Kind, producer, seq, partition, offset, and the time of the result or of the read."""


def anomalies(trial: PlantedTrial) -> Counter[FoundAnomaly]:
    """Return the anomalies and how often each occurs."""
    attempts: dict[RecordId, PlantedAttempt] = {
        (row.producer, row.seq): row for row in trial.attempts
    }
    copies = copies_of(trial)
    found: list[FoundAnomaly] = [
        anomaly
        for key, row in attempts.items()
        for anomaly in _attempt_anomalies(row, copies.get(key, []))
    ]
    found += [
        ("PHANTOM", *key, row.partition, row.offset, None)
        for key, rows in copies.items()
        if key not in attempts
        for row in rows
    ]
    found += [
        ("PHANTOM", None, None, row.partition, row.offset, None)
        for row in trial.log
        if row.intact and row.producer is None
    ]
    found += [
        ("CORRUPT", None, None, row.partition, row.offset, None)
        for row in trial.log
        if not row.intact
    ]
    times = {key: row.settled_ns for key, row in attempts.items()}
    found += [
        (
            "REORDERED",
            row.producer,
            row.seq,
            row.partition,
            row.offset,
            times.get((row.producer, row.seq)),
        )
        for row in reordered_rows(trial)
    ]
    found += [
        ("MISSED", *key, copies[key][0].partition, copies[key][0].offset, times.get(key))
        for key in missed_ids(trial) or ()
    ]
    return Counter([*found, *_redelivered(trial)])


def copies_of(trial: PlantedTrial) -> dict[RecordId, list[PlantedLogRow]]:
    """Return the intact copies of each id, sorted by partition and offset."""
    copies: dict[RecordId, list[PlantedLogRow]] = {}
    for row in sorted(trial.log, key=lambda row: (row.partition, row.offset)):
        if row.intact and row.producer is not None:
            copies.setdefault((row.producer, row.seq), []).append(row)
    return copies


def _attempt_anomalies(row: PlantedAttempt, copies: list[PlantedLogRow]) -> list[FoundAnomaly]:
    key = (row.producer, row.seq)
    absent = {"acked": "LOST", "unknown": "UNKNOWN_ABSENT"}
    if not copies:
        if row.outcome not in absent:
            return []
        return [(absent[row.outcome], *key, row.partition, row.offset, row.settled_ns)]
    unwanted = {"rejected": "REJECTED_PRESENT", "aborted": "ABORTED_VISIBLE"}
    present = []
    if row.outcome in unwanted:
        first = copies[0]
        present = [(unwanted[row.outcome], *key, first.partition, first.offset, row.settled_ns)]
    return [
        *present,
        *(("DUPLICATED", *key, copy.partition, copy.offset, row.settled_ns) for copy in copies[1:]),
    ]


def reordered_rows(trial: PlantedTrial) -> list[PlantedLogRow]:
    """Return the first copies in a partition that follow a higher seq of the same producer."""
    found: list[PlantedLogRow] = []
    seen: set[tuple[int, int | None, int]] = set()
    highest: dict[tuple[int, int | None], int] = {}
    for row in sorted(trial.log, key=lambda row: row.offset):
        stream = (row.partition, row.producer)
        if row.intact and row.seq is not None:
            if row.seq < highest.get(stream, 0) and (*stream, row.seq) not in seen:
                found.append(row)
            seen.add((*stream, row.seq))
            highest[stream] = max(row.seq, highest.get(stream, 0))
    return found


def missed_ids(trial: PlantedTrial) -> set[RecordId] | None:
    """Return the ids in the log that no consumer received.

    `None` if it is unknown, because a consumer did not reach the end, or none reported it.
    """
    if not consumer_endings(trial) or not all(at_end for _, at_end in consumer_endings(trial)):
        return None
    received: set[RecordId] = {(row.producer, row.seq) for row in trial.reads}
    return set(copies_of(trial)) - received


def _redelivered(trial: PlantedTrial) -> list[FoundAnomaly]:
    """Return the reads of a record that the consumer had received from the same offset before."""
    received: set[tuple[int, int, int, int | None, int | None]] = set()
    found: list[FoundAnomaly] = []
    for row in sorted(trial.reads, key=lambda row: row.received_ns):
        place = (row.consumer, row.partition, row.offset, row.producer, row.seq)
        if place in received:
            found.append(
                ("REDELIVERED", row.producer, row.seq, row.partition, row.offset, row.received_ns)
            )
        received.add(place)
    return found


def consumer_endings(trial: PlantedTrial) -> list[tuple[int, bool]]:
    """Return when each concurrent consumer ended, and whether it had reached the end of the log."""
    return [
        (event.at_ns, json.loads(event.detail)["at_end"])
        for event in trial.events
        if event.kind == "consumer_end"
    ]
