"""What each setting changes: every two cells that differ in one axis alone, side by side, trials of one repeat in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from experiments.comparing.cell_pairs import experiment_cells, pair_cells_except
from experiments.comparing.comparison import ComparedCell, ComparedSweep, compare_pair
from experiments.comparing.differences import ComparedMeasure, Difference
from experiments.comparing.pairing import MIN_PAIRS_FOR_TEST
from experiments.comparing.within import axis_values, cells_with_value, value_text, varied_axes
from experiments.ledger.record import Scalar
from experiments.messages.phrases import format_count
from experiments.report.data import ReportData
from experiments.results.models import CellResult
from experiments.results.wording import UNKNOWN_TEXT, share_counts_text
from experiments.sweep.cell_names import axis_name, cell_name, differing_axes
from experiments.verdicts.statistics import MIN_TRIALS_FOR_INTERVAL, Interval

# ---------- What a difference is of, whether one was shown at all, and which way. Pure.


MEASURE_NAMES: Final = {
    ComparedMeasure.LOSS: "trials with loss",
    ComparedMeasure.DUPLICATES: "trials with duplicates",
    ComparedMeasure.LATENCY_P99: "ack p99",
    ComparedMeasure.OUTAGE: "longest gap",
    ComparedMeasure.THROUGHPUT: "acked in time",
}
CHANGE_SIGNS: Final = {
    "worse": "\N{BLACK UP-POINTING TRIANGLE}",
    "better": "\N{BLACK DOWN-POINTING TRIANGLE}",
    "same": "",
    "unknown": "?",
}


def classify_difference(difference: Difference) -> str:
    """Say whether the whole interval lies on one side: `worse`, `better`, else `same`; without an interval, `unknown`."""
    interval, nothing = interval_and_null(difference)
    if interval is None:
        return "unknown"
    if interval.low <= nothing <= interval.high:
        return "same"
    return "worse" if (interval.low > nothing) == difference.measure.more_is_worse else "better"


def interval_and_null(difference: Difference) -> tuple[Interval | None, float]:
    """Return the interval, and the value that means no difference."""
    return (
        (difference.difference_interval, 0.0)
        if difference.measure.is_share
        else (difference.ratio_interval, 1.0)
    )


MOST_SHOWN: Final = 4
"""Pairs of an axis that stand open; the others are folded away, so that a page of twenty cells can be read."""
COLUMNS: Final = (
    ComparedMeasure.LOSS,
    ComparedMeasure.DUPLICATES,
    ComparedMeasure.LATENCY_P99,
    ComparedMeasure.OUTAGE,
)


@dataclass(frozen=True)
class ChangeView:
    """One measure of a pair."""

    head: str
    told: str
    detail: str
    kind: str
    sign: str


@dataclass(frozen=True)
class PairView:
    """Two cells that differ in one axis alone."""

    values: str
    """Before and after."""
    name: str
    """What both are."""
    changes: tuple[ChangeView, ...]


@dataclass(frozen=True)
class AxisView:
    """All pairs of an axis, those first of which the shares differ most."""

    axis: str
    shown: tuple[PairView, ...]
    folded: tuple[PairView, ...]


@dataclass(frozen=True)
class ChangesView:
    """The section."""

    axes: tuple[AxisView, ...]
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    """What a reader must know of these figures."""


@dataclass(frozen=True)
class _Change:
    """A pair with what was found."""

    values: tuple[Scalar, Scalar]
    cell: CellResult
    found: ComparedCell

    @property
    def known(self) -> bool:
        """Whether both cells have a trial that says anything."""
        return any(self.found.of(measure).trials for measure in COLUMNS)

    @property
    def moved(self) -> float:
        """How far the shares of trials moved, both together."""
        return sum(
            abs(self.found.of(measure).difference or 0.0) for measure in COLUMNS if measure.is_share
        )


def changes_view(evidence: ReportData) -> ChangesView:
    """Return what is to be said of every axis in which cells differ."""
    cells = evidence.results.cells
    by_axis = {axis: list(_changes(evidence, axis)) for axis in varied_axes(cells)}
    axes = differing_axes([cell.cell for cell in experiment_cells(cells)])
    views = tuple(
        _axis(axis, [change for change in changes if change.known], axes)
        for axis, changes in by_axis.items()
    )
    notes = tuple(_notes([change for changes in by_axis.values() for change in changes]))
    return ChangesView(
        tuple(view for view in views if view.shown),
        tuple(MEASURE_NAMES[measure] for measure in COLUMNS),
        notes,
    )


def _changes(evidence: ReportData, axis: str) -> Iterator[_Change]:
    cells, sweep = evidence.results.cells, ComparedSweep(evidence.plan, evidence.results)
    for before, after in combinations(axis_values(cells, axis), 2):
        for pair in pair_cells_except(
            axis, cells_with_value(cells, axis, before), cells_with_value(cells, axis, after)
        ):
            yield _Change((before, after), pair[0], compare_pair(pair, sweep, sweep))


def _axis(axis: str, changes: Sequence[_Change], axes: Sequence[str]) -> AxisView:
    others = [other for other in axes if other != axis]
    names = list(dict.fromkeys(cell_name(change.cell.cell, others) for change in changes))
    ordered = sorted(
        changes,
        key=lambda change: (-change.moved, names.index(cell_name(change.cell.cell, others))),
    )
    rows = tuple(_pair(change, others) for change in ordered)
    return AxisView(axis_name(axis), rows[:MOST_SHOWN], rows[MOST_SHOWN:])


def _pair(change: _Change, others: Sequence[str]) -> PairView:
    values = " \N{RIGHTWARDS ARROW} ".join(map(value_text, change.values))
    name = cell_name(change.cell.cell, others) if others else ""
    return PairView(values, name, tuple(_view(change.found.of(measure)) for measure in COLUMNS))


def _view(difference: Difference) -> ChangeView:
    kind = classify_difference(difference)
    told, detail = _share_change(difference) if difference.measure.is_share else _ratio(difference)
    p_value = "" if difference.p_value is None else f"p = {difference.p_value:.2g}"
    return ChangeView(
        MEASURE_NAMES[difference.measure],
        told,
        ", ".join(filter(None, (detail, p_value))),
        kind,
        CHANGE_SIGNS[kind],
    )


def _share_change(difference: Difference) -> tuple[str, str]:
    before, after = share_counts_text(difference.a_share), share_counts_text(difference.b_share)
    return (
        f"{before} \N{RIGHTWARDS ARROW} {after}"
        if UNKNOWN_TEXT not in {before, after}
        else UNKNOWN_TEXT
    ), ""


def _ratio(difference: Difference) -> tuple[str, str]:
    """Return by what it is multiplied, and between which bounds; where nothing can be divided by, the difference."""
    interval, _ = interval_and_null(difference)
    if difference.ratio is None:
        return (
            UNKNOWN_TEXT if difference.difference is None else f"{difference.difference:+,.0f} ms"
        ), ""
    return (
        f"\N{MULTIPLICATION SIGN} {_digits(difference.ratio)}",
        f"{_digits(interval.low)} to {_digits(interval.high)}" if interval else "",
    )


def _digits(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"  # noqa: PLR2004 - three digits


def _notes(changes: Sequence[_Change]) -> Iterator[str]:
    """Yield what these pairs cannot tell."""
    silent = sum(not change.known for change in changes)
    if silent:
        yield f"{format_count(silent, 'pair')} of cells without two trials of one repeat that were measured: left out, as nothing is known of them."
    differences = [
        change.found.of(measure) for change in changes for measure in COLUMNS if change.known
    ]
    most = max((difference.trials for difference in differences), default=0)
    if differences and most < MIN_PAIRS_FOR_TEST:
        interval = (
            f", an interval {MIN_TRIALS_FOR_INTERVAL}" if most < MIN_TRIALS_FOR_INTERVAL else ""
        )
        yield f"Too few to tell for sure: no cells have more than {format_count(most, 'pair')} of trials, and a p-value needs {MIN_PAIRS_FOR_TEST}{interval}."
    told = sum(difference.ratio_interval is not None for difference in differences)
    if told:
        yield f"{format_count(told, 'interval')} of a time, each by itself: where nothing changes at all, about one in twenty is marked as worse or better."
