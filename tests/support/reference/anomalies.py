"""Every record, copy and read that something is wrong with, found one by one in plain Python."""

from __future__ import annotations

import json
from collections import Counter

from spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedTrial

Id = tuple[int | None, int | None]
Wrong = tuple[str, int | None, int | None, int | None, int | None, int | None]
"""Kind, producer, seq, partition, offset, and when the client was told or the consumer received it."""


def anomalies(trial: PlantedTrial) -> Counter[Wrong]:
    """Return what is wrong, each as often as it is."""
    attempts: dict[Id, PlantedAttempt] = {(row.producer, row.seq): row for row in trial.attempts}
    copies = copies_of(trial)
    found: list[Wrong] = [
        wrong for key, row in attempts.items() for wrong in _of_attempt(row, copies.get(key, []))
    ]
    found += [
        ("PHANTOM", *key, row.partition, row.offset, None)
        for key, of in copies.items()
        if key not in attempts
        for row in of
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
        for row in reordered(trial)
    ]
    found += [
        ("MISSED", *key, copies[key][0].partition, copies[key][0].offset, times.get(key))
        for key in missed(trial) or ()
    ]
    return Counter([*found, *_redelivered(trial)])


def copies_of(trial: PlantedTrial) -> dict[Id, list[PlantedLogRow]]:
    """Return the intact copies of each id, by partition and offset."""
    copies: dict[Id, list[PlantedLogRow]] = {}
    for row in sorted(trial.log, key=lambda row: (row.partition, row.offset)):
        if row.intact and row.producer is not None:
            copies.setdefault((row.producer, row.seq), []).append(row)
    return copies


def _of_attempt(row: PlantedAttempt, copies: list[PlantedLogRow]) -> list[Wrong]:
    key = (row.producer, row.seq)
    absent = {"acked": "LOST", "unknown": "UNKNOWN_ABSENT"}
    if not copies:
        return (
            [(absent[row.outcome], *key, row.partition, row.offset, row.settled_ns)]
            if row.outcome in absent
            else []
        )
    unwanted = {"rejected": "REJECTED_PRESENT", "aborted": "ABORTED_VISIBLE"}
    refused = (
        [(unwanted[row.outcome], *key, copies[0].partition, copies[0].offset, row.settled_ns)]
        if row.outcome in unwanted
        else []
    )
    return [
        *refused,
        *(("DUPLICATED", *key, copy.partition, copy.offset, row.settled_ns) for copy in copies[1:]),
    ]


def reordered(trial: PlantedTrial) -> list[PlantedLogRow]:
    """Return the first copies in a partition that lie behind a record with a higher seq of the same producer."""
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


def missed(trial: PlantedTrial) -> set[Id] | None:
    """Return the ids that are in the log and that nobody received; `None`: no reader came to the end, so nobody knows."""
    if not endings(trial) or not all(at_end for _, at_end in endings(trial)):
        return None
    received: set[Id] = {(row.producer, row.seq) for row in trial.reads}
    return set(copies_of(trial)) - received


def _redelivered(trial: PlantedTrial) -> list[Wrong]:
    """Return the reads that brought a consumer what it had from the same place before."""
    had: set[tuple[int, int, int, int | None, int | None]] = set()
    found: list[Wrong] = []
    for row in sorted(trial.reads, key=lambda row: row.received_ns):
        place = (row.consumer, row.partition, row.offset, row.producer, row.seq)
        if place in had:
            found.append(
                ("REDELIVERED", row.producer, row.seq, row.partition, row.offset, row.received_ns)
            )
        had.add(place)
    return found


def endings(trial: PlantedTrial) -> list[tuple[int, bool]]:
    """Return when each reader along ended, and whether it had come to the end of the log."""
    return [
        (event.at_ns, json.loads(event.detail)["at_end"])
        for event in trial.events
        if event.kind == "reader"
    ]
