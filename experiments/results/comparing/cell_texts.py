"""The figures of a pair of cells as texts, for the terminal, the page, Markdown and JUnit."""

from __future__ import annotations

from dataclasses import dataclass

from ackbench.experiments.results.comparing.comparison import ComparedCell
from ackbench.experiments.results.comparing.differences import Difference
from ackbench.experiments.results.comparing.findings import ChangeKind, ComparedMeasure
from ackbench.experiments.results.comparing.sentences import CHANGE_SIGNS, MEASURE_NAMES
from ackbench.experiments.results.wording import (
    ROLE_NAMES,
    UNKNOWN_TEXT,
    estimate_text,
    milliseconds_text,
    share_text,
)


@dataclass(frozen=True)
class DifferenceTexts:
    """The texts of a measure of a pair of cells."""

    name: str
    a: str
    b: str
    change: str
    p_value: str
    effect: str
    kind: ChangeKind
    sign: str


@dataclass(frozen=True)
class ComparedCellTexts:
    """The texts of a pair of cells."""

    name: str
    role: str
    rows: tuple[DifferenceTexts, ...]
    verdicts: tuple[str, ...]


def compared_cell_texts(cell: ComparedCell) -> ComparedCellTexts:
    """Return a pair of cells as texts."""
    return ComparedCellTexts(
        merge_labels(cell.a_label, cell.b_label),
        ROLE_NAMES[cell.role],
        tuple(map(_difference_texts, cell.differences)),
        tuple(f"{change.guarantee}: {change.a} became {change.b}" for change in cell.verdicts),
    )


def merge_labels(a: str, b: str) -> str:
    """Return one label for two, with both values where they differ: `acks=0|1 RF=3`."""
    words, others = a.split(" "), b.split(" ")
    if len(words) != len(others):
        return f"{a} | {b}"
    return " ".join(
        word if word == other else _merge_words(word, other)
        for word, other in zip(words, others, strict=True)
    )


def _merge_words(a: str, b: str) -> str:
    axis, _, value = b.rpartition("=")
    return f"{a}|{value}" if axis and a.startswith(f"{axis}=") else f"{a}|{b}"


def _difference_texts(difference: Difference) -> DifferenceTexts:
    kind = difference.change
    return DifferenceTexts(
        MEASURE_NAMES[difference.measure],
        _side_text(difference, "a"),
        _side_text(difference, "b"),
        _change_text(difference),
        "-" if difference.p_value is None else f"{difference.p_value:.3g}",
        "-" if difference.effect is None else f"{difference.effect:+.2f}",
        kind,
        CHANGE_SIGNS[kind],
    )


def _side_text(difference: Difference, side: str) -> str:
    if difference.measure.is_share:
        return share_text(difference.a_share if side == "a" else difference.b_share)
    estimate = difference.a_median if side == "a" else difference.b_median
    if difference.measure is ComparedMeasure.THROUGHPUT:
        return f"{estimate.median:,.0f} /s" if estimate else UNKNOWN_TEXT
    return estimate_text(estimate)


def _change_text(difference: Difference) -> str:
    """Return the difference with its interval: shares in points, numbers in percent of A."""
    unit = "points" if difference.measure.is_share else "%"
    interval, none = difference.interval_and_null
    value = difference.relative
    if value is None and difference.difference is not None:
        return milliseconds_text(difference.difference)
    if value is None:
        return UNKNOWN_TEXT
    bounds = "(too few trials)"
    if interval:
        bounds = f"({100 * (interval.low - none):+.1f} to {100 * (interval.high - none):+.1f})"
    return f"{100 * (value - none):+.1f} {unit} {bounds}"
