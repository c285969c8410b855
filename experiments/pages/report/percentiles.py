"""Latency by percentile, drawn like an HDR histogram plot.

The x axis is logarithmic in 1 / (1 - percentile), so that rare latencies are visible; the y axis is
logarithmic in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ackbench.experiments.pages.report.drawing import (
    SERIES,
    STYLES,
    escape_label,
    new_figure,
    to_svg,
    wrap_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS: Final = {
    0.0: "0",
    0.9: "90",
    0.99: "99",
    0.999: "99.9",
    0.9999: "99.99",
    0.99999: "99.999",
    0.999999: "99.9999",
}
_US_PER_MS: Final = 1e3
_MAX_POINTS: Final = 160
"""Points per curve; more are not visible."""
_HEIGHT_IN: Final = 2.5
_LEGEND_ROW_IN: Final = 0.17
_LEFT, _RIGHT = 0.145, 0.95
"""Edges of the axes as parts of the width; labels need room on both sides."""
_BELOW_IN, _ABOVE_IN = 0.45, 0.12
_PER_LEGEND_ROW: Final = 2
_LONG_NAME: Final = 26
"""With a longer name, the legend has one column."""


@dataclass(frozen=True)
class PercentileCurve:
    """A cumulative distribution of latencies."""

    name: str
    rarity: npt.NDArray[np.float64]
    """1 / (1 - quantile), from 1 up; the x axis shows its logarithm."""
    latency_ms: npt.NDArray[np.float64]
    records: int


@dataclass(frozen=True)
class CurveLimits:
    """The ranges of the axes of charts that are compared with each other."""

    rarest: float
    """The greatest rarity."""
    least_ms: float
    most_ms: float


def curve_limits(curves: Sequence[PercentileCurve]) -> CurveLimits | None:
    """Return the ranges that hold all curves; `None` without curves."""
    if not curves:
        return None
    return CurveLimits(
        max(float(curve.rarity[-1]) for curve in curves),
        max(min(float(curve.latency_ms.min()) for curve in curves), 1e-3),
        max(float(curve.latency_ms.max()) for curve in curves),
    )


def percentile_curve(name: str, histograms: Sequence[pa.Table]) -> PercentileCurve | None:
    """Return the combined curve of several histograms; None if they have no records.

    Args:
        name: the curve's name in the legend.
        histograms: rows of the table `histogram`. A latency is the middle of its slot.
    """
    low, high, counts = (
        np.concatenate([np.zeros(0, np.int64), *(table[column] for table in histograms)])
        for column in ("from_us", "to_us", "records")
    )
    records = int(counts.sum())
    if not records:
        return None
    order = np.lexsort((high, low))
    low, high, counts = low[order], high[order], counts[order]
    is_new = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))
    first = np.flatnonzero(is_new)
    counts = np.add.reduceat(counts, first).astype(np.float64)
    middles = (low[first] + high[first]) / 2 / _US_PER_MS
    below = (np.cumsum(counts) - counts) / records  # share of records below the slot
    rarity = np.append(1 / (1 - below), float(records))
    return _thin_out(PercentileCurve(name, rarity, np.append(middles, middles[-1]), records))


def percentile_chart(
    curves: Sequence[PercentileCurve], name: str, alt: str, shared: CurveLimits | None = None
) -> str:
    """Return the curves as one chart; they differ in colour and line style.

    Args:
        curves: the curves; at least one.
        name: unique in the page.
        alt: the chart's content in words.
        shared: the ranges of the axes, if other charts have them too; `None`: those of the curves.
    """
    columns = 1 if max(len(line.name) for line in curves) > _LONG_NAME else _PER_LEGEND_ROW
    rows = -(-sum(wrap_label(line.name).count("\n") + 1 for line in curves) // columns)
    height_in = _HEIGHT_IN + _LEGEND_ROW_IN * rows
    drawn, axes = new_figure(height_in, constrained=False)
    axes.set_position(
        (
            _LEFT,
            _BELOW_IN / height_in,
            _RIGHT - _LEFT,
            (_HEIGHT_IN - _BELOW_IN - _ABOVE_IN) / height_in,
        )
    )
    for number, line in enumerate(curves):
        colour, style = SERIES[number % len(SERIES)], STYLES[number % len(STYLES)]
        latency_ms = np.maximum(line.latency_ms, 1e-3)
        axes.step(
            line.rarity,
            latency_ms,
            color=colour,
            linestyle=style,
            label=escape_label(wrap_label(line.name)),
            where="post",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    _ticks(axes, shared.rarest if shared else max(float(line.rarity[-1]) for line in curves))
    if shared:
        axes.set_ylim(shared.least_ms / 1.3, shared.most_ms * 1.3)
    axes.grid(visible=True, axis="both")
    axes.set_axisbelow(True)
    axes.set_xlabel("percentile of the records")
    axes.set_ylabel("ms")
    drawn.legend(
        loc="upper left",
        bbox_to_anchor=(0.01, 1.0),
        ncols=columns,
        frameon=False,
        fontsize=9,
        handlelength=2.2,
        columnspacing=1.2,
        borderpad=0,
    )
    return to_svg(drawn, name, alt)


def _ticks(axes: Axes, rarest: float) -> None:
    """Label the axes with percentiles and with plain milliseconds."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    shares = [share for share in _TICKS if 1 / (1 - share) <= rarest * 1.01]
    axes.set_xlim(1, rarest * 1.05)
    axes.set_xticks([1 / (1 - share) for share in shares], [_TICKS[share] for share in shares])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=9))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _thin_out(curve: PercentileCurve) -> PercentileCurve:
    """Return the curve without points that are too close to each other to be visible."""
    if len(curve.rarity) <= _MAX_POINTS:
        return curve
    positions = np.geomspace(1, curve.rarity[-1], _MAX_POINTS)
    kept = np.unique(
        np.append(np.searchsorted(curve.rarity, positions, side="right") - 1, len(curve.rarity) - 1)
    )
    return PercentileCurve(curve.name, curve.rarity[kept], curve.latency_ms[kept], curve.records)
