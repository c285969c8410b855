"""Statistics of pairs of trials: two cells that ran with the same seeds.

SciPy computes the tests. `docs/statistics.md` describes each figure, its assumptions and its
source. Differences are `b - a`, ratios `b / a`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.verdicts.statistics import (
    CONFIDENCE,
    MIN_TRIALS_FOR_INTERVAL,
    Estimate,
    Interval,
    estimate,
    share,
)

RESAMPLES: Final = 9999
SEED: Final = 20_260_101
"""A fixed seed, so that equal values have equal p-values."""
MIN_PAIRS_FOR_TEST: Final = 6
"""With fewer differing pairs no outcome has a two-sided p below 0.05, and no effect size is given.

The least p of 5 pairs is 2 / 2^5 = 0.0625. One pair has an effect size of 1 or -1, whatever it is.
"""


class PairedNumbers(Frozen):
    """A comparison of two cells by one number per trial."""

    pairs: int
    difference: Estimate | None
    """The median of `b - a` over pairs; `None`: no pairs."""
    ratio: Estimate | None
    """The median of `b / a` over pairs; `None`: no pairs, or a value of `a` is not above 0."""
    p_value: float | None
    """Wilcoxon's signed-rank test, two-sided; `None`: too few pairs differ."""
    effect: float | None
    """The matched-pairs rank-biserial correlation; `None`: too few pairs.

    From -1 (`b` is always less) to 1 (`b` is always more); 0: no pair differs.
    """
    reasons: tuple[str, ...] = ()
    """Why a value is missing."""


class PairedShares(Frozen):
    """A comparison of two cells by one yes or no per trial."""

    pairs: int
    both: int
    only_a: int
    only_b: int
    neither: int
    difference: float | None
    """The share in `b` minus the share in `a`; `None`: no pairs."""
    interval: Interval | None
    """The conservative interval of the difference, from two exact (Clopper-Pearson) intervals."""
    p_value: float | None
    """McNemar's exact test, two-sided; `None`: too few pairs differ."""
    effect: float | None
    """The matched-pairs rank-biserial correlation of yes (1) and no (0); `None`: too few pairs.

    `(only_b - only_a)` as a fraction of the differing pairs; 0: no pair differs.
    """
    reasons: tuple[str, ...] = ()
    """Why a value is missing."""


def paired_numbers(a: Mapping[int, float], b: Mapping[int, float]) -> PairedNumbers:
    """Compare two cells by one number per trial.

    Args:
        a: the numbers of one cell; equal keys make a pair, and a trial without one is left out.
        b: the numbers of the other cell.
    """
    pairs = [(a[key], b[key]) for key in _common_keys(a, b)]
    differences = [after - before for before, after in pairs]
    ratios = []
    if all(before > 0 for before, _ in pairs):
        ratios = [after / before for before, after in pairs]
    nonzero = [difference for difference in differences if difference != 0]
    return PairedNumbers(
        pairs=len(pairs),
        difference=estimate(differences),
        ratio=estimate(ratios),
        p_value=_wilcoxon(nonzero) if len(nonzero) >= MIN_PAIRS_FOR_TEST else None,
        effect=_rank_biserial(nonzero) if len(pairs) >= MIN_PAIRS_FOR_TEST else None,
        reasons=tuple(_missing(len(pairs), len(nonzero), ratio=bool(ratios))),
    )


def paired_shares(a: Mapping[int, bool], b: Mapping[int, bool]) -> PairedShares:
    """Compare two cells by one yes or no per trial.

    Args:
        a: the answers of one cell; equal keys make a pair, and a trial without one is left out.
        b: the answers of the other cell.
    """
    pairs = [(a[key], b[key]) for key in _common_keys(a, b)]
    only_a, only_b = pairs.count((True, False)), pairs.count((False, True))
    return PairedShares(
        pairs=len(pairs),
        both=pairs.count((True, True)),
        only_a=only_a,
        only_b=only_b,
        neither=pairs.count((False, False)),
        difference=(only_b - only_a) / len(pairs) if pairs else None,
        interval=share_difference_interval((only_a, len(pairs)), (only_b, len(pairs)))
        if pairs
        else None,
        p_value=_mcnemar(only_a, only_b) if only_a + only_b >= MIN_PAIRS_FOR_TEST else None,
        effect=(only_b - only_a) / max(only_a + only_b, 1)
        if len(pairs) >= MIN_PAIRS_FOR_TEST
        else None,
        reasons=tuple(_missing(len(pairs), only_a + only_b)),
    )


def _common_keys(a: Mapping[int, object], b: Mapping[int, object]) -> list[int]:
    return [key for key in a if key in b]


def _missing(pairs: int, differing: int, *, ratio: bool = True) -> list[str]:
    """Return why values are missing."""
    if pairs == 0:
        return ["no pairs: no two trials have the same seed"]
    reasons = []
    if differing < MIN_PAIRS_FOR_TEST:
        reasons.append(
            f"{differing} of {pairs} pairs differ: no p-value below {MIN_PAIRS_FOR_TEST}, "
            "because none could be below 0.05"
        )
    if pairs < MIN_PAIRS_FOR_TEST:
        reasons.append(f"no effect size from fewer than {MIN_PAIRS_FOR_TEST} pairs")
    if pairs < MIN_TRIALS_FOR_INTERVAL:
        reasons.append(
            f"an interval of a median needs {MIN_TRIALS_FOR_INTERVAL} pairs; there are {pairs}"
        )
    if not ratio:
        reasons.append("no ratio, because a divisor is not above 0")
    return reasons


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
