"""Figures of several trials in words: a time's median and between which values it lies, how many records were lost. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from experiments.plurals import counted
from experiments.results.models import TrialResult


def seconds(values_ms: Sequence[float]) -> str:
    """Say how long something took in each of some trials: `9.4 s (9.1 s to 9.9 s in 3 trials)`; of one, `9.4 s (1 trial)`. Milliseconds in.

    Raises:
        ValueError: there is no value.
    """
    if not values_ms:
        raise ValueError("no value has no median")
    spread = f"{seconds_of_one(min(values_ms))} to {seconds_of_one(max(values_ms))} in " if len(values_ms) > 1 else ""
    return f"{seconds_of_one(median(values_ms))} ({spread}{counted(len(values_ms), 'trial')})"


def seconds_of_one(value_ms: float) -> str:
    """Say a time: `9.4 s`, and below a second `350 ms`. Milliseconds in."""
    return f"{value_ms:.0f} ms" if value_ms < 999.5 else f"{value_ms / 1000:.1f} s"  # noqa: PLR2004 - what would be rounded to 1000 ms


def records_lost(trials: Sequence[TrialResult]) -> str:
    """Say how many records the trials with loss lost, as the end of a clause: ` (2,310 records at the median)`; of none with loss, nothing."""
    counts = [trial.lost[0] for trial in trials if trial.lost and trial.lost[0]]
    return f" ({median(counts):,.0f} records at the median)" if counts else ""
