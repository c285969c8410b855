"""Shares, estimates and intervals over trials.

The unit is always the trial, never the record: records of one trial are not independent. SciPy
computes the intervals. `docs/statistics.md` describes each figure, its assumptions and its source.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median
from typing import Final

from experiments.ledger.record import Frozen

CONFIDENCE: Final = 0.95
MIN_TRIALS_FOR_INTERVAL: Final = 5
"""With fewer trials an estimate has no interval.

Even the full range of 4 trials contains the median in only 1 - 2 / 2^4 = 88 % of sweeps.
"""
RESAMPLES: Final = 9999
SEED: Final = 20_260_101
"""A fixed seed, so that equal values have equal intervals."""


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
    """In how many trials something was observed, with bounds on its probability."""

    seen: int
    of: int
    interval: Interval


class Estimate(Frozen):
    """The median over trials; `interval` needs `MIN_TRIALS_FOR_INTERVAL` trials."""

    median: float
    interval: Interval | None
    trials: int


class Distribution(Frozen):
    """The distribution of a count or a time over trials."""

    trials: int
    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float


def share(seen: int, of: int, confidence: float = CONFIDENCE) -> Share:
    """Return a share of trials with its exact two-sided Clopper-Pearson interval.

    Args:
        seen: number of trials with the observation.
        of: number of trials; of 0 trials, the interval is 0 to 1.
        confidence: of the interval.

    Raises:
        ValueError: `seen` is negative or greater than `of`.
    """
    if not 0 <= seen <= of:
        raise ValueError(f"invalid share: {seen} of {of} trials (allowed: 0 to {of})")
    return Share(seen=seen, of=of, interval=_clopper_pearson(seen, of, confidence))


def one_sided_bound(observed: Share) -> float | None:
    """Return the exact one-sided bound of a share of 0 or of all trials; else `None`.

    For 0 of n trials this is an upper bound, `1 - (1 - c)^(1/n)`: the exact "rule of three". For n
    of n trials it is a lower bound. Any other share has a two-sided interval only.
    """
    from scipy.stats import binomtest

    if observed.of == 0 or 0 < observed.seen < observed.of:
        return None
    is_zero = observed.seen == 0
    test = binomtest(observed.seen, observed.of, alternative="less" if is_zero else "greater")
    interval = test.proportion_ci(observed.interval.confidence, method="exact")
    return float(interval.high if is_zero else interval.low)


def describe_share(observed: Share, noun: str = "trials") -> str:
    """Return a share with its bounds as text.

    Examples are `3 of 5 trials (14 to 95 %)` and `0 of 10 trials (true rate below 26 %, 95 %
    confidence)`. Bounds are rounded outwards, so that the text never claims too much.
    """
    if observed.of == 0:
        return f"no {noun}"
    counts = (
        f"{observed.seen} of {observed.of} {noun.removesuffix('s') if observed.of == 1 else noun}"
    )
    limit = one_sided_bound(observed)
    if limit is None:
        low = _percent(observed.interval.low, up=False)
        return f"{counts} ({low} to {_percent(observed.interval.high, up=True)} %)"
    is_zero = observed.seen == 0
    confidence = _percent(observed.interval.confidence, up=False)
    rate = f"{'below' if is_zero else 'above'} {_percent(limit, up=is_zero)} %"
    return f"{counts} (true rate {rate}, {confidence} % confidence)"


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the median over trials with a percentile bootstrap interval.

    Args:
        values: one value per trial. The bootstrap resamples trials, not records, because records
            of one trial are not independent.

    Returns:
        `None` without values; no interval with fewer than `MIN_TRIALS_FOR_INTERVAL` values.
    """
    if not values:
        return None
    ordered = tuple(sorted(map(float, values)))  # the result does not depend on the order
    interval = _bootstrap(ordered) if len(ordered) >= MIN_TRIALS_FOR_INTERVAL else None
    return Estimate(median=median(ordered), interval=interval, trials=len(ordered))


def distribution(values: Sequence[float]) -> Distribution | None:
    """Return the distribution of one value per trial; `None` without values.

    Quartiles are NumPy's default (Hyndman and Fan, type 7), which interpolates between trials.
    """
    if not values:
        return None
    import numpy as np

    least, lower, middle, upper, most = (
        float(value) for value in np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    )
    return Distribution(
        trials=len(values),
        minimum=least,
        lower_quartile=lower,
        median=middle,
        upper_quartile=upper,
        maximum=most,
    )


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


def _clopper_pearson(seen: int, of: int, confidence: float) -> Interval:
    from scipy.stats import binomtest

    if of == 0:
        return Interval(low=0.0, high=1.0, confidence=confidence)
    interval = binomtest(seen, of).proportion_ci(confidence, method="exact")
    return Interval(low=float(interval.low), high=float(interval.high), confidence=confidence)


def _expected_width(probability: float, trials: int, confidence: float) -> float:
    """Return the width of the Clopper-Pearson interval at `probability * trials` observations.

    Its bounds are quantiles of beta distributions, which are defined for fractions of a trial too.
    """
    from scipy.stats import beta

    tail, seen = (1 - confidence) / 2, probability * trials
    low = beta.ppf(tail, seen, trials - seen + 1) if seen > 0 else 0.0
    high = beta.ppf(1 - tail, seen + 1, trials - seen) if seen < trials else 1.0
    return float(high - low)


@lru_cache(maxsize=4096)  # a cell's interval is needed once per pair with another cell
def _bootstrap(values: tuple[float, ...]) -> Interval:
    import numpy as np
    from scipy.stats import bootstrap

    result = bootstrap(
        (values,),
        np.median,
        n_resamples=RESAMPLES,
        method="percentile",
        confidence_level=CONFIDENCE,
        rng=np.random.default_rng(SEED),
    )
    interval = result.confidence_interval
    return Interval(low=float(interval.low), high=float(interval.high))


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
