"""Lesson 5: acks=0 may lose, acks=1 may lose what was not replicated, acks=all loses nothing.

Each level costs more than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Scalar
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
    RATE_AXIS,
    Conclusion,
    Finding,
    FindingInput,
    acked_in_time_percent,
    describe_lost_records,
    describe_values,
    repeats_needed,
    share_with_loss,
)
from ackbench.experiments.lessons.plots import ShareDot, SharesPlot
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.sweep.plan import NO_FAULT
from ackbench.experiments.verdicts.statistics import Share, describe_share

_LEVELS: Final[tuple[Scalar, ...]] = (0, 1, "all")
_CRASH_BEHIND: Final = "leader-crash-behind"
_ALONE: Final = "isr-shrunk-leader-crash"
"""The leader crashes while it is alone in the ISR; nobody requests an unclean election."""
_UNCLEAN_ELECTION: Final = "unclean-election"
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "acks=0 and acks=1 lost records that acks=all kept, and each level was slower than the one "
        "before."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials, or too few with loss, to distinguish the levels.",
}
_Trials = Mapping[Scalar, list[TrialResult]]
"""Trials by `acks`."""
Orders = Mapping[tuple[Scalar, Scalar], PairedOrder]
"""Whether the second level of a pair acknowledges later than the first."""


def find(data: FindingInput) -> Finding:
    """Return what each level lost in a leader crash, what it cost, and when acks=all loses too."""
    trials = {level: data.trials(acks=level, fault=_CRASH_BEHIND) for level in _LEVELS}
    losses = {level: share_with_loss(of_level) for level, of_level in trials.items()}
    alone, unclean = (
        share_with_loss(data.trials(acks="all", fault=fault))
        for fault in (_ALONE, _UNCLEAN_ELECTION)
    )
    orders = {
        (first, second): paired_order(
            _without_fault(data, first), _without_fault(data, second), _ack_p50_ms
        )
        for first, second in pairwise(_LEVELS)
    }
    conclusion = _conclusion(losses, alone, unclean, list(orders.values()))
    dots = [ShareDot(name=f"acks={level}", share=loss) for level, loss in losses.items() if loss.of]
    dots += [
        ShareDot(name=f"acks=all, leader alone in the ISR, {election}", share=loss)
        for election, loss in (
            ("no unclean election", alone),
            ("unclean election requested", unclean),
        )
        if loss.of
    ]
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=(
            _loss_sentence(losses, trials),
            *_alone_sentence(alone, unclean),
            *_latency_sentence(data, orders),
            *_throughput_sentence(data),
        ),
        remark=_REMARK_BY_CONCLUSION.get(conclusion) or _remark(losses, alone, unclean, orders),
        repeats_needed=repeats_needed(conclusion, losses.values()),
        plot=SharesPlot(caption="Trials in which acknowledged records were lost", rows=tuple(dots)),
    )


def _without_fault(data: FindingInput, level: Scalar) -> list[TrialResult]:
    """Return the trials without a fault whose load the cluster can take."""
    return [
        trial
        for trial in data.trials(acks=level, fault=NO_FAULT, enable__idempotence=False)
        if RATE_AXIS not in trial.cell
    ]


def _ack_p50_ms(trial: TrialResult) -> float | None:
    latency = trial.latency_ms.ack
    return latency.p50 if latency else None


def _alone_sentence(alone: Share, unclean: Share) -> Iterator[str]:
    cases = [
        f"{describe_share(loss)} {election}"
        for election, loss in (
            ("without an unclean election", alone),
            ("after an unclean election that was requested", unclean),
        )
        if loss.of
    ]
    if cases:
        yield (
            "With acks=all and min.insync.replicas=1, when the leader crashed while it was alone "
            f"in the ISR, acknowledged records were lost in {' and in '.join(cases)}."
        )


def _loss_sentence(losses: Mapping[Scalar, Share], trials: _Trials) -> str:
    levels = "; ".join(
        f"acks={level} in {describe_share(loss)}{describe_lost_records(trials[level])}"
        for level, loss in losses.items()
    )
    return (
        "When the leader crashed while its followers were behind, acknowledged records were lost: "
        f"{levels}."
    )


def _latency_sentence(data: FindingInput, orders: Orders) -> Iterator[str]:
    """Yield the cost of each level without a fault, and how surely the levels differ."""
    p50_ms = {
        level: [p50 for trial in _without_fault(data, level) if (p50 := _ack_p50_ms(trial))]
        for level in _LEVELS
    }
    if not all(p50_ms.values()):
        return
    levels = ", ".join(
        f"{describe_values(values, 1, ' ms')} with acks={level}" for level, values in p50_ms.items()
    )
    order = format_list(
        [
            f"later with acks={second} than with acks={first} {order.text}"
            for (first, second), order in orders.items()
        ]
    )
    yield (
        "Without a fault, a record was acknowledged after "
        f"{levels} (the median of each trial); with the same seed, {order}."
    )


def _throughput_sentence(data: FindingInput) -> Iterator[str]:
    """Yield how much of a heavy load each level acknowledged in time."""
    trials = {f"acks={level}": _overloaded(data, level, idempotent=False) for level in _LEVELS}
    in_time = {name: acked_in_time_percent(of_level) for name, of_level in trials.items()}
    levels = [
        f"{describe_values(values, 0, ' %')} with {name}"
        for name, values in in_time.items()
        if values
    ]
    if levels:
        offered = max(
            float(str(trial.cell[RATE_AXIS]))
            for of_level in trials.values()
            for trial in of_level
            if RATE_AXIS in trial.cell
        )
        yield (
            f"Of {offered:,.0f} records/s offered, the cluster acknowledged in time "
            f"{format_list(levels)}."
        )


def _overloaded(data: FindingInput, level: Scalar, *, idempotent: bool) -> list[TrialResult]:
    """Return the trials without a fault that have an axis for the rate."""
    trials = data.trials(acks=level, fault=NO_FAULT, enable__idempotence=idempotent)
    return [trial for trial in trials if RATE_AXIS in trial.cell]


def _conclusion(
    losses: Mapping[Scalar, Share], alone: Share, unclean: Share, orders: Sequence[PairedOrder]
) -> Conclusion:
    """Return whether acks=all kept what the others lost; partly, if an unclean election took it."""
    enough = min(loss.of for loss in losses.values()) >= MIN_TRIALS
    # acks=all is only shown to keep records where the same crash took them from the others.
    shows_loss = enough and losses[0].seen > 0 and losses[1].seen > 0
    return conclude(
        [outcome(met=losses["all"].seen + alone.seen > 0, measured=shows_loss)],
        [order.outcome for order in orders],
        limited=unclean.seen > 0,
    )


def _remark(losses: Mapping[Scalar, Share], alone: Share, unclean: Share, orders: Orders) -> str:
    if losses["all"].seen + alone.seen:
        return "acks=all lost acknowledged records without an unclean election."
    faster = [pair for pair, order in orders.items() if order.outcome is Outcome.MET]
    if faster:
        texts = [f"acks={second} was faster than acks={first}" for first, second in faster]
        return f"The order of the claim does not hold: {format_list(texts)}."
    remark = "acks=0 and acks=1 lost records that acks=all kept."
    if unclean.seen:
        remark += (
            " acks=all waits for the replicas that are in sync; with min.insync.replicas=1 that "
            "can be the leader alone, and an unclean election then takes what only it had."
        )
        if alone.of and not alone.seen:
            remark += " Without that election the records came back with the leader."
    undecided = [
        f"acks={second} is slower than acks={first}"
        for (first, second), order in orders.items()
        if order.outcome is Outcome.UNDECIDED
    ]
    if undecided:
        remark += f" The figures do not show that {format_list(undecided)}: {ORDER_NEEDS}."
    return remark
