"""The comparison page: two sweeps, or the cells of one sweep split by an axis.

It shows the settings that differ, and per cell the measures of both sides with their difference and
its interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.pages.report.charts import MAX_ROWS, Chart, split_evenly
from ackbench.experiments.pages.report.drawing import (
    BLUE,
    FAINT,
    VERMILLION,
    new_figure,
    rows_height_in,
    style_rows_axis,
    to_svg,
    write_label,
)
from ackbench.experiments.pages.report.page import load_template
from ackbench.experiments.results.comparing.cell_texts import ComparedCellTexts, compared_cell_texts
from ackbench.experiments.results.comparing.comparison import Comparison
from ackbench.experiments.results.comparing.differences import Difference
from ackbench.experiments.results.comparing.findings import ChangeKind, ComparedMeasure
from ackbench.experiments.results.comparing.sentences import MEASURE_NAMES
from ackbench.experiments.results.comparing.within import AxisComparison
from ackbench.experiments.results.formats.tables import axis_tables
from ackbench.experiments.results.models import CellResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAME_IN: Final = 0.6
_MOST_TICKS: Final = 6
"""Labels of more ticks would overlap when one side takes ten times as long."""


@dataclass(frozen=True)
class SidesView:
    """Two sides that are compared; an axis with several values has several of these."""

    comparison: Comparison
    cells: tuple[ComparedCellTexts, ...]
    charts: tuple[Chart, ...]


def render_comparison(
    compared: Comparison | AxisComparison, cells: Sequence[CellResult] = ()
) -> str:
    """Return the page of two sweeps, or of one split by an axis; equal input gives equal bytes.

    Args:
        compared: the comparison.
        cells: of the one sweep.
    """
    within = compared if isinstance(compared, AxisComparison) else None
    comparisons = [compared] if isinstance(compared, Comparison) else compared.comparisons
    return load_template("compare.html").render(
        within=within,
        tables=axis_tables(cells, within.axis) if within else (),
        sides=[_sides(comparison, place) for place, comparison in enumerate(comparisons)],
    )


def _sides(comparison: Comparison, place: int) -> SidesView:
    return SidesView(
        comparison,
        tuple(map(compared_cell_texts, comparison.cells)),
        tuple(_charts(comparison, place)),
    )


def _charts(comparison: Comparison, place: int) -> Iterator[Chart]:
    for measure in ComparedMeasure:
        names = drop_shared_words([compared_cell_texts(cell).name for cell in comparison.cells])
        rows = [
            (name, cell.difference_in(measure))
            for name, cell in zip(names, comparison.cells, strict=True)
        ]
        known = [(name, difference) for name, difference in rows if difference.relative is not None]
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


def _caption(measure: ComparedMeasure, rows: Sequence[tuple[str, Difference]]) -> str:
    kinds = [difference.change for _, difference in rows]
    return (
        f"{MEASURE_NAMES[measure].capitalize()}: B is worse in {kinds.count(ChangeKind.WORSE)} and "
        f"better in {kinds.count(ChangeKind.BETTER)} of {format_count(len(rows), 'cell')}; no "
        "difference was shown in the others."
    )


def _chart(rows: Sequence[tuple[str, Difference]], name: str, alt: str, *, shares: bool) -> str:
    """Return a chart with one dot per cell and its interval; a line marks no difference."""
    drawn, axes = new_figure(_FRAME_IN + rows_height_in([title for title, _ in rows]))
    no_difference = 0.0 if shares else 1.0
    axes.axvline(no_difference, color=FAINT, linewidth=1)
    for place, (title, difference) in enumerate(rows):
        interval, _ = difference.interval_and_null
        colour = VERMILLION if difference.change is ChangeKind.WORSE else BLUE
        if interval:
            axes.hlines(place, interval.low, interval.high, color=colour, linewidth=1.6)
        axes.plot(
            difference.relative or 0.0, place, "o", color=colour, markersize=5.5, clip_on=False
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
