"""The comparison page: two sweeps, or the cells of one sweep split by an axis.

It shows the settings that differ, and per cell the measures of both sides with their difference and
its interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.pages.report.changes import CHANGE_SIGNS
from ackbench.experiments.pages.report.charts import MAX_ROWS, Chart, split_evenly
from ackbench.experiments.pages.report.drawing import (
    BLUE,
    FAINT,
    VERMILLION,
    new_figure,
    row_height_in,
    style_rows_axis,
    to_svg,
    write_label,
)
from ackbench.experiments.pages.report.page import load_template
from ackbench.experiments.results.comparing.comparison import ComparedCell, Comparison
from ackbench.experiments.results.comparing.differences import (
    MEASURE_NAMES,
    ComparedMeasure,
    Difference,
    classify_difference,
    interval_and_null,
)
from ackbench.experiments.results.comparing.sentences import comparison_sentences
from ackbench.experiments.results.comparing.within import AxisComparison
from ackbench.experiments.results.wording import (
    ROLE_NAMES,
    UNKNOWN_TEXT,
    estimate_text,
    milliseconds_text,
    share_text,
)
from ackbench.experiments.verdicts.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAME_IN: Final = 0.6
_MOST_TICKS: Final = 6
"""Labels of more ticks would overlap when one side takes ten times as long."""


@dataclass(frozen=True)
class DifferenceView:
    """One row of a cell's table: a measure."""

    name: str
    a: str
    b: str
    change: str
    p_value: str
    effect: str
    kind: str
    """See `classify_difference`."""
    sign: str


@dataclass(frozen=True)
class ComparedCellView:
    """A pair of cells with its differences."""

    name: str
    role: str
    rows: tuple[DifferenceView, ...]
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class SidesView:
    """Two sides that are compared; an axis with several values has several of these."""

    comparison: Comparison
    sentences: tuple[str, ...]
    cells: tuple[ComparedCellView, ...]
    charts: tuple[Chart, ...]


def render_comparison(comparison: Comparison) -> str:
    """Return the page of two sweeps as HTML; equal comparisons give equal bytes."""
    return load_template("compare.html").render(within=None, sides=[_sides(comparison, 0)])


def render_axis_comparison(within: AxisComparison) -> str:
    """Return the page of one sweep, split by an axis, as HTML; equal input gives equal bytes."""
    return load_template("compare.html").render(
        within=within,
        sides=[_sides(comparison, place) for place, comparison in enumerate(within.comparisons)],
    )


def _sides(comparison: Comparison, place: int) -> SidesView:
    return SidesView(
        comparison,
        tuple(comparison_sentences(comparison)),
        tuple(map(compared_cell_view, comparison.cells)),
        tuple(_charts(comparison, place)),
    )


def compared_cell_view(cell: ComparedCell) -> ComparedCellView:
    """Return a pair of cells as texts, for the page and for the terminal."""
    name = merge_labels(cell.a_label, cell.b_label)
    verdicts = tuple(
        f"{change.guarantee}: {change.a} became {change.b}" for change in cell.verdicts
    )
    return ComparedCellView(
        name,
        ROLE_NAMES[cell.role],
        tuple(_row(difference) for difference in cell.differences),
        verdicts,
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


def _row(difference: Difference) -> DifferenceView:
    kind = classify_difference(difference)
    p_value = "-" if difference.p_value is None else f"{difference.p_value:.3g}"
    effect = "-" if difference.effect is None else f"{difference.effect:+.2f}"
    return DifferenceView(
        MEASURE_NAMES[difference.measure],
        _side_text(difference, "a"),
        _side_text(difference, "b"),
        _change_text(difference),
        p_value,
        effect,
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
    if difference.measure.is_share:
        return _format_change(difference.difference, difference.difference_interval, 0.0, "points")
    if difference.ratio is None and difference.difference is not None:
        return milliseconds_text(difference.difference)
    return _format_change(difference.ratio, difference.ratio_interval, 1.0, "%")


def _format_change(
    value: float | None, interval: Interval | None, no_difference: float, unit: str
) -> str:
    if value is None:
        return UNKNOWN_TEXT
    bounds = "(too few trials)"
    if interval:
        low, high = 100 * (interval.low - no_difference), 100 * (interval.high - no_difference)
        bounds = f"({low:+.1f} to {high:+.1f})"
    return f"{100 * (value - no_difference):+.1f} {unit} {bounds}"


def _charts(comparison: Comparison, place: int) -> Iterator[Chart]:
    for measure in ComparedMeasure:
        names = drop_shared_words([compared_cell_view(cell).name for cell in comparison.cells])
        rows = [
            (name, cell.difference_in(measure))
            for name, cell in zip(names, comparison.cells, strict=True)
        ]
        known = [(name, difference) for name, difference in rows if _value(difference) is not None]
        for part, chunk in enumerate(split_evenly(known, MAX_ROWS)):
            caption = _caption(measure, chunk)
            yield Chart(
                _chart(
                    chunk,
                    f"difference-{place}-{measure.value}-{part}",
                    caption,
                    shares=measure.is_share,
                ),
                caption,
            )


def drop_shared_words(labels: Sequence[str]) -> list[str]:
    """Return the labels without the words that all share; a label keeps at least one word."""
    shared = (
        set.intersection(*(set(label.split()) for label in labels)) if len(labels) > 1 else set()
    )
    return [
        " ".join(word for word in label.split() if word not in shared) or label for label in labels
    ]


def _value(difference: Difference) -> float | None:
    return difference.difference if difference.measure.is_share else difference.ratio


def _caption(measure: ComparedMeasure, rows: Sequence[tuple[str, Difference]]) -> str:
    kinds = [classify_difference(difference) for _, difference in rows]
    return (
        f"{MEASURE_NAMES[measure].capitalize()}: B is worse in {kinds.count('worse')} and better "
        f"in {kinds.count('better')} of {format_count(len(rows), 'cell')}; no difference was "
        "shown in the others."
    )


def _chart(rows: Sequence[tuple[str, Difference]], name: str, alt: str, *, shares: bool) -> str:
    """Return a chart with one dot per cell and its interval; a line marks no difference."""
    drawn, axes = new_figure(_FRAME_IN + row_height_in(title for title, _ in rows) * len(rows))
    no_difference = 0.0 if shares else 1.0
    axes.axvline(no_difference, color=FAINT, linewidth=1)
    for place, (title, difference) in enumerate(rows):
        interval, _ = interval_and_null(difference)
        colour = VERMILLION if classify_difference(difference) == "worse" else BLUE
        if interval:
            axes.hlines(place, interval.low, interval.high, color=colour, linewidth=1.6)
        axes.plot(
            _value(difference) or 0.0, place, "o", color=colour, markersize=5.5, clip_on=False
        )
        write_label(axes, (0, place - 0.24), title, above=True)
    _scale_axis(axes, shares=shares)
    style_rows_axis(axes, len(rows), above=0.8)
    return to_svg(drawn, name, alt)


def _scale_axis(axes: Axes, *, shares: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if shares:
        axes.set_xlim(-1, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:+.0f}"))
        axes.set_xlabel("difference in points, with 95 % interval")
        return
    axes.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * (value - 1):+,.0f} %"))
    axes.set_xlabel("difference, with 95 % interval")
