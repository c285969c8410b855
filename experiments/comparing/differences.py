"""One measure of two cells, side by side: paired where both ran under the same seeds, and otherwise apart, which says less. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median

from experiments.comparing.pairing import (
    LEAST_PAIRS,
    PairedNumbers,
    PairedShares,
    paired_numbers,
    paired_shares,
    shares_apart,
)
from experiments.ledger.record import Frozen
from experiments.verdicts.statistics import (
    CONFIDENCE,
    MIN_TRIALS_FOR_INTERVAL,
    RESAMPLES,
    SEED,
    Estimate,
    Interval,
    Share,
    estimate,
    share,
)


class MeasuredValues(StrEnum):
    """What two cells are compared by."""

    LOSS = "loss"
    """The share of trials that lost an acknowledged record for certain."""
    DUPLICATES = "duplicates"
    """The share of trials with a further copy in the log."""
    LATENCY_P99 = "latency_p99"
    """The trial's 99th percentile from the intended time to the acknowledgement, milliseconds."""
    OUTAGE = "outage"
    """The trial's longest time in which a partition acknowledged nothing, milliseconds."""
    THROUGHPUT = "throughput"
    """Acknowledged inside the load window, records a second."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of trials; else it is a number of each trial."""
        return self in {MeasuredValues.LOSS, MeasuredValues.DUPLICATES}

    @property
    def more_is_worse(self) -> bool:
        """Of all but the throughput."""
        return self is not MeasuredValues.THROUGHPUT


class Difference(Frozen):
    """One measure of a cell in sweep `a` and in sweep `b`; what the trials cannot tell is null, and `reasons` says why."""

    measure: MeasuredValues
    paired: bool
    """Trial by trial under the same seed; else the two cells' trials were compared as they are."""
    trials: int
    """Pairs; unpaired: the trials of the cell that has fewer."""
    a_share: Share | None = None
    b_share: Share | None = None
    a_median: Estimate | None = None
    b_median: Estimate | None = None
    difference: float | None = None
    """`b` less `a`: of shares, from -1 to 1; of numbers, the median over pairs, in their unit. Unpaired: of the medians."""
    difference_interval: Interval | None = None
    ratio: float | None = None
    """`b` divided by `a`, of numbers: the median over pairs. Unpaired: of the medians."""
    ratio_interval: Interval | None = None
    p_value: float | None = None
    effect: float | None = None
    """The rank-biserial correlation, -1 (`b` always less) to 1 (`b` always more); 0: no more often the one than the other."""
    test: str
    reasons: tuple[str, ...] = ()

    def worse_by(self) -> float | None:
        """Return by how much `b` is worse at least, with the interval's confidence: a share's points, or a part of `a`'s value; `None`: it cannot be told."""
        if self.measure.is_share:
            return self.difference_interval.low if self.difference_interval else None
        if self.ratio_interval is None:
            return None
        return (
            self.ratio_interval.low - 1
            if self.measure.more_is_worse
            else 1 - self.ratio_interval.high
        )


def share_difference(
    measure: MeasuredValues, a: Mapping[int, bool], b: Mapping[int, bool], *, paired: bool
) -> Difference:
    """Compare a yes or no of each trial, by the key that pairs them."""
    sides = {
        "a_share": share(sum(a.values()), len(a)) if a else None,
        "b_share": share(sum(b.values()), len(b)) if b else None,
    }
    if paired:
        return _of_paired_shares(measure, paired_shares(a, b)).model_copy(update=sides)
    return _unpaired_shares(measure, list(a.values()), list(b.values())).model_copy(update=sides)


def number_difference(
    measure: MeasuredValues, a: Mapping[int, float], b: Mapping[int, float], *, paired: bool
) -> Difference:
    """Compare a number of each trial, by the key that pairs them."""
    sides = {"a_median": estimate(list(a.values())), "b_median": estimate(list(b.values()))}
    if paired:
        return _of_paired_numbers(measure, paired_numbers(a, b)).model_copy(update=sides)
    return _unpaired_numbers(measure, list(a.values()), list(b.values())).model_copy(update=sides)


def _of_paired_shares(measure: MeasuredValues, found: PairedShares) -> Difference:
    return Difference(
        measure=measure,
        paired=True,
        trials=found.pairs,
        difference=found.difference,
        difference_interval=found.interval,
        p_value=found.p_value,
        effect=found.effect,
        test="McNemar's, exact",
        reasons=found.reasons,
    )


def _of_paired_numbers(measure: MeasuredValues, found: PairedNumbers) -> Difference:
    return Difference(
        measure=measure,
        paired=True,
        trials=found.pairs,
        difference=found.difference.median if found.difference else None,
        difference_interval=found.difference.interval if found.difference else None,
        ratio=found.ratio.median if found.ratio else None,
        ratio_interval=found.ratio.interval if found.ratio else None,
        p_value=found.p_value,
        effect=found.effect,
        test="Wilcoxon's signed ranks",
        reasons=found.reasons,
    )


def _unpaired_shares(measure: MeasuredValues, a: Sequence[bool], b: Sequence[bool]) -> Difference:
    """The difference of two shares, with an exact and cautious interval; Fisher's exact test."""
    few = min(len(a), len(b))
    if not few:
        return Difference(
            measure=measure,
            paired=False,
            trials=0,
            test="Fisher's, exact",
            reasons=("one side has no sealed trial",),
        )
    from scipy.stats import fisher_exact

    table = [[sum(a), len(a) - sum(a)], [sum(b), len(b) - sum(b)]]
    return Difference(
        measure=measure,
        paired=False,
        trials=few,
        difference=sum(b) / len(b) - sum(a) / len(a),
        difference_interval=shares_apart((sum(a), len(a)), (sum(b), len(b))),
        p_value=float(fisher_exact(table).pvalue),
        effect=sum(b) / len(b) - sum(a) / len(a),
        test="Fisher's, exact",
    )


def _unpaired_numbers(
    measure: MeasuredValues, a: Sequence[float], b: Sequence[float]
) -> Difference:
    """The difference and the ratio of two medians, with bootstrap intervals by trial; Mann and Whitney's test."""
    few = min(len(a), len(b))
    if not few:
        return Difference(
            measure=measure,
            paired=False,
            trials=0,
            test="Mann and Whitney's",
            reasons=("one side has no sealed trial",),
        )
    before, after = median(a), median(b)
    told = few >= MIN_TRIALS_FOR_INTERVAL
    return Difference(
        measure=measure,
        paired=False,
        trials=few,
        difference=after - before,
        difference_interval=_resampled(a, b, ratio=False) if told else None,
        ratio=after / before if min(a) > 0 else None,
        ratio_interval=_resampled(a, b, ratio=True) if told and min(a) > 0 else None,
        p_value=_mann_whitney(a, b) if few >= LEAST_PAIRS else None,
        effect=_dominance(a, b),
        test="Mann and Whitney's",
        reasons=()
        if told
        else (f"{few} trials: no interval of a median below {MIN_TRIALS_FOR_INTERVAL}",),
    )


def _resampled(a: Sequence[float], b: Sequence[float], *, ratio: bool) -> Interval:
    import numpy as np
    from scipy.stats import bootstrap

    def between(first: object, second: object, axis: int = -1) -> object:
        before, after = np.median(first, axis=axis), np.median(second, axis=axis)  # type: ignore[call-overload]
        return after / before if ratio else after - before

    found = bootstrap(
        (sorted(a), sorted(b)),
        between,
        vectorized=True,
        n_resamples=RESAMPLES,
        method="percentile",
        confidence_level=CONFIDENCE,
        rng=np.random.default_rng(SEED),
    )
    return Interval(
        low=float(found.confidence_interval.low), high=float(found.confidence_interval.high)
    )


def _mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(a, b).pvalue)


def _dominance(a: Sequence[float], b: Sequence[float]) -> float:
    """How much more often a trial of `b` has the larger value than one of `a`, over all couples of them: the rank-biserial correlation without pairs."""
    return sum((y > x) - (y < x) for x in a for y in b) / (len(a) * len(b))
