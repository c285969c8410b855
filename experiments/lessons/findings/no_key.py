"""Lesson 12: without a key the partition is random, not round robin.

One partition may then be overloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.ledger.workload_tables import LoadQuantity
from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    CLIENT_NAMES,
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    describe_values,
    repeats_needed,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.rows import Row

OVERLOADED: Final = 1.5
"""A partition with half as much again as the mean counts as overloaded."""
_LEAD: Final = "Load of the fullest partition, relative to the mean (1: perfectly even):"
_ROUND_ROBIN: Final = "RoundRobin"
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.PARTLY_SUPPORTED: (
        "Without keys a client overloaded a partition only within a second, while it filled a "
        "batch there, and not over the entire load."
    ),
    Conclusion.REFUTED: (
        "Without keys no partition had much more than the others, not even within a second."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}
_ADAPTIVE: Final = "partitioner.adaptive.partitioning.enable"


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
    name = f"{client}, no key, {'random for each record' if per_record else 'sticky'}"
    if _ADAPTIVE in cell:
        name += f", adaptive partitioning {'on' if _is_adaptive(cell) else 'off'}"
    return name


def _is_adaptive(cell: Cell) -> bool:
    return str(cell.get(_ADAPTIVE)).lower() == "true"


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
    """Return which clients overloaded a partition over the entire load, and what is the cause.

    A cause is named only where a cell without it was measured.
    """
    choices = [strategy for strategy in strategies if strategy.is_keyless_choice]
    over = [strategy for strategy in choices if strategy.overloads("max_over_mean")]
    remark = (
        "Without a key, one partition had much more than the others over the entire load: "
        f"{format_list([one.name for one in over])}."
    )
    evenly = [strategy.name for strategy in choices if strategy not in over]
    if evenly:
        remark += f" Not so with {format_list(evenly)}."
    adaptive = {_is_adaptive(one.cell): one in over for one in choices if _ADAPTIVE in one.cell}
    if adaptive == {True: True, False: False}:
        remark += (
            " In Java's client, adaptive partitioning is the cause: it sends less to brokers "
            "that respond late."
        )
    elif adaptive == {True: True, False: True}:
        remark += (
            " In Java's client, the sticky partitioner is the cause, with adaptive partitioning "
            "and without."
        )
    return remark


def _conclusion(strategies: Sequence[_Strategy]) -> Conclusion:
    """Return whether a client overloaded a partition; partly, if only within a second.

    Each median needs enough trials, also to refute the claim.
    """
    choices = [strategy for strategy in strategies if strategy.is_keyless_choice]
    enough = bool(choices) and min(len(one.values("total")) for one in strategies) >= MIN_TRIALS
    in_total, within = (
        enough and any(strategy.overloads(column) for strategy in choices)
        for column in ("max_over_mean", "second_max_over_mean")
    )
    return conclude(
        [outcome(met=enough and not within and not in_total, measured=within or in_total)],
        limited=not in_total,
    )
