"""Intervals and comparisons, by trial and never by record; SciPy does the arithmetic. Pure."""

from __future__ import annotations

from experiments.ledger.record import Frozen


class Interval(Frozen):
    """Bounds that hold the true value in `confidence` of all sweeps."""

    low: float
    high: float
    confidence: float = 0.95


class Share(Frozen):
    """In how many of the trials something was seen, and between which bounds its probability lies."""

    seen: int
    of: int
    interval: Interval


class Estimate(Frozen):
    """The median over trials, and its interval where there are trials enough to tell."""

    median: float
    interval: Interval | None
    trials: int
