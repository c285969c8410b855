"""The measuring job once more, in plain Python and a record at a time: slow, and too simple to be wrong in the same way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from support.reference.anomalies import Id, Wrong, anomalies, endings, missed, reordered
from support.reference.groups import group_counts
from support.reference.transactions import of_transactions, shown

from spark_jobs.planted import PlantedTrial

Count = int | float | None
MS = 1_000_000
COUNTS = (
    "cell",
    "status",
    "attempted_records",
    "acked_records",
    "rejected_records",
    "unknown_records",
    "aborted_records",
    "aborted_visible_records",
    "lost_low_records",
    "lost_high_records",
    "duplicate_copies",
    "duplicated_records",
    "log_records",
    "phantom_copies",
    "corrupt_copies",
    "hidden_copies",
    "reordered_records",
    "missed_records",
    "redelivered_reads",
    "group_missed_records",
    "group_redelivered_reads",
    "committed_transactions",
    "aborted_transactions",
    "unknown_transactions",
    "torn_transactions",
    "unavailable_ns",
    "consumer_unavailable_ns",
    "attempted_per_s",
    "acked_per_s",
)
"""The columns of the table of trials that are compared."""


@dataclass(frozen=True)
class PlainTrial:
    """One trial's truth."""

    fates: dict[str, tuple[str | None, int, int, int]]
    """Outcome, records, those of them with several copies, copies; all fates, but of a trial in which nothing happened none."""
    counts: dict[str, Count | str]
    latencies: dict[tuple[str, str], tuple[int, ...]]
    """By measure and phase: records, negative ones, p50, p90, p99, p99.9 and max in microseconds."""
    histogram: dict[tuple[str, str, int, int], int]
    """By measure, phase and a slot's bounds in microseconds: records."""
    timeline: dict[int, tuple[int, int, int]]
    """By tenth of a second: sent, acknowledged, read."""
    gaps: dict[tuple[int, str], tuple[int, int, int, bool]]
    """By partition and side: answers, length and begin in nanoseconds, and whether an answer ended it."""
    anomalies: Counter[Wrong]

    @property
    def seen(self) -> set[str]:
        """The fates that some record has."""
        return {fate for fate, (_, records, _, _) in self.fates.items() if records}


def plain(stored: PlantedTrial) -> PlainTrial:
    """Measure a trial by looking at every record."""
    trial = shown(stored)
    latencies = {
        **_by_phase(trial, "ack", _acks(trial)),
        **_by_phase(trial, "end_to_end", _first_reads(trial)),
    }
    return PlainTrial(
        fates=_fates(trial),
        counts={**_counts(trial), **of_transactions(stored), **_conclude(stored)},
        latencies={part: _figures(sorted(values)) for part, values in latencies.items()},
        histogram=dict(
            Counter((*part, *_slot(us)) for part, values in latencies.items() for us in values)
        ),
        timeline=_timeline(trial),
        gaps=_gaps(stored),
        anomalies=anomalies(trial),
    )


def fate_of_every_record(trial: PlantedTrial) -> list[tuple[Id, str, int]]:
    """The naive checker: every attempt's id, its fate, and its copies; then what nobody attempted."""
    copies = Counter((row.producer, row.seq) for row in trial.log if row.intact)
    fates: list[tuple[Id, str, int]] = []
    for attempt in trial.attempts:
        there = copies.pop((attempt.producer, attempt.seq), 0)
        acked = "LOST" if there == 0 else "DELIVERED_ONCE" if there == 1 else "DUPLICATED"
        other = f"{attempt.outcome.upper()}_PRESENT" if there else ABSENT.get(attempt.outcome, "")
        other = "ABORTED_VISIBLE" if attempt.outcome == "aborted" and there else other
        fates.append(
            ((attempt.producer, attempt.seq), acked if attempt.outcome == "acked" else other, there)
        )
    fates += [(stranger, "PHANTOM", 1) for stranger in copies.elements()]
    return fates + [((row.producer, row.seq), "CORRUPT", 1) for row in trial.log if not row.intact]


ABSENT = {"rejected": "REJECTED", "unknown": "UNKNOWN_ABSENT", "aborted": "ABORTED"}
OUTCOME_OF = {
    "DELIVERED_ONCE": "acked",
    "DUPLICATED": "acked",
    "LOST": "acked",
    "REJECTED": "rejected",
    "REJECTED_PRESENT": "rejected",
    "UNKNOWN_PRESENT": "unknown",
    "UNKNOWN_ABSENT": "unknown",
    "ABORTED": "aborted",
    "ABORTED_VISIBLE": "aborted",
}


def _with_fates(trial: PlantedTrial) -> dict[str, list[int]]:
    """Return each fate's records as their numbers of copies."""
    by_fate: dict[str, list[int]] = {}
    for _, fate, copies in fate_of_every_record(trial):
        by_fate.setdefault(fate, []).append(copies)
    return by_fate


def _fates(trial: PlantedTrial) -> dict[str, tuple[str | None, int, int, int]]:
    by_fate = _with_fates(trial)
    named = (
        (*OUTCOME_OF, "PHANTOM", "CORRUPT") if trial.attempts or trial.log or trial.reads else ()
    )
    return {fate: _of_fate(fate, by_fate.get(fate, [])) for fate in named}


def _of_fate(fate: str, copies: list[int]) -> tuple[str | None, int, int, int]:
    return OUTCOME_OF.get(fate), len(copies), sum(number > 1 for number in copies), sum(copies)


def _counts(trial: PlantedTrial) -> dict[str, Count | str]:
    by_fate = _with_fates(trial)
    outcomes = Counter(row.outcome for row in trial.attempts)
    of_attempts = [
        copies for fate, numbers in by_fate.items() if fate in OUTCOME_OF for copies in numbers
    ]
    lost, perhaps = len(by_fate.get("LOST", [])), len(by_fate.get("UNKNOWN_ABSENT", []))
    return {
        "cell": json.dumps(dict(sorted(trial.cell.items()))),
        "status": trial.status.value,
        "attempted_records": len(trial.attempts),
        **{
            f"{outcome}_records": outcomes[outcome]
            for outcome in ("acked", "rejected", "unknown", "aborted")
        },
        "aborted_visible_records": len(by_fate.get("ABORTED_VISIBLE", [])),
        "lost_low_records": lost,
        "lost_high_records": lost + perhaps,
        "duplicate_copies": sum(max(copies - 1, 0) for copies in of_attempts),
        "duplicated_records": sum(copies > 1 for copies in of_attempts),
        "log_records": len(trial.log),
        "phantom_copies": len(by_fate.get("PHANTOM", [])),
        "corrupt_copies": len(by_fate.get("CORRUPT", [])),
        "reordered_records": len({(row.producer, row.seq) for row in reordered(trial)}),
        "missed_records": None if (ids := missed(trial)) is None else len(ids),
        "redelivered_reads": sum(wrong[0] == "REDELIVERED" for wrong in anomalies(trial).elements())
        if trial.reads
        else None,
        **group_counts(trial),
        **_rates(trial),
    }


def _conclude(stored: PlantedTrial) -> dict[str, Count]:
    """How long each side waited, whatever became of the records' transactions."""
    waited = [
        length for (_, side), (_, length, _, _) in _gaps(stored).items() if side == "consumer"
    ]
    return {
        "unavailable_ns": _unavailable_ns(stored),
        "consumer_unavailable_ns": max(waited, default=None),
    }


def _rates(trial: PlantedTrial) -> dict[str, Count]:
    """Rates in the window of the load; a trial without attempts, or without a window, has none."""
    window_s = (trial.phases.load_end_ns - trial.phases.load_begin_ns) / 1e9
    in_time = sum(
        row.outcome == "acked"
        and row.settled_ns is not None
        and row.settled_ns <= trial.phases.load_end_ns
        for row in trial.attempts
    )
    there = bool(trial.attempts) and window_s > 0
    return {
        "attempted_per_s": len(trial.attempts) / window_s if there else None,
        "acked_per_s": in_time / window_s if there else None,
    }


def _unavailable_ns(trial: PlantedTrial) -> int | None:
    if trial.attempts and all(row.outcome != "acked" for row in trial.attempts):
        return trial.phases.settled_ns - trial.phases.load_begin_ns
    return max(
        (length for (_, side), (_, length, _, _) in _gaps(trial).items() if side == "producer"),
        default=None,
    )


def _acks(trial: PlantedTrial) -> list[tuple[int, int]]:
    return [
        (row.intended_ns, row.settled_ns)
        for row in trial.attempts
        if row.outcome == "acked" and row.settled_ns is not None
    ]


def _first_reads(trial: PlantedTrial) -> Iterable[tuple[int, int]]:
    first: dict[Id, tuple[int, int]] = {}
    for row in sorted(trial.reads, key=lambda row: row.received_ns):
        if row.producer is not None and row.intended_ns is not None:
            first.setdefault((row.producer, row.seq), (row.intended_ns, row.received_ns))
    return first.values()


def _by_phase(
    trial: PlantedTrial, measure: str, spans: Iterable[tuple[int, int]]
) -> dict[tuple[str, str], list[int]]:
    by_phase: dict[tuple[str, str], list[int]] = {}
    for intended_ns, end_ns in spans:
        for phase in {"all", _phase(trial, intended_ns)} - {""}:
            by_phase.setdefault((measure, phase), []).append((end_ns - intended_ns) // 1000)
    return by_phase


def _slot(us: int) -> tuple[int, int]:
    """Return a slot's bounds: a power of two wide, such that 128 or more of them make the value; below zero the mirror image."""
    if us < 0:
        low, high = _slot(-us - 1)
        return -high, -low
    width = 1
    while us // width >= 256:
        width *= 2
    return us // width * width, us // width * width + width


def _figures(ordered: list[int]) -> tuple[int, ...]:
    ranks = (ceil(len(ordered) * thousandths / 1000) for thousandths in (500, 900, 990, 999, 1000))
    return len(ordered), sum(value < 0 for value in ordered), *(ordered[rank - 1] for rank in ranks)


def _phase(trial: PlantedTrial, intended_ns: int) -> str:
    begin, end = trial.phases.fault_begin_ns, trial.phases.fault_end_ns
    if begin is None:
        return ""
    return (
        "before"
        if intended_ns < begin
        else "after"
        if end is not None and intended_ns >= end
        else "during"
    )


def _timeline(trial: PlantedTrial) -> dict[int, tuple[int, int, int]]:
    happened: list[tuple[int, tuple[int, int, int]]] = [
        (row.sent_ns, (1, 0, 0)) for row in trial.attempts if row.sent_ns is not None
    ]
    happened += [(settled_ns, (0, 1, 0)) for _, settled_ns in _acks(trial)] + [
        (row.received_ns, (0, 0, 1)) for row in trial.reads
    ]
    slots: dict[int, tuple[int, int, int]] = {}
    for at_ns, one in happened:
        slot = (at_ns - trial.phases.load_begin_ns) // (100 * MS)
        sent, acked, read = slots.get(slot, (0, 0, 0))
        slots[slot] = (sent + one[0], acked + one[1], read + one[2])
    return slots


def _gaps(trial: PlantedTrial) -> dict[tuple[int, str], tuple[int, int, int, bool]]:
    gave_up_ns = (
        max((at_ns for at_ns, _ in endings(trial)), default=0)
        if not all(at_end for _, at_end in endings(trial))
        else 0
    )
    found = {}
    for partition in {row.partition for row in trial.attempts if row.partition is not None}:
        rows = [row for row in trial.attempts if row.partition == partition]
        due = [
            trial.phases.settled_ns if row.settled_ns is None else row.settled_ns for row in rows
        ]
        acked = [
            row.settled_ns for row in rows if row.outcome == "acked" and row.settled_ns is not None
        ]
        found[partition, "producer"] = _longest(
            _since(trial, partition, acked or due), acked, max(due)
        )
    for partition in {row.partition for row in trial.reads}:
        received = [row.received_ns for row in trial.reads if row.partition == partition]
        found[partition, "consumer"] = _longest(
            _since(trial, partition, received), received, max(*received, gave_up_ns, 0)
        )
    return found


def _since(trial: PlantedTrial, partition: int, known: list[int]) -> int:
    """Return from when on a partition was there: one that was added, from the first that is known of it."""
    return (
        trial.phases.load_begin_ns if partition < trial.record("plain").partitions else min(known)
    )


def _longest(begin: int, answers: list[int], due_until: int) -> tuple[int, int, int, bool]:
    """Return the longest time without an answer; answers of one millisecond are one."""
    at = sorted(answers)
    between = [
        (before, after, True) for before, after in pairwise(at) if before // MS != after // MS
    ]
    edges = (
        [(begin, at[0], True), (at[-1], due_until, False)] if at else [(begin, due_until, False)]
    )
    length, minus_began, answered = max(
        (after - before, -before, answered) for before, after, answered in [*edges, *between]
    )
    return len(at), length, -minus_began, answered
