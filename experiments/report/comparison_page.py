"""The page of two sides: what differs, how each cell fared in either, and by how much one is worse, with intervals. A sweep that was split has several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from experiments.comparing.comparison import ComparedCell, Comparison
from experiments.comparing.differences import ComparedMeasure, Difference
from experiments.comparing.within import AxisComparison
from experiments.messages.phrases import format_count
from experiments.report.changes import (
    CHANGE_SIGNS,
    MEASURE_NAMES,
    classify_difference,
    interval_and_null,
)
from experiments.report.charts import MAX_ROWS, Chart, split_evenly
from experiments.report.drawing import (
    BLUE,
    FAINT,
    VERMILLION,
    new_figure,
    row_height_in,
    style_rows_axis,
    to_svg,
    write_label,
)
from experiments.report.page import load_template
from experiments.results.wording import (
    ROLE_NAMES,
    UNKNOWN_TEXT,
    estimate_text,
    milliseconds_text,
    share_text,
)
from experiments.verdicts.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAME_IN: Final = 0.6
_MOST_TICKS: Final = 6
"""More than these would run into each other where one side takes ten times as long."""


@dataclass(frozen=True)
class DifferenceView:
    """One row of the table: a measure of a cell."""

    name: str
    a: str
    b: str
    change: str
    p_value: str
    effect: str
    kind: str
    """`worse`, `better` or `same`: whether the whole interval lies on one side."""
    sign: str


@dataclass(frozen=True)
class ComparedCellView:
    """A cell of the page."""

    name: str
    role: str
    rows: tuple[DifferenceView, ...]
    verdicts: tuple[str, ...]


@dataclass(frozen=True)
class SidesView:
    """Two sides of the page."""

    comparison: Comparison
    cells: tuple[ComparedCellView, ...]
    charts: tuple[Chart, ...]


def render_comparison(comparison: Comparison) -> str:
    """Return the page; equal comparisons give equal bytes."""
    return load_template("compare.html").render(within=None, sides=[_sides(comparison, 0)])


def render_axis_comparison(within: AxisComparison) -> str:
    """Return the page of a sweep that was split; equal ones give equal bytes."""
    return load_template("compare.html").render(
        within=within,
        sides=[_sides(comparison, place) for place, comparison in enumerate(within.comparisons)],
    )


def _sides(comparison: Comparison, place: int) -> SidesView:
    return SidesView(
        comparison,
        tuple(map(compared_cell_view, comparison.cells)),
        tuple(_charts(comparison, place)),
    )


def compared_cell_view(cell: ComparedCell) -> ComparedCellView:
    """Return a cell as a person reads it."""
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
    """Return one label for two, in which they stand beside each other only where they differ: `acks=0|1 RF=3`."""
    words, others = a.split(" "), b.split(" ")
    if len(words) != len(others):
        return f"{a} | {b}"
    return " ".join(
        word if word == other else _both_words(word, other)
        for word, other in zip(words, others, strict=True)
    )


def _both_words(a: str, b: str) -> str:
    axis, _, value = b.rpartition("=")
    return f"{a}|{value}" if axis and a.startswith(f"{axis}=") else f"{a}|{b}"


def _row(difference: Difference) -> DifferenceView:
    kind = classify_difference(difference)
    p_value = "-" if difference.p_value is None else f"{difference.p_value:.3g}"
    effect = "-" if difference.effect is None else f"{difference.effect:+.2f}"
    return DifferenceView(
        MEASURE_NAMES[difference.measure],
        _side(difference, "a"),
        _side(difference, "b"),
        _change(difference),
        p_value,
        effect,
        kind,
        CHANGE_SIGNS[kind],
    )


def _side(difference: Difference, side: str) -> str:
    if difference.measure.is_share:
        return share_text(difference.a_share if side == "a" else difference.b_share)
    estimate = difference.a_median if side == "a" else difference.b_median
    if difference.measure is ComparedMeasure.THROUGHPUT:
        return f"{estimate.median:,.0f} /s" if estimate else UNKNOWN_TEXT
    return estimate_text(estimate)


def _change(difference: Difference) -> str:
    """Return the difference with its interval: of shares in points, of numbers as a part of what it was."""
    if difference.measure.is_share:
        return _told(difference.difference, difference.difference_interval, 0.0, "points")
    if difference.ratio is None and difference.difference is not None:
        return milliseconds_text(difference.difference)
    return _told(difference.ratio, difference.ratio_interval, 1.0, "%")


def _told(value: float | None, interval: Interval | None, nothing: float, unit: str) -> str:
    if value is None:
        return UNKNOWN_TEXT
    bounds = (
        f" ({100 * (interval.low - nothing):+.1f} to {100 * (interval.high - nothing):+.1f})"
        if interval
        else " (no interval: too few trials)"
    )
    return f"{100 * (value - nothing):+.1f} {unit}{bounds}"


def _charts(comparison: Comparison, place: int) -> Iterator[Chart]:
    for measure in ComparedMeasure:
        names = drop_shared_words([compared_cell_view(cell).name for cell in comparison.cells])
        rows = [
            (name, cell.of(measure)) for name, cell in zip(names, comparison.cells, strict=True)
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
    """Return labels without the words that all of them share; as they are, where nothing would be left."""
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
    told = f"B is worse in {kinds.count('worse')} and better in {kinds.count('better')} of {format_count(len(rows), 'cell')}"
    return f"{MEASURE_NAMES[measure].capitalize()}: {told}; in the others the interval holds no difference, or there is none."


def _chart(rows: Sequence[tuple[str, Difference]], name: str, alt: str, *, shares: bool) -> str:
    """Return a dot a cell with its interval; no difference is the line in the middle."""
    drawn, axes = new_figure(_FRAME_IN + row_height_in(title for title, _ in rows) * len(rows))
    nothing = 0.0 if shares else 1.0
    axes.axvline(nothing, color=FAINT, linewidth=1)
    for place, (title, difference) in enumerate(rows):
        interval, _ = interval_and_null(difference)
        colour = VERMILLION if classify_difference(difference) == "worse" else BLUE
        if interval:
            axes.hlines(place, interval.low, interval.high, color=colour, linewidth=1.6)
        axes.plot(
            _value(difference) or 0.0, place, "o", color=colour, markersize=5.5, clip_on=False
        )
        write_label(axes, (0, place - 0.24), title, above=True)
    _scaled(axes, shares=shares)
    style_rows_axis(axes, len(rows), above=0.8)
    return to_svg(drawn, name, alt)


def _scaled(axes: Axes, *, shares: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    if shares:
        axes.set_xlim(-1, 1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:+.0f}"))
        axes.set_xlabel("difference in points, with its 95 % interval")
        return
    axes.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * (value - 1):+,.0f} %"))
    axes.set_xlabel("difference, with its 95 % interval")
