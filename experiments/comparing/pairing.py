"""Two cells under the same seeds, compared pair by pair; SciPy does the arithmetic. Pure.

`docs/statistics.md` says what each figure is, what it assumes and where it comes from. Differences and ratios are `b` against `a`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from experiments.ledger.record import Frozen
from experiments.verdicts.statistics import (
    CONFIDENCE,
    MIN_TRIALS_FOR_INTERVAL,
    RESAMPLES,
    SEED,
    Estimate,
    Interval,
    estimate,
    share,
)

LEAST_PAIRS: Final = 6
"""With fewer differing pairs no outcome has a two-sided p below 0.05: of 5 the least is 2 / 2^5 = 0.0625."""


class PairedNumbers(Frozen):
    """One number a trial, compared between two cells."""

    pairs: int
    difference: Estimate | None
    """The median of `b - a` over pairs; `None`: no pair."""
    ratio: Estimate | None
    """The median of `b / a` over pairs; `None`: no pair, or an `a` that is not above 0."""
    p_value: float | None
    """Wilcoxon's signed-rank test, two-sided; `None`: too few pairs differ."""
    effect: float | None
    """The matched-pairs rank-biserial correlation, -1 (`b` always less) to 1 (`b` always more); 0: no pair differs."""
    reasons: tuple[str, ...] = ()
    """Why something is missing."""


class PairedShares(Frozen):
    """One yes or no a trial, compared between two cells."""

    pairs: int
    both: int
    only_a: int
    only_b: int
    neither: int
    difference: float | None
    """The share in `b` less the share in `a`; `None`: no pair."""
    interval: Interval | None
    """Of the difference: exact and cautious (two Clopper-Pearson intervals, Bonferroni)."""
    p_value: float | None
    """McNemar's exact test, two-sided; `None`: too few pairs differ."""
    effect: float | None
    """The same correlation, of a yes for 1 and a no for 0: of the pairs that differ, how many more show it in `b`, as a part of them; 0: no pair differs."""
    reasons: tuple[str, ...] = ()
    """Why something is missing."""


def paired_numbers(a: Mapping[int, float], b: Mapping[int, float]) -> PairedNumbers:
    """Compare one number a trial between two cells, by what pairs them: the seed. A trial without its partner is left out."""
    keys = _common(a, b)
    before, after = [a[key] for key in keys], [b[key] for key in keys]
    differences = [y - x for x, y in zip(before, after, strict=True)]
    ratios = (
        [y / x for x, y in zip(before, after, strict=True)] if all(x > 0 for x in before) else []
    )
    moved = [difference for difference in differences if difference != 0]
    return PairedNumbers(
        pairs=len(keys),
        difference=estimate(differences),
        ratio=estimate(ratios),
        p_value=_wilcoxon(moved) if len(moved) >= LEAST_PAIRS else None,
        effect=_rank_biserial(moved) if keys else None,
        reasons=tuple(_missing(len(keys), len(moved), ratio=bool(ratios))),
    )


def paired_shares(a: Mapping[int, bool], b: Mapping[int, bool]) -> PairedShares:
    """Compare one yes or no a trial between two cells, by what pairs them: the seed. A trial without its partner is left out."""
    pairs = [(a[key], b[key]) for key in _common(a, b)]
    only_a, only_b = pairs.count((True, False)), pairs.count((False, True))
    return PairedShares(
        pairs=len(pairs),
        both=pairs.count((True, True)),
        only_a=only_a,
        only_b=only_b,
        neither=pairs.count((False, False)),
        difference=(only_b - only_a) / len(pairs) if pairs else None,
        interval=shares_apart((only_a, len(pairs)), (only_b, len(pairs))) if pairs else None,
        p_value=_mcnemar(only_a, only_b) if only_a + only_b >= LEAST_PAIRS else None,
        effect=(only_b - only_a) / max(only_a + only_b, 1) if pairs else None,
        reasons=tuple(_missing(len(pairs), only_a + only_b)),
    )


def _common(a: Mapping[int, object], b: Mapping[int, object]) -> list[int]:
    return [key for key in a if key in b]


def _missing(pairs: int, differing: int, *, ratio: bool = True) -> list[str]:
    """Say what the pairs cannot tell."""
    if pairs == 0:
        return ["no two trials have the same seed: nothing can be paired"]
    reasons = (
        []
        if differing >= LEAST_PAIRS
        else [
            f"{differing} of {pairs} pairs differ: no p-value below {LEAST_PAIRS}, as none could be under 0.05"
        ]
    )
    reasons += (
        []
        if pairs >= MIN_TRIALS_FOR_INTERVAL
        else [f"{pairs} pairs: no interval of a median below {MIN_TRIALS_FOR_INTERVAL}"]
    )
    return reasons if ratio else [*reasons, "no ratio, as a value to divide by is not above 0"]


def _wilcoxon(moved: Sequence[float]) -> float:
    """Signs are permuted, all of them up to 13 pairs and a seeded sample beyond, so ties need no correction."""
    import numpy as np
    from scipy.stats import PermutationMethod, wilcoxon

    method = PermutationMethod(n_resamples=RESAMPLES, rng=np.random.default_rng(SEED))
    return float(wilcoxon(np.sort(np.asarray(moved)), method=method).pvalue)


def _rank_biserial(moved: Sequence[float]) -> float:
    """(R+ - R-) / (R+ + R-), Kerby 2014: the ranks of the sizes of the differences, by their sign."""
    if not moved:
        return 0.0
    import numpy as np
    from scipy.stats import rankdata

    ranks = rankdata(np.abs(moved))
    return float(np.sum(ranks * np.sign(moved)) / np.sum(ranks))


def _mcnemar(only_a: int, only_b: int) -> float:
    from scipy.stats import binomtest

    return float(binomtest(only_b, only_a + only_b, 0.5).pvalue)


def shares_apart(a: tuple[int, int], b: tuple[int, int]) -> Interval:
    """Return the bounds of the share `b` less the share `a`, each given as how many of how many.

    Each is held at half of what may go wrong (Bonferroni), so together they hold at `CONFIDENCE`.
    """
    each = 1 - (1 - CONFIDENCE) / 2
    before, after = share(*a, each).interval, share(*b, each).interval
    return Interval(low=after.low - before.high, high=after.high - before.low)
