"""Lesson 6: acks=all waits for as many brokers as min.insync.replicas says. It waits for all that are in sync; the minimum only refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    back_before_the_heal,
    lossy,
    repeats_needed,
    seconds,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.counts import listed
from experiments.results.cells import judged_trials
from experiments.results.models import TrialResult
from experiments.verdicts.statistics import words

LESSON = 6
_STILL: Final = "follower-pause"
_LAG: Final = "replica.lag.time.max.ms"
_MINIMUM: Final = "min.insync.replicas"
_NEARLY: Final = 0.9
"""Of replica.lag.time.max.ms: it counts from the follower's last fetch, which may be a little older than the last acknowledgement."""
_REMARKS: Final = {
    Conclusion.SUPPORTED: "So acks=all did not wait for a follower beyond the minimum.",
    Conclusion.REFUTED: (
        "So acks=all waits for every replica that is in sync, whatever the minimum. min.insync.replicas says with how few in sync a write is refused: "
        "a higher one gives up writes for the promise that an acknowledged record lies on so many brokers."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged, or they do not agree.",
}


def find(material: FindingInput) -> Finding:
    """Return how long acks=all waited for a follower that stood still, and how long each minimum refused writes when followers died."""
    waits = _waits_ms(material)
    died = _with_the_followers_dead(material)
    lost = lossy(
        [trial for cell in material.cells() for trial in judged_trials(material.results, cell)]
    )
    conclusion = _conclude(waits, died)
    told = [
        *_told_of_waits(waits),
        *_told_of_refusals(died),
        f"Acknowledged records were lost in {words(lost)}.",
    ]
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(told),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, ()),
        plot=DotsPlot(
            caption=f"A follower stands still with {_MINIMUM}=1: the longest time without an acknowledgement, a dot a trial; the line is {_LAG}",
            label="seconds",
            rows=tuple(
                DotRow(
                    name=f"{_LAG}={lag}",
                    values=tuple(value / 1000 for value in values),
                    expected=lag / 1000,
                )
                for lag, values in waits.items()
            ),
        ),
    )


def _waits_ms(material: FindingInput) -> dict[int, list[float]]:
    """Return the longest waits for an acknowledgement while a follower stood still, by `replica.lag.time.max.ms`."""
    return {
        int(str(cell.cell[_LAG])): _gaps_ms(judged_trials(material.results, cell))
        for cell in material.cells(fault=_STILL, min__insync__replicas=1)
    }


def _with_the_followers_dead(material: FindingInput) -> dict[int, list[TrialResult]]:
    """Return the trials in which the followers died, by the minimum."""
    cells = [cell for cell in material.cells() if cell.cell["fault"] != _STILL]
    return dict(
        sorted(
            (int(str(cell.cell[_MINIMUM])), judged_trials(material.results, cell)) for cell in cells
        )
    )


def _told_of_waits(waits: Mapping[int, Sequence[float]]) -> list[str]:
    told = [
        f"for {seconds(values)} where {_LAG} is {lag}" for lag, values in waits.items() if values
    ]
    return (
        [
            f"With acks=all and {_MINIMUM}=1, and one follower standing still, nothing was acknowledged {listed(told)}."
        ]
        if told
        else []
    )


def _told_of_refusals(died: Mapping[int, Sequence[TrialResult]]) -> list[str]:
    """What each minimum did once one follower and then the other was dead; a refused record waits in its producer, which tries again."""
    told = [
        f"with {_MINIMUM}={minimum} for {seconds(_gaps_ms(trials))}, and went on before the dead were back in {words(back_before_the_heal(trials))}"
        for minimum, trials in died.items()
        if _gaps_ms(trials)
    ]
    return (
        [f"When one follower died and then the other, writes stood still {'; '.join(told)}."]
        if told
        else []
    )


def _gaps_ms(trials: Sequence[TrialResult]) -> list[float]:
    return [trial.unavailable_ms for trial in trials if trial.unavailable_ms is not None]


def _conclude(
    waits: Mapping[int, Sequence[float]], died: Mapping[int, Sequence[TrialResult]]
) -> Conclusion:
    """It falls where each wait was as long as the follower stays in sync; it stands where none was half as long."""
    if (
        min((len(values) for values in [*waits.values(), *map(_gaps_ms, died.values())]), default=0)
        < LEAST_TRIALS
        or not waits
    ):
        return Conclusion.INCONCLUSIVE
    parts = [value / lag for lag, values in waits.items() for value in values]
    if min(parts) >= _NEARLY:
        return Conclusion.REFUTED
    return Conclusion.SUPPORTED if max(parts) < 1 / 2 else Conclusion.INCONCLUSIVE
