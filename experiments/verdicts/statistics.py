"""Intervals and comparisons, by trial and never by record; SciPy does the arithmetic. Pure.

`docs/statistics.md` says what each figure is, what it assumes and where it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median
from typing import Final

from experiments.ledger.record import Frozen

CONFIDENCE: Final = 0.95
LEAST_VALUES: Final = 5
"""Fewer trials than this have no interval: of 4 the whole range holds the median in only 1 - 2 / 2^4 = 88 % of sweeps."""
RESAMPLES: Final = 9999
SEED: Final = 20_260_101
"""The resampling is part of the method: equal values give equal intervals."""


class Interval(Frozen):
    """Bounds that hold the true value in `confidence` of all sweeps."""

    low: float
    high: float
    confidence: float = CONFIDENCE

    @property
    def width(self) -> float:
        """From bound to bound."""
        return self.high - self.low


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


class Distribution(Frozen):
    """How a count or a time spreads over trials; quartiles lie between two trials where they must."""

    trials: int
    minimum: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float


def share(seen: int, of: int, confidence: float = CONFIDENCE) -> Share:
    """Return a share of trials with its exact two-sided interval (Clopper-Pearson); of no trial, from 0 to 1.

    Raises:
        ValueError: more were seen than there are, or fewer than none.
    """
    if not 0 <= seen <= of:
        raise ValueError(f"{seen} of {of} trials is no share")
    return Share(seen=seen, of=of, interval=_clopper_pearson(seen, of, confidence))


def bound(given: Share) -> float | None:
    """Return the one-sided exact bound of a share that is none or all of its trials: above which, or below which, it is not.

    None of n: `1 - (1 - c)^(1/n)`, the "rule of three" made exact. Any other share has two bounds and no such figure.
    """
    from scipy.stats import binomtest

    if given.of == 0 or 0 < given.seen < given.of:
        return None
    none = given.seen == 0
    found = binomtest(
        given.seen, given.of, alternative="less" if none else "greater"
    ).proportion_ci(given.interval.confidence, method="exact")
    return float(found.high if none else found.low)


def words(given: Share, of: str = "trials") -> str:
    """Say a share: `3 of 5 trials (14 to 95 %)`, `0 of 10 trials: below 26 % at 95 %`. Bounds are rounded outwards, so that what is said is true."""
    told = f"{given.seen} of {given.of} {of.removesuffix('s') if given.of == 1 else of}"
    if given.of == 0:
        return f"no {of}"
    limit = bound(given)
    if limit is None:
        return f"{told} ({_percent(given.interval.low, up=False)} to {_percent(given.interval.high, up=True)} %)"
    side = (
        f"below {_percent(limit, up=True)}"
        if given.seen == 0
        else f"above {_percent(limit, up=False)}"
    )
    return f"{told}: {side} % at {_percent(given.interval.confidence, up=False)} %"


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the median of one value a trial, with a percentile bootstrap interval from `LEAST_VALUES` trials on.

    Whole trials are drawn, with replacement; records of one trial share its fate and are no sample. Of no value: `None`.
    """
    if not values:
        return None
    ordered = tuple(sorted(map(float, values)))  # which trial came first does not matter
    interval = _bootstrap(ordered) if len(ordered) >= LEAST_VALUES else None
    return Estimate(median=median(ordered), interval=interval, trials=len(ordered))


def distribution(values: Sequence[float]) -> Distribution | None:
    """Return how one value a trial spreads; of no value, `None`. Quartiles as NumPy's default draws them (Hyndman and Fan's type 7)."""
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


def precise_enough(given: Share, width: float) -> bool:
    """Say whether the share's two-sided interval is narrower than `width`, wherever it lies: for `--until "ci<0.1"`."""
    return given.interval.width < width


def trials_needed(probability: float, confidence: float = CONFIDENCE) -> int:
    """Return how many trials show at least one case, with this confidence, of what happens in each with this probability.

    Raises:
        ValueError: the probability is not above 0 and at most 1, or the confidence not between 0 and 1.
    """
    if not (0 < probability <= 1 and 0 < confidence < 1):
        raise ValueError(
            f"no number of trials shows what happens with probability {probability} at confidence {confidence}"
        )
    return (
        1
        if probability == 1
        else max(1, math.ceil(math.log1p(-confidence) / math.log1p(-probability) - 1e-9))
    )


def trials_for_width(probability: float, width: float, confidence: float = CONFIDENCE) -> int:
    """Return how many trials make a share's interval narrower than `width`, if it is seen as often as `probability` says.

    Raises:
        ValueError: the probability is not from 0 to 1, or the width not above 0.
    """
    if not (0 <= probability <= 1 and width > 0):
        raise ValueError(
            f"no number of trials makes the interval of probability {probability} narrower than {width}"
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
    found = binomtest(seen, of).proportion_ci(confidence, method="exact")
    return Interval(low=float(found.low), high=float(found.high), confidence=confidence)


def _expected_width(probability: float, trials: int, confidence: float) -> float:
    """The Clopper-Pearson interval's width at `probability * trials` seen, whole or not: its bounds are quantiles of beta distributions."""
    from scipy.stats import beta

    tail, seen = (1 - confidence) / 2, probability * trials
    low = beta.ppf(tail, seen, trials - seen + 1) if seen > 0 else 0.0
    high = beta.ppf(1 - tail, seen + 1, trials - seen) if seen < trials else 1.0
    return float(high - low)


@lru_cache(maxsize=4096)  # a cell's own interval stands in each of its pairs with other cells
def _bootstrap(values: tuple[float, ...]) -> Interval:
    import numpy as np
    from scipy.stats import bootstrap

    found = bootstrap(
        (values,),
        np.median,
        n_resamples=RESAMPLES,
        method="percentile",
        confidence_level=CONFIDENCE,
        rng=np.random.default_rng(SEED),
    )
    return Interval(
        low=float(found.confidence_interval.low), high=float(found.confidence_interval.high)
    )


def _percent(part: float, *, up: bool) -> str:
    """A share in percent, cut outwards to whole ones, below 10 to tenths and below 1 to hundredths."""
    percent = part * 100
    places = sum(percent < least for least in (10, 1))
    scaled = percent * 10**places
    near = round(scaled)
    whole = (
        near
        if math.isclose(scaled, near, abs_tol=1e-9)
        else math.ceil(scaled)
        if up
        else math.floor(scaled)
    )
    return f"{whole / 10**places:g}"
