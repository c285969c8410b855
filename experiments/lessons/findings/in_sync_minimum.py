"""Lesson 6: acks=all waits for as many brokers as min.insync.replicas.

In fact it waits for all replicas that are in sync; the minimum only decides when the leader refuses
a write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_durations,
    repeats_needed,
    share_recovered_before_heal,
    share_with_loss,
    unavailable_ms,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.verdicts.statistics import describe_share

_FOLLOWER_PAUSE: Final = "follower-pause"
_LAG: Final = "replica.lag.time.max.ms"
_MINIMUM: Final = "min.insync.replicas"
_FULL_WAIT: Final = 0.9
"""Part of `replica.lag.time.max.ms` from which a gap counts as a wait for the paused follower.

The leader counts from the follower's last fetch, which may be a little older than the last
acknowledgement.
"""
_NO_WAIT: Final = 0.5
"""Part of `replica.lag.time.max.ms` below which a gap is no wait for the follower."""
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: "acks=all did not wait for a follower beyond the minimum.",
    Conclusion.REFUTED: (
        f"acks=all waited for a follower that was in sync, although {_MINIMUM} was 1."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged, or they contradict each other.",
}


def find(data: FindingInput) -> Finding:
    """Return how long acks=all waited for a paused follower, and how each minimum stops writes."""
    waits = _waits_ms(data)
    crashes = _trials_with_crashed_followers(data)
    loss = share_with_loss(data.trials())
    conclusion = _conclusion(waits, crashes)
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=(
            *_wait_sentence(waits),
            *_refusal_sentence(crashes),
            f"Acknowledged records were lost in {describe_share(loss)}.",
        ),
        remark=_remark(conclusion, crashes),
        repeats_needed=repeats_needed(conclusion),
        plot=DotsPlot(
            caption=(
                f"Longest time without an acknowledgement while a follower is paused, with "
                f"{_MINIMUM}=1, one dot per trial; the line is {_LAG}"
            ),
            label="seconds",
            rows=tuple(
                DotRow(
                    name=f"{_LAG}={lag_ms}",
                    values=tuple(value / 1000 for value in values),
                    expected=lag_ms / 1000,
                )
                for lag_ms, values in waits.items()
            ),
        ),
    )


def _waits_ms(data: FindingInput) -> dict[int, list[float]]:
    """Return the longest waits with a paused follower, by `replica.lag.time.max.ms`."""
    return {
        int(str(cell.cell[_LAG])): unavailable_ms(data.cell_trials(cell))
        for cell in data.cells(fault=_FOLLOWER_PAUSE, min__insync__replicas=1)
    }


def _trials_with_crashed_followers(data: FindingInput) -> dict[int, list[TrialResult]]:
    """Return the trials in which the followers crashed, by `min.insync.replicas`."""
    cells = [cell for cell in data.cells() if cell.cell["fault"] != _FOLLOWER_PAUSE]
    return dict(sorted((int(str(cell.cell[_MINIMUM])), data.cell_trials(cell)) for cell in cells))


def _wait_sentence(waits: Mapping[int, Sequence[float]]) -> Iterator[str]:
    durations = [
        f"for {describe_durations(values)} with {_LAG}={lag_ms}"
        for lag_ms, values in waits.items()
        if values
    ]
    if durations:
        yield (
            f"With acks=all, {_MINIMUM}=1 and one follower paused, no record was acknowledged "
            f"{format_list(durations)}."
        )


def _refusal_sentence(crashes: Mapping[int, Sequence[TrialResult]]) -> Iterator[str]:
    """Yield how long each minimum stopped writes while followers crashed one after the other.

    The producer retries a refused record, so a refusal shows as a wait.
    """
    cases = [
        f"with {_MINIMUM}={minimum} for {describe_durations(gaps_ms)}, and resumed before the "
        f"restart in {describe_share(share_recovered_before_heal(trials))}"
        for minimum, trials in crashes.items()
        if (gaps_ms := unavailable_ms(trials))
    ]
    if cases:
        yield (
            "When one follower crashed and then the other, no record was acknowledged "
            f"{'; '.join(cases)}."
        )


def _conclusion(
    waits: Mapping[int, Sequence[float]], crashes: Mapping[int, Sequence[TrialResult]]
) -> Conclusion:
    """Return whether the leader waited for the paused follower.

    Refuted if each wait lasted until the follower left the ISR; supported if none was half as long.
    """
    trials = [*map(len, waits.values()), *(len(unavailable_ms(of)) for of in crashes.values())]
    enough = bool(waits) and min(trials) >= MIN_TRIALS
    parts = [value / lag_ms for lag_ms, values in waits.items() for value in values]
    waited = outcome(
        met=enough and min(parts) >= _FULL_WAIT, measured=enough and max(parts) < _NO_WAIT
    )
    return conclude([waited])


def _remark(conclusion: Conclusion, crashes: Mapping[int, Sequence[TrialResult]]) -> str:
    """Return what the figures show; the role of the minimum only where crashes show it."""
    remark = _REMARK_BY_CONCLUSION[conclusion]
    if conclusion is not Conclusion.REFUTED:
        return remark
    resumed = {minimum: share_recovered_before_heal(trials) for minimum, trials in crashes.items()}
    always = [minimum for minimum, share in resumed.items() if share.of and share.seen == share.of]
    never = [minimum for minimum, share in resumed.items() if share.of and not share.seen]
    if always and never and max(always) < min(never):
        remark += (
            f" With both followers down, writes resumed with {_MINIMUM}={max(always)} and not with "
            f"{format_list(list(map(str, never)), 'or')}: the minimum decides with how few "
            "replicas in sync the leader refuses a write."
        )
    return remark
