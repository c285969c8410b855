"""The page of a trend: its changes in sentences, and a small chart per cell and measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.pages.report.page import load_template
from ackbench.experiments.results.history.trend import (
    MEASURE_TITLES,
    Trend,
    TrendCell,
    TrendChange,
    TrendMeasure,
    TrendPoint,
    TrendSeries,
)
from ackbench.experiments.results.history.wording import (
    boundary_line,
    cause_text,
    date_text,
    interval_text,
    lowest_and_highest,
    point_text,
    trend_head,
    unusual_line,
    value_text,
)
from ackbench.experiments.results.wording import LEGEND_OF_OVERLOAD

_WIDTH, _HEIGHT = 320, 96
_LEFT, _TOP, _BOTTOM = 62, 8, 14
NO_PAGES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class ChartView:
    """One measure of one cell."""

    title: str
    svg: str
    caption: str


@dataclass(frozen=True)
class TrendCellView:
    """One cell with its charts."""

    label: str
    charts: tuple[ChartView, ...]
    changes: int


@dataclass(frozen=True)
class TrendChangeView:
    """A change of level, in words."""

    date: str
    kind: str
    """`worse` or `better`."""
    cell: str
    measure: str
    levels: str
    cause: str
    sweep_id: str
    page: str | None
    """The sweep's page; `None`: there is none to link to."""
    version: str


def render_trend(
    trend: Trend, pages: Mapping[str, str] = NO_PAGES, home_page: str | None = None
) -> str:
    """Return the page of a trend as HTML.

    Args:
        trend: the trend.
        pages: links to the pages of sweeps, by id.
        home_page: a link to the page that this one belongs to; `None`: it stands alone.
    """
    return load_template("trend.html").render(
        trend=trend,
        head=tuple(trend_head(trend)),
        changes=tuple(_change_view(change, pages) for change in trend.changes),
        boundaries=tuple(boundary_line(one, len(trend.cells)) for one in trend.boundaries),
        unusual=tuple(map(unusual_line, trend.unusual)),
        cells=tuple(_cell_view(cell, trend) for cell in trend.cells),
        overload=LEGEND_OF_OVERLOAD if trend.overloaded else "",
        home_page=home_page,
    )


def _change_view(change: TrendChange, pages: Mapping[str, str]) -> TrendChangeView:
    ratio = change.ratio
    relative = ""
    if ratio is not None and not change.measure.is_share:
        relative = f" ({100 * (ratio - 1):+.1f}\N{NO-BREAK SPACE}%)"
    before, after = (value_text(change.measure, one) for one in (change.before, change.after))
    return TrendChangeView(
        date=date_text(change.planned_s),
        kind="worse" if change.worse else "better",
        cell=change.cell,
        measure=MEASURE_TITLES[change.measure],
        levels=f"{before} → {after}{relative}",
        cause=cause_text(change),
        sweep_id=change.sweep_id,
        page=pages.get(change.sweep_id),
        version=change.version,
    )


def _cell_view(cell: TrendCell, trend: Trend) -> TrendCellView:
    own = [change for change in trend.changes if change.cell == cell.label]
    return TrendCellView(
        label=cell.label,
        charts=tuple(_chart(series, trend, own) for series in cell.series),
        changes=len(own),
    )


def _chart(series: TrendSeries, trend: Trend, changes: Sequence[TrendChange]) -> ChartView:
    own = [change.sweep_id for change in changes if change.measure is series.measure]
    first, last = series.points[0], series.points[-1]
    title = MEASURE_TITLES[series.measure]
    interval = interval_text(series.measure, last)
    newest = point_text(series.measure, last) + (f" ({interval})" if interval else "")
    low, high = lowest_and_highest(series)
    changed = f"; {format_count(len(own), 'change')}" if own else ""
    alt = (
        f"{title} over {len(series.points)} sweeps, from {date_text(first.planned_s)} to "
        f"{date_text(last.planned_s)}: {low} to {high}, newest {newest}{changed}"
    )
    return ChartView(title, _svg(series, trend, own, alt), f"newest {newest}{changed}")


def _svg(series: TrendSeries, trend: Trend, changes: Sequence[str], alt: str) -> str:
    """Return the chart: points with intervals, lines within segments, and marks at changes."""
    places = {sweep_id: place for place, sweep_id in enumerate(trend.sweeps)}
    last = max(len(trend.sweeps) - 1, 1)
    (low, high), label = _range(series.points), escape(alt, quote=True)

    def x(point: TrendPoint) -> float:
        return _LEFT + (_WIDTH - _LEFT - 6) * places[point.sweep_id] / last

    def y(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)

    parts = [
        f'<svg class="trend" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">',
        *_axis(series.measure, low, high),
    ]
    previous: TrendPoint | None = None
    for point in series.points:
        if previous is not None and previous.segment != point.segment:
            parts.append(_line("border", (x(previous) + x(point)) / 2))
        if previous is not None and point.sweep_id in changes:
            parts.append(_line("change", (x(previous) + x(point)) / 2))
        previous = point
    for points in _by_segment(series.points):
        line = " ".join(f"{x(point):.1f},{y(point.value):.1f}" for point in points)
        parts.append(f'<polyline points="{line}"/>')
        for point in points:
            if point.interval:
                ends = y(point.interval.low), y(point.interval.high)
                parts.append(
                    f'<line class="interval" x1="{x(point):.1f}" x2="{x(point):.1f}" '
                    f'y1="{ends[0]:.1f}" y2="{ends[1]:.1f}"/>'
                )
        parts += [
            f'<circle{_class(point)} cx="{x(point):.1f}" cy="{y(point.value):.1f}" r="2"/>'
            for point in points
        ]
    return "".join([*parts, "</svg>"])


def _class(point: TrendPoint) -> str:
    return ' class="overloaded"' if point.overloaded else ""


def _range(points: Sequence[TrendPoint]) -> tuple[float, float]:
    """Return the values at the bottom and the top: with room, and never of width 0."""
    if points[0].seen is not None:
        return 0.0, 1.0
    intervals = [point.interval for point in points if point.interval]
    low = min([*(point.value for point in points), *(one.low for one in intervals)])
    high = max([*(point.value for point in points), *(one.high for one in intervals)])
    room = 0.1 * (high - low) or 0.05 * abs(high) or 1.0
    return max(low - room, 0.0) if low >= 0 else low - room, high + room


def _axis(measure: TrendMeasure, low: float, high: float) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    yield f'<text x="{_LEFT - 6}" y="{_TOP + 8}">{value_text(measure, high)}</text>'
    yield f'<text x="{_LEFT - 6}" y="{bottom}">{value_text(measure, low)}</text>'
    yield f'<line class="axis" x1="{_LEFT}" x2="{_LEFT}" y1="{_TOP}" y2="{bottom}"/>'
    yield f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{bottom}" y2="{bottom}"/>'


def _line(kind: str, at: float) -> str:
    return f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{_HEIGHT - _BOTTOM}"/>'


def _by_segment(points: Sequence[TrendPoint]) -> list[list[TrendPoint]]:
    segments: dict[int, list[TrendPoint]] = {}
    for point in points:
        segments.setdefault(point.segment, []).append(point)
    return list(segments.values())
