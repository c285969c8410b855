"""The reference for what consumers received, and for compacted topics, record by record."""

from __future__ import annotations

from collections import Counter

from support.reference.anomalies import FoundAnomaly, RecordId, copies_of

from ackbench.spark_jobs.planted import PlantedTrial

Received = dict[tuple[int, int], dict[RecordId, list[int]]]
"""By partition and offset: the records that consumers received there, and when."""


def received_records(trial: PlantedTrial, *, of_output: bool) -> Received:
    """Return what consumers received of the topic, or of the copiers' output."""
    received: Received = {}
    for row in sorted(trial.reads, key=lambda row: row.received_ns):
        is_of_output = trial.output is not None and row.consumer == 0
        if row.producer is not None and is_of_output is of_output:
            there = received.setdefault((row.partition, row.offset), {})
            there.setdefault((row.producer, row.seq), []).append(row.received_ns)
    return received


def consumed_anomalies(trial: PlantedTrial) -> Counter[FoundAnomaly]:
    """Return what consumers received and the log lacks, and what they received in conflict."""
    found: list[FoundAnomaly] = []
    for of_output, stored in ((False, trial.log), (True, trial.output or ())):
        log = {
            (row.partition, row.offset): (row.producer, row.seq)
            for row in stored
            if row.intact and (row.visible or trial.isolation == "read_uncommitted")
        }
        for place, there in received_records(trial, of_output=of_output).items():
            for record, times in there.items():
                if log.get(place) == record:
                    continue
                shown = (None, None) if of_output else place
                if of_output or place[1] >= trial.begin_offsets.get(place[0], 0):
                    found.append(("READ_LOST", *record, *shown, times[0]))
                if len(there) > 1:
                    found.append(("READ_CONFLICT", *record, *shown, times[0]))
    return Counter(found)


def consumed_counts(trial: PlantedTrial) -> dict[str, int | None]:
    """Return the counts; null where nothing was received that can be judged."""
    kinds = Counter(kind for kind, *_ in consumed_anomalies(trial).elements())
    received = [received_records(trial, of_output=of_output) for of_output in (False, True)]
    judged = bool(received[1]) or any(
        offset >= trial.begin_offsets.get(partition, 0) for partition, offset in received[0]
    )
    again = any(
        len(times) > 1 for topic in received for there in topic.values() for times in there.values()
    )
    return {
        "lost_reads": kinds["READ_LOST"] if judged else None,
        "conflicting_reads": kinds["READ_CONFLICT"] if again or kinds["READ_CONFLICT"] else None,
    }


def compaction(trial: PlantedTrial) -> tuple[set[RecordId], set[RecordId]]:
    """Return the absent acknowledged records that a later one of their key supersedes, and others.

    Args:
        trial: as a read_committed application sees it.
    """
    attempts = {(row.producer, row.seq): row for row in trial.attempts}
    copies = copies_of(trial)
    removed: set[RecordId] = set()
    lost: set[RecordId] = set()
    for record, attempt in attempts.items():
        if attempt.key is None or attempt.outcome != "acked" or record in copies:
            continue
        superseded = any(
            (
                attempt.offset is not None
                and row.partition == attempt.partition
                and row.offset > attempt.offset
            )
            or (row.producer == attempt.producer and attempts[other].seq > attempt.seq)
            for other, rows in copies.items()
            if other in attempts and attempts[other].key == attempt.key
            for row in rows
        )
        (removed if superseded else lost).add(record)
    return removed, lost


def compaction_counts(trial: PlantedTrial) -> dict[str, int | None]:
    """Return the counts; null if the topic is not compacted."""
    if trial.cleanup != "compact":
        return {"compacted_records": None, "lost_values": None}
    removed, lost = compaction(trial)
    return {"compacted_records": len(removed), "lost_values": len(lost)}
