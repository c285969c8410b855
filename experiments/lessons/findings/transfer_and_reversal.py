"""Lesson 11: a transfer and its reversal on different partitions, a slow and a fast consumer.

One key for both records solves the problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from ackbench.experiments.ledger.workload_tables import OrderObserver, OrderScope
from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    group_by_trial,
    repeats_needed,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.rows import Row

_NS_PER_S: Final = 1_000_000_000
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "There is no order between partitions; the speed of their consumers decides. One key for "
        "both records puts both into one partition."
    ),
    Conclusion.REFUTED: "One key for both records does not keep their order.",
    Conclusion.INCONCLUSIVE: (
        "Too few trials were judged, or no consumer fell far enough behind for a reversal to be "
        "received first."
    ),
}


@dataclass(frozen=True)
class _Case:
    """Pairs of records with one key or two, consumed at one speed; over its trials."""

    one_key: bool
    slow_records_per_s: float
    """Speed of the slow consumer; 0: both consumers are as fast as they can."""
    orders: Sequence[Row]
    """Rows of `ORDERS` for pairs as consumers received them, one per trial."""
    lag_s: Sequence[float]
    """Difference of the two consumers' median lags, one per trial."""

    @property
    def name(self) -> str:
        keys = "one key for both" if self.one_key else "a key for each"
        return f"{keys}, {self.consumers}"

    @property
    def consumers(self) -> str:
        """The speed of the consumers, and by how much one was behind the other."""
        if self.slow_records_per_s:
            speed = f"one consumer at {self.slow_records_per_s:,.0f} records/s"
        else:
            speed = "both consumers at full speed"
        return f"{speed} ({median(self.lag_s):.1f} s between them)" if self.lag_s else speed

    @property
    def inverted(self) -> int:
        """Number of pairs received in the wrong order."""
        return sum(row["inverted"] for row in self.orders)

    def inverted_percent(self) -> list[float]:
        """Return the part of the pairs received in the wrong order, one value per trial."""
        return [100 * row["inverted"] / row["compared"] for row in self.orders]


def find(data: FindingInput) -> Finding:
    """Return how many reversals were received before their transfer, by speed and by key."""
    cases = sorted(
        (case for case in (_case(data, cell) for cell in data.cells()) if case.orders),
        key=lambda case: (case.one_key, -case.slow_records_per_s or -1e9),
    )
    two_keys = [case for case in cases if not case.one_key]
    one_key = [case for case in cases if case.one_key]
    conclusion = _conclusion(two_keys, one_key)
    sentences = (*_two_keys_sentence(two_keys), *_one_key_sentence(one_key))
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=sentences or ("No trial was measured.",),
        remark=_REMARK_BY_CONCLUSION[conclusion],
        repeats_needed=repeats_needed(conclusion),
        plot=DotsPlot(
            caption="Reversals received before their transfer, one dot per trial",
            label="% of the pairs",
            rows=tuple(
                DotRow(name=case.name, values=tuple(case.inverted_percent())) for case in cases
            ),
        ),
    )


def _case(data: FindingInput, cell: CellResult) -> _Case:
    return _Case(
        one_key=cell.cell.get("workload.pairs") == "common",
        slow_records_per_s=float(str(cell.cell.get("workload.slow_records_per_s") or 0)),
        orders=[
            row
            for row in data.cell_rows(cell, "orders")
            if (row["within"], row["observer"]) == (OrderScope.PAIR, OrderObserver.CONSUMERS)
        ],
        lag_s=[_lag_difference_s(rows) for rows in group_by_trial(data.cell_rows(cell, "lags"))],
    )


def _lag_difference_s(lags: Sequence[Row]) -> float:
    """Return by how much the last consumer was behind the first one, at their medians."""
    medians = [row["median_ns"] for row in lags]
    return float(max(medians) - min(medians)) / _NS_PER_S


def _two_keys_sentence(cases: Sequence[_Case]) -> Iterator[str]:
    if cases:
        parts = "; ".join(f"{_percent_range(case)} with {case.consumers}" for case in cases)
        yield f"With a key for each, reversals received before their transfer: {parts}."


def _percent_range(case: _Case) -> str:
    percent = case.inverted_percent()
    if max(percent) - min(percent) >= 0.1:  # noqa: PLR2004 - the last digit that is printed
        return f"{min(percent):.1f} to {max(percent):.1f} %"
    return f"{median(percent):.1f} %"


def _one_key_sentence(cases: Sequence[_Case]) -> Iterator[str]:
    if cases:
        inverted = sum(case.inverted for case in cases)
        pairs = sum(row["compared"] for case in cases for row in case.orders)
        yield (
            f"With one key for both, {inverted:,} of {pairs:,} reversals were received first, over "
            "all speeds."
        )


def _conclusion(two_keys: Sequence[_Case], one_key: Sequence[_Case]) -> Conclusion:
    """Return whether one key prevents the inversions that two keys have with a slow consumer.

    Both must be consumed at the same speeds: an order is only shown to be kept where it is lost
    without the common key.
    """
    enough = min((len(case.orders) for case in (*two_keys, *one_key)), default=0) >= MIN_TRIALS
    lost_at = {
        case.slow_records_per_s
        for case in two_keys
        if case.slow_records_per_s and all(row["inverted"] for row in case.orders)
    }
    kept_at = {case.slow_records_per_s for case in one_key}
    inverted = outcome(
        met=any(case.inverted for case in one_key),
        measured=enough and bool(lost_at & kept_at),
    )
    return conclude([inverted])
