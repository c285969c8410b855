"""Lesson 3: more replicas, more survivors. How many deaths a replication factor survives, for reads, for writes, and for what was acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from experiments.findings.finding import LEAST_TRIALS, Finding, Material, Standing, lossy, repeats_needed
from experiments.findings.plots import ShareRow, SharesPlot
from experiments.ledger.measured import Mark, Side
from experiments.plurals import counted
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, TrialResult
from experiments.results.outages import marks_of, seen
from experiments.statistics import Share, share, words

LESSON = 3
_STRUCK: Final = 0
"""The partition whose brokers are killed."""
_REMARKS: Final = {
    Standing.STANDS: "Each time as many deaths were survived as there were further replicas.",
    Standing.IN_PART: (
        "So replication factor n survives n - 1 deaths for reads, and n - min.insync.replicas for writes with acks=all. "
        "What was acknowledged came back with the brokers: a killed process leaves its files behind."
    ),
    Standing.FALLS: "So a partition did not survive the deaths that it should have survived.",
    Standing.OPEN: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Case:
    """A replication factor, a minimum, and so many deaths among the brokers of one partition."""

    replicas: int
    minimum: int
    killed: int
    trials: tuple[TrialResult, ...]
    led: Share
    """In how many trials another broker led before the dead were back."""
    wrote: Share
    """In how many the topic took records before."""

    @property
    def name(self) -> str:
        return f"replication factor {self.replicas}, min.insync.replicas={self.minimum}, {counted(self.killed, 'broker')} killed"

    @property
    def as_it_should(self) -> bool:
        """Whether it led and wrote wherever it should have; more than that is no fault."""
        reads, writes = self.killed < self.replicas, self.killed <= self.replicas - self.minimum
        return (not reads or self.led.seen == self.led.of) and (not writes or self.wrote.seen == self.wrote.of)

    @property
    def without_writes(self) -> bool:
        """Whether it could be read and not be written."""
        return self.led.seen == self.led.of and self.wrote.seen < self.wrote.of


def find(material: Material) -> Finding:
    """Return, for each replication factor and number of deaths, whether the partition was led and written before the dead came back."""
    cases = [_case(material, cell) for cell in material.cells() if judged_trials(material.results, cell)]
    lost = lossy([trial for case in cases for trial in case.trials])
    standing = _standing(cases, lost, len(material.cells()))
    return Finding(
        lesson=LESSON,
        standing=standing,
        sentence=" ".join([*map(_told, cases), f"Acknowledged records (acks=all) were lost in {words(lost)}."]),
        remark=_REMARKS[standing],
        repeats_needed=repeats_needed(standing, [lost]),
        plot=SharesPlot(
            caption="Trials in which the partition could be read, and written, before the dead brokers were back",
            rows=tuple(row for case in cases for row in (ShareRow(name=f"{case.name}: read", share=case.led), ShareRow(name="written", share=case.wrote))),
        ),
    )


def _case(material: Material, cell: CellResult) -> _Case:
    trials = judged_trials(material.results, cell)
    wrote = [trial.recovered_before_heal for trial in trials if trial.recovered_before_heal is not None]
    return _Case(
        replicas=int(str(cell.cell["replication.factor"])),
        minimum=int(str(cell.cell["min.insync.replicas"])),
        killed=max(len(trial.fault.targets) for trial in trials),
        trials=tuple(trials),
        led=share(sum(_led_before_the_heal(material, trial) for trial in trials), len(trials)),
        wrote=share(sum(wrote), len(wrote)),
    )


def _told(case: _Case) -> str:
    return f"With {case.name}, another broker led before the dead were back in {words(case.led)}, and records were taken in {words(case.wrote)}."


def _led_before_the_heal(material: Material, trial: TrialResult) -> bool:
    """Whether the partition got a leader sooner than the first of the dead was started again."""
    at_ns = seen(marks_of(material.rows("outages")[trial.trial_id]).get((_STRUCK, Side.PRODUCER), {}))
    if Mark.ELECTED not in at_ns or Mark.LAST_BEFORE not in at_ns:
        return False
    restarts_s = [float(str(value)) for name, value in trial.fault.parameters.items() if name.rpartition(".")[2] == "restart_after_s"]
    return at_ns[Mark.ELECTED] - at_ns[Mark.LAST_BEFORE] < min(restarts_s, default=0.0) * 1e9


def _standing(cases: Sequence[_Case], lost: Share, planned: int) -> Standing:
    """It falls where too few deaths were survived, or something was lost; in part where reads survived more than writes."""
    if lost.seen or not all(case.as_it_should for case in cases):
        return Standing.FALLS
    if len(cases) < planned or min((min(case.led.of, case.wrote.of) for case in cases), default=0) < LEAST_TRIALS:
        return Standing.OPEN
    return Standing.IN_PART if any(case.without_writes for case in cases) else Standing.STANDS
