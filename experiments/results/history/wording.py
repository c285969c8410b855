"""How trends are worded: the same lines in the terminal, on pages and in alerts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final

from ackbench.experiments.messages.phrases import (
    HELD_SIGN,
    UNKNOWN_SIGN,
    VIOLATED_SIGN,
    decimal_text,
    format_count,
    shorten,
)
from ackbench.experiments.results.comparing.findings import SettingChange
from ackbench.experiments.results.history.change_points import MIN_PART
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.results.history.trend import (
    MEASURE_TITLES,
    Trend,
    TrendBoundary,
    TrendChange,
    TrendMeasure,
    TrendPoint,
    TrendSeries,
    UnusualValue,
)
from ackbench.experiments.results.wording import time_text

VERDICT_LEGEND: Final = (
    f"verdicts on what Kafka guarantees: {VIOLATED_SIGN} VIOLATED  {UNKNOWN_SIGN} unknown  "
    f"{HELD_SIGN} held"
)
_BARS: Final = "▁▂▃▄▅▆▇█"
_MOST_CHANGED: Final = 4
_NOTHING_CHANGED: Final = "no setting and no version changed"


def date_text(time_s: float) -> str:
    """Return the day of a time, UTC: `2026-01-02`."""
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d}"


def value_text(measure: TrendMeasure, value: float) -> str:
    """Return a value with its unit."""
    if measure.is_share:
        return f"{100 * value:.0f} %"
    return f"{decimal_text(value)} {'ms' if measure.is_time else '/s'}"


def point_text(measure: TrendMeasure, point: TrendPoint) -> str:
    """Return the value of a sweep with its unit, marked if it is of an overloaded machine."""
    return time_text(value_text(measure, point.value), overloaded=point.overloaded)


def lowest_and_highest(series: TrendSeries) -> tuple[str, str]:
    """Return the lowest and the highest value of a series, each marked as `point_text` does."""
    value_of = attrgetter("value")
    low, high = (extreme(series.points, key=value_of) for extreme in (min, max))
    return point_text(series.measure, low), point_text(series.measure, high)


def interval_text(measure: TrendMeasure, point: TrendPoint) -> str:
    """Return the 95 % interval of a point, in the unit of its value; empty: it has none."""
    if point.interval is None:
        return ""
    low, high = point.interval.low, point.interval.high
    if measure.is_share:
        return f"{100 * low:.0f}-{100 * high:.0f} %"
    return f"{decimal_text(low)}-{decimal_text(high)}"


def series_line(values: Sequence[float]) -> str:
    """Return a series as a row of bars, from its lowest to its highest value."""
    low, high = min(values), max(values)
    if low == high:
        return _BARS[0] * len(values)
    top = len(_BARS) - 1
    return "".join(_BARS[round((value - low) / (high - low) * top)] for value in values)


def trend_head(found: Trend) -> Iterator[str]:
    """Yield what a trend is made of, and how far its changes can be trusted."""
    points = [point for cell in found.cells for series in cell.series for point in series.points]
    begin, end = (extreme(point.planned_s for point in points) for extreme in (min, max))
    yield (
        f"{found.experiment}: {format_count(len(found.sweeps), 'sweep')}, "
        f"{date_text(begin)} to {date_text(end)}"
    )
    if not found.tests:
        yield (
            "no cell has enough sweeps on one machine with the same settings to test for a change: "
            f"{2 * MIN_PART} are needed"
        )
        return
    yield (
        f"{format_count(len(found.changes), 'change')} in {format_count(found.tests, 'test')}; "
        f"of histories without a change, at most {100 * found.false_alarms:.0f} % show one"
    )


def change_line(change: TrendChange) -> str:
    """Return a change with its sweep, and what changed with it."""
    title = MEASURE_TITLES[change.measure]
    levels = (
        f"{value_text(change.measure, change.before)} -> {value_text(change.measure, change.after)}"
    )
    ratio = change.ratio
    relative = "" if change.measure.is_share or ratio is None else f" ({100 * (ratio - 1):+.1f} %)"
    return (
        f"{date_text(change.planned_s)} {'worse' if change.worse else 'better'}: {title} "
        f"{levels}{relative}, {change.cell}, from {change.sweep_id} on "
        f"(Kafka {change.version}, p {change.p_value:.2g}, "
        f"{change.sweeps_before} sweeps before, {change.sweeps_after} after): "
        f"{cause_text(change)}"
    )


def cause_text(change: TrendChange) -> str:
    """Return what changed together with a figure, and whether the machine may be the cause."""
    changed = f"with {changed_text(change.changed)}" if change.changed else _NOTHING_CHANGED
    return f"{changed}{_overload_text(change)}"


def _overload_text(found: TrendChange | UnusualValue) -> str:
    if not found.overloaded_sweeps:
        return ""
    return f"; the machine was overloaded in {format_count(found.overloaded_sweeps, 'sweep')}"


def changed_text(changed: Sequence[SettingChange]) -> str:
    """Return settings with their old and new values."""
    texts = [
        f"{one.scope} {one.name} {shorten(one.a)} -> {shorten(one.b)}"
        for one in changed[:_MOST_CHANGED]
    ]
    more = len(changed) - len(texts)
    return ", ".join([*texts, *([f"{more} more"] if more else [])])


def boundary_line(boundary: TrendBoundary, cells: int) -> str:
    """Return what changed before a sweep.

    Args:
        boundary: the sweep.
        cells: how many cells the trend has.
    """
    where = (
        "" if len(boundary.cells) == cells else f" in {format_count(len(boundary.cells), 'cell')}"
    )
    rest = "; figures before and after are not compared" if boundary.machine else ""
    return (
        f"{date_text(boundary.planned_s)} {boundary.sweep_id}{where}: "
        f"{changed_text(boundary.changed)}{rest}"
    )


def unusual_line(unusual: UnusualValue) -> str:
    """Return an unusual value of the newest sweep."""
    title = MEASURE_TITLES[unusual.measure]
    value, limit = (value_text(unusual.measure, one) for one in (unusual.value, unusual.limit))
    expected = "before:" if unusual.measure.is_share else "expected at worst:"
    return (
        f"worse than the trend: {title} {value} in {unusual.sweep_id}, {unusual.cell} "
        f"({expected} {limit}, from {unusual.sweeps_before} sweeps{_overload_text(unusual)})"
    )


def when_text(time_s: float, *, seconds: bool = False) -> str:
    """Return a time, UTC: `2026-01-02 03:04`, or `2026-01-02T03:04:05Z` to the second."""
    at = datetime.fromtimestamp(time_s, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%SZ}" if seconds else f"{at:%Y-%m-%d %H:%M}"


def versions_text(versions: Sequence[str]) -> str:
    """Return versions in few characters: the only one, or the first and the last."""
    if len(versions) > 2:  # noqa: PLR2004 - two fit
        return f"{versions[0]}..{versions[-1]}"
    return ", ".join(versions)


def verdicts_text(summary: SweepSummary) -> str:
    """Return how many guarantees were violated, unknown and held, without zeros."""
    counts = (
        (summary.violated, VIOLATED_SIGN),
        (summary.unknown, UNKNOWN_SIGN),
        (summary.held, HELD_SIGN),
    )
    return " ".join(f"{count}{sign}" for count, sign in counts if count)
