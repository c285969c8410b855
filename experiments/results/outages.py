"""Outages taken apart: how long until it was noticed, until another replica led, until the client knew, until a record was acknowledged. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.record import TrialRecord
from experiments.ledger.result_tables import OutageStep, Side
from experiments.results.rows import Row

_NS_PER_MS: Final = 1e6

PART_NAMES: Final[Mapping[OutageStep, str]] = {
    OutageStep.DETECTED: "until the controller noticed",
    OutageStep.ELECTED: "until another replica led",
    OutageStep.LEARNED: "until the client knew",
    OutageStep.FIRST_AFTER: "until records flowed again",
}
"""What ends at each mark."""

StepRows = Mapping[OutageStep, Row]
"""The rows of one partition and side in the table `outages`."""


@dataclass(frozen=True)
class OutagePart:
    """A stretch of an outage, milliseconds after the last record before it."""

    mark: OutageStep
    """What ended it."""
    from_ms: float
    to_ms: float

    @property
    def lasted_ms(self) -> float:
        """From one mark to the next."""
        return self.to_ms - self.from_ms


@dataclass(frozen=True)
class Outage:
    """A partition's longest gap, by the marks that were seen; one that was not seen has no part, and its time is in the next one's."""

    trial_id: str
    partition: int
    side: Side
    parts: tuple[OutagePart, ...]
    answered: bool
    """Something flowed again; else it lasted until nothing was due any more."""
    disordered: tuple[OutageStep, ...]
    """Seen before the mark that should come before them; they end no part."""
    resolutions_ms: Mapping[OutageStep, float]

    @property
    def length_ms(self) -> float:
        """From the last record before, or the load's begin, to the first one after, or the settling."""
        return self.parts[-1].to_ms

    @property
    def apart(self) -> bool:
        """Whether a mark within was seen."""
        return len(self.parts) > 1


def outages_of(record: TrialRecord, rows: Sequence[Row]) -> list[Outage]:
    """Return a trial's outages, one for each partition and side, from rows of the table `outages`; the longest first."""
    found = [
        _outage(record, partition, side, marks)
        for (partition, side), marks in steps_by_partition(rows).items()
    ]
    return sorted(found, key=lambda outage: (-outage.length_ms, outage.partition, outage.side))


def steps_by_partition(rows: Sequence[Row]) -> dict[tuple[int, Side], StepRows]:
    """Return the marks of each partition and side; of those that were not seen, rows without a time."""
    marks: dict[tuple[int, Side], dict[OutageStep, Row]] = {}
    for row in rows:
        marks.setdefault((row["partition"], Side(row["side"])), {})[OutageStep(row["mark"])] = row
    return dict(marks)


def observed_times_ns(marks: StepRows) -> dict[OutageStep, int]:
    """Return when each mark was, nanoseconds; without those that were not seen."""
    return {mark: row["at_ns"] for mark, row in marks.items() if row["at_ns"] is not None}


def split_outage(
    begin_ns: int, at_ns: Mapping[OutageStep, int]
) -> tuple[tuple[OutagePart, ...], tuple[OutageStep, ...]]:
    """Return the parts of an outage, and the marks that stand in the wrong order and end none.

    Args:
        begin_ns: when it began.
        at_ns: the marks that were seen; `FIRST_AFTER`, its end, must be among them.
    """
    parts: list[OutagePart] = []
    disordered: list[OutageStep] = []
    for mark in (mark for mark in PART_NAMES if mark in at_ns):
        came_ms, to_ms = (parts[-1].to_ms if parts else 0.0), (at_ns[mark] - begin_ns) / _NS_PER_MS
        if came_ms <= to_ms and at_ns[mark] <= at_ns[OutageStep.FIRST_AFTER]:
            parts.append(OutagePart(mark, came_ms, to_ms))
        else:
            disordered.append(mark)
    return tuple(parts) or (OutagePart(OutageStep.FIRST_AFTER, 0.0, 0.0),), tuple(disordered)


def _outage(record: TrialRecord, partition: int, side: Side, marks: StepRows) -> Outage:
    at_ns = observed_times_ns(marks)
    answered = OutageStep.FIRST_AFTER in at_ns
    ended = {
        **at_ns,
        OutageStep.FIRST_AFTER: at_ns.get(OutageStep.FIRST_AFTER, record.phases.settled_ns),
    }
    parts, disordered = split_outage(
        at_ns.get(OutageStep.LAST_BEFORE, record.phases.load_begin_ns), ended
    )
    resolutions_ms = {
        mark: row["resolution_ns"] / _NS_PER_MS
        for mark, row in marks.items()
        if row["resolution_ns"] is not None
    }
    return Outage(record.trial_id, partition, side, parts, answered, disordered, resolutions_ms)
