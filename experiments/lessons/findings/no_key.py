"""Lesson 12: without a key the partition is random and not in turn, and one partition may be overloaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from experiments.ledger.record import Cell
from experiments.ledger.workload_tables import LoadQuantity
from experiments.lessons.finding import (
    LEAST_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
    repeats_needed,
    spread,
)
from experiments.lessons.plots import DotRow, DotsPlot
from experiments.messages.counts import listed
from experiments.results.rows import Row

LESSON = 12
_LEAD: Final = "What the fullest partition got, times the mean (1: all the same):"
OVERLOADED: Final = 1.5
"""A partition with half as much again as the mean is called overloaded here."""
_ROUND_ROBIN: Final = "RoundRobin"
_REMARKS: Final = {
    Conclusion.PARTLY_SUPPORTED: (
        "So a client without keys overloads a partition for a moment, in which it fills a batch there, and not for long: the next batch goes elsewhere. "
        "What overloads a partition for good is a key that has much of the load."
    ),
    Conclusion.REFUTED: (
        "So no partition had much more than the others without a key, second by second. What overloads a partition is a key that has much of the load."
    ),
    Conclusion.INCONCLUSIVE: "Too few trials were judged.",
}


@dataclass(frozen=True)
class _Way:
    """A way to choose the partition, over its trials."""

    cell: Cell
    name: str
    is_by_chance: bool
    """The client chooses without a key, and not in turn: what the claim is about."""
    skews: Mapping[LoadQuantity, Sequence[Row]]
    """Rows of `SKEWS`, one a trial."""

    def values(self, column: str, spread: LoadQuantity = LoadQuantity.RECORDS) -> list[float]:
        """Return a column over the trials."""
        return [row[column] for row in self.skews[spread]]

    def overloads(self, column: str) -> bool:
        """Whether the fullest partition is overloaded, at the median over trials."""
        return median(self.values(column)) >= OVERLOADED


def find(material: FindingInput) -> Finding:
    """Return how unevenly each way spreads the load, over all of it and in a second, and in how large batches."""
    ways = [way for way in _ways(material) if way.values("total")]
    conclusion = _conclude(ways)
    return Finding(
        lesson=LESSON,
        conclusion=conclusion,
        lead=_LEAD if ways else None,
        sentences=tuple(map(_told, ways)) or ("No trial was measured.",),
        remark=_REMARKS.get(conclusion) or _overloaded(ways),
        repeats_needed=repeats_needed(conclusion, ()),
        plot=DotsPlot(
            caption="What the fullest partition got in a second, times the mean: the median over the seconds, a dot a trial",
            label="times the mean",
            rows=tuple(
                DotRow(
                    name=way.name,
                    values=tuple(way.values("second_max_over_mean")),
                    expected=_expected(way),
                )
                for way in ways
            ),
        ),
    )


def _ways(material: FindingInput) -> Iterator[_Way]:
    for cell in material.cells():
        rows = material.rows_of(cell, "skews")
        of = {one: [row for row in rows if row["of"] == one] for one in LoadQuantity}
        in_turn = bool(cell.cell.get("workload.round_robin")) or _ROUND_ROBIN in str(
            cell.cell.get("partitioner.class")
        )
        yield _Way(
            cell.cell,
            _name(cell.cell, in_turn=in_turn),
            not cell.cell.get("workload.keys") and not in_turn,
            of,
        )


def _name(cell: Cell, *, in_turn: bool) -> str:
    client = "Java's client" if cell.get("client") == "java" else "librdkafka"
    if keys := cell.get("workload.keys"):
        share = cell.get("workload.hot_key_share")
        return f"{client}, {keys:,} keys" + (
            f", one of them with {100 * float(str(share)):g} % of the records" if share else ""
        )
    if in_turn:
        return f"{client}, no key, in turn" + (
            " (named by the producer)"
            if cell.get("workload.round_robin")
            else " (RoundRobinPartitioner)"
        )
    drawn = str(cell.get("sticky.partitioning.linger.ms")) == "0"
    return f"{client}, no key, {'drawn for each record' if drawn else 'sticky'}"


def _told(way: _Way) -> str:
    whole, second = (
        spread(way.values(column), 2) for column in ("max_over_mean", "second_max_over_mean")
    )
    return f"{way.name}: {whole} over the whole load, {second} in a second; Gini {median(way.values('gini')):.2f}{_batches(way)}."


def _batches(way: _Way) -> str:
    """Say how many records a batch holds, where somebody looked."""
    of = list(zip(way.values("total"), way.values("total", LoadQuantity.BATCHES), strict=False))
    return (
        f", {median(records / batches for records, batches in of):.0f} records a batch"
        if of and all(batches for _, batches in of)
        else ""
    )


def _expected(way: _Way) -> float | None:
    """Return what must come out: in turn, the mean; a hot key, all of its share in one partition and the rest of the load evenly."""
    share = float(str(way.cell.get("workload.hot_key_share") or 0))
    partitions = max(way.values("partitions"))
    if way.cell.get("workload.keys") and share:
        return share * partitions + 1 - share
    return 1.0 if way.cell.get("workload.round_robin") else None


def _overloaded(ways: Sequence[_Way]) -> str:
    """Say which clients overloaded a partition over the whole load, and whether others did not: it is a client's way, not Kafka's."""
    by_chance = [way for way in ways if way.is_by_chance]
    over = [way.name for way in by_chance if way.overloads("max_over_mean")]
    told = f"So without a key one partition had much more than the others over the whole load: {listed(over)}."
    return (
        told
        if len(over) == len(by_chance)
        else f"{told} It is the client's way to choose that did it; others spread the same load evenly."
    )


def _conclude(ways: Sequence[_Way]) -> Conclusion:
    by_chance = [way for way in ways if way.is_by_chance]
    if not by_chance or min(len(way.values("total")) for way in ways) < LEAST_TRIALS:
        return Conclusion.INCONCLUSIVE
    if any(way.overloads("max_over_mean") for way in by_chance):
        return Conclusion.SUPPORTED
    return (
        Conclusion.PARTLY_SUPPORTED
        if any(way.overloads("second_max_over_mean") for way in by_chance)
        else Conclusion.REFUTED
    )
