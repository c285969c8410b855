"""The steps of each partition's outage: detection, election, the client's discovery, recovery.

They range from the begin of a gap to the first answer after it (`OutageStep`). A trial
has a few such rows, so this is plain Python. A step that was not observed is null. Steps keep their
observed times, even if the clocks of their sources contradict the order of the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ackbench.experiments.ledger.result_terms import MIN_OUTAGE_NS, OutageStep, Side
from ackbench.spark_jobs.causes.evidence import (
    BECAME_LEADER,
    LEADER,
    LEADER_LEARNED,
    Leadership,
    TrialEvent,
    TrialEvidence,
    trial_evidence,
)
from ackbench.spark_jobs.measures.availability import AvailabilityMeasure
from ackbench.spark_jobs.measures.measure import MeasuredTrial, OfEvents, Tables

LEDGER: Final = "ledger"
"""The source of the two steps that follow from attempts and reads, to the nanosecond."""
FENCED: Final = "fenced"
_CLIENT: Final = {Side.PRODUCER: "producer", Side.CONSUMER: "consumer"}
"""How the detail of a client's event begins, by side."""

Row = Mapping[str, Any]
"""A row of a table whose schema is in `experiments.ledger.result_tables`."""


@dataclass(frozen=True)
class OutageEvent:
    """When a step was observed, by which source, and how much earlier it may have happened."""

    at_ns: int
    source: str
    resolution_ns: int | None = None


@dataclass(frozen=True)
class OutageGap:
    """A time of a partition without an answer to one side, although records were due."""

    partition: int
    side: Side
    began_ns: int
    ended_ns: int
    answered: bool
    """Whether an answer ended it; if not, it lasted as long as anything was due."""
    longest: bool
    """Whether it is the longest of its partition and side."""


def outage_rows(gaps: Iterable[Row], evidence: TrialEvidence) -> Iterator[Row]:
    """Yield a trial's rows of `OUTAGES`, without trial_id: the steps of each gap in the fault.

    The fault counts from its begin until the partition has its full ISR again. A gap that a stall
    explains is no outage.

    Args:
        gaps: the trial's rows of `GAPS`.
        evidence: of the trial.
    """
    for row in gaps:
        gap = _parse_gap(row)
        matters = gap.longest or row["gap_ns"] >= MIN_OUTAGE_NS
        if matters and _overlaps_fault(gap, evidence):
            for step, observed in outage_steps(gap, evidence):
                yield {
                    "partition": gap.partition,
                    "side": gap.side,
                    "began_ns": gap.began_ns,
                    "longest": gap.longest,
                    "step": step,
                    **_observation_columns(observed),
                }


def outage_steps(
    gap: OutageGap, evidence: TrialEvidence
) -> Iterator[tuple[OutageStep, OutageEvent | None]]:
    """Yield the steps of a gap in the order in which they are due; `None`: not observed."""
    before = _leader_before(gap, evidence)
    within = [
        event
        for event in evidence.events
        if event.at_ns >= gap.began_ns and event.earliest_ns <= gap.ended_ns
    ]
    of_partition = [event for event in within if event.partition == gap.partition]
    yield OutageStep.LAST_BEFORE, OutageEvent(gap.began_ns, LEDGER)
    fenced = [
        event
        for event in within
        if event.kind == FENCED and event.node in evidence.manifest.fault.targets
    ]
    yield (
        OutageStep.DETECTED,
        _first(event for event in fenced if before and event.node == before.leader)
        or _first(fenced),
    )
    new_leader = [event for event in of_partition if _has_new_leader(event, before)]
    yield (
        OutageStep.ELECTED,
        _first(event for event in new_leader if event.kind == BECAME_LEADER)
        or _first(event for event in new_leader if event.kind == LEADER),
    )
    yield (
        OutageStep.LEARNED,
        _first(
            event
            for event in new_leader
            if event.kind == LEADER_LEARNED and event.detail.startswith(_CLIENT[gap.side])
        ),
    )
    yield OutageStep.FIRST_AFTER, OutageEvent(gap.ended_ns, LEDGER) if gap.answered else None


def _leader_before(gap: OutageGap, evidence: TrialEvidence) -> Leadership | None:
    earlier = [led for led in evidence.leaderships(gap.partition) if led.since_ns <= gap.began_ns]
    return earlier[-1] if earlier else None


def _has_new_leader(event: TrialEvent, before: Leadership | None) -> bool:
    """Return whether an event has a later leader than the one at the begin of the gap.

    It is later by its leader epoch; if an epoch is unknown, another node counts as a later leader.
    """
    if event.node is None or before is None:
        return False
    if event.leader_epoch is not None and before.leader_epoch is not None:
        return event.leader_epoch > before.leader_epoch
    return event.node != before.leader


def _first(events: Iterable[TrialEvent]) -> OutageEvent | None:
    event = next(iter(events), None)
    return OutageEvent(event.at_ns, event.source, event.resolution_ns) if event else None


def _parse_gap(row: Row) -> OutageGap:
    return OutageGap(
        row["partition"],
        Side(row["side"]),
        row["began_ns"],
        row["ended_ns"],
        row["answered"],
        row["longest"],
    )


def _overlaps_fault(gap: OutageGap, evidence: TrialEvidence) -> bool:
    phases = evidence.manifest.phases
    return (
        phases.fault_begin_ns is not None
        and gap.began_ns <= phases.healthy_ns
        and gap.ended_ns >= phases.fault_begin_ns
    )


def _observation_columns(observed: OutageEvent | None) -> Row:
    return (
        {
            "at_ns": observed.at_ns,
            "source": observed.source,
            "resolution_ns": observed.resolution_ns,
        }
        if observed
        else {}
    )


class OutageMeasure(OfEvents):
    """The steps of each outage: what happened until records flowed again."""

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `OUTAGES`."""
        evidence = trial_evidence(trial.manifest, trial.events, trial.context["epochs"])
        return {"outages": outage_rows(trial.rows_of(AvailabilityMeasure)["gaps"], evidence)}
