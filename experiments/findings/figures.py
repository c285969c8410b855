"""Figures of several trials in words: a time's median and between which values it lies, how many records were lost. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from experiments.plurals import counted
from experiments.results.models import TrialResult

CLIENTS: Final = {"librdkafka": "librdkafka", "java": "Java's client"}
"""What the values of the axis `client` are called."""


def seconds(values_ms: Sequence[float]) -> str:
    """Say how long something took in each of some trials: `9.4 s (9.1 s to 9.9 s in 3 trials)`; of one, `9.4 s (1 trial)`. Milliseconds in.

    Raises:
        ValueError: there is no value.
    """
    return _spread(values_ms, seconds_of_one)


def seconds_of_one(value_ms: float) -> str:
    """Say a time: `9.4 s`, and below a second `350 ms`. Milliseconds in."""
    return f"{value_ms:.0f} ms" if value_ms < 999.5 else f"{value_ms / 1000:.1f} s"  # noqa: PLR2004 - what would be rounded to 1000 ms


def spread(values: Sequence[float], decimals: int = 0, unit: str = "") -> str:
    """Say a figure of each of some trials: `1.02 (0.98 to 1.10 in 3 trials)`; where all are alike, `1.02 (3 trials)`.

    Raises:
        ValueError: there is no value.
    """
    return _spread(values, lambda value: f"{value:,.{decimals}f}{unit}")


def percent(share: float) -> str:
    """Say a share; what is neither 0 nor 1 is hardly ever rounded to it: `0.4 %`, `36 %`, `99.6 %`."""
    hundredths = 100 * share
    decimals = 1 if 0 < hundredths < 1 or 99 < hundredths < 100 else 0  # noqa: PLR2004 - of a hundred
    return f"{hundredths:.{decimals}f} %"


def records_lost(trials: Sequence[TrialResult]) -> str:
    """Say how many records the trials with loss lost, as the end of a clause: ` (2,310 records at the median)`; of none with loss, nothing."""
    counts = [trial.lost[0] for trial in trials if trial.lost and trial.lost[0]]
    return f" ({median(counts):,.0f} records at the median)" if counts else ""


def _spread(values: Sequence[float], told: Callable[[float], str]) -> str:
    if not values:
        raise ValueError("no value has no median")
    middle, least, most = map(told, (median(values), min(values), max(values)))
    apart = f"{least} to {most} in " if least != most else ""
    return f"{middle} ({apart}{counted(len(values), 'trial')})"
