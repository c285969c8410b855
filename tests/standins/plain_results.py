"""The measuring job once more, in plain Python and a record at a time: slow, and too simple to be wrong in the same way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from spark_jobs.planted import PlantedTrial

Id = tuple[int, int]
MS = 1_000_000


@dataclass(frozen=True)
class PlainTrial:
    """One trial's truth."""

    fates: dict[str, tuple[int, int]]
    """Records and copies; fates without any are left out."""
    ack_us: dict[str, list[int]]
    """By phase: p50, p90, p99, p99.9 and max."""
    end_to_end_us: dict[str, list[int]]
    gaps: dict[int, tuple[int, int]]
    """By partition: length and begin, nanoseconds."""


def plain(trial: PlantedTrial) -> PlainTrial:
    """Measure a trial by looking at every record."""
    return PlainTrial(_fates(trial), _latencies(trial, _acks(trial)), _latencies(trial, _first_reads(trial)), _gaps(trial))


def _fates(trial: PlantedTrial) -> dict[str, tuple[int, int]]:
    copies = Counter((row.producer, row.seq) for row in trial.log if row.intact)
    records: Counter[str] = Counter()
    in_log: Counter[str] = Counter()
    for attempt in trial.attempts:
        there = copies.pop((attempt.producer, attempt.seq), 0)
        fate = _fate(attempt.outcome, there)
        records[fate] += 1
        in_log[fate] += there
    records["PHANTOM"] = in_log["PHANTOM"] = sum(copies.values())
    records["CORRUPT"] = in_log["CORRUPT"] = sum(not row.intact for row in trial.log)
    return {fate: (count, in_log[fate]) for fate, count in records.items() if count}


def _fate(outcome: str, copies: int) -> str:
    if outcome == "acked":
        return "LOST" if copies == 0 else "DELIVERED_ONCE" if copies == 1 else "DUPLICATED"
    if outcome == "rejected":
        return "REJECTED_PRESENT" if copies else "REJECTED"
    return "UNKNOWN_PRESENT" if copies else "UNKNOWN_ABSENT"


def _acks(trial: PlantedTrial) -> list[tuple[int, int]]:
    return [(row.intended_ns, row.settled_ns) for row in trial.attempts if row.outcome == "acked" and row.settled_ns is not None]


def _first_reads(trial: PlantedTrial) -> list[tuple[int, int]]:
    first: dict[Id, tuple[int, int]] = {}
    for row in trial.reads:
        if row.producer is not None and row.seq is not None and row.intended_ns is not None:
            seen = first.get((row.producer, row.seq))
            if seen is None or row.received_ns < seen[1]:
                first[row.producer, row.seq] = (row.intended_ns, row.received_ns)
    return list(first.values())


def _latencies(trial: PlantedTrial, spans: list[tuple[int, int]]) -> dict[str, list[int]]:
    by_phase: dict[str, list[int]] = {}
    for intended_ns, end_ns in spans:
        for phase in {"all", _phase(trial, intended_ns)} - {""}:
            by_phase.setdefault(phase, []).append((end_ns - intended_ns) // 1000)
    return {phase: [_nearest_rank(sorted(values), q) for q in (500, 900, 990, 999, 1000)] for phase, values in by_phase.items()}


def _phase(trial: PlantedTrial, intended_ns: int) -> str:
    begin, end = trial.phases.fault_begin_ns, trial.phases.fault_end_ns
    if begin is None:
        return ""
    return "before" if intended_ns < begin else "after" if end is not None and intended_ns >= end else "during"


def _nearest_rank(ordered: list[int], thousandths: int) -> int:
    return ordered[ceil(len(ordered) * thousandths / 1000) - 1]


def _gaps(trial: PlantedTrial) -> dict[int, tuple[int, int]]:
    found = {}
    for partition in {row.partition for row in trial.attempts if row.partition is not None}:
        rows = [row for row in trial.attempts if row.partition == partition]
        acks = sorted(row.settled_ns for row in rows if row.outcome == "acked" and row.settled_ns is not None)
        due_until = max(trial.phases.settled_ns if row.settled_ns is None else row.settled_ns for row in rows)
        between = [(before, after) for before, after in pairwise(acks) if before // MS != after // MS]
        edges = [(trial.phases.load_begin_ns, acks[0]), (acks[-1], due_until)] if acks else [(trial.phases.load_begin_ns, due_until)]
        longest, begin = max((after - before, -before) for before, after in [*edges, *between])
        found[partition] = (longest, -begin)
    return found
