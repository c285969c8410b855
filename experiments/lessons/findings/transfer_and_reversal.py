"""Lesson 11: a transfer and its reversal on different partitions, a slow and a fast consumer; one key for both solves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from experiments.ledger.workload_tables import OrderObserver, OrderScope
from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    by_trial,
    repeats_needed,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.results.rows import Row

LESSON = 11
_NS_PER_S = 1_000_000_000
_REMARKS = {
    Conclusion.SUPPORTED: "So there is no order between partitions, and the pace of their consumers decides; one key for both puts both into one partition.",
    Conclusion.REFUTED: "So one key for both does not keep their order.",
    Conclusion.INCONCLUSIVE: "Too few trials were judged, or no consumer fell far enough behind for a reversal to come first.",
}


@dataclass(frozen=True)
class _Pace:
    """Pairs with keys of their own or one for both, read at one pace; over its trials."""

    common: bool
    slow_records_per_s: float
    """Of the slow consumer; 0: both are as fast."""
    orders: Sequence[Row]
    """Of `ORDERS`: of pairs, as consumers received them, one a trial."""
    behind_s: Sequence[float]
    """How far one consumer was behind the other, at their medians, a trial each."""

    @property
    def name(self) -> str:
        """Its row in the plot."""
        keys = "one key for both" if self.common else "a key for each"
        return f"{keys}, {self.consumers}"

    @property
    def consumers(self) -> str:
        """How fast they are, and what came of it."""
        pace = (
            f"one consumer at {self.slow_records_per_s:,.0f} records/s"
            if self.slow_records_per_s
            else "both consumers as fast as they can"
        )
        return f"{pace} ({median(self.behind_s):.1f} s between the two)" if self.behind_s else pace

    @property
    def inverted(self) -> int:
        """How many pairs came the wrong way round."""
        return sum(row["inverted"] for row in self.orders)

    def shares(self) -> list[float]:
        """Return how many of the pairs came so, in percent, a trial each."""
        return [100 * row["inverted"] / row["compared"] for row in self.orders]


def find(material: FindingInput) -> Finding:
    """Return how many reversals were received before their transfer, by pace and by key."""
    paces = [
        pace
        for pace in sorted(
            _paces(material), key=lambda one: (one.common, -one.slow_records_per_s or -1e9)
        )
        if pace.orders
    ]
    own, common = ([pace for pace in paces if pace.common is wanted] for wanted in (False, True))
    conclusion = _conclude(own, common)
    told = (
        [
            f"With a key for each, so many reversals came before their transfer: {'; '.join(map(_told, own))}."
        ]
        if own
        else []
    )
    if common:
        pairs = sum(row["compared"] for pace in common for row in pace.orders)
        told.append(
            f"With one key for both, {sum(pace.inverted for pace in common):,} of {pairs:,} reversals came first, at every pace."
        )
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(told) or ("No trial was measured.",),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, ()),
        plot=DotsPlot(
            caption="Reversals received before their transfer, a dot a trial",
            label="% of the pairs",
            rows=tuple(DotRow(name=pace.name, values=tuple(pace.shares())) for pace in paces),
        ),
    )


def _paces(material: FindingInput) -> Iterator[_Pace]:
    for cell in material.cells():
        rows = [
            row
            for row in material.rows_of(cell, "orders")
            if (row["within"], row["observer"]) == (OrderScope.PAIR, OrderObserver.CONSUMERS)
        ]
        behind_s = list(map(_behind_s, by_trial(material.rows_of(cell, "lags"))))
        slow = float(str(cell.cell.get("workload.slow_records_per_s") or 0))
        yield _Pace(cell.cell.get("workload.pairs") == "common", slow, rows, behind_s)


def _behind_s(lags: Sequence[Row]) -> float:
    """Return how far the last consumer was behind the first one."""
    medians = [row["median_ns"] for row in lags]
    return float(max(medians) - min(medians)) / _NS_PER_S


def _told(pace: _Pace) -> str:
    shares = pace.shares()
    spread = (
        f"{min(shares):.1f} to {max(shares):.1f} %"
        if max(shares) - min(shares) >= 0.1  # noqa: PLR2004 - as printed
        else f"{median(shares):.1f} %"
    )
    return f"{spread} with {pace.consumers}"


def _conclude(own: Sequence[_Pace], common: Sequence[_Pace]) -> Conclusion:
    if any(pace.inverted for pace in common):
        return Conclusion.REFUTED
    enough = min((len(pace.orders) for pace in (*own, *common)), default=0) >= LEAST_TRIALS
    slow = [pace for pace in own if pace.slow_records_per_s]
    seen = any(all(row["inverted"] for row in pace.orders) for pace in slow)
    return Conclusion.SUPPORTED if enough and own and common and seen else Conclusion.INCONCLUSIVE
