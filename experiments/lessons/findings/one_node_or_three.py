"""Lesson 16: a single node is for development, a cluster for production: what one node does not survive."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    lossy,
    repeats_needed,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.counts import counted
from experiments.results.cells import judged_trials
from experiments.results.models import TrialResult
from experiments.verdicts.statistics import words

LESSON = 16
_REMARKS = {
    Conclusion.SUPPORTED: "So nobody writes while a single node is away, and several go on without one of them.",
    Conclusion.REFUTED: "So one node came back as soon as several did.",
    Conclusion.PARTLY_SUPPORTED: "So not every fault that one node does not survive is survived by several, or the other way round.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


def find(material: FindingInput) -> Finding:
    """Return what the same faults do to one node and to three: loss, and whether the partition came back before the node did."""
    nodes = sorted({int(str(cell.cell["nodes"])) for cell in material.cells()})
    of = {count: material.trials(nodes=count) for count in nodes}
    told = [f"With {_nodes(count)}: {_outcome(trials)}." for count, trials in of.items()]
    conclusion = _conclude(of)
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(told),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, (lossy(trials) for trials in of.values())),
        plot=DotsPlot(
            caption="The longest time without an acknowledgement, a dot a trial",
            label="seconds",
            rows=tuple(
                _row(cell.label, judged_trials(material.results, cell)) for cell in material.cells()
            ),
        ),
    )


def _nodes(count: int) -> str:
    return "one node" if count == 1 else f"{count} nodes"


def _outcome(trials: Sequence[TrialResult]) -> str:
    gaps = [trial.unavailable_ms for trial in trials if trial.unavailable_ms is not None]
    back = [trial for trial in trials if trial.recovered_before_heal]
    lengths = (
        f", {median(gaps) / 1000:.1f} s without an acknowledgement at the median" if gaps else ""
    )
    lost, went_on = words(lossy(trials)), f"{len(back)} of {counted(len(trials), 'trial')}"
    return f"acknowledged records were lost in {lost}; writing went on before the node was back in {went_on}{lengths}"


def _conclude(of: dict[int, list[TrialResult]]) -> Conclusion:
    """It stands where one node was gone until it came back itself, each time, and several nodes went on without it, each time."""
    least, most = min(of), max(of)
    alone = [
        trial.recovered_before_heal
        for trial in of[least]
        if trial.recovered_before_heal is not None
    ]
    several = [
        trial.recovered_before_heal for trial in of[most] if trial.recovered_before_heal is not None
    ]
    if min(len(alone), len(several)) < LEAST_TRIALS:
        return Conclusion.INCONCLUSIVE
    return (
        Conclusion.SUPPORTED
        if not any(alone) and all(several)
        else Conclusion.REFUTED
        if all(alone)
        else Conclusion.PARTLY_SUPPORTED
    )


def _row(name: str, trials: Sequence[TrialResult]) -> DotRow:
    return DotRow(
        name=name,
        values=tuple(
            trial.unavailable_ms / 1000 for trial in trials if trial.unavailable_ms is not None
        ),
    )
