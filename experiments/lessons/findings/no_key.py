"""Lesson 12: without a key the partition is random, not round robin.

One partition may then be overloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from experiments.ledger.record import Cell
from experiments.ledger.workload_tables import LoadQuantity
from experiments.lessons.finding import (
    CLIENT_NAMES,
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_values,
    repeats_needed,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.phrases import format_list
from experiments.results.models import CellResult
from experiments.results.rows import Row

OVERLOADED: Final = 1.5
"""A partition with half as much again as the mean counts as overloaded."""
_LEAD: Final = "Load of the fullest partition, relative to the mean (1: perfectly even):"
_ROUND_ROBIN: Final = "RoundRobin"
_HOT_KEY: Final = "A partition is overloaded for long by a key that carries much of the load."
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.PARTLY_SUPPORTED: (
        "Without keys a client overloads a partition only for a moment, while it fills a batch "
        f"there; the next batch goes elsewhere. {_HOT_KEY}"
    ),
    Conclusion.REFUTED: (
        "Without keys no partition had much more than the others, not even within a second. "
        f"{_HOT_KEY}"
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Strategy:
    """A way to choose the partition, over its trials."""

    cell: Cell
    name: str
    is_keyless_choice: bool
    """The client chooses without a key, and not round robin: what the claim is about."""
    skews: Mapping[LoadQuantity, Sequence[Row]]
    """Rows of `SKEWS`, one per trial."""

    def values(self, column: str, quantity: LoadQuantity = LoadQuantity.RECORDS) -> list[float]:
        """Return a column, one value per trial."""
        return [row[column] for row in self.skews[quantity]]

    def overloads(self, column: str) -> bool:
        """Return whether the fullest partition is overloaded, at the median over trials."""
        return median(self.values(column)) >= OVERLOADED


def find(data: FindingInput) -> Finding:
    """Return how unevenly each strategy spreads the load, in total and within a second."""
    strategies = [
        strategy
        for strategy in (_strategy(data, cell) for cell in data.cells())
        if strategy.values("total")
    ]
    conclusion = _conclusion(strategies)
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        lead=_LEAD if strategies else None,
        sentences=tuple(map(_sentence, strategies)) or ("No trial was measured.",),
        remark=_REMARK_BY_CONCLUSION.get(conclusion) or _overload_remark(strategies),
        repeats_needed=repeats_needed(conclusion),
        plot=DotsPlot(
            caption=(
                "Load of the fullest partition within a second, relative to the mean: the median "
                "over the seconds, one dot per trial"
            ),
            label="times the mean",
            rows=tuple(
                DotRow(
                    name=strategy.name,
                    values=tuple(strategy.values("second_max_over_mean")),
                    expected=_expected(strategy),
                )
                for strategy in strategies
            ),
        ),
    )


def _strategy(data: FindingInput, cell: CellResult) -> _Strategy:
    rows = data.cell_rows(cell, "skews")
    by_producer = bool(cell.cell.get("workload.round_robin"))
    in_turn = by_producer or _ROUND_ROBIN in str(cell.cell.get("partitioner.class"))
    return _Strategy(
        cell=cell.cell,
        name=_name(cell.cell, in_turn=in_turn),
        is_keyless_choice=not cell.cell.get("workload.keys") and not in_turn,
        skews={
            quantity: [row for row in rows if row["of"] == quantity] for quantity in LoadQuantity
        },
    )


def _name(cell: Cell, *, in_turn: bool) -> str:
    client = CLIENT_NAMES["java" if cell.get("client") == "java" else "librdkafka"]
    if keys := cell.get("workload.keys"):
        name = f"{client}, {keys:,} keys"
        if share := cell.get("workload.hot_key_share"):
            name += f", one of them with {100 * float(str(share)):g} % of the records"
        return name
    if in_turn:
        by_producer = cell.get("workload.round_robin")
        chosen_by = "set by the producer" if by_producer else "RoundRobinPartitioner"
        return f"{client}, no key, round robin ({chosen_by})"
    per_record = str(cell.get("sticky.partitioning.linger.ms")) == "0"
    return f"{client}, no key, {'random for each record' if per_record else 'sticky'}"


def _sentence(strategy: _Strategy) -> str:
    total, second = (
        describe_values(strategy.values(column), 2)
        for column in ("max_over_mean", "second_max_over_mean")
    )
    gini = median(strategy.values("gini"))
    return (
        f"{strategy.name}: {total} over the entire load, {second} within a second; "
        f"Gini {gini:.2f}{_batch_size(strategy)}."
    )


def _batch_size(strategy: _Strategy) -> str:
    """Return the records per batch; empty if the batches in the log were not counted."""
    totals = list(
        zip(
            strategy.values("total"),
            strategy.values("total", LoadQuantity.BATCHES),
            strict=False,
        )
    )
    if not totals or not all(batches for _, batches in totals):
        return ""
    return f", {median(records / batches for records, batches in totals):.0f} records per batch"


def _expected(strategy: _Strategy) -> float | None:
    """Return the predicted load of the fullest partition; None where theory predicts none.

    Round robin: the mean. With a hot key: its share in one partition, and the rest spread evenly.
    """
    share = float(str(strategy.cell.get("workload.hot_key_share") or 0))
    partitions = max(strategy.values("partitions"))
    if strategy.cell.get("workload.keys") and share:
        return share * partitions + 1 - share
    return 1.0 if strategy.cell.get("workload.round_robin") else None


def _overload_remark(strategies: Sequence[_Strategy]) -> str:
    """Return which clients overloaded a partition over the entire load."""
    choices = [strategy for strategy in strategies if strategy.is_keyless_choice]
    over = [strategy.name for strategy in choices if strategy.overloads("max_over_mean")]
    remark = (
        "Without a key, one partition had much more than the others over the entire load: "
        f"{format_list(over)}."
    )
    if len(over) < len(choices):
        remark += " The client's partitioner is the cause; others spread the same load evenly."
    return remark


def _conclusion(strategies: Sequence[_Strategy]) -> Conclusion:
    choices = [strategy for strategy in strategies if strategy.is_keyless_choice]
    if not choices or min(len(one.values("total")) for one in strategies) < MIN_TRIALS:
        return Conclusion.INCONCLUSIVE
    if any(strategy.overloads("max_over_mean") for strategy in choices):
        return Conclusion.SUPPORTED
    if any(strategy.overloads("second_max_over_mean") for strategy in choices):
        return Conclusion.PARTLY_SUPPORTED
    return Conclusion.REFUTED
