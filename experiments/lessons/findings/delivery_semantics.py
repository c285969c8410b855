"""Lesson 7: at most once misses, at least once repeats, exactly once does neither; from the fastest to the slowest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from experiments.comparing.pairing import paired_numbers
from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
    seconds,
    trials_with,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.results.models import TrialResult
from experiments.sweep.plan import COMMITS, Delivery
from experiments.verdicts.statistics import Share, words

LESSON = 7
KILLED: Final = "copier-killed"
DELIVERIES: Final[tuple[Delivery, ...]] = tuple(COMMITS)
_OFTEN: Final = {
    "at-most-once": "at most once",
    "at-least-once": "at least once",
    "exactly-once": "exactly once",
}
_REMARKS: Final = {
    Conclusion.SUPPORTED: "So each misses and repeats what the lesson says, and each is slower than the one before.",
    Conclusion.PARTLY_SUPPORTED: "So each misses and repeats what the lesson says; that they grow slower in this order is not to be seen here.",
    Conclusion.REFUTED: "So the lesson does not hold here.",
    Conclusion.INCONCLUSIVE: "Too few trials, or none in which what a dying copier had in hand was missed at most once and repeated at least once.",
}
_Count = Callable[[TrialResult], int | None]


def find(material: FindingInput) -> Finding:
    """Return how many trials missed and repeated records by delivery where a copier died, whether exactly once ever did, and how long each takes."""
    killed = {name: material.trials(workload__delivery=name, fault=KILLED) for name in DELIVERIES}
    missed, repeated = (
        {name: trials_with(trials, count) for name, trials in killed.items()}
        for count in (_missed, _repeated)
    )
    once = trials_with(
        material.trials(workload__delivery="exactly-once"),
        lambda trial: (_missed(trial) or 0) + (_repeated(trial) or 0),
    )
    conclusion = _conclude(material, missed, repeated, once)
    told = [
        f"{_OFTEN[name].capitalize()} missed records in {words(missed[name])}, and repeated some in {words(repeated[name])}."
        for name in DELIVERIES
    ]
    over_all = f"Over all faults exactly once missed or repeated records in {words(once)}."
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        lead="A copier died between producing and committing.",
        sentences=(*told, over_all, *_speed(material)),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, [*missed.values(), *repeated.values()]),
        plot=DotsPlot(
            caption="Records missed and repeated, end to end, where a copier died",
            label="records",
            rows=tuple(
                _row(name, what, killed[name], count)
                for name in DELIVERIES
                for what, count in (("missed", _missed), ("repeated", _repeated))
            ),
            logarithmic=True,
        ),
    )


def _missed(trial: TrialResult) -> int | None:
    return trial.group_missed


def _repeated(trial: TrialResult) -> int | None:
    return trial.group_repeated


def _conclude(
    material: FindingInput,
    missed: Mapping[Delivery, Share],
    repeated: Mapping[Delivery, Share],
    once: Share,
) -> Conclusion:
    if once.seen or repeated["at-most-once"].seen or missed["at-least-once"].seen:
        return Conclusion.REFUTED
    if (
        min(found.of for found in missed.values()) < LEAST_TRIALS
        or not missed["at-most-once"].seen
        or not repeated["at-least-once"].seen
    ):
        return Conclusion.INCONCLUSIVE
    return (
        Conclusion.SUPPORTED
        if all(_is_slower(material, *pair) for pair in pairwise(DELIVERIES))
        else Conclusion.PARTLY_SUPPORTED
    )


def _is_slower(material: FindingInput, one: str, other: str) -> bool:
    """Whether the second takes longer for certain, from end to end while nothing is wrong, in pairs of one seed."""
    sides = (
        {
            trial.repeat: p50
            for trial in _calm(material, name)
            if trial.repeat is not None and (p50 := _p50_ms(trial)) is not None
        }
        for name in (one, other)
    )
    ratio = paired_numbers(*sides).ratio
    return bool(ratio and ratio.interval and ratio.interval.low > 1)


def _speed(material: FindingInput) -> list[str]:
    """Say how long half of the records took from end to end while nothing was wrong."""
    took = {
        name: [p50 for trial in _calm(material, name) if (p50 := _p50_ms(trial)) is not None]
        for name in DELIVERIES
    }
    told = [
        f"{_OFTEN[name]} within {seconds(values_ms)}"
        for name, values_ms in took.items()
        if values_ms
    ]
    return (
        [f"Without a fault half of the records were there, end to end, {', '.join(told)}."]
        if told
        else []
    )


def _calm(material: FindingInput, delivery: str) -> list[TrialResult]:
    return material.trials(workload__delivery=delivery, fault="none")


def _p50_ms(trial: TrialResult) -> float | None:
    latency = trial.latency_ms.end_to_end
    return latency.p50 if latency else None


def _row(delivery: str, what: str, trials: Sequence[TrialResult], count: _Count) -> DotRow:
    return DotRow(
        name=f"{_OFTEN[delivery]}, {what}",
        values=tuple(float(found) for found in map(count, trials) if found is not None),
    )
