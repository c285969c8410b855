"""Each partition's outage taken apart: last answer before, broker taken for dead, new leader, client told, first answer after.

A few rows a trial, so plain Python. What was not seen is null, and marks stand as they were seen, also where clocks contradict their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from experiments.ledger.result_tables import OUTAGES, OutageStep, Side
from spark_jobs.causes.evidence import LEADER, LEADS, LEARNED, Leadership, TrialEvent, TrialEvidence

LEDGER: Final = "ledger"
"""The source of the two marks that attempts and reads tell, to the nanosecond."""
FENCED: Final = "fenced"
_CLIENT: Final = {Side.PRODUCER: "producer", Side.CONSUMER: "reader"}

Row = Mapping[str, Any]
"""A row of a table whose schema `experiments.ledger.result_tables` has."""


@dataclass(frozen=True)
class OutageEvent:
    """When a mark was seen, who says so, and how much earlier it may have happened."""

    at_ns: int
    source: str
    resolution_ns: int | None = None


@dataclass(frozen=True)
class OutageGap:
    """A partition's longest time without an answer to one side."""

    partition: int
    side: Side
    began_ns: int
    ended_ns: int
    answered: bool
    """An answer ended it; else it lasted as long as anything was due."""


def outages(gaps: pa.Table, evidence: Mapping[str, TrialEvidence]) -> pa.Table:
    """Return the table of outages: a row for each mark of each gap that overlaps the time from the fault's begin to the full ISR.

    Args:
        gaps: trial_id and the columns of `GAPS`.
        evidence: by trial id, of every trial in `gaps`.
    """
    rows = [
        {
            "trial_id": row["trial_id"],
            "partition": gap.partition,
            "side": gap.side,
            "mark": mark,
            **_told(seen),
        }
        for row in gaps.sort_by(
            [("trial_id", "ascending"), ("partition", "ascending"), ("side", "ascending")]
        ).to_pylist()
        if _overlaps(gap := _gap(row), evidence[row["trial_id"]])
        for mark, seen in marks(gap, evidence[row["trial_id"]])
    ]
    return pa.Table.from_pylist(rows, schema=OUTAGES)


def marks(
    gap: OutageGap, evidence: TrialEvidence
) -> Iterator[tuple[OutageStep, OutageEvent | None]]:
    """Yield a gap's marks in the order in which they are due; `None`: not seen."""
    before = _leader_before(gap, evidence)
    within = [
        event
        for event in evidence.events
        if event.at_ns >= gap.began_ns and event.from_ns <= gap.ended_ns
    ]
    of_partition = [event for event in within if event.partition == gap.partition]
    yield (
        OutageStep.LAST_BEFORE,
        OutageEvent(gap.began_ns, LEDGER)
        if gap.began_ns > evidence.record.phases.load_begin_ns
        else None,
    )
    fenced = [
        event
        for event in within
        if event.kind == FENCED and event.node in evidence.record.fault.targets
    ]
    yield (
        OutageStep.DETECTED,
        _first(event for event in fenced if before and event.node == before.leader)
        or _first(fenced),
    )
    new = [event for event in of_partition if _newer(event, before)]
    yield (
        OutageStep.ELECTED,
        _first(event for event in new if event.kind == LEADS)
        or _first(event for event in new if event.kind == LEADER),
    )
    yield (
        OutageStep.LEARNED,
        _first(
            event
            for event in new
            if event.kind == LEARNED and event.detail.startswith(_CLIENT[gap.side])
        ),
    )
    yield OutageStep.FIRST_AFTER, OutageEvent(gap.ended_ns, LEDGER) if gap.answered else None


def _leader_before(gap: OutageGap, evidence: TrialEvidence) -> Leadership | None:
    earlier = [led for led in evidence.leaderships(gap.partition) if led.since_ns <= gap.began_ns]
    return earlier[-1] if earlier else None


def _newer(event: TrialEvent, before: Leadership | None) -> bool:
    """Tell whether an event tells of a later leader than the one that the gap began with: by the leader epoch, else by another node."""
    if event.node is None or before is None:
        return False
    if event.leader_epoch is not None and before.leader_epoch is not None:
        return event.leader_epoch > before.leader_epoch
    return event.node != before.leader


def _first(events: Iterable[TrialEvent]) -> OutageEvent | None:
    event = next(iter(events), None)
    return OutageEvent(event.at_ns, event.source, event.resolution_ns) if event else None


def _gap(row: Row) -> OutageGap:
    return OutageGap(
        row["partition"],
        Side(row["side"]),
        row["began_ns"],
        row["began_ns"] + row["gap_ns"],
        row["answered"],
    )


def _overlaps(gap: OutageGap, evidence: TrialEvidence) -> bool:
    phases = evidence.record.phases
    return (
        phases.fault_begin_ns is not None
        and gap.began_ns <= phases.healthy_ns
        and gap.ended_ns >= phases.fault_begin_ns
    )


def _told(seen: OutageEvent | None) -> Row:
    return (
        {"at_ns": seen.at_ns, "source": seen.source, "resolution_ns": seen.resolution_ns}
        if seen
        else {}
    )
