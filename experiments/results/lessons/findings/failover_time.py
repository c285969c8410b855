"""Lesson 2: a follower takes over very fast, almost unnoticed.

Measures how long a partition is unavailable when the broker of its leader goes down, and how that
time splits into detection, election, discovery by the client and the first record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from ackbench.experiments.ledger.result_terms import MIN_OUTAGE_NS, OutageStep, Side
from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.lessons.criterion import conclude, outcome
from ackbench.experiments.results.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_duration,
    describe_durations,
    repeats_needed,
)
from ackbench.experiments.results.lessons.plots import BarPart, BarRow, BarsPlot
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.outages import (
    PART_NAMES,
    OutagePart,
    observed_times_ns,
    split_outage,
    steps_of_longest_gaps,
)

_TARGET: Final = 0
"""The partition whose leader the fault stops."""
_STOPPED_MS: Final = MIN_OUTAGE_NS / 1e6
"""Shorter gaps are normal on a loaded cluster; producers do not notice them."""
_FAULTS: Final = {
    "leader-crash": "Leader crash",
    "leader-pause": "Leader paused",
    "leader-stop": "Clean shutdown of the leader",
}
_SETTINGS: Final = {
    "replica.fetch.backoff.ms": "fetch backoff",
    "broker.session.timeout.ms": "session timeout",
}
"""What distinguishes cases of one fault: the first of these that the cell has."""
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: "At the median, producers waited less than a second in each case.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Gap:
    """The longest time without an acknowledgement of one partition in one trial."""

    lasted_ms: float
    parts: tuple[OutagePart, ...]
    """Its steps; empty if their times are unknown."""

    @property
    def leader_changed(self) -> bool:
        return any(part.step is OutageStep.ELECTED for part in self.parts)


@dataclass(frozen=True)
class _Case:
    """A cell, and the gaps of its partitions."""

    name: str
    target_gaps: tuple[_Gap, ...]
    """Gaps of the partition that lost its leader: one per trial, the shortest first."""
    follower_gaps_ms: tuple[float, ...]
    """Gaps of the partitions that kept their leader: one per partition and trial."""

    @property
    def median_gap(self) -> _Gap:
        """The gap of the trial in the middle, so that its steps add up."""
        return self.target_gaps[len(self.target_gaps) // 2]

    @property
    def is_noticed(self) -> bool:
        """Whether producers notice at the median: a busy machine may pause a single trial."""
        return median(gap.lasted_ms for gap in self.target_gaps) >= _STOPPED_MS

    @property
    def is_mostly_detection(self) -> bool:
        """Whether more than half of the median gap passed until the broker was fenced."""
        fenced_ms = sum(
            part.lasted_ms for part in self.median_gap.parts if part.step is OutageStep.DETECTED
        )
        return fenced_ms > self.median_gap.lasted_ms / 2


def find(data: FindingInput) -> Finding:
    """Return how long the partition was unavailable in each case, and the steps of that time."""
    cases = [case for case in (_case(data, cell) for cell in data.cells()) if case.target_gaps]
    conclusion = _conclusion(cases, planned=len(data.cells()))
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=(*map(_case_sentence, cases), *_follower_sentence(cases))
        or ("No trial was judged.",),
        remark=_REMARK_BY_CONCLUSION.get(conclusion) or _noticed_remark(cases),
        repeats_needed=repeats_needed(conclusion),
        plot=BarsPlot(
            caption="Time without an acknowledgement, in the median trial of each case",
            label="seconds",
            rows=tuple(
                BarRow(name=case.name, parts=tuple(_bar_parts(case.median_gap))) for case in cases
            ),
        ),
    )


def _case(data: FindingInput, cell: CellResult) -> _Case:
    trials = [dict(_gaps(data, trial.trial_id)) for trial in data.cell_trials(cell)]
    target_gaps = [gaps[_TARGET] for gaps in trials if _TARGET in gaps]
    return _Case(
        name=_case_name(cell.cell),
        target_gaps=tuple(sorted(target_gaps, key=lambda gap: gap.lasted_ms)),
        follower_gaps_ms=tuple(
            gap.lasted_ms
            for gaps in trials
            for partition, gap in gaps.items()
            if partition != _TARGET and not gap.leader_changed
        ),
    )


def _case_name(cell: Cell) -> str:
    fault = str(cell["fault"])
    name = _FAULTS.get(fault, fault)
    for axis, setting in _SETTINGS.items():
        if cell.get(axis):
            return f"{name} ({setting} {int(str(cell[axis])) / 1000:g} s)"
    return name


def _gaps(data: FindingInput, trial_id: str) -> Iterator[tuple[int, _Gap]]:
    """Yield the producers' longest gap of each partition."""
    steps = steps_of_longest_gaps(data.rows("outages")[trial_id])
    for row in data.rows("gaps")[trial_id]:
        if row["side"] == Side.PRODUCER and row["longest"]:
            at_ns = observed_times_ns(steps.get((row["partition"], Side.PRODUCER), {}))
            known = OutageStep.LAST_BEFORE in at_ns and OutageStep.FIRST_AFTER in at_ns
            parts = split_outage(at_ns[OutageStep.LAST_BEFORE], at_ns)[0] if known else ()
            yield row["partition"], _Gap(row["gap_ns"] / 1e6, parts)


def _case_sentence(case: _Case) -> str:
    durations = describe_durations([gap.lasted_ms for gap in case.target_gaps])
    sentence = f"{case.name}: the partition acknowledged no record for {durations}"
    parts = case.median_gap.parts
    if len(parts) > 1:
        steps = (f"{describe_duration(part.lasted_ms)} {PART_NAMES[part.step]}" for part in parts)
        sentence += f"; in the median trial {', '.join(steps)}"
    if case.follower_gaps_ms:
        followers = describe_duration(median(case.follower_gaps_ms))
        sentence += f"; partitions that lost only a follower, for {followers} at the median"
    return f"{sentence}."


def _follower_sentence(cases: Sequence[_Case]) -> Iterator[str]:
    """Yield why partitions that kept their leader were unavailable, if they were."""
    if any(
        case.follower_gaps_ms and median(case.follower_gaps_ms) >= _STOPPED_MS for case in cases
    ):
        yield (
            "Partitions that lost only a follower were unavailable as well: acks=all waits for "
            "each in-sync replica until it is removed from the ISR."
        )


def _conclusion(cases: Sequence[_Case], planned: int) -> Conclusion:
    """Return whether producers notice: a gap of less than a second is almost unnoticed.

    A case needs enough trials for its median, also to refute the claim.
    """
    enough = [case for case in cases if len(case.target_gaps) >= MIN_TRIALS]
    noticed = outcome(
        met=any(case.is_noticed for case in enough), measured=len(enough) == planned > 0
    )
    return conclude([noticed])


def _noticed_remark(cases: Sequence[_Case]) -> str:
    """Return which cases producers noticed, and what part of that time was detection."""
    enough = [case for case in cases if len(case.target_gaps) >= MIN_TRIALS]
    noticed = [case for case in enough if case.is_noticed]
    remark = f"Noticed at the median: {format_list([case.name for case in noticed])}."
    detected = [case.name for case in noticed if case.is_mostly_detection]
    if detected:
        remark += (
            f" More than half of that time is detection, in {format_list(detected)}: the "
            "controller fences a crashed broker only after broker.session.timeout.ms."
        )
    unnoticed = [case.name for case in enough if not case.is_noticed]
    if unnoticed:
        remark += f" Less than a second at the median: {format_list(unnoticed)}."
    return remark


def _bar_parts(gap: _Gap) -> Iterator[BarPart]:
    if not gap.parts:
        yield BarPart(name="steps unknown", value=gap.lasted_ms / 1000)
    for part in gap.parts:
        yield BarPart(name=PART_NAMES[part.step], value=part.lasted_ms / 1000)
