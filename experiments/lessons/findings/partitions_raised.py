"""Lesson 10: added partitions move keys to other partitions.

Debit and credit of one account may then be consumed in the wrong order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Final

from ackbench.experiments.ledger.workload_tables import OrderObserver, OrderScope
from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_durations,
    describe_values,
    group_by_trial,
    repeats_needed,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.rows import Row
from ackbench.experiments.verdicts.statistics import Share, describe_share, share

_NS_PER_S: Final = 1_000_000_000
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "Adding partitions breaks the order of keys: choose the number of partitions for years, or "
        "add partitions only after everything has been consumed."
    ),
    Conclusion.PARTLY_SUPPORTED: (
        "Keys move as the formula predicts, but no trial received a credit before its debit: that "
        "takes a consumer that is behind."
    ),
    Conclusion.REFUTED: "Keys did not go where the formula predicts.",
    Conclusion.INCONCLUSIVE: (
        "Too few trials were judged, or no producer used the new number of partitions."
    ),
}


@dataclass(frozen=True)
class _Expansion:
    """A topic that grew from one number of partitions to another, over its trials."""

    before: int
    after: int
    keys: Sequence[Row]
    """Rows of `KEYS` after the change, one per trial."""
    pairs: Sequence[Row]
    """Rows of `ORDERS` for pairs as consumers received them, one per trial."""
    unassigned_s: Sequence[float]
    """Longest time in which one of the old partitions had no consumer, one per trial."""

    @property
    def expected_percent(self) -> float:
        """The part of the keys that theory predicts to keep their partition.

        These are the keys whose hash has the same remainder for both numbers of partitions.
        """
        return 100 * gcd(self.before, self.after) / max(self.before, self.after)

    def unmoved_percent(self) -> list[float]:
        """Return the part of the keys that kept their partition, one value per trial."""
        return [100 * row["unmoved_keys"] / row["known_keys"] for row in self.keys]

    @property
    def inverted(self) -> Share:
        """Trials in which a pair was received in the wrong order."""
        return share(sum(row["inverted"] > 0 for row in self.pairs), len(self.pairs))

    @property
    def follows_formula(self) -> bool:
        """Whether every key is where a formula puts it among the new partitions."""
        return all(max(row["murmur2_keys"], row["crc32_keys"]) == row["keys"] for row in self.keys)


def find(data: FindingInput) -> Finding:
    """Return how many keys kept their partition, and what happened to pairs and to the group."""
    expansions = [
        expansion
        for expansion in (_expansion(data, cell) for cell in data.cells())
        if expansion.keys
    ]
    conclusion = _conclusion(expansions)
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=tuple(map(_sentence, expansions)) or ("No trial was measured.",),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion),
        plot=DotsPlot(
            caption=(
                "Keys that kept their partition, one dot per trial; "
                "the line is gcd(N, M) / max(N, M)"
            ),
            label="% of the keys",
            rows=tuple(
                DotRow(
                    name=f"{expansion.before} to {expansion.after} partitions",
                    values=tuple(expansion.unmoved_percent()),
                    expected=expansion.expected_percent,
                )
                for expansion in expansions
            ),
        ),
    )


def _expansion(data: FindingInput, cell: CellResult) -> _Expansion:
    keys = [
        row for row in data.cell_rows(cell, "keys") if row["era"] == "after" and row["known_keys"]
    ]
    before = int(str(cell.cell["partitions"]))
    return _Expansion(
        before=before,
        after=max((row["partitions"] for row in keys), default=before),
        keys=keys,
        pairs=[
            row
            for row in data.cell_rows(cell, "orders")
            if (row["within"], row["observer"]) == (OrderScope.PAIR, OrderObserver.CONSUMERS)
        ],
        unassigned_s=[
            longest_unassigned_s(rows, before)
            for rows in group_by_trial(data.cell_rows(cell, "assignments"))
        ],
    )


def longest_unassigned_s(assignments: Sequence[Row], partitions: int) -> float:
    """Return the longest time in which one of the old partitions had no consumer, seconds.

    Counted is the time between two assignments of one partition.

    Args:
        assignments: rows of `ASSIGNMENTS` of one trial.
        partitions: number of partitions before the change; the new ones are not considered.
    """
    longest_ns = 0
    for partition in range(partitions):
        spans = sorted(
            (row["from_ns"], row["until_ns"])
            for row in assignments
            if row["partition"] == partition
        )
        gaps = (begin - until for (_, until), (begin, _) in pairwise(spans) if until is not None)
        longest_ns = max([longest_ns, *gaps])
    return longest_ns / _NS_PER_S


def _sentence(expansion: _Expansion) -> str:
    unmoved = describe_values(expansion.unmoved_percent(), 1, " %")
    every = "each key is" if expansion.follows_formula else "not each key is"
    if expansion.pairs:
        pairs = describe_values([row["inverted"] for row in expansion.pairs])
        order = (
            f"credits were received before their debit in {describe_share(expansion.inverted)}; "
            f"such pairs: {pairs}"
        )
    else:
        order = "no pair was received"
    sentence = (
        f"From {expansion.before} to {expansion.after} partitions: {unmoved} of the keys kept "
        f"their partition, {expansion.expected_percent:.1f} % in theory, {every} where the formula "
        f"puts it; {order}"
    )
    if expansion.unassigned_s:
        unassigned = describe_durations([value_s * 1000 for value_s in expansion.unassigned_s])
        sentence += f"; a partition had no consumer for {unassigned}"
    return f"{sentence}."


def _conclusion(expansions: Sequence[_Expansion]) -> Conclusion:
    """Return whether keys move as the formula predicts; partly, if no pair was inverted."""
    trials = (min(len(expansion.keys), len(expansion.pairs)) for expansion in expansions)
    moved = outcome(
        met=any(not expansion.follows_formula for expansion in expansions),
        measured=min(trials, default=0) >= MIN_TRIALS,
    )
    # "May be consumed out of order" is shown by one trial, and not refuted by none.
    inverted = any(expansion.inverted.seen for expansion in expansions)
    return conclude([moved], [outcome(met=False, measured=inverted)])
