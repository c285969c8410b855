"""Lesson 18: data is on disk. What a power cut of one node, and of all, takes of what was acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.record import Scalar
from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    lossy,
    records_lost,
    repeats_needed,
)
from experiments.lessons.plots import ShareDot, SharesPlot
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, TrialResult
from experiments.verdicts.statistics import words

LESSON = 18
_EVERY: Final = "1"
"""`flush.messages`: each record is synced before it is acknowledged."""
_CUT: Final = "recovery-point-cut"
"""Brokers note down once a minute what they have synced: a cut to that says nothing of syncing each record."""
_REMARKS: Final = {
    Conclusion.SUPPORTED: "So what was acknowledged by all in-sync replicas was there after the cut.",
    Conclusion.PARTLY_SUPPORTED: (
        "So what was acknowledged is in the operating system's memory, and on the disk some time later. Kafka relies on the other replicas: "
        "put them where one power cut does not reach all of them, or have each record synced (flush.messages=1) and pay for it."
    ),
    Conclusion.REFUTED: "So records that all in-sync replicas had were lost to the power cut of one node.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Case:
    """Who lost power, and how records were acknowledged and synced."""

    all_nodes: bool
    acks: Scalar
    synced: bool
    trials: tuple[TrialResult, ...]

    @property
    def name(self) -> str:
        synced = " and each record synced (flush.messages=1)" if self.synced else ""
        return f"{'at all nodes' if self.all_nodes else 'at the leader alone'} with acks={self.acks}{synced}"


def find(material: FindingInput) -> Finding:
    """Return what was lost when one node lost power, and when all did."""
    worst = any(str(cell.cell["fault"]).endswith(_CUT) for cell in material.cells())
    made = [
        case
        for case in (_case(material, cell) for cell in material.cells())
        if not (worst and case.synced)
    ]
    cases = sorted(made, key=lambda case: (case.all_nodes, str(case.acks), case.synced))
    lost = {case.name: lossy(case.trials) for case in cases}
    conclusion = _conclude(cases)
    told = [
        f"{_capital(case.name)} in {words(lost[case.name])}{records_lost(case.trials)}."
        for case in cases
    ]
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        lead=f"{_how(worst=worst)} acknowledged records were lost:" if told else None,
        sentences=tuple(told) or ("No trial was judged.",),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, lost.values()),
        plot=SharesPlot(
            caption="Trials in which acknowledged records were lost",
            rows=tuple(ShareDot(name=name, share=found) for name, found in lost.items()),
        ),
    )


def _how(*, worst: bool) -> str:
    return (
        "With logs cut to what the brokers had noted down as synced, the worst that a power cut may leave,"
        if worst
        else "When the power was cut,"
    )


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def _case(material: FindingInput, cell: CellResult) -> _Case:
    return _Case(
        all_nodes=str(cell.cell["fault"]).startswith("all-"),
        acks=cell.cell["acks"],
        synced=str(cell.cell.get("flush.messages")) == _EVERY,
        trials=tuple(judged_trials(material.results, cell)),
    )


def _conclude(cases: Sequence[_Case]) -> Conclusion:
    """Asked of acks=all: it stands where nothing was lost at all, in part where only the power cut of all nodes lost, with nothing synced."""
    asked = [case for case in cases if case.acks == "all"]
    one, every = (
        [lossy(case.trials) for case in asked if case.all_nodes is all_nodes]
        for all_nodes in (False, True)
    )
    if any(found.seen for found in one):
        return Conclusion.REFUTED
    if not one or not every or min(found.of for found in (*one, *every)) < LEAST_TRIALS:
        return Conclusion.INCONCLUSIVE
    return (
        Conclusion.PARTLY_SUPPORTED if any(found.seen for found in every) else Conclusion.SUPPORTED
    )
