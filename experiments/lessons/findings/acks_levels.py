"""Lesson 5: acks=0 may lose, acks=1 may lose what was not replicated, acks=all loses nothing.

Each level costs more than the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Final

from experiments.ledger.record import Scalar
from experiments.lessons.finding import (
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
from experiments.lessons.plots import ShareDot, SharesPlot
from experiments.messages.phrases import format_list
from experiments.results.models import TrialResult
from experiments.verdicts.statistics import Share, describe_share

_LEVELS: Final[tuple[Scalar, ...]] = (0, 1, "all")
_CRASH_BEHIND: Final = "leader-crash-behind"
_UNCLEAN_ELECTION: Final = "unclean-election"
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: "acks=0 and acks=1 lost records that acks=all kept.",
    Conclusion.PARTLY_SUPPORTED: (
        "acks=all waits for the replicas that are in sync. With min.insync.replicas=1 that can be "
        "the leader alone, so an unclean election can lose acknowledged records."
    ),
    Conclusion.REFUTED: "acks=all lost acknowledged records, against Kafka's guarantee.",
    Conclusion.INCONCLUSIVE: "Too few trials, or too few with loss, to distinguish the levels.",
}
_Trials = Mapping[Scalar, list[TrialResult]]
"""Trials by `acks`."""


def find(data: FindingInput) -> Finding:
    """Return what each level lost in a leader crash, what it cost, and when acks=all loses too."""
    trials = {level: data.trials(acks=level, fault=_CRASH_BEHIND) for level in _LEVELS}
    losses = {level: share_with_loss(of_level) for level, of_level in trials.items()}
    unclean = share_with_loss(data.trials(acks="all", fault=_UNCLEAN_ELECTION))
    sentences = [_loss_sentence(losses, trials), *_latency_sentence(trials)]
    sentences += _throughput_sentence(data)
    dots = [ShareDot(name=f"acks={level}", share=loss) for level, loss in losses.items() if loss.of]
    if unclean.of:
        sentences.append(
            "With acks=all and min.insync.replicas=1, after a crash of the leader that was alone "
            "in the ISR and an unclean election, acknowledged records were lost in "
            f"{describe_share(unclean)}."
        )
        dots.append(
            ShareDot(name="acks=all, leader alone in the ISR, unclean election", share=unclean)
        )
    conclusion = _conclusion(losses, unclean)
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=tuple(sentences),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion, losses.values()),
        plot=SharesPlot(caption="Trials in which acknowledged records were lost", rows=tuple(dots)),
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


def _latency_sentence(trials: _Trials) -> Iterator[str]:
    """Yield the cost of each level without a fault: the median over trials of the median."""
    p50_ms = {
        level: [
            trial.latency_by_phase_ms.before.ack.p50
            for trial in of_level
            if trial.latency_by_phase_ms.before.ack
        ]
        for level, of_level in trials.items()
    }
    if all(p50_ms.values()):
        levels = ", ".join(
            f"{median(values):.1f} ms with acks={level}" for level, values in p50_ms.items()
        )
        yield f"Before the fault, a record was acknowledged after {levels} (medians)."


def _throughput_sentence(data: FindingInput) -> Iterator[str]:
    """Yield how much of a heavy load each level acknowledged in time."""
    trials = {
        f"acks={level}": data.trials(acks=level, fault="none", enable__idempotence=False)
        for level in _LEVELS
    }
    trials["acks=all and idempotence"] = data.trials(
        acks="all", fault="none", enable__idempotence=True
    )
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


def _conclusion(losses: Mapping[Scalar, Share], unclean: Share) -> Conclusion:
    if losses["all"].seen:
        return Conclusion.REFUTED
    enough = min(loss.of for loss in losses.values()) >= MIN_TRIALS
    if not (losses[0].seen and losses[1].seen and enough):
        return Conclusion.INCONCLUSIVE
    return Conclusion.PARTLY_SUPPORTED if unclean.seen else Conclusion.SUPPORTED
