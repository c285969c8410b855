"""The reference for the Spark job: the same measures in plain Python, record by record.

It is slow, and too simple to have the same mistakes as the job.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from support.reference.anomalies import (
    FoundAnomaly,
    RecordId,
    anomalies,
    consumer_endings,
    missed_ids,
    reordered_rows,
)
from support.reference.consumed import compaction_counts, consumed_anomalies, consumed_counts
from support.reference.groups import group_counts
from support.reference.transactions import as_read_committed, transaction_counts

from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

Count = int | float | None
MS = 1_000_000
_OF_EACH = {"machine", "relay"}
"""Their stalls are stalls of each client."""
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
    "duplicates",
    "duplicated_records",
    "log_records",
    "phantom_copies",
    "corrupt_copies",
    "hidden_copies",
    "reordered_records",
    "missed_records",
    "redelivered_reads",
    "lost_reads",
    "conflicting_reads",
    "compacted_records",
    "lost_values",
    "group_missed_records",
    "group_redelivered_reads",
    "group_processing_gap_ns",
    "committed_transactions",
    "aborted_transactions",
    "unknown_transactions",
    "torn_transactions",
    "unavailable_ns",
    "consumer_unavailable_ns",
    "producer_stalled_ns",
    "consumer_stalled_ns",
    "producer_cpu_ns",
    "cluster_cpu_ns",
    "offered_records_per_s",
    "throughput_records_per_s",
)
"""The columns of the table of trials that are compared."""


class PlainGap(NamedTuple):
    """A time of a partition without an answer, although records were due."""

    records: int
    """Answers of the partition."""
    gap_ns: int
    began_ns: int
    ended_ns: int
    stalled_ns: int
    answered: bool
    longest: bool


@dataclass(frozen=True)
class PlainTrial:
    """The true results of a trial."""

    fates: dict[str, tuple[str | None, int, int, int]]
    """By fate: outcome, records, those of them with several copies, and copies.

    All fates are present, except that an empty trial has none.
    """
    counts: dict[str, Count | str]
    latencies: dict[tuple[str, str], tuple[int, ...]]
    """By measure and phase: records, negative ones; p50, p90, p99, p99.9 and max in us."""
    histogram: dict[tuple[str, str, int, int], int]
    """By measure, phase and a bucket's bounds in microseconds: records."""
    timeline: dict[int, tuple[int, int, int]]
    """By tenth of a second: sent, acknowledged, read."""
    gaps: dict[tuple[int, str], list[PlainGap]]
    """By partition and side, by time."""
    anomalies: Counter[FoundAnomaly]

    @property
    def observed_fates(self) -> set[str]:
        """The fates that at least one record has."""
        return {fate for fate, (_, records, _, _) in self.fates.items() if records}


def plain_result(stored: PlantedTrial) -> PlainTrial:
    """Measure a trial record by record."""
    trial = as_read_committed(stored)
    latencies = {
        **_by_phase(trial, "ack", _acks(trial)),
        **_by_phase(trial, "end_to_end", _first_reads(trial)),
    }
    return PlainTrial(
        fates=_fates(trial),
        counts={
            **_counts(trial),
            **consumed_counts(stored),
            **compaction_counts(trial),
            **transaction_counts(stored),
            **_unavailability(stored),
        },
        latencies={part: _figures(sorted(values)) for part, values in latencies.items()},
        histogram=dict(
            Counter((*part, *_bucket(us)) for part, values in latencies.items() for us in values)
        ),
        timeline=_timeline(trial),
        gaps=_gaps(stored),
        anomalies=anomalies(trial) + consumed_anomalies(stored),
    )


def fate_of_every_record(trial: PlantedTrial) -> list[tuple[RecordId, str, int]]:
    """Return id, fate and number of copies of every attempt, then of phantom and corrupt copies."""
    copies = Counter((row.producer, row.seq) for row in trial.log if row.intact)
    fates: list[tuple[RecordId, str, int]] = []
    for attempt in trial.attempts:
        there = copies.pop((attempt.producer, attempt.seq), 0)
        fates.append(((attempt.producer, attempt.seq), _fate(attempt.outcome, there), there))
    fates += [(phantom, "PHANTOM", 1) for phantom in copies.elements()]
    return fates + [((row.producer, row.seq), "CORRUPT", 1) for row in trial.log if not row.intact]


def _fate(outcome: str, copies: int) -> str:
    if outcome == "acked":
        return ("LOST", "DELIVERED_ONCE", "DUPLICATED")[min(copies, 2)]
    if not copies:
        return ABSENT.get(outcome, "")
    return "ABORTED_VISIBLE" if outcome == "aborted" else f"{outcome.upper()}_PRESENT"


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


def _copies_by_fate(trial: PlantedTrial) -> dict[str, list[int]]:
    """Return the numbers of copies of each fate's records."""
    by_fate: dict[str, list[int]] = {}
    for _, fate, copies in fate_of_every_record(trial):
        by_fate.setdefault(fate, []).append(copies)
    return by_fate


def _fates(trial: PlantedTrial) -> dict[str, tuple[str | None, int, int, int]]:
    by_fate = _copies_by_fate(trial)
    fates = (
        (*OUTCOME_OF, "PHANTOM", "CORRUPT") if trial.attempts or trial.log or trial.reads else ()
    )
    return {fate: _fate_counts(fate, by_fate.get(fate, [])) for fate in fates}


def _fate_counts(fate: str, copies: list[int]) -> tuple[str | None, int, int, int]:
    return OUTCOME_OF.get(fate), len(copies), sum(number > 1 for number in copies), sum(copies)


def _counts(trial: PlantedTrial) -> dict[str, Count | str]:
    by_fate = _copies_by_fate(trial)
    outcomes = Counter(row.outcome for row in trial.attempts)
    attempted_copies = [
        copies for fate, numbers in by_fate.items() if fate in OUTCOME_OF for copies in numbers
    ]
    lost, possibly_lost = len(by_fate.get("LOST", [])), len(by_fate.get("UNKNOWN_ABSENT", []))
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
        "lost_high_records": lost + possibly_lost,
        "duplicates": sum(max(copies - 1, 0) for copies in attempted_copies),
        "duplicated_records": sum(copies > 1 for copies in attempted_copies),
        "log_records": len(trial.log),
        "phantom_copies": len(by_fate.get("PHANTOM", [])),
        "corrupt_copies": len(by_fate.get("CORRUPT", [])),
        "reordered_records": len({(row.producer, row.seq) for row in reordered_rows(trial)}),
        "missed_records": None if (ids := missed_ids(trial)) is None else len(ids),
        "redelivered_reads": sum(
            anomaly[0] == "REDELIVERED" for anomaly in anomalies(trial).elements()
        )
        if trial.reads
        else None,
        **group_counts(trial),
        **_rates(trial),
    }


def _unavailability(stored: PlantedTrial) -> dict[str, Count]:
    """Return the longest gap of each side, regardless of the outcome of transactions."""
    return {
        "unavailable_ns": _unavailable_ns(stored),
        "consumer_unavailable_ns": _longest_gap_ns(stored, "consumer"),
        **_stalled_in_load(stored),
        **_cpu(stored),
    }


def _cpu(trial: PlantedTrial) -> dict[str, Count]:
    """Return the CPU time of all producers and of all nodes; null if one of them is unknown."""
    sampled = [
        (event.at_ns, event.detail) for event in trial.events if event.kind == "stalls_sampled"
    ]
    cpu_ns = json.loads(max(sampled)[1])["cpu_ns"] if sampled else {}
    producers = {f"producer {row.producer}" for row in trial.attempts}
    nodes = [taken for name, taken in cpu_ns.items() if name.startswith("node ")]
    return {
        "producer_cpu_ns": sum(map(cpu_ns.__getitem__, producers))
        if producers and producers <= {*cpu_ns}
        else None,
        "cluster_cpu_ns": sum(nodes) if nodes else None,
    }


def _stalled_in_load(trial: PlantedTrial) -> dict[str, Count]:
    """Return for how long any producer, and the consumer, was stalled within the load."""
    if all(event.kind != "stalls_sampled" for event in trial.events):
        return {"producer_stalled_ns": None, "consumer_stalled_ns": None}
    producers = {f"producer {row.producer}" for row in trial.attempts}
    stalls = [json.loads(event.detail) for event in trial.events if event.kind == "stalled"]
    edges = sorted({stall[name] for stall in stalls for name in ("began_ns", "ended_ns")})
    load = trial.phases.load_begin_ns, trial.phases.settled_ns
    stalled_ns = {}
    for side, names in (("producer", producers), ("consumer", {"consumer 0"})):
        of_side = [
            stall for stall in stalls if stall["process"] in (names | _OF_EACH if names else ())
        ]
        stalled_ns[f"{side}_stalled_ns"] = sum(
            _overlap_ns((begin, end), [load])
            for begin, end in pairwise(edges)
            if any(one["began_ns"] <= begin and end <= one["ended_ns"] for one in of_side)
        )
    return {**stalled_ns}


def _rates(trial: PlantedTrial) -> dict[str, Count]:
    """Return the rates within the load window; null without attempts or without a window."""
    window_s = (trial.phases.load_end_ns - trial.phases.load_begin_ns) / 1e9
    in_time = sum(
        row.outcome == "acked"
        and row.settled_ns is not None
        and row.settled_ns <= trial.phases.load_end_ns
        for row in trial.attempts
    )
    has_rate = bool(trial.attempts) and window_s > 0
    return {
        "offered_records_per_s": len(trial.attempts) / window_s if has_rate else None,
        "throughput_records_per_s": in_time / window_s if has_rate else None,
    }


def _unavailable_ns(trial: PlantedTrial) -> int | None:
    if trial.attempts and all(row.outcome != "acked" for row in trial.attempts):
        load = trial.phases.load_begin_ns, trial.phases.settled_ns
        return load[1] - load[0] - _overlap_ns(load, _stalled_spans(trial)["producer"])
    return _longest_gap_ns(trial, "producer")


def _longest_gap_ns(trial: PlantedTrial, side: str) -> int | None:
    return max(
        (gap.gap_ns for (_, of), gaps in _gaps(trial).items() for gap in gaps if of == side),
        default=None,
    )


def _acks(trial: PlantedTrial) -> list[tuple[int, int]]:
    return [
        (row.intended_ns, row.settled_ns)
        for row in trial.attempts
        if row.outcome == "acked" and row.settled_ns is not None
    ]


def _first_reads(trial: PlantedTrial) -> Iterable[tuple[int, int]]:
    first: dict[RecordId, tuple[int, int]] = {}
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


def _bucket(us: int) -> tuple[int, int]:
    """Return the bounds of a latency's bucket, in microseconds.

    Its width is a power of two, at most 1/128 of the value; negative values are mirrored.
    """
    if us < 0:
        low, high = _bucket(-us - 1)
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
    if intended_ns < begin:
        return "before"
    return "after" if end is not None and intended_ns >= end else "during"


def _timeline(trial: PlantedTrial) -> dict[int, tuple[int, int, int]]:
    events: list[tuple[int, tuple[int, int, int]]] = [
        (row.sent_ns, (1, 0, 0)) for row in trial.attempts if row.sent_ns is not None
    ]
    events += [(settled_ns, (0, 1, 0)) for _, settled_ns in _acks(trial)] + [
        (row.received_ns, (0, 0, 1)) for row in trial.reads
    ]
    slots: dict[int, tuple[int, int, int]] = {}
    for at_ns, one in events:
        slot = (at_ns - trial.phases.load_begin_ns) // (100 * MS)
        sent, acked, read = slots.get(slot, (0, 0, 0))
        slots[slot] = (sent + one[0], acked + one[1], read + one[2])
    return slots


def _gaps(trial: PlantedTrial) -> dict[tuple[int, str], list[PlainGap]]:
    gave_up_ns = None
    if not all(at_end for _, at_end in consumer_endings(trial)):
        gave_up_ns = max((at_ns for at_ns, _ in consumer_endings(trial)), default=0)
    stalled = _stalled_spans(trial)
    gaps = {}
    for partition in {row.partition for row in trial.attempts if row.partition is not None}:
        rows = [
            _Due(
                _sent_ns(row),
                trial.phases.settled_ns if row.settled_ns is None else row.settled_ns,
                row.outcome == "acked" and row.settled_ns is not None,
            )
            for row in trial.attempts
            if row.partition == partition
        ]
        gaps[partition, "producer"] = _gaps_of(rows, stalled["producer"])
    if unplaced := _unplaced(trial):
        gaps[-1, "producer"] = _gaps_of(unplaced, stalled["producer"])
    reads = _due_reads(trial)
    waiting = [] if gave_up_ns is None else _unread(trial)
    for partition in {partition for partition, _ in [*reads, *waiting]}:
        rows = [row for of, row in reads if of == partition]
        if gave_up_ns is not None:
            rows += [_Due(sent, gave_up_ns, False) for of, sent in waiting if of == partition]
        gaps[partition, "consumer"] = _gaps_of(rows, stalled["consumer"])
    return gaps


def _unplaced(trial: PlantedTrial) -> list[_Due]:
    """Return the records that have no partition and no acknowledgement, if any, and all answers."""
    waiting, answers = [], []
    for row in trial.attempts:
        settled_ns = trial.phases.settled_ns if row.settled_ns is None else row.settled_ns
        if row.outcome == "acked" and row.settled_ns is not None:
            answers.append(_Due(settled_ns, settled_ns, True))
        elif row.partition is None:
            waiting.append(_Due(_sent_ns(row), settled_ns, False))
    return [*waiting, *answers] if waiting else []


class _Due(NamedTuple):
    """A record that was due."""

    since_ns: int
    settled_ns: int
    answered: bool


def _sent_ns(row: PlantedAttempt) -> int:
    return row.intended_ns if row.sent_ns is None else row.sent_ns


def _due_reads(trial: PlantedTrial) -> list[tuple[int, _Due]]:
    """Return the partition of each read, and that it was due from when its producer sent it.

    A record that is received again was not awaited.
    """
    sent: dict[RecordId, int] = {(row.producer, row.seq): _sent_ns(row) for row in trial.attempts}
    due = []
    for row in sorted(trial.reads, key=lambda row: row.received_ns):
        since_ns = sent.pop((row.producer, row.seq), None)
        due.append(
            (
                row.partition,
                _Due(row.received_ns if since_ns is None else since_ns, row.received_ns, True),
            )
        )
    return due


def _unread(trial: PlantedTrial) -> list[tuple[int, int]]:
    """Return the partition of each stored record that no consumer received, and its sending."""
    received = {(row.producer, row.seq) for row in trial.reads if row.producer is not None}
    sent: dict[RecordId, int] = {(row.producer, row.seq): _sent_ns(row) for row in trial.attempts}
    stored = [row for row in trial.log if row.intact and row.visible and row.producer is not None]
    return [
        (row.partition, sent[row.producer, row.seq])
        for row in stored
        if (row.producer, row.seq) in sent and (row.producer, row.seq) not in received
    ]


def _stalled_spans(trial: PlantedTrial) -> dict[str, list[tuple[int, int]]]:
    """Return when a side's clients were all stalled, in pieces between any two begins or ends."""
    stalls = [json.loads(event.detail) for event in trial.events if event.kind == "stalled"]
    edges = sorted({stall[name] for stall in stalls for name in ("began_ns", "ended_ns")})
    producers = {f"producer {row.producer}" for row in trial.attempts}
    pieces: dict[str, list[tuple[int, int]]] = {"producer": [], "consumer": []}
    for begin, end in pairwise(edges):
        stalled = {
            stall["process"]
            for stall in stalls
            if stall["began_ns"] <= begin and end <= stall["ended_ns"]
        }
        no_producer_ran = bool(producers) and bool(_OF_EACH & stalled or producers <= stalled)
        if no_producer_ran:
            pieces["producer"].append((begin, end))
        if no_producer_ran or {*_OF_EACH, "consumer 0"} & stalled:
            pieces["consumer"].append((begin, end))
    return pieces


def _gaps_of(rows: list[_Due], stalled: list[tuple[int, int]]) -> list[PlainGap]:
    """Return the longest gap, and all of a second or more.

    Answers of a millisecond count as one.
    """
    answers = sorted(row.settled_ns for row in rows if row.answered)
    by_ms: dict[int, list[int]] = {}
    for answer in answers:
        by_ms.setdefault(answer // MS, []).append(answer)
    spans = []
    for before, after in pairwise([None, *by_ms, None]):
        due = [row for row in rows if before is None or row.settled_ns // MS > before]
        if due:
            ended = by_ms[after][0] if after is not None else max(row.settled_ns for row in rows)
            since = min(row.since_ns for row in due)
            began = since if before is None else max(by_ms[before][-1], since)
            spans.append((min(began, ended), ended, after is not None))
    gaps = [
        PlainGap(
            len(answers),
            ended - began - (off := _overlap_ns((began, ended), stalled)),
            began,
            ended,
            off,
            answered,
            longest=False,
        )
        for began, ended, answered in spans
    ]
    longest = max(gaps, key=lambda gap: (gap.gap_ns, -gap.began_ns, -gap.ended_ns))
    return [
        gap._replace(longest=gap is longest)
        for gap in gaps
        if gap is longest or gap.ended_ns - gap.began_ns >= 1000 * MS
    ]


def _overlap_ns(span: tuple[int, int], others: list[tuple[int, int]]) -> int:
    return sum(max(0, min(span[1], end) - max(span[0], begin)) for begin, end in others)
