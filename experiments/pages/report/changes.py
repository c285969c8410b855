"""What each setting changes: pairs of cells that differ in one axis only.

Trials with the same repeat are compared in pairs, because they share their seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.results.comparing.cell_pairs import experiment_cells, pair_cells_except
from ackbench.experiments.results.comparing.comparison import (
    ComparedCell,
    ComparedSweep,
    compare_pair,
)
from ackbench.experiments.results.comparing.differences import Difference
from ackbench.experiments.results.comparing.findings import ComparedMeasure
from ackbench.experiments.results.comparing.pairing import MIN_PAIRS_FOR_TEST
from ackbench.experiments.results.comparing.sentences import CHANGE_SIGNS, MEASURE_NAMES
from ackbench.experiments.results.comparing.within import (
    axis_values,
    cells_with_value,
    value_text,
    varied_axes,
)
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.wording import UNKNOWN_TEXT, share_counts_text
from ackbench.experiments.sweep.cell_names import axis_name, cell_name, differing_axes

MAX_SHOWN: Final = 4
"""Pairs of an axis that are shown; the others are folded, so that many cells stay readable."""
MAX_VALUES_IN_PAIRS: Final = 12
"""Up to so many values of an axis each is compared with each other one; of more, with the first.

The pairs of 500 values made a page of 50 MB in nine minutes.
"""
COLUMNS: Final = (
    ComparedMeasure.LOSS,
    ComparedMeasure.DUPLICATES,
    ComparedMeasure.LATENCY_P99,
    ComparedMeasure.OUTAGE,
)


@dataclass(frozen=True)
class ChangeView:
    """One measure of a pair of cells."""

    measure: str
    text: str
    detail: str
    kind: str
    sign: str


@dataclass(frozen=True)
class PairView:
    """Two cells that differ in one axis only."""

    values: str
    """The values of the axis: before and after."""
    name: str
    """The name that both cells share."""
    changes: tuple[ChangeView, ...]


@dataclass(frozen=True)
class AxisView:
    """All pairs of an axis; the pairs whose shares of trials differ most come first."""

    axis: str
    shown: tuple[PairView, ...]
    folded: tuple[PairView, ...]


@dataclass(frozen=True)
class ChangesView:
    """All axes in which the cells of a sweep differ."""

    axes: tuple[AxisView, ...]
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    """Limits of the figures that a reader must know."""


@dataclass(frozen=True)
class _Change:
    """A pair of cells with its differences."""

    values: tuple[Scalar, Scalar]
    cell: CellResult
    compared: ComparedCell

    @property
    def is_measured(self) -> bool:
        """Whether both cells have a judged trial of the same repeat."""
        return any(self.compared.difference_in(measure).trials for measure in COLUMNS)

    @property
    def share_difference(self) -> float:
        """The sum of the differences in the shares of trials, from 0 to 2."""
        return sum(
            abs(self.compared.difference_in(measure).difference or 0.0)
            for measure in COLUMNS
            if measure.is_share
        )


def changes_view(evidence: ReportData) -> ChangesView:
    """Return the comparisons of every axis in which cells differ."""
    cells = evidence.results.cells
    by_axis = {axis: list(_changes(evidence, axis)) for axis in varied_axes(cells)}
    axes = differing_axes([cell.cell for cell in experiment_cells(cells)])
    views = tuple(
        _axis(axis, [change for change in changes if change.is_measured], axes)
        for axis, changes in by_axis.items()
    )
    notes = (
        *_first_only(cells, by_axis),
        *_notes([change for changes in by_axis.values() for change in changes]),
    )
    return ChangesView(
        tuple(view for view in views if view.shown),
        tuple(MEASURE_NAMES[measure] for measure in COLUMNS),
        notes,
    )


def _changes(evidence: ReportData, axis: str) -> Iterator[_Change]:
    cells, sweep = evidence.results.cells, ComparedSweep(evidence.plan, evidence.results)
    values = axis_values(cells, axis)
    chosen = [cells_with_value(cells, axis, value) for value in values]
    sides = list(zip(values, chosen, strict=True))
    few = len(values) <= MAX_VALUES_IN_PAIRS
    for before, after in combinations(sides, 2) if few else product(sides[:1], sides[1:]):
        for pair in pair_cells_except(axis, before[1], after[1]):
            yield _Change((before[0], after[0]), pair[0], compare_pair(pair, sweep, sweep))


def _first_only(cells: Sequence[CellResult], axes: Iterable[str]) -> Iterator[str]:
    """Yield which axes have too many values for all pairs."""
    for axis in axes:
        values = axis_values(cells, axis)
        if len(values) > MAX_VALUES_IN_PAIRS:
            yield (
                f"{axis_name(axis)} has {len(values)} values: each is compared with the first one, "
                f"{value_text(values[0])}."
            )


def _axis(axis: str, changes: Sequence[_Change], axes: Sequence[str]) -> AxisView:
    others = [other for other in axes if other != axis]
    names = list(dict.fromkeys(cell_name(change.cell.cell, others) for change in changes))
    ordered = sorted(
        changes,
        key=lambda change: (
            -change.share_difference,
            names.index(cell_name(change.cell.cell, others)),
        ),
    )
    rows = tuple(_pair(change, others) for change in ordered)
    return AxisView(axis_name(axis), rows[:MAX_SHOWN], rows[MAX_SHOWN:])


def _pair(change: _Change, others: Sequence[str]) -> PairView:
    values = " \N{RIGHTWARDS ARROW} ".join(map(value_text, change.values))
    name = cell_name(change.cell.cell, others) if others else ""
    changes = tuple(_change_view(change.compared.difference_in(measure)) for measure in COLUMNS)
    return PairView(values, name, changes)


def _change_view(difference: Difference) -> ChangeView:
    kind = difference.change
    if difference.measure.is_share:
        text, bounds = _share_change_text(difference), ""
    else:
        text, bounds = _ratio_texts(difference)
    p_value = "" if difference.p_value is None else f"p = {difference.p_value:.2g}"
    return ChangeView(
        measure=MEASURE_NAMES[difference.measure],
        text=text,
        detail=", ".join(filter(None, (bounds, p_value))),
        kind=kind,
        sign=CHANGE_SIGNS[kind],
    )


def _share_change_text(difference: Difference) -> str:
    before, after = share_counts_text(difference.a_share), share_counts_text(difference.b_share)
    if UNKNOWN_TEXT in {before, after}:
        return UNKNOWN_TEXT
    return f"{before} \N{RIGHTWARDS ARROW} {after}"


def _ratio_texts(difference: Difference) -> tuple[str, str]:
    """Return the ratio and its interval; if the value before is 0, the difference."""
    if difference.ratio is not None:
        interval, _ = difference.interval_and_null
        bounds = ""
        if interval:
            bounds = f"{_format_ratio(interval.low)} to {_format_ratio(interval.high)}"
        return f"\N{MULTIPLICATION SIGN} {_format_ratio(difference.ratio)}", bounds
    if difference.difference is not None:
        return f"{difference.difference:+,.0f} ms", ""
    return UNKNOWN_TEXT, ""


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"  # noqa: PLR2004 - three digits


def _notes(changes: Sequence[_Change]) -> Iterator[str]:
    """Yield the limits of the comparisons."""
    unmeasured = sum(not change.is_measured for change in changes)
    if unmeasured:
        is_or_are = "is" if unmeasured == 1 else "are"
        yield (
            f"{format_count(unmeasured, 'pair')} of cells without measured trials of the same "
            f"repeat {is_or_are} not shown."
        )
    differences = [
        change.compared.difference_in(measure)
        for change in changes
        for measure in COLUMNS
        if change.is_measured
    ]
    most = max((difference.trials for difference in differences), default=0)
    if differences and most < MIN_PAIRS_FOR_TEST:
        yield (
            f"Too few trials: no two cells have more than {format_count(most, 'pair')} of "
            f"trials, and p-values and intervals need {MIN_PAIRS_FOR_TEST}."
        )
    intervals = sum(difference.ratio_interval is not None for difference in differences)
    if intervals:
        yield (
            f"{format_count(intervals, 'interval')}, not corrected for multiple comparisons: "
            "without any true difference, about 1 in 20 is marked as worse or better."
        )
