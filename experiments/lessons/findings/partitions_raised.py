"""Lesson 10: more partitions change the keys' partitions; debit and credit of one account may then be consumed out of order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from experiments.ledger.workload_tables import OrderObserver, OrderScope
from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    by_trial,
    repeats_needed,
    seconds,
    spread,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.results.rows import Row
from experiments.verdicts.statistics import Share, share, words

LESSON = 10
_NS_PER_S = 1_000_000_000
_REMARKS = {
    Conclusion.SUPPORTED: "So a partition added is an order broken: choose their number for years, or wait until all is consumed before more are added.",
    Conclusion.PARTLY_SUPPORTED: "So keys move as the formula says, and in no trial was a pair received the wrong way round: that takes a consumer that is behind.",
    Conclusion.REFUTED: "So keys did not go where the formula says.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged, or no producer went by the new number of partitions.",
}


@dataclass(frozen=True)
class _Raise:
    """From so many partitions to so many, over its trials."""

    before: int
    after: int
    keys: Sequence[Row]
    """Of `KEYS`: the era after, one a trial."""
    pairs: Sequence[Row]
    """Of `ORDERS`: of pairs, as consumers received them, one a trial."""
    still_s: Sequence[float]
    """The longest time in which nobody held one of the old partitions, a trial each."""

    @property
    def expected(self) -> float:
        """What share of the keys stays, in percent: those whose hash has the same rest by both counts."""
        return 100 * gcd(self.before, self.after) / max(self.before, self.after)

    def stayed(self) -> list[float]:
        """Return what share of the keys stayed, in percent, a trial each."""
        return [100 * row["unmoved_keys"] / row["known_keys"] for row in self.keys]

    @property
    def inverted(self) -> Share:
        """In how many trials a pair was received the wrong way round."""
        return share(sum(row["inverted"] > 0 for row in self.pairs), len(self.pairs))

    @property
    def is_foretold(self) -> bool:
        """Whether every key lies where the formula puts it among the new partitions."""
        return all(max(row["murmur2_keys"], row["crc32_keys"]) == row["keys"] for row in self.keys)


def find(material: FindingInput) -> Finding:
    """Return how many keys stayed, beside the formula, and what became of the pairs and of the group."""
    raises = [one for one in _raises(material) if one.keys]
    conclusion = _conclude(raises)
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(map(_told, raises)) or ("No trial was measured.",),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, ()),
        plot=DotsPlot(
            caption="Keys that kept their partition, a dot a trial; the line is gcd(N, M) / max(N, M)",
            label="% of the keys",
            rows=tuple(
                DotRow(
                    name=f"{one.before} to {one.after} partitions",
                    values=tuple(one.stayed()),
                    expected=one.expected,
                )
                for one in raises
            ),
        ),
    )


def _raises(material: FindingInput) -> Iterator[_Raise]:
    for cell in material.cells():
        grown = [
            row
            for row in material.rows_of(cell, "keys")
            if row["era"] == "after" and row["known_keys"]
        ]
        pairs = [
            row
            for row in material.rows_of(cell, "orders")
            if (row["within"], row["observer"]) == (OrderScope.PAIR, OrderObserver.CONSUMERS)
        ]
        before = int(str(cell.cell["partitions"]))
        still_s = [
            unassigned_s(held, before) for held in by_trial(material.rows_of(cell, "assignments"))
        ]
        yield _Raise(
            before, max((row["partitions"] for row in grown), default=before), grown, pairs, still_s
        )


def unassigned_s(held: Sequence[Row], partitions: int) -> float:
    """Return the longest time in which one of the first so many partitions changed hands and nobody had it, seconds.

    Args:
        held: rows of `ASSIGNMENTS`, of one trial.
        partitions: how many there were at first.
    """
    longest_ns = 0
    for partition in range(partitions):
        of = sorted(
            (row["from_ns"], row["until_ns"]) for row in held if row["partition"] == partition
        )
        longest_ns = max(
            [
                longest_ns,
                *(begin - until for (_, until), (begin, _) in pairwise(of) if until is not None),
            ]
        )
    return longest_ns / _NS_PER_S


def _told(one: _Raise) -> str:
    stayed = f"{spread(one.stayed(), 1, ' %')} of the keys kept their partition, {one.expected:.1f} % by theory"
    right = (
        "each key where the formula puts it"
        if one.is_foretold
        else "not each key where the formula puts it"
    )
    counts = [row["inverted"] for row in one.pairs]
    pairs = (
        f"credits came before their debit in {words(one.inverted)}; such pairs: {spread(counts)}"
        if counts
        else "no pair was received"
    )
    still = (
        f"; a partition was held by nobody for {seconds([still * 1000 for still in one.still_s])}"
        if one.still_s
        else ""
    )
    return f"From {one.before} to {one.after} partitions: {stayed}, {right}; {pairs}{still}."


def _conclude(raises: Sequence[_Raise]) -> Conclusion:
    if any(not one.is_foretold for one in raises):
        return Conclusion.REFUTED
    if not raises or min(min(len(one.keys), len(one.pairs)) for one in raises) < LEAST_TRIALS:
        return Conclusion.INCONCLUSIVE
    return (
        Conclusion.SUPPORTED
        if any(one.inverted.seen for one in raises)
        else Conclusion.PARTLY_SUPPORTED
    )
