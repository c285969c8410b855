"""How the stated criterion of a claim decides its finding.

A claim says in its YAML what would refute it. A finding evaluates each part of that criterion and
passes the outcomes to `conclude`, which is the same for all lessons: an observation that refutes
always decides, and nothing is supported that was not measured wherever the claim needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.comparing.pairing import MIN_PAIRS_FOR_TEST
from ackbench.experiments.results.lessons.finding import Conclusion
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.verdicts.statistics import CONFIDENCE

Figure = Callable[[TrialResult], float | None]
"""A figure of one trial; None: unknown."""


class Outcome(StrEnum):
    """What the figures say about one part of a criterion."""

    MET = "met"
    """What refutes the claim was observed."""
    NOT_MET = "not met"
    """Its opposite was measured in every case that the part needs."""
    UNDECIDED = "undecided"
    """Too few trials can tell, or they contradict each other."""


def outcome(*, met: bool, measured: bool) -> Outcome:
    """Return the outcome of one part of a criterion.

    Args:
        met: an observation that refutes the claim was made; it decides, however few trials.
        measured: every case that the part needs has enough trials that can tell.
    """
    if met:
        return Outcome.MET
    return Outcome.NOT_MET if measured else Outcome.UNDECIDED


def conclude(
    required: Iterable[Outcome], further: Iterable[Outcome] = (), *, limited: bool = False
) -> Conclusion:
    """Return the conclusion that a claim's criterion leads to.

    Args:
        required: the parts without which nothing is shown.
        further: parts of the claim that may stay undecided while the others are shown.
        limited: the claim holds by its criterion, and a case outside of it was observed where it
            does not.
    """
    main, others = tuple(required), tuple(further)
    if Outcome.MET in {*main, *others}:
        return Conclusion.REFUTED
    if not main or Outcome.UNDECIDED in main:
        return Conclusion.INCONCLUSIVE
    if limited or Outcome.UNDECIDED in others:
        return Conclusion.PARTLY_SUPPORTED
    return Conclusion.SUPPORTED


@dataclass(frozen=True)
class PairedOrder:
    """Two cells compared in pairs of trials with one seed: in how many the second one is higher."""

    higher: int
    lower: int
    """Pairs with equal figures are in neither."""

    @property
    def pairs(self) -> int:
        """Number of pairs that differ."""
        return self.higher + self.lower

    @property
    def outcome(self) -> Outcome:
        """Whether the second cell is higher (`NOT_MET`), lower (`MET`), or neither is shown.

        Decided by the exact two-sided sign test at 5 %: at least 6 pairs, all of which agree.
        """
        from scipy.stats import binomtest

        if self.pairs < MIN_PAIRS_FOR_TEST:
            return Outcome.UNDECIDED
        if binomtest(self.higher, self.pairs, 0.5).pvalue >= 1 - CONFIDENCE:
            return Outcome.UNDECIDED
        return Outcome.NOT_MET if self.higher > self.lower else Outcome.MET

    @property
    def text(self) -> str:
        """The number of pairs in which the second cell is higher: `in 5 of 6 pairs`."""
        return f"in {self.higher} of {format_count(self.pairs, 'pair')}"


def paired_order(
    first: Sequence[TrialResult], second: Sequence[TrialResult], figure: Figure
) -> PairedOrder:
    """Return in how many pairs of one repeat the second cell's figure is higher.

    Args:
        first: the trials of one cell.
        second: the trials of the other; the same repeat has the same seed.
        figure: the figure to compare; a trial without one has no pair.
    """
    before, after = (_by_repeat(trials, figure) for trials in (first, second))
    differences = [after[repeat] - before[repeat] for repeat in before if repeat in after]
    return PairedOrder(
        higher=sum(difference > 0 for difference in differences),
        lower=sum(difference < 0 for difference in differences),
    )


def _by_repeat(trials: Sequence[TrialResult], figure: Figure) -> dict[int, float]:
    return {
        trial.repeat: value
        for trial in trials
        if trial.repeat is not None and (value := figure(trial)) is not None
    }


ORDER_NEEDS: Final = (
    f"{MIN_PAIRS_FOR_TEST} pairs with the same seed that all agree would decide an order"
)
"""Ends a remark on an order that the figures do not show."""
