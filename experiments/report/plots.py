"""Draws the one plot that shows a finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from experiments.lessons.plots import BarsPlot, DotRow, DotsPlot, LinesPlot, Plot, SharesPlot
from experiments.report.bar_charts import LINEAR_TO, SPREAD, ShareBar, shares_chart
from experiments.report.charts import Chart
from experiments.report.drawing import (
    BLUE,
    FAINT,
    INK,
    SERIES,
    SHADE,
    STYLES,
    VERMILLION,
    figure,
    plain,
    row_in,
    rows_axis,
    svg,
    wrapped,
    write,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRAME_IN: Final = 0.6
_LEGEND_ROW_IN: Final = 0.2
_HEIGHT_IN: Final = 3.0
_TITLE_ABOVE: Final = 0.24
_LINE_ABOVE: Final = 0.18
"""Around the row's dots, and not into its title."""
_LONG_NAME: Final = 18
_BAR_ROW: Final = 1.25
"""Times the height of a row of dots: a bar is higher, and two lines of its name stand above it."""


def plot_chart(plot: Plot, name: str) -> Chart:
    """Return the drawing of a plot with its caption.

    Args:
        plot: what is to be seen.
        name: unique in the page; the drawing's internal references hang on it.
    """
    match plot:
        case SharesPlot():
            drawn = shares_chart(
                [ShareBar(row.name, row.share) for row in plot.rows], name, plot.caption
            )
        case DotsPlot():
            drawn = _dots(plot, name)
        case BarsPlot():
            drawn = _bars(plot, name)
        case LinesPlot():
            drawn = _lines(plot, name)
    return Chart(drawn, plot.caption)


def _dots(plot: DotsPlot, name: str) -> str:
    drawn, axes = figure(_FRAME_IN + row_in(row.name for row in plot.rows) * len(plot.rows))
    for place, row in enumerate(plot.rows):
        for number, value in enumerate(sorted(row.values)):
            axes.plot(
                value,
                place + SPREAD * ((number % 3) - 1),
                "o",
                color=BLUE,
                markersize=5,
                alpha=0.75,
                markeredgewidth=0,
                clip_on=False,
            )
        if row.expected is not None:
            axes.vlines(
                row.expected, place - _LINE_ABOVE, place + 0.3, color=VERMILLION, linewidth=1.8
            )
        _title(axes, place, row.name, _remark(row))
    _values_axis(axes, plot)
    rows_axis(axes, len(plot.rows))
    axes.set_xlabel(plain(plot.label))
    return svg(drawn, name, plot.caption)


def _remark(row: DotRow) -> str:
    return (
        "not measured"
        if not row.values
        else ""
        if row.expected is None
        else f"line: {_figure(row.expected)}"
    )


def _figure(value: float) -> str:
    """Return a value as a reader writes it: three decimals of a small one, none of a large one, and no exponent."""
    decimals = max(0, 3 - len(f"{abs(value):.0f}"))
    return f"{value:,.{decimals}f}".rstrip("0").rstrip(".") if decimals else f"{value:,.0f}"


def _values_axis(axes: Axes, plot: DotsPlot) -> None:
    largest = max(
        (value for row in plot.rows for value in (*row.values, row.expected or 0.0)), default=0.0
    )
    if plot.logarithmic:
        axes.set_xscale("symlog", linthresh=LINEAR_TO, linscale=0.6)
        axes.minorticks_off()
    axes.set_xlim(0, (largest * (2.0 if plot.logarithmic else 1.06)) or 1.0)


def _bars(plot: BarsPlot, name: str) -> str:
    parts = list(dict.fromkeys(part.name for row in plot.rows for part in row.parts))
    drawn, axes = figure(
        _FRAME_IN
        + _BAR_ROW * row_in(row.name for row in plot.rows) * len(plot.rows)
        + _LEGEND_ROW_IN * -(-len(parts) // 2)
    )
    for place, row in enumerate(plot.rows):
        left = 0.0
        for part in row.parts:
            axes.barh(
                place + 0.08,
                part.value,
                left=left,
                height=0.42,
                color=_colour(parts.index(part.name)),
            )
            left += part.value
        axes.annotate(
            _figure(left),
            (left, place + 0.08),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=8.5,
            color=INK,
            va="center",
        )
        _title(axes, place, row.name, "")
    axes.set_xlim(
        0,
        max((sum(part.value for part in row.parts) for row in plot.rows), default=0.0) * 1.14
        or 1.0,
    )
    rows_axis(axes, len(plot.rows))
    axes.set_xlabel(plain(plot.label))
    _parts_legend(drawn, parts)
    return svg(drawn, name, plot.caption)


def _parts_legend(drawn: Figure, parts: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    if len(parts) > 1:
        handles = [
            Patch(facecolor=_colour(number), label=plain(part)) for number, part in enumerate(parts)
        ]
        drawn.legend(
            handles=handles,
            loc="outside upper left",
            ncols=2,
            frameon=False,
            fontsize=9,
            handlelength=1.4,
            columnspacing=1.2,
            borderpad=0,
        )


def _lines(plot: LinesPlot, name: str) -> str:
    columns = 1 if max((len(line.name) for line in plot.lines), default=0) > _LONG_NAME else 2
    drawn, axes = figure(_HEIGHT_IN + _LEGEND_ROW_IN * -(-len(plot.lines) // columns))
    for span in plot.spans:
        axes.axvspan(span.begin, span.end, color=SHADE, linewidth=0)
        axes.annotate(
            plain(span.name),
            (span.begin, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2, -2),
            textcoords="offset points",
            fontsize=8.5,
            va="top",
        )
    for number, line in enumerate(plot.lines):
        x, y = [point[0] for point in line.points], [point[1] for point in line.points]
        drawstyle = "steps-post" if plot.steps else "default"
        axes.plot(
            x,
            y,
            color=_colour(number),
            linestyle=STYLES[number % len(STYLES)],
            label=plain(wrapped(line.name)),
            drawstyle=drawstyle,
        )
    axes.grid(visible=True, axis="both")
    axes.set_axisbelow(True)
    axes.set_xlabel(plain(plot.x_label))
    axes.set_ylabel(plain(plot.y_label))
    if len(plot.lines) > 1:
        drawn.legend(
            loc="outside upper left",
            ncols=columns,
            frameon=False,
            fontsize=9,
            handlelength=2.2,
            columnspacing=1.2,
            borderpad=0,
        )
    return svg(drawn, name, plot.caption)


def _title(axes: Axes, place: float, name: str, told: str) -> None:
    write(axes, (0, place - _TITLE_ABOVE), name, above=True)
    write(axes, (1, place - _TITLE_ABOVE), told, above=True, right=True)


def _colour(number: int) -> str:
    return SERIES[number] if number < len(SERIES) else FAINT
