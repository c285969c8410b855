"""Shares, estimates and intervals over trials.

The unit is always the trial, never the record: records of one trial are not independent. SciPy
computes the intervals. `docs/statistics.md` describes each figure, its assumptions and its source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import median
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen

CONFIDENCE: Final = 0.95
INTERVAL_LEGEND: Final = (
    "percentages behind a count: the exact two-sided 95 % interval of the share (Clopper and "
    "Pearson), rounded outwards"
)
"""What every legend says about the interval of a share."""
MIN_TRIALS_FOR_INTERVAL: Final = 6
"""With fewer trials an estimate has no interval.

Even the full range of 5 trials contains the median in only 1 - 2 / 2^5 = 94 % of sweeps.
"""
MIN_TRIALS_FOR_DIFFERENCE: Final = 7
"""With fewer trials in one of two cells that have no pairs, their medians have no such interval."""


class Interval(Frozen):
    """Bounds that contain the true value in a fraction `confidence` of all sweeps."""

    low: float
    high: float
    confidence: float = CONFIDENCE

    @property
    def width(self) -> float:
        """The distance between the bounds."""
        return self.high - self.low


class Share(Frozen):
    """In how many trials something was observed, with an interval of its probability."""

    seen: int
    of: int
    """Trials that can tell."""
    unknown: int = 0
    """Further trials, in each of which it may or may not have happened."""
    interval: Interval
    """Contains the interval of every outcome of the unknown trials."""

    @property
    def trials(self) -> int:
        """All trials, also those that cannot tell."""
        return self.of + self.unknown

    @property
    def counts(self) -> str:
        """The count as text: `3 of 5`, and `1 to 3 of 5` if two of them cannot tell."""
        seen = f"{self.seen} to {self.seen + self.unknown}" if self.unknown else f"{self.seen}"
        return f"{seen} of {self.trials}"


class Estimate(Frozen):
    """The median over trials; `interval` needs `MIN_TRIALS_FOR_INTERVAL` trials."""

    median: float
    interval: Interval | None
    trials: int


def share(seen: int, of: int, confidence: float = CONFIDENCE, unknown: int = 0) -> Share:
    """Return a share of trials with its exact two-sided Clopper-Pearson interval.

    Args:
        seen: number of trials with the observation.
        of: number of trials that can tell; of 0 trials, the interval is 0 to 1.
        confidence: of the interval.
        unknown: number of further trials, each of which may have had the observation. The interval
            begins where it would if none had it, and ends where it would if all had it.

    Raises:
        ValueError: `seen` is negative or greater than `of`, or `unknown` is negative.
    """
    if not 0 <= seen <= of:
        raise ValueError(f"invalid share: {seen} of {of} trials (allowed: 0 to {of})")
    if unknown < 0:
        raise ValueError(f"invalid share: {unknown} unknown trials (allowed: 0 or more)")
    none, all_of_them = (
        _clopper_pearson(seen + more, of + unknown, confidence) for more in (0, unknown)
    )
    interval = Interval(low=none.low, high=all_of_them.high, confidence=confidence)
    return Share(seen=seen, of=of, unknown=unknown, interval=interval)


def share_of(observations: Iterable[bool | None]) -> Share:
    """Return in how many trials something was observed.

    Args:
        observations: one per trial; `None`: the trial cannot tell.
    """
    seen = list(observations)
    unknown = seen.count(None)
    return share(sum(map(bool, seen)), len(seen) - unknown, unknown=unknown)


def describe_share(observed: Share, noun: str = "trials") -> str:
    """Return a share with its interval as text.

    Examples are `3 of 5 trials (14 to 95 %)`, `0 of 5 trials (below 53 %)`, `5 of 5 trials (above
    47 %)`, and, if two of the trials cannot tell, `1 to 3 of 5 trials (0.5 to 95 %)`. The interval
    is two-sided in each case; where it begins at 0 or ends at 100 % only the other bound is named.
    Bounds are rounded outwards, so that the text never claims too much.
    """
    if observed.trials == 0:
        return f"no {noun}"
    singular = noun.removesuffix("s") if observed.trials == 1 else noun
    return f"{observed.counts} {singular} ({_describe_interval(observed.interval)} %)"


def _describe_interval(interval: Interval) -> str:
    low, high = _percent(interval.low, up=False), _percent(interval.high, up=True)
    if interval.low == 0 and interval.high < 1:
        return f"below {high}"
    if interval.high == 1 and interval.low > 0:
        return f"above {low}"
    return f"{low} to {high}"


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the median over trials with its exact interval (`median_interval`).

    Args:
        values: one value per trial.

    Returns:
        `None` without values; no interval with fewer than `MIN_TRIALS_FOR_INTERVAL` values.
    """
    if not values:
        return None
    middle = float(median(values))
    return Estimate(median=middle, interval=median_interval(values), trials=len(values))


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return the exact interval of a median: from one of the ordered values to another.

    A value is below the true median as often as a coin shows heads, whatever the distribution of
    the values (Thompson 1936, Ann. Math. Stat. 7:122). So the range from the k-th lowest to the
    k-th highest contains the median in at least the fraction `confidence` of all sweeps, for the
    largest k for which fewer than k heads, or fewer than k tails, are rare enough. This interval
    excludes a value if and only if the two-sided sign test does.

    Args:
        values: one value per trial.
        confidence: of the interval.

    Returns:
        `None` if even the full range contains the median less often.
    """
    ordered = sorted(map(float, values))
    rare, outcomes, rank, fewer = 1 - confidence, 2 ** len(ordered), 0, 1
    while 2 * fewer <= rare * outcomes:
        rank += 1
        fewer += math.comb(len(ordered), rank)
    if rank == 0:
        return None
    return Interval(low=ordered[rank - 1], high=ordered[-rank], confidence=confidence)


def median_change(
    a: Sequence[float], b: Sequence[float]
) -> tuple[Interval | None, Interval | None]:
    """Return the intervals of the difference and of the ratio of two medians, `b` against `a`.

    Each median is in its own interval so often that both are in at least `CONFIDENCE` of all
    sweeps: the two cells are independent of each other. So no assumption on distributions is made.

    Returns:
        `None` and `None` with fewer than `MIN_TRIALS_FOR_DIFFERENCE` trials in a cell; no interval
        of the ratio if a value of `a` is not above 0.
    """
    each = math.sqrt(CONFIDENCE)
    before, after = median_interval(a, each), median_interval(b, each)
    if before is None or after is None:
        return None, None
    difference = Interval(low=after.low - before.high, high=after.high - before.low)
    if min(a) <= 0:
        return difference, None
    return difference, Interval(low=after.low / before.high, high=after.high / before.low)


def is_precise_enough(observed: Share, width: float) -> bool:
    """Return whether the two-sided interval is narrower than `width`, for `--until "ci<0.1"`."""
    return observed.interval.width < width


def trials_needed(probability: float, confidence: float = CONFIDENCE) -> int:
    """Return how many trials show an event at least once, with this confidence.

    Args:
        probability: of the event in one trial, above 0 and at most 1.
        confidence: above 0 and below 1.

    Raises:
        ValueError: an argument is out of range.
    """
    if not (0 < probability <= 1 and 0 < confidence < 1):
        raise ValueError(
            f"no number of trials shows an event of probability {probability} at confidence "
            f"{confidence} (allowed: 0 < probability <= 1, 0 < confidence < 1)"
        )
    if probability == 1:
        return 1
    return max(1, math.ceil(math.log1p(-confidence) / math.log1p(-probability) - 1e-9))


def trials_for_width(probability: float, width: float, confidence: float = CONFIDENCE) -> int:
    """Return how many trials make the interval of a share narrower than `width`.

    Args:
        probability: expected share of trials with the observation, 0 to 1.
        width: of the two-sided interval, above 0.
        confidence: of the interval.

    Raises:
        ValueError: an argument is out of range.
    """
    if not (0 <= probability <= 1 and width > 0):
        raise ValueError(
            f"no number of trials makes the interval of probability {probability} narrower than "
            f"{width} (allowed: 0 <= probability <= 1, width > 0)"
        )
    few, many = 0, 1
    while _expected_width(probability, many, confidence) >= width:
        few, many = many, many * 2
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (
            (few, middle)
            if _expected_width(probability, middle, confidence) < width
            else (middle, many)
        )
    return many


@lru_cache(maxsize=10_000)
def _clopper_pearson(seen: int, of: int, confidence: float) -> Interval:
    """Return the interval, of which a sweep has few different ones."""
    low, high = _exact_bounds(seen, of, confidence) if of else (0.0, 1.0)
    return Interval(low=low, high=high, confidence=confidence)


def _expected_width(probability: float, trials: int, confidence: float) -> float:
    """Return the width of the Clopper-Pearson interval at `probability * trials` observations."""
    low, high = _exact_bounds(probability * trials, trials, confidence)
    return high - low


def _exact_bounds(seen: float, trials: int, confidence: float) -> tuple[float, float]:
    """Return the bounds of the Clopper-Pearson interval.

    They are quantiles of beta distributions, which are defined for fractions of a trial too. Where
    all trials agree, which is what most sweeps show, these have a closed form: SciPy takes half a
    second to load.
    """
    tail = (1 - confidence) / 2
    if seen == 0:
        return 0.0, 1 - tail ** (1 / trials)
    if seen == trials:
        return tail ** (1 / trials), 1.0
    from scipy.special import betaincinv  # `scipy.stats` has the same, and takes a second to load

    low = betaincinv(seen, trials - seen + 1, tail)
    high = betaincinv(seen + 1, trials - seen, 1 - tail)
    return float(low), float(high)


def _percent(fraction: float, *, up: bool) -> str:
    """Return a fraction in percent, rounded up or down: to 1, below 10 to 0.1, below 1 to 0.01."""
    percent = fraction * 100
    decimals = sum(percent < limit for limit in (10, 1))
    scaled = percent * 10**decimals
    nearest = round(scaled)
    if math.isclose(scaled, nearest, abs_tol=1e-9):  # a rounding error must not move the bound
        rounded = nearest
    elif up:
        rounded = math.ceil(scaled)
    else:
        rounded = math.floor(scaled)
    return f"{rounded / 10**decimals:g}"
