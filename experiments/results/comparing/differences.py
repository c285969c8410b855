"""The difference between two cells in one measure.

Trials are compared in pairs if both cells ran with the same seeds. Unpaired comparisons support
weaker conclusions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from statistics import median
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.results.comparing.pairing import (
    MIN_PAIRS_FOR_TEST,
    PairedNumbers,
    PairedShares,
    paired_numbers,
    paired_shares,
    share_difference_interval,
)
from ackbench.experiments.verdicts.statistics import (
    MIN_TRIALS_FOR_DIFFERENCE,
    Estimate,
    Interval,
    Share,
    estimate,
    median_change,
    share,
)


class ComparedMeasure(StrEnum):
    """A measure that two cells are compared by."""

    LOSS = "loss"
    """The share of trials that certainly lost an acknowledged record."""
    DUPLICATES = "duplicates"
    """The share of trials with a duplicate in the log."""
    LATENCY_P99 = "latency_p99"
    """A trial's 99th percentile from intended time to acknowledgement, milliseconds."""
    OUTAGE = "outage"
    """A trial's longest time without an acknowledgement on a partition, milliseconds."""
    THROUGHPUT = "throughput"
    """Records acknowledged within the load window, per second."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of trials; if not, it is a number per trial."""
        return self in {ComparedMeasure.LOSS, ComparedMeasure.DUPLICATES}

    @property
    def more_is_worse(self) -> bool:
        """Whether a larger value is worse: true except for throughput."""
        return self is not ComparedMeasure.THROUGHPUT


MEASURE_NAMES: Final = {
    ComparedMeasure.LOSS: "trials with loss",
    ComparedMeasure.DUPLICATES: "trials with duplicates",
    ComparedMeasure.LATENCY_P99: "ack p99",
    ComparedMeasure.OUTAGE: "longest gap",
    ComparedMeasure.THROUGHPUT: "throughput",
}


class Difference(Frozen):
    """One measure of a cell in sweep `a` and in sweep `b`.

    Values that the trials do not show are null, and `reasons` explains why.
    """

    measure: ComparedMeasure
    paired: bool
    """Whether trials were compared in pairs with the same seed."""
    trials: int
    """The number of pairs; unpaired: of trials of the cell that has fewer."""
    a_share: Share | None = None
    b_share: Share | None = None
    a_median: Estimate | None = None
    b_median: Estimate | None = None
    difference: float | None = None
    """`b - a`. Shares: from -1 to 1. Numbers: the median over pairs, in the measure's unit.

    Unpaired: the difference of the medians.
    """
    difference_interval: Interval | None = None
    ratio: float | None = None
    """`b / a`, for numbers only: the median over pairs. Unpaired: the ratio of the medians."""
    ratio_interval: Interval | None = None
    p_value: float | None = None
    effect: float | None = None
    """The rank-biserial correlation, from -1 (`b` is always less) to 1 (`b` is always more).

    0: neither is more often the larger one. `None`: too few trials.
    """
    test: str
    reasons: tuple[str, ...] = ()

    def worse_by(self) -> float | None:
        """Return by how much `b` is worse at least, with the confidence of the interval.

        Returns:
            For a share, the difference of the shares; for a number, the difference as a fraction of
            `a`'s value; `None` if there is no interval.
        """
        if self.measure.is_share:
            return self.difference_interval.low if self.difference_interval else None
        if self.ratio_interval is None:
            return None
        return (
            self.ratio_interval.low - 1
            if self.measure.more_is_worse
            else 1 - self.ratio_interval.high
        )

    def can_exceed(self, bound: float) -> bool:
        """Return whether there are enough trials to show that `b` is worse by more than this.

        A share has an interval from the first trial on, but a wide one: with one trial on each side
        no outcome shows a difference.

        Args:
            bound: as `worse_by` returns it.
        """
        if not self.measure.is_share:
            return self.worse_by() is not None
        return exceeds_with(self.trials, bound)


def exceeds_with(trials: int, bound: float) -> bool:
    """Return whether none of `trials` trials in `a`, and all in `b`, show a greater difference."""
    return trials > 0 and share_difference_interval((0, trials), (trials, trials)).low > bound


def classify_difference(difference: Difference) -> str:
    """Return `worse`, `better`, `same` or `unknown`.

    A difference is worse or better only if its entire interval is on one side of no difference. It
    is unknown without an interval, and if there are so few trials that no outcome could show one.
    """
    interval, no_difference = interval_and_null(difference)
    if interval is None or not difference.can_exceed(0.0):
        return "unknown"
    if interval.low <= no_difference <= interval.high:
        return "same"
    is_more = interval.low > no_difference
    return "worse" if is_more == difference.measure.more_is_worse else "better"


def interval_and_null(difference: Difference) -> tuple[Interval | None, float]:
    """Return the interval, and the value that means no difference: 0 points, or a ratio of 1."""
    if difference.measure.is_share:
        return difference.difference_interval, 0.0
    return difference.ratio_interval, 1.0


def share_difference(
    measure: ComparedMeasure, a: Mapping[int, bool], b: Mapping[int, bool], *, paired: bool
) -> Difference:
    """Compare one yes or no per trial; the keys pair the trials."""
    sides = {
        "a_share": share(sum(a.values()), len(a)) if a else None,
        "b_share": share(sum(b.values()), len(b)) if b else None,
    }
    if paired:
        return _from_paired_shares(measure, paired_shares(a, b)).model_copy(update=sides)
    return _unpaired_shares(measure, list(a.values()), list(b.values())).model_copy(update=sides)


def number_difference(
    measure: ComparedMeasure, a: Mapping[int, float], b: Mapping[int, float], *, paired: bool
) -> Difference:
    """Compare one number per trial; the keys pair the trials."""
    sides = {"a_median": estimate(list(a.values())), "b_median": estimate(list(b.values()))}
    if paired:
        return _from_paired_numbers(measure, paired_numbers(a, b)).model_copy(update=sides)
    return _unpaired_numbers(measure, list(a.values()), list(b.values())).model_copy(update=sides)


def _from_paired_shares(measure: ComparedMeasure, shares: PairedShares) -> Difference:
    return Difference(
        measure=measure,
        paired=True,
        trials=shares.pairs,
        difference=shares.difference,
        difference_interval=shares.interval,
        p_value=shares.p_value,
        effect=shares.effect,
        test="McNemar's, exact",
        reasons=shares.reasons,
    )


def _from_paired_numbers(measure: ComparedMeasure, numbers: PairedNumbers) -> Difference:
    return Difference(
        measure=measure,
        paired=True,
        trials=numbers.pairs,
        difference=numbers.difference.median if numbers.difference else None,
        difference_interval=numbers.difference.interval if numbers.difference else None,
        ratio=numbers.ratio.median if numbers.ratio else None,
        ratio_interval=numbers.ratio.interval if numbers.ratio else None,
        p_value=numbers.p_value,
        effect=numbers.effect,
        test="Wilcoxon's signed ranks",
        reasons=numbers.reasons,
    )


def _unpaired_shares(measure: ComparedMeasure, a: Sequence[bool], b: Sequence[bool]) -> Difference:
    """Return the difference of two shares, with a conservative interval and Fisher's exact test."""
    trials = min(len(a), len(b))
    if not trials:
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
        trials=trials,
        difference=sum(b) / len(b) - sum(a) / len(a),
        difference_interval=share_difference_interval((sum(a), len(a)), (sum(b), len(b))),
        p_value=float(fisher_exact(table).pvalue),
        effect=sum(b) / len(b) - sum(a) / len(a) if trials >= MIN_PAIRS_FOR_TEST else None,
        test="Fisher's, exact",
    )


_TOO_FEW: Final = (
    f"without pairs, an interval of two medians needs {MIN_TRIALS_FOR_DIFFERENCE} trials of each; "
    "there are {trials}"
)


def _unpaired_numbers(
    measure: ComparedMeasure, a: Sequence[float], b: Sequence[float]
) -> Difference:
    """Return the difference and the ratio of two medians.

    The intervals are from those of both medians, the test is that of Mann and Whitney.
    """
    trials = min(len(a), len(b))
    if not trials:
        return Difference(
            measure=measure,
            paired=False,
            trials=0,
            test="Mann and Whitney's",
            reasons=("one side has no sealed trial",),
        )
    a_median, b_median = median(a), median(b)
    difference_interval, ratio_interval = median_change(a, b)
    return Difference(
        measure=measure,
        paired=False,
        trials=trials,
        difference=b_median - a_median,
        difference_interval=difference_interval,
        ratio=b_median / a_median if min(a) > 0 else None,
        ratio_interval=ratio_interval,
        p_value=_mann_whitney(a, b) if trials >= MIN_PAIRS_FOR_TEST else None,
        effect=_dominance(a, b) if trials >= MIN_PAIRS_FOR_TEST else None,
        test="Mann and Whitney's",
        reasons=() if difference_interval else (_TOO_FEW.format(trials=trials),),
    )


def _mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(a, b).pvalue)


def _dominance(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the unpaired rank-biserial correlation.

    Over all combinations of a trial of `a` and a trial of `b`: how much more often that of `b` has
    the larger value.
    """
    return sum((y > x) - (y < x) for x in a for y in b) / (len(a) * len(b))
