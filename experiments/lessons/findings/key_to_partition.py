"""Lesson 9: the partition of a key is murmur2(key) % partitions.

The same key always goes to the same partition, so its records stay in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.ledger.workload_tables import OrderObserver, OrderScope
from ackbench.experiments.lessons.criterion import conclude, outcome
from ackbench.experiments.lessons.finding import (
    CLIENT_NAMES,
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
)
from ackbench.experiments.lessons.plots import DotRow, DotsPlot
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.rows import Row

_FORMULAS: Final = ("murmur2", "crc32")
_REMARK_BY_CONCLUSION: Final = {
    Conclusion.SUPPORTED: (
        "Each client puts a key where murmur2 predicts, and its records stay in order there."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Client:
    """A client with a partitioner, over its trials."""

    name: str
    keys: Sequence[Row]
    """Rows of `KEYS`, one per trial."""
    orders: Sequence[Row]
    """Rows of `ORDERS` within a partition of the log, one per trial.

    They include all records of a key that has one partition.
    """

    def total(self, column: str) -> int:
        """Return a column of `keys`, summed over all trials."""
        return sum(row[column] for row in self.keys)

    def total_records(self, column: str) -> int:
        """Return a column of `orders`, summed over all trials."""
        return sum(row[column] for row in self.orders)

    def follows(self, formula: str) -> bool:
        """Return whether a formula predicts the partition of every key."""
        return self.total(f"{formula}_keys") == self.total("keys")

    @property
    def has_one_partition_per_key(self) -> bool:
        return self.total("single_partition_keys") == self.total("keys")

    @property
    def keeps_keys(self) -> bool:
        """Whether each key has one partition and its records are in order there."""
        return self.has_one_partition_per_key and not self.total_records("inverted")


def find(data: FindingInput) -> Finding:
    """Return which formula each client follows, and whether a key keeps its partition and order."""
    clients = [_client(data, cell) for cell in data.cells()]
    conclusion = _conclusion(clients)
    return Finding(
        lesson=data.lesson,
        conclusion=conclusion,
        sentences=tuple(map(_sentence, clients)) or ("No trial was measured.",),
        remark=_REMARK_BY_CONCLUSION.get(conclusion) or _refuted_remark(clients),
        repeats_needed=repeats_needed(conclusion),
        plot=DotsPlot(
            caption="Keys whose partition each formula predicts, one dot per trial",
            label="% of the keys",
            rows=tuple(row for client in clients for row in _dots(client)),
        ),
    )


def _client(data: FindingInput, cell: CellResult) -> _Client:
    return _Client(
        name=_name(cell.cell),
        keys=[
            row for row in data.cell_rows(cell, "keys") if row["era"] == "before" and row["keys"]
        ],
        orders=[
            row
            for row in data.cell_rows(cell, "orders")
            if (row["within"], row["observer"]) == (OrderScope.PARTITION, OrderObserver.LOG)
        ],
    )


def _name(cell: Cell) -> str:
    """Return the client with its partitioner; that of Java's client only where it is set."""
    if cell.get("client") == "java":
        chosen = cell.get("partitioner.class")
        return f"{CLIENT_NAMES['java']} with {chosen}" if chosen else CLIENT_NAMES["java"]
    partitioner = cell.get("partitioner", "consistent_random")
    return f"{CLIENT_NAMES['librdkafka']} with partitioner={partitioner}"


def _sentence(client: _Client) -> str:
    keys = client.total("keys")
    if not keys:
        return f"{client.name}: no keys were measured."
    if client.has_one_partition_per_key:
        partitions = "each in one partition"
    else:
        several = keys - client.total("single_partition_keys")
        partitions = f"{several:,} of them in several partitions"
    predictions = " and ".join(
        f"{formula} predicts {_part_of_keys(client.total(f'{formula}_keys'), keys)}"
        for formula in _FORMULAS
    )
    trials = format_count(len(client.keys), "trial")
    return (
        f"{client.name}: {keys:,} keys over {trials}, {partitions}; "
        f"{predictions}; {client.total_records('inverted'):,} of "
        f"{client.total_records('compared'):,} records are out of order in their partition."
    )


def _part_of_keys(part: int, keys: int) -> str:
    """Return `all of them` only for all: a rounded 100 % might miss a key."""
    return "all of them" if part == keys else f"{100 * part / keys:.1f} %"


def _dots(client: _Client) -> Iterator[DotRow]:
    """Yield one row per formula.

    A formula that the client does not follow is right by chance for one key in as many as there are
    partitions.
    """
    for formula in _FORMULAS:
        partitions = max((row["partitions"] for row in client.keys), default=1)
        yield DotRow(
            name=f"{client.name}: {formula}",
            values=tuple(100 * row[f"{formula}_keys"] / row["keys"] for row in client.keys),
            expected=100.0 if client.follows(formula) else 100 / partitions,
        )


def _conclusion(clients: Sequence[_Client]) -> Conclusion:
    """Return whether murmur2 predicts every key, in one partition and in order."""
    measured = bool(clients) and min(len(client.keys) for client in clients) >= MIN_TRIALS
    return conclude(
        [
            outcome(met=any(not one.keeps_keys for one in clients), measured=measured),
            outcome(met=any(not one.follows("murmur2") for one in clients), measured=measured),
        ]
    )


def _refuted_remark(clients: Sequence[_Client]) -> str:
    """Return what was observed instead: another formula, or keys that are not kept together."""
    if not all(client.keeps_keys for client in clients):
        return (
            "Although the number of partitions did not change, records of one key were in several "
            "partitions or out of order."
        )
    unknown = [one.name for one in clients if not any(map(one.follows, _FORMULAS))]
    if unknown:
        return f"No formula predicts the partition of every key of {format_list(unknown)}."
    other = [one.name for one in clients if not one.follows("murmur2")]
    return (
        "Each client kept a key in one partition and in order, but which partition depends on the "
        f"partitioner: {format_list(other)} puts it at crc32(key) % partitions. Where producers "
        "with both formulas write to one topic, set partitioner=murmur2_random in librdkafka, or "
        "one key has two partitions."
    )
