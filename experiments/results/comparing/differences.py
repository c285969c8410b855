"""The difference between two cells in one measure.

Trials are compared in pairs if both cells ran with the same seeds. Unpaired comparisons support
weaker conclusions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from pydantic import computed_field

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.results.comparing.findings import (
    ChangeKind,
    ComparedMeasure,
    DifferenceTest,
    Missing,
    MissingCode,
)
from ackbench.experiments.results.comparing.pairing import (
    MIN_PAIRS_FOR_TEST,
    DifferenceFigures,
    paired_numbers,
    paired_shares,
    share_difference_interval,
)
from ackbench.experiments.results.comparing.sentences import missing_sentence
from ackbench.experiments.verdicts.statistics import (
    Estimate,
    Interval,
    Share,
    estimate,
    median_change,
    share,
)


class Difference(Frozen):
    """One measure of a cell in sweep `a` and in sweep `b`.

    Values that the trials do not show are null, and `missing` has the reasons.
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
    test: DifferenceTest
    missing: tuple[Missing, ...] = ()

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know pydantic's decorator
    @property
    def reasons(self) -> tuple[str, ...]:
        """The sentences of `missing`."""
        return tuple(map(missing_sentence, self.missing))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def change(self) -> ChangeKind:
        """What the trials show: worse or better, no difference, or nothing."""
        interval, no_difference = self.interval_and_null
        if interval is None or not self.can_exceed(0.0):
            return ChangeKind.UNKNOWN
        if interval.low <= no_difference <= interval.high:
            return ChangeKind.SAME
        is_more = interval.low > no_difference
        return ChangeKind.WORSE if is_more == self.measure.more_is_worse else ChangeKind.BETTER

    @property
    def interval_and_null(self) -> tuple[Interval | None, float]:
        """The interval, and the value that means no difference: 0 points, or a ratio of 1."""
        if self.measure.is_share:
            return self.difference_interval, 0.0
        return self.ratio_interval, 1.0

    @property
    def relative(self) -> float | None:
        """The difference of shares; of numbers, the ratio."""
        return self.difference if self.measure.is_share else self.ratio

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


def share_difference(
    measure: ComparedMeasure, a: Mapping[int, bool], b: Mapping[int, bool], *, paired: bool
) -> Difference:
    """Compare one yes or no per trial; the keys pair the trials."""
    sides = {
        "a_share": share(sum(a.values()), len(a)) if a else None,
        "b_share": share(sum(b.values()), len(b)) if b else None,
    }
    figures = paired_shares(a, b) if paired else _unpaired_shares([*a.values()], [*b.values()])
    return Difference(measure=measure, paired=paired, **sides, **vars(figures))


def number_difference(
    measure: ComparedMeasure, a: Mapping[int, float], b: Mapping[int, float], *, paired: bool
) -> Difference:
    """Compare one number per trial; the keys pair the trials."""
    sides = {"a_median": estimate([*a.values()]), "b_median": estimate([*b.values()])}
    figures = paired_numbers(a, b) if paired else _unpaired_numbers([*a.values()], [*b.values()])
    return Difference(measure=measure, paired=paired, **sides, **vars(figures))


def _no_trial(test: DifferenceTest) -> DifferenceFigures:
    return DifferenceFigures(0, test, missing=(Missing(code=MissingCode.NO_TRIAL, trials=0),))


def _unpaired_shares(a: Sequence[bool], b: Sequence[bool]) -> DifferenceFigures:
    """Return the difference of two shares, with a conservative interval and Fisher's exact test."""
    trials = min(len(a), len(b))
    if not trials:
        return _no_trial(DifferenceTest.FISHER)
    from scipy.stats import fisher_exact

    table = [[sum(a), len(a) - sum(a)], [sum(b), len(b) - sum(b)]]
    difference = sum(b) / len(b) - sum(a) / len(a)
    return DifferenceFigures(
        trials,
        DifferenceTest.FISHER,
        difference=difference,
        difference_interval=share_difference_interval((sum(a), len(a)), (sum(b), len(b))),
        p_value=float(fisher_exact(table).pvalue),
        effect=difference if trials >= MIN_PAIRS_FOR_TEST else None,
    )


def _unpaired_numbers(a: Sequence[float], b: Sequence[float]) -> DifferenceFigures:
    """Return the difference and the ratio of two medians.

    The intervals are from those of both medians, the test is that of Mann and Whitney. The effect
    is the unpaired rank-biserial correlation: over all combinations of a trial of `a` and a trial
    of `b`, how much more often that of `b` has the larger value.
    """
    trials = min(len(a), len(b))
    if not trials:
        return _no_trial(DifferenceTest.MANN_WHITNEY)
    from scipy.stats import mannwhitneyu

    a_median, b_median = median(a), median(b)
    difference_interval, ratio_interval = median_change(a, b)
    few = Missing(code=MissingCode.FEW_TRIALS_FOR_INTERVAL, trials=trials)
    tested = trials >= MIN_PAIRS_FOR_TEST
    return DifferenceFigures(
        trials,
        DifferenceTest.MANN_WHITNEY,
        difference=b_median - a_median,
        difference_interval=difference_interval,
        ratio=b_median / a_median if min(a) > 0 else None,
        ratio_interval=ratio_interval,
        p_value=float(mannwhitneyu(a, b).pvalue) if tested else None,
        effect=(
            sum((y > x) - (y < x) for x in a for y in b) / (len(a) * len(b)) if tested else None
        ),
        missing=() if difference_interval else (few,),
    )
