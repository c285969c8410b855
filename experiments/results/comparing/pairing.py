"""Statistics of pairs of trials: two cells that ran with the same seeds.

SciPy computes the tests. `docs/statistics.md` describes each figure, its assumptions and its
source. Differences are `b - a`, ratios `b / a`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ackbench.experiments.results.comparing.findings import DifferenceTest, Missing, MissingCode
from ackbench.experiments.verdicts.statistics import (
    CONFIDENCE,
    MIN_TRIALS_FOR_INTERVAL,
    Interval,
    estimate,
    share,
)

Value = TypeVar("Value")
RESAMPLES: Final = 9999
SEED: Final = 20_260_101
"""A fixed seed, so that equal values have equal p-values."""
MIN_PAIRS_FOR_TEST: Final = 6
"""With fewer differing pairs no outcome has a two-sided p below 0.05, and no effect size is given.

The least p of 5 pairs is 2 / 2^5 = 0.0625. One pair has an effect size of 1 or -1, whatever it is.
"""


@dataclass(frozen=True)
class DifferenceFigures:
    """The difference of two cells in one figure per trial; `None`: the trials do not show it."""

    trials: int
    """The number of pairs; unpaired: of trials of the cell that has fewer."""
    test: DifferenceTest
    difference: float | None = None
    """`b - a`: of shares, or the median over pairs; unpaired: of the medians."""
    difference_interval: Interval | None = None
    ratio: float | None = None
    """`b / a`, for numbers: the median over pairs; unpaired: of the medians.

    `None`: a value of `a` is not above 0.
    """
    ratio_interval: Interval | None = None
    p_value: float | None = None
    """Two-sided."""
    effect: float | None = None
    """The rank-biserial correlation; of shares, of yes (1) and no (0).

    From -1 (`b` is always less) to 1 (`b` is always more); 0: neither more often.
    """
    missing: tuple[Missing, ...] = ()


def paired_numbers(a: Mapping[int, float], b: Mapping[int, float]) -> DifferenceFigures:
    """Compare two cells by one number per trial, with Wilcoxon's signed-rank test.

    Args:
        a: the numbers of one cell; equal keys make a pair, and a trial without one is left out.
        b: the numbers of the other cell.
    """
    pairs = _pairs(a, b)
    differences = [after - before for before, after in pairs]
    ratios = []
    if all(before > 0 for before, _ in pairs):
        ratios = [after / before for before, after in pairs]
    nonzero = [difference for difference in differences if difference != 0]
    difference, ratio = estimate(differences), estimate(ratios)
    return DifferenceFigures(
        trials=len(pairs),
        test=DifferenceTest.WILCOXON,
        difference=difference.median if difference else None,
        difference_interval=difference.interval if difference else None,
        ratio=ratio.median if ratio else None,
        ratio_interval=ratio.interval if ratio else None,
        p_value=_wilcoxon(nonzero) if len(nonzero) >= MIN_PAIRS_FOR_TEST else None,
        effect=_rank_biserial(nonzero) if len(pairs) >= MIN_PAIRS_FOR_TEST else None,
        missing=tuple(_missing(len(pairs), len(nonzero), ratio=bool(ratios))),
    )


def paired_shares(a: Mapping[int, bool], b: Mapping[int, bool]) -> DifferenceFigures:
    """Compare two cells by one yes or no per trial, with McNemar's exact test.

    The interval is conservative, from two exact (Clopper-Pearson) intervals.

    Args:
        a: the answers of one cell; equal keys make a pair, and a trial without one is left out.
        b: the answers of the other cell.
    """
    pairs = _pairs(a, b)
    only_a, only_b = pairs.count((True, False)), pairs.count((False, True))
    total, differing = len(pairs), only_a + only_b
    return DifferenceFigures(
        trials=total,
        test=DifferenceTest.MCNEMAR,
        difference=(only_b - only_a) / total if pairs else None,
        difference_interval=(
            share_difference_interval((only_a, total), (only_b, total)) if pairs else None
        ),
        p_value=_mcnemar(only_a, only_b) if differing >= MIN_PAIRS_FOR_TEST else None,
        effect=(only_b - only_a) / max(differing, 1) if total >= MIN_PAIRS_FOR_TEST else None,
        missing=tuple(_missing(total, differing)),
    )


def _pairs(a: Mapping[int, Value], b: Mapping[int, Value]) -> list[tuple[Value, Value]]:
    return [(value, b[key]) for key, value in a.items() if key in b]


def _missing(pairs: int, differing: int, *, ratio: bool = True) -> Iterator[Missing]:
    if pairs == 0:
        yield Missing(code=MissingCode.NO_PAIRS, trials=0)
        return
    if differing < MIN_PAIRS_FOR_TEST:
        yield Missing(code=MissingCode.FEW_DIFFERING_PAIRS, trials=pairs, differing=differing)
    if pairs < MIN_PAIRS_FOR_TEST:
        yield Missing(code=MissingCode.FEW_PAIRS_FOR_EFFECT, trials=pairs)
    if pairs < MIN_TRIALS_FOR_INTERVAL:
        yield Missing(code=MissingCode.FEW_PAIRS_FOR_INTERVAL, trials=pairs)
    if not ratio:
        yield Missing(code=MissingCode.NO_RATIO, trials=pairs)


def _wilcoxon(differences: Sequence[float]) -> float:
    """Return the p-value from permutations of the signs, so that ties need no correction.

    Up to 13 pairs all permutations are computed, beyond that a seeded sample.
    """
    import numpy as np
    from scipy.stats import PermutationMethod, wilcoxon

    method = PermutationMethod(n_resamples=RESAMPLES, rng=np.random.default_rng(SEED))
    return float(wilcoxon(np.sort(np.asarray(differences)), method=method).pvalue)


def _rank_biserial(differences: Sequence[float]) -> float:
    """Return (R+ - R-) / (R+ + R-), where R are the rank sums of the differences by sign.

    Source: Kerby 2014.
    """
    if not differences:
        return 0.0
    import numpy as np
    from scipy.stats import rankdata

    ranks = rankdata(np.abs(differences))
    return float(np.sum(ranks * np.sign(differences)) / np.sum(ranks))


def _mcnemar(only_a: int, only_b: int) -> float:
    from scipy.stats import binomtest

    return float(binomtest(only_b, only_a + only_b, 0.5).pvalue)


def share_difference_interval(a: tuple[int, int], b: tuple[int, int]) -> Interval:
    """Return the interval of the share `b` minus the share `a`, each given as (count, total).

    Each share has half of the error probability (Bonferroni), so that both intervals together have
    `CONFIDENCE`.
    """
    each = 1 - (1 - CONFIDENCE) / 2
    before, after = share(*a, each).interval, share(*b, each).interval
    return Interval(low=after.low - before.high, high=after.high - before.low)
