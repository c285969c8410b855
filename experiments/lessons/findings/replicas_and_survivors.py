"""Lesson 3: more replicas, more survivors. How many deaths a replication factor survives, for reads, for writes, and for what was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.result_tables import OutageStep, Side
from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
)
from experiments.lessons.plots import ShareDot, SharesPlot
from experiments.messages.counts import counted
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, TrialResult
from experiments.results.outages import marks_of, seen
from experiments.verdicts.statistics import Share, share, words

LESSON = 3
_STRUCK: Final = 0
"""The partition whose brokers are killed."""
_REMARKS: Final = {
    Conclusion.SUPPORTED: "Each time as many deaths were survived as there were further replicas.",
    Conclusion.PARTLY_SUPPORTED: (
        "So replication factor n survives n - 1 deaths for reads, and n - min.insync.replicas for writes with acks=all. "
        "What was acknowledged came back with the brokers: a killed process leaves its files behind."
    ),
    Conclusion.REFUTED: "So a partition did not survive the deaths that it should have survived.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged, or the dead were back before the others had gone on: give it longer (fault.restart_after_s).",
}


@dataclass(frozen=True)
class _Outcome:
    """What one trial saw before the dead were back."""

    led: bool
    """Another broker led the partition, so that it could be read."""
    wrote: bool
    """The topic took records."""
    lost: bool | None


@dataclass(frozen=True)
class _Case:
    """A replication factor, a minimum, and so many deaths among the brokers of one partition."""

    replicas: int
    minimum: int
    killed: int
    outcomes: tuple[_Outcome, ...]

    @property
    def topic(self) -> str:
        return f"replication factor {self.replicas} and min.insync.replicas={self.minimum}"

    @property
    def name(self) -> str:
        return f"RF {self.replicas}, minimum {self.minimum}, {self.killed} killed"

    @property
    def led(self) -> Share:
        return share(sum(one.led for one in self.outcomes), len(self.outcomes))

    @property
    def wrote(self) -> Share:
        return share(sum(one.wrote for one in self.outcomes), len(self.outcomes))

    @property
    def as_it_should(self) -> int:
        """In how many trials it could be read as long as a replica lived, and written as long as the minimum did, and no longer."""
        reads, writes = self.killed < self.replicas, self.killed <= self.replicas - self.minimum
        return sum(one.led is reads and one.wrote is writes for one in self.outcomes)


def find(material: FindingInput) -> Finding:
    """Return, for each replication factor and number of deaths, whether the partition was led and written before the dead came back."""
    made = (_case(material, cell) for cell in material.cells())
    cases = sorted(
        (case for case in made if case.outcomes),
        key=lambda case: (case.replicas, case.minimum, case.killed),
    )
    known = [one.lost for case in cases for one in case.outcomes if one.lost is not None]
    lost, right = (
        share(sum(known), len(known)),
        share(sum(case.as_it_should for case in cases), sum(len(case.outcomes) for case in cases)),
    )
    conclusion = _conclude(cases, lost, len(material.cells()))
    told = [
        *_told(cases),
        f"With replication factor n, reads survived n - 1 deaths, writes n - min.insync.replicas, and neither more, in {words(right)}.",
        f"Acknowledged records (acks=all) were lost in {words(lost)}.",
    ]
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        lead="Brokers of one partition were killed together; it was seen whether it could be read (another broker led) and written before they were back.",
        sentences=tuple(told),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, ()),
        plot=SharesPlot(
            caption="Trials in which the partition could be read, and written, before the dead brokers were back",
            rows=tuple(
                row
                for case in cases
                for row in (
                    ShareDot(name=f"{case.name}: read", share=case.led),
                    ShareDot(name=f"{case.name}: written", share=case.wrote),
                )
            ),
        ),
    )


def _case(material: FindingInput, cell: CellResult) -> _Case:
    trials = [
        trial
        for trial in judged_trials(material.results, cell)
        if trial.recovered_before_heal is not None
    ]
    return _Case(
        replicas=int(str(cell.cell["replication.factor"])),
        minimum=int(str(cell.cell["min.insync.replicas"])),
        killed=max((len(trial.fault.targets) for trial in trials), default=0),
        outcomes=tuple(
            _Outcome(
                led=bool(trial.recovered_before_heal)
                or _led_before_the_heal(
                    material, trial
                ),  # what was written had a leader, however short the outage
                wrote=bool(trial.recovered_before_heal),
                lost=None if trial.lost is None else trial.lost[0] > 0,
            )
            for trial in trials
        ),
    )


def _told(cases: Sequence[_Case]) -> Iterator[str]:
    """A sentence a topic, with its deaths in their order."""
    for topic in dict.fromkeys(case.topic for case in cases):
        deaths = [
            f"after {counted(case.killed, 'death')} read in {case.led.seen} and written in {case.wrote.seen} of {len(case.outcomes)} trials"
            for case in cases
            if case.topic == topic
        ]
        yield f"With {topic}: {', '.join(deaths)}."


def _led_before_the_heal(material: FindingInput, trial: TrialResult) -> bool:
    """Whether the partition got a leader sooner than the first of the dead was started again."""
    at_ns = seen(
        marks_of(material.rows("outages")[trial.trial_id]).get((_STRUCK, Side.PRODUCER), {})
    )
    if OutageStep.ELECTED not in at_ns or OutageStep.LAST_BEFORE not in at_ns:
        return False
    restarts_s = [
        float(str(value))
        for name, value in trial.fault.parameters.items()
        if name.rpartition(".")[2] == "restart_after_s"
    ]
    return (
        at_ns[OutageStep.ELECTED] - at_ns[OutageStep.LAST_BEFORE]
        < min(restarts_s, default=0.0) * 1e9
    )


def _conclude(cases: Sequence[_Case], lost: Share, planned: int) -> Conclusion:
    """It falls where deaths were never survived that should have been, or something was lost; in part where reads survived more than writes."""
    if lost.seen or any(case.as_it_should == 0 for case in cases):
        return Conclusion.REFUTED
    enough = (
        len(cases) == planned
        and min((len(case.outcomes) for case in cases), default=0) >= LEAST_TRIALS
    )
    if not enough or any(case.as_it_should < len(case.outcomes) for case in cases):
        return Conclusion.INCONCLUSIVE
    return (
        Conclusion.PARTLY_SUPPORTED
        if any(case.wrote.seen < case.led.seen for case in cases)
        else Conclusion.SUPPORTED
    )
