"""Lesson 9: the partition is murmur2(key) % partitions, the same key always goes to the same one, and so its records are ordered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.ledger.record import Cell
from experiments.ledger.workload_tables import OrderObserver, OrderScope
from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.counts import counted
from experiments.results.rows import Row

LESSON = 9
_FORMULAS = ("murmur2", "crc32")
_REMARKS = {
    Conclusion.SUPPORTED: "So each client puts a key where murmur2 says, and its records stay in order there.",
    Conclusion.PARTLY_SUPPORTED: (
        "So a key keeps its partition with each client, and which one that is depends on the client: librdkafka's default is crc32(key) % partitions. "
        "Producers of both kinds that write one topic need partitioner=murmur2_random in librdkafka's, or one key has two partitions."
    ),
    Conclusion.REFUTED: (
        "So records of one key were in several partitions, out of their order, or where no formula puts them, though the number of partitions stayed the same."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Client:
    """A client with a partitioner, over its trials."""

    name: str
    keys: Sequence[Row]
    """Of `KEYS`, a row a trial."""
    orders: Sequence[Row]
    """Of `ORDERS`, within a partition in the log, a row a trial: all records of a key that has one partition are among them."""

    def total(self, column: str) -> int:
        """Return a count over all trials."""
        return sum(row[column] for row in self.keys)

    def expected(self, formula: str) -> bool:
        """Whether a formula foretold every key."""
        return self.total(f"{formula}_keys") == self.total("keys")

    @property
    def is_settled(self) -> bool:
        """Whether each key had one partition."""
        return self.total("single_partition_keys") == self.total("keys")

    def ordered(self, column: str) -> int:
        """Return a count of records in their partition's order, over all trials."""
        return sum(row[column] for row in self.orders)


def find(material: FindingInput) -> Finding:
    """Return which client puts keys where which formula says, whether each key has one partition, and whether its records are in order there."""
    clients = list(_clients(material))
    conclusion = _conclude(clients)
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        sentences=tuple(map(_told, clients)) or ("No trial was measured.",),
        remark=_REMARKS[conclusion],
        repeats_needed=repeats_needed(conclusion, ()),
        plot=DotsPlot(
            caption="Keys that each formula foretells, a dot a trial",
            label="% of the keys",
            rows=tuple(row for client in clients for row in _rows(client)),
        ),
    )


def _clients(material: FindingInput) -> Iterator[_Client]:
    for cell in material.cells():
        of_keys = [
            row for row in material.rows_of(cell, "keys") if row["era"] == "before" and row["keys"]
        ]
        of_orders = [
            row
            for row in material.rows_of(cell, "orders")
            if (row["within"], row["observer"]) == (OrderScope.PARTITION, OrderObserver.LOG)
        ]
        yield _Client(_name(cell.cell), of_keys, of_orders)


def _name(cell: Cell) -> str:
    """Java's own partitioner has no name."""
    return (
        "Java's client"
        if cell.get("client") == "java"
        else f"librdkafka with partitioner={cell.get('partitioner', 'consistent_random')}"
    )


def _told(client: _Client) -> str:
    keys = client.total("keys")
    if not keys:
        return f"{client.name}: nothing was measured."
    shares = " and ".join(
        f"{name} foretold {_percent(client.total(f'{name}_keys'), keys)}" for name in _FORMULAS
    )
    each = (
        "each in one partition"
        if client.is_settled
        else f"{keys - client.total('single_partition_keys'):,} of them in several partitions"
    )
    order = f"{client.ordered('inverted'):,} of {client.ordered('compared'):,} records lie behind a later one of their partition"
    return f"{client.name}: {keys:,} keys over {counted(len(client.keys), 'trial')}, {each}; {shares}; {order}."


def _percent(part: int, whole: int) -> str:
    """Say all only of all."""
    return "all of them" if part == whole else f"{100 * part / whole:.1f} %"


def _rows(client: _Client) -> Iterator[DotRow]:
    """What neither is the client's own formula hits by chance: once in as many partitions as there are."""
    for name in _FORMULAS:
        chance = {row["partitions"] for row in client.keys}
        expected = 100.0 if client.expected(name) else 100 / max(chance, default=1)
        yield DotRow(
            name=f"{client.name}: {name}",
            values=tuple(100 * row[f"{name}_keys"] / row["keys"] for row in client.keys),
            expected=expected,
        )


def _conclude(clients: Sequence[_Client]) -> Conclusion:
    if any(not client.is_settled or client.ordered("inverted") for client in clients):
        return Conclusion.REFUTED
    if not clients or min(len(client.keys) for client in clients) < LEAST_TRIALS:
        return Conclusion.INCONCLUSIVE
    if all(client.expected("murmur2") for client in clients):
        return Conclusion.SUPPORTED
    return (
        Conclusion.PARTLY_SUPPORTED
        if all(any(client.expected(name) for name in _FORMULAS) for client in clients)
        else Conclusion.REFUTED
    )
