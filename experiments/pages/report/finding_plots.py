"""The plot of a finding: draws what `experiments.results.lessons.plots` describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackbench.experiments.pages.report.bar_charts import (
    LINEAR_TO,
    SPREAD,
    ShareBar,
    legend_columns,
    shares_chart,
    write_legend,
    write_row_title,
)
from ackbench.experiments.pages.report.charts import Chart
from ackbench.experiments.pages.report.drawing import (
    BLUE,
    FAINT,
    INK,
    SERIES,
    SHADE,
    STYLES,
    VERMILLION,
    escape_label,
    new_figure,
    rows_height_in,
    style_rows_axis,
    to_svg,
    wrap_label,
)
from ackbench.experiments.results.lessons.plots import (
    BarsPlot,
    DotRow,
    DotsPlot,
    LinesPlot,
    Plot,
    SharesPlot,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAME_IN: Final = 0.6
_LEGEND_ROW_IN: Final = 0.2
_HEIGHT_IN: Final = 3.0
_LINE_ABOVE: Final = 0.18
"""The line of an expected value begins so far above the row's centre, below its title."""
_LONG_NAME: Final = 18
_BAR_ROW: Final = 1.25
"""Height of a row with a bar, relative to a row with dots."""


def plot_chart(plot: Plot, name: str) -> Chart:
    """Return the chart of a plot.

    Args:
        plot: the plot.
        name: unique in the page; prefix of the drawing's internal ids.
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
    drawn, axes = new_figure(_FRAME_IN + rows_height_in([row.name for row in plot.rows]))
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
        write_row_title(axes, place, row.name, _dots_remark(row))
    _values_axis(axes, plot)
    style_rows_axis(axes, len(plot.rows))
    axes.set_xlabel(escape_label(plot.label))
    return to_svg(drawn, name, plot.caption)


def _dots_remark(row: DotRow) -> str:
    if not row.values:
        return "not measured"
    return "" if row.expected is None else f"line: {_format_figure(row.expected)}"


def _format_figure(value: float) -> str:
    """Return a value with three significant digits or as an integer, without an exponent."""
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
    drawn, axes = new_figure(
        _FRAME_IN
        + _BAR_ROW * rows_height_in([row.name for row in plot.rows])
        + _LEGEND_ROW_IN * -(-len(parts) // legend_columns(parts))
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
            _format_figure(left),
            (left, place + 0.08),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=8.5,
            color=INK,
            va="center",
        )
        write_row_title(axes, place, row.name)
    axes.set_xlim(
        0,
        max((sum(part.value for part in row.parts) for row in plot.rows), default=0.0) * 1.14
        or 1.0,
    )
    style_rows_axis(axes, len(plot.rows))
    axes.set_xlabel(escape_label(plot.label))
    if len(parts) > 1:
        write_legend(
            drawn, {escape_label(part): _colour(number) for number, part in enumerate(parts)}
        )
    return to_svg(drawn, name, plot.caption)


def _lines(plot: LinesPlot, name: str) -> str:
    columns = 1 if max((len(line.name) for line in plot.lines), default=0) > _LONG_NAME else 2
    drawn, axes = new_figure(_HEIGHT_IN + _LEGEND_ROW_IN * -(-len(plot.lines) // columns))
    for span in plot.spans:
        axes.axvspan(span.begin, span.end, color=SHADE, linewidth=0)
        axes.annotate(
            escape_label(span.name),
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
            label=escape_label(wrap_label(line.name)),
            drawstyle=drawstyle,
        )
    axes.grid(visible=True, axis="both")
    axes.set_axisbelow(True)
    axes.set_xlabel(escape_label(plot.x_label))
    axes.set_ylabel(escape_label(plot.y_label))
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
    return to_svg(drawn, name, plot.caption)


def _colour(number: int) -> str:
    return SERIES[number] if number < len(SERIES) else FAINT
