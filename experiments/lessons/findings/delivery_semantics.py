"""Lesson 7: at most once misses, at least once repeats, exactly once does neither.

From the first to the last, they become slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from experiments.comparing.pairing import paired_numbers
from experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_durations,
    repeats_needed,
    share_with,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.results.models import TrialResult
from experiments.sweep.plan import COMMIT_BY_DELIVERY, Delivery
from experiments.verdicts.statistics import Share, describe_share

DELIVERIES: Final[tuple[Delivery, ...]] = tuple(COMMIT_BY_DELIVERY)
_COPIER_CRASH: Final = "copier-crash"
_NAMES: Final = {
    "at-most-once": "at most once",
    "at-least-once": "at least once",
    "exactly-once": "exactly once",
}
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "Each delivery missed and repeated records as claimed, and each is slower than "
        "the one before."
    ),
    Conclusion.PARTLY_SUPPORTED: (
        "Each delivery missed and repeated records as claimed; the figures do not show "
        "that they become slower in this order."
    ),
    Conclusion.REFUTED: "The lesson does not hold here.",
    Conclusion.INCONCLUSIVE: (
        "Too few trials, or none in which at most once missed the batch of the crashed copier and "
        "at least once repeated it."
    ),
}
_Count = Callable[[TrialResult], int | None]


def find(data: FindingInput) -> Finding:
    """Return what each delivery missed and repeated after a crash of a copier, and its latency."""
    crashed = {
        name: data.trials(workload__delivery=name, fault=_COPIER_CRASH) for name in DELIVERIES
    }
    missed = {name: share_with(trials, _missed) for name, trials in crashed.items()}
    repeated = {name: share_with(trials, _repeated) for name, trials in crashed.items()}
    exactly_once = share_with(
        data.trials(workload__delivery="exactly-once"),
        lambda trial: (_missed(trial) or 0) + (_repeated(trial) or 0),
    )
    conclusion = _conclusion(data, missed, repeated, exactly_once)
    sentences = [
        f"{_NAMES[name].capitalize()} missed records in {describe_share(missed[name])}, "
        f"and repeated records in {describe_share(repeated[name])}."
        for name in DELIVERIES
    ]
    all_faults = (
        "Over all faults, exactly once missed or repeated records in "
        f"{describe_share(exactly_once)}."
    )
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        lead="A copier crashed between producing and committing.",
        sentences=(*sentences, all_faults, *_latency_sentence(data)),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion, [*missed.values(), *repeated.values()]),
        plot=DotsPlot(
            caption="Records missed and repeated, end to end, after a crash of a copier",
            label="records",
            rows=tuple(
                _dots(f"{_NAMES[name]}, {column}", crashed[name], count)
                for name in DELIVERIES
                for column, count in (("missed", _missed), ("repeated", _repeated))
            ),
            logarithmic=True,
        ),
    )


def _missed(trial: TrialResult) -> int | None:
    return trial.group_missed


def _repeated(trial: TrialResult) -> int | None:
    return trial.group_repeated


def _conclusion(
    data: FindingInput,
    missed: Mapping[Delivery, Share],
    repeated: Mapping[Delivery, Share],
    exactly_once: Share,
) -> Conclusion:
    if exactly_once.seen or repeated["at-most-once"].seen or missed["at-least-once"].seen:
        return Conclusion.REFUTED
    if (
        min(share.of for share in missed.values()) < MIN_TRIALS
        or not missed["at-most-once"].seen
        or not repeated["at-least-once"].seen
    ):
        return Conclusion.INCONCLUSIVE
    if all(_is_slower(data, *pair) for pair in pairwise(DELIVERIES)):
        return Conclusion.SUPPORTED
    return Conclusion.PARTLY_SUPPORTED


def _is_slower(data: FindingInput, first: str, second: str) -> bool:
    """Return whether the second delivery has the higher latency, with 95 % confidence.

    Compares the median end-to-end latency without a fault, in pairs of trials with one seed.
    """
    p50_ms = (
        {
            trial.repeat: p50
            for trial in _without_fault(data, name)
            if trial.repeat is not None and (p50 := _p50_ms(trial)) is not None
        }
        for name in (first, second)
    )
    ratio = paired_numbers(*p50_ms).ratio
    return bool(ratio and ratio.interval and ratio.interval.low > 1)


def _latency_sentence(data: FindingInput) -> Iterator[str]:
    p50_ms = {
        name: [p50 for trial in _without_fault(data, name) if (p50 := _p50_ms(trial)) is not None]
        for name in DELIVERIES
    }
    latencies = [
        f"{describe_durations(values)} with {_NAMES[name]}"
        for name, values in p50_ms.items()
        if values
    ]
    if latencies:
        yield f"Without a fault, the median end-to-end latency was {', '.join(latencies)}."


def _without_fault(data: FindingInput, delivery: str) -> list[TrialResult]:
    return data.trials(workload__delivery=delivery, fault="none")


def _p50_ms(trial: TrialResult) -> float | None:
    latency = trial.latency_ms.end_to_end
    return latency.p50 if latency else None


def _dots(name: str, trials: Sequence[TrialResult], count: _Count) -> DotRow:
    counts = [number for number in map(count, trials) if number is not None]
    return DotRow(name=name, values=tuple(map(float, counts)))
