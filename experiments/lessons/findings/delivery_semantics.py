"""Lesson 7: at most once misses, at least once repeats, exactly once does neither.

From the first to the last, they become slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ackbench.experiments.lessons.criterion import (
    ORDER_NEEDS,
    Outcome,
    PairedOrder,
    conclude,
    outcome,
    paired_order,
)
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_durations,
    repeats_needed,
    share_with,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.sweep.plan import COMMIT_BY_DELIVERY, NO_FAULT, Delivery
from ackbench.experiments.verdicts.statistics import Share, describe_share

DELIVERIES: Final[tuple[Delivery, ...]] = tuple(COMMIT_BY_DELIVERY)
_COPIER_CRASH: Final = "copier-crash"
_NAMES: Final = {
    "at-most-once": "at most once",
    "at-least-once": "at least once",
    "exactly-once": "exactly once",
}
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "Each delivery missed and repeated records as claimed, and each was slower than "
        "the one before."
    ),
    Conclusion.INCONCLUSIVE: (
        "Too few trials, or none in which at most once missed the batch of the crashed copier and "
        "at least once repeated it."
    ),
}
_Count = Callable[[TrialResult], int | None]
Orders = Mapping[tuple[Delivery, Delivery], PairedOrder]
"""Whether the second delivery of a pair is slower than the first."""


def find(data: FindingInput) -> Finding:
    """Return what each delivery missed and repeated after a crash of a copier, and its latency."""
    crashed = {
        name: data.trials(workload__delivery=name, fault=_COPIER_CRASH) for name in DELIVERIES
    }
    missed = {name: share_with(trials, _missed) for name, trials in crashed.items()}
    repeated = {name: share_with(trials, _repeated) for name, trials in crashed.items()}
    faulty = [
        trial
        for trial in data.trials(workload__delivery="exactly-once")
        if trial.cell["fault"] != NO_FAULT
    ]
    exactly_once = share_with(faulty, _missed_or_repeated)
    orders = {pair: _order(data, *pair) for pair in pairwise(DELIVERIES)}
    conclusion = _conclusion(data, missed, repeated, list(orders.values()))
    sentences = [
        f"{_NAMES[name].capitalize()} missed records in {describe_share(missed[name])}, "
        f"and repeated records in {describe_share(repeated[name])}."
        for name in DELIVERIES
    ]
    all_faults = (
        "Over all faults, without the trials that had none, exactly once missed or repeated "
        f"records in {describe_share(exactly_once)}."
    )
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        lead="A copier crashed between producing and committing.",
        sentences=(*sentences, all_faults, *_latency_sentence(data, orders)),
        remark=_REMARK_BY_CONCLUSION.get(conclusion) or _remark(conclusion, orders),
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
    return trial.group_redelivered


def _missed_or_repeated(trial: TrialResult) -> int | None:
    """Return the records missed and repeated; None where either is unknown."""
    if trial.group_missed is None or trial.group_redelivered is None:
        return None
    return trial.group_missed + trial.group_redelivered


def _conclusion(
    data: FindingInput,
    missed: Mapping[Delivery, Share],
    repeated: Mapping[Delivery, Share],
    orders: Sequence[PairedOrder],
) -> Conclusion:
    """Return whether each delivery does what is claimed; their order may stay undecided."""
    at_most, at_least, exactly = (
        data.trials(workload__delivery=delivery) for delivery in DELIVERIES
    )
    of_leader = [trial for trial in exactly if trial.cell["fault"] not in {NO_FAULT, _COPIER_CRASH}]
    cells = [*missed.values(), *repeated.values()]
    if of_leader:
        cells.append(share_with(of_leader, _missed_or_repeated))
    # Exactly once is only shown where the crash made the other two miss and repeat records.
    measured = (
        min(share.of for share in cells) >= MIN_TRIALS
        and missed["at-most-once"].seen > 0
        and repeated["at-least-once"].seen > 0
    )
    return conclude(
        [
            outcome(met=bool(share_with(at_least, _missed).seen), measured=measured),
            outcome(met=bool(share_with(at_most, _repeated).seen), measured=measured),
            outcome(met=bool(share_with(exactly, _missed_or_repeated).seen), measured=measured),
        ],
        [order.outcome for order in orders],
    )


def _order(data: FindingInput, first: str, second: str) -> PairedOrder:
    """Compare the median end-to-end latency without a fault."""
    return paired_order(_without_fault(data, first), _without_fault(data, second), _p50_ms)


def _remark(conclusion: Conclusion, orders: Orders) -> str:
    if conclusion is Conclusion.REFUTED:
        reversed_ = [pair for pair, order in orders.items() if order.outcome is Outcome.MET]
        if reversed_:
            texts = [
                f"{_NAMES[second]} was faster than {_NAMES[first]}" for first, second in reversed_
            ]
            return f"The order of the claim does not hold: {format_list(texts)}."
        return "A delivery missed or repeated records that it must not miss or repeat."
    shown, open_ = (
        [
            f"{_NAMES[second]} is slower than {_NAMES[first]}"
            for (first, second), order in orders.items()
            if (order.outcome is Outcome.NOT_MET) is is_shown
        ]
        for is_shown in (True, False)
    )
    order = f" The figures show that {format_list(shown)}." if shown else ""
    return (
        f"Each delivery missed and repeated records as claimed.{order} They do not show that "
        f"{format_list(open_)}: {ORDER_NEEDS}."
    )


def _latency_sentence(data: FindingInput, orders: Orders) -> Iterator[str]:
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
    compared = [
        f"{_NAMES[second]} was slower than {_NAMES[first]} {order.text}"
        for (first, second), order in orders.items()
        if order.pairs
    ]
    if compared:
        yield f"With the same seed, {format_list(compared)}."


def _without_fault(data: FindingInput, delivery: str) -> list[TrialResult]:
    return data.trials(workload__delivery=delivery, fault=NO_FAULT)


def _p50_ms(trial: TrialResult) -> float | None:
    latency = trial.latency_ms.end_to_end
    return latency.p50 if latency else None


def _dots(name: str, trials: Sequence[TrialResult], count: _Count) -> DotRow:
    counts = [number for number in map(count, trials) if number is not None]
    return DotRow(name=name, values=tuple(map(float, counts)))
