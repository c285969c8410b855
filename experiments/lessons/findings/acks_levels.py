"""Lesson 5: acks=0 may lose, acks=1 may lose what was not replicated, acks=all loses nothing; and each costs more than the one before."""

from __future__ import annotations

from statistics import median
from typing import Final

from experiments.ledger.record import Scalar
from experiments.lessons.finding import (
    LEAST_TRIALS,
    RATE,
    Conclusion,
    Finding,
    FindingInput,
    in_time_percent,
    lossy,
    records_lost,
    repeats_needed,
    spread,
)
from experiments.lessons.plots import ShareDot, SharesPlot
from experiments.messages.counts import listed
from experiments.results.models import TrialResult
from experiments.verdicts.statistics import Share, words

LESSON = 5
_LEVELS: tuple[Scalar, ...] = (0, 1, "all")
_BEHIND = "leader-crash-behind"
_ALONE = "unclean-election"
_REMARKS: Final = {
    Conclusion.SUPPORTED: "So acks=0 and acks=1 lost what acks=all kept.",
    Conclusion.PARTLY_SUPPORTED: "So acks=all is no guarantee by itself: it waits for who is in sync, and with min.insync.replicas=1 that may be the leader alone.",
    Conclusion.REFUTED: "So acks=all lost acknowledged records, which Kafka promises not to.",
    Conclusion.INCONCLUSIVE: "Too few trials, or too few with loss, to tell the levels apart.",
}


def find(material: FindingInput) -> Finding:
    """Return what each level lost when the leader died with its followers behind, what it cost, and what acks=all loses all the same."""
    of_level = {level: material.trials(acks=level, fault=_BEHIND) for level in _LEVELS}
    lost = {level: lossy(trials) for level, trials in of_level.items()}
    alone = lossy(material.trials(acks="all", fault=_ALONE))
    told = [
        f"When the leader died with its followers behind, acknowledged records were lost: {_told(lost, of_level)}."
    ]
    told += [*_price(of_level), *_rates(material)]
    told += (
        [
            f"With acks=all and min.insync.replicas=1, the leader alone in the ISR and an unclean election after its death, in {words(alone)}."
        ]
        if alone.of
        else []
    )
    conclusion = _conclude(lost, alone)
    rows = [
        ShareDot(name=f"acks={level}", share=found) for level, found in lost.items() if found.of
    ]
    rows += (
        [ShareDot(name="acks=all, alone in the ISR, unclean election", share=alone)]
        if alone.of
        else []
    )
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(told),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, lost.values()),
        plot=SharesPlot(caption="Trials in which acknowledged records were lost", rows=tuple(rows)),
    )


def _told(lost: dict[Scalar, Share], of_level: dict[Scalar, list[TrialResult]]) -> str:
    return "; ".join(
        f"acks={level} in {words(found)}{records_lost(of_level[level])}"
        for level, found in lost.items()
    )


def _price(of_level: dict[Scalar, list[TrialResult]]) -> list[str]:
    """Return what the levels cost while nothing was wrong: the median over trials of the median latency."""
    before = {
        level: [
            trial.latency_by_phase_ms.before.ack.p50
            for trial in trials
            if trial.latency_by_phase_ms.before.ack
        ]
        for level, trials in of_level.items()
    }
    if not all(before.values()):
        return []
    prices = ", ".join(
        f"{median(values):.1f} ms with acks={level}" for level, values in before.items()
    )
    return [f"Before the fault a record was acknowledged after {prices} (medians)."]


def _rates(material: FindingInput) -> list[str]:
    """Return how much of a heavy load each level acknowledged in time."""
    calm = {
        f"acks={level}": material.trials(acks=level, fault="none", enable__idempotence=False)
        for level in _LEVELS
    }
    calm["acks=all and idempotence"] = material.trials(
        acks="all", fault="none", enable__idempotence=True
    )
    in_time = {name: in_time_percent(trials) for name, trials in calm.items()}
    told = [f"{spread(values, 0, ' %')} with {name}" for name, values in in_time.items() if values]
    offered = max(
        (
            float(str(trial.cell[RATE]))
            for trials in calm.values()
            for trial in trials
            if RATE in trial.cell
        ),
        default=0.0,
    )
    return (
        [
            f"Of {offered:,.0f} records/s that were offered, so many were acknowledged in time: {listed(told)}."
        ]
        if told
        else []
    )


def _conclude(lost: dict[Scalar, Share], alone: Share) -> Conclusion:
    if lost["all"].seen:
        return Conclusion.REFUTED
    enough = min(found.of for found in lost.values()) >= LEAST_TRIALS
    if not (lost[0].seen and lost[1].seen and enough):
        return Conclusion.INCONCLUSIVE
    return Conclusion.PARTLY_SUPPORTED if alone.seen else Conclusion.SUPPORTED
