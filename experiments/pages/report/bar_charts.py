"""Charts with one row per cell or trial: shares of trials, counts of records, and outages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ackbench.experiments.ledger.result_terms import OutageStep
from ackbench.experiments.pages.report.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    SKY,
    VERMILLION,
    new_figure,
    rows_height_in,
    style_rows_axis,
    style_time_axis,
    to_svg,
    write_label,
)
from ackbench.experiments.results.lessons.finding import format_percent
from ackbench.experiments.results.outages import Outage
from ackbench.experiments.verdicts.statistics import Share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAME_IN: Final = 0.55
"""Height of the x axis and its label, inches."""
LINEAR_TO: Final = 10
"""A logarithmic axis of records is linear up to this value, so that it includes 0."""
_TITLE_ABOVE: Final = 0.24
"""Distance of a row's title above the row's mark, in rows."""
SPREAD: Final = 0.11
"""Vertical distance between dots of one row, so that equal values do not hide each other."""


@dataclass(frozen=True)
class ShareBar:
    """The share of a cell's trials in which something was observed."""

    name: str
    share: Share


@dataclass(frozen=True)
class CountBar:
    """A cell's counts of records, one per trial, as lower and upper bound."""

    name: str
    counts: tuple[tuple[int, int], ...]


def shares_chart(rows: Sequence[ShareBar], name: str, alt: str) -> str:
    """Return a chart of shares with their intervals, one row per cell, from 0 to 100 %."""
    drawn, axes = new_figure(FRAME_IN + rows_height_in([row.name for row in rows]))
    for place, row in enumerate(rows):
        interval = row.share.interval
        colour = VERMILLION if row.share.seen else BLUE
        axes.hlines(place, interval.low, interval.high, color=colour, linewidth=1.6)
        axes.vlines(
            [interval.low, interval.high], place - 0.14, place + 0.14, color=colour, linewidth=1.2
        )
        if row.share.of:  # no dot if no trial can tell
            axes.plot(
                row.share.seen / row.share.of,
                place,
                "o" if row.share.seen else "D",
                color=colour,
                markersize=5.5,
                clip_on=False,
            )
        write_row_title(axes, place, row.name, row.share.counts)
    axes.set_xlim(0, 1)
    axes.set_xticks(
        [0, 0.25, 0.5, 0.75, 1], [format_percent(tick) for tick in (0, 0.25, 0.5, 0.75, 1)]
    )
    style_rows_axis(axes, len(rows))
    axes.set_xlabel("share of trials, with 95 % interval")
    return to_svg(drawn, name, alt)


def counts_chart(rows: Sequence[CountBar], name: str, label: str, alt: str) -> str:
    """Return a chart of counts: one row per cell, one dot per trial, a line to the upper bound."""
    drawn, axes = new_figure(FRAME_IN + rows_height_in([row.name for row in rows]))
    for place, row in enumerate(rows):
        for number, (low, high) in enumerate(sorted(row.counts)):
            height = place + SPREAD * ((number % 3) - 1)
            axes.hlines(height, low, high, color=FAINT, linewidth=0.9)
            axes.plot(
                low,
                height,
                "o",
                color=VERMILLION if low else BLUE,
                markersize=5,
                alpha=0.75,
                markeredgewidth=0,
                clip_on=False,
            )
        write_row_title(axes, place, row.name)
    largest = max((high for row in rows for _, high in row.counts), default=0)
    _counts_axis(axes, largest)
    style_rows_axis(axes, len(rows))
    axes.set_xlabel(label)
    return to_svg(drawn, name, alt)


def _counts_axis(axes: Axes, largest: int) -> None:
    """Use a logarithmic axis with one tick per decade, which includes 0."""
    axes.set_xscale("symlog", linthresh=LINEAR_TO, linscale=0.6)
    ticks = [0, 10]
    while ticks[-1] < largest:
        ticks.append(ticks[-1] * 10)
    axes.set_xlim(0, ticks[-1])
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()


def write_row_title(axes: Axes, row: float, name: str, value: str = "") -> None:
    """Write a row's name above it on the left, and its value on the right."""
    write_label(axes, (0, row - _TITLE_ABOVE), name, above=True)
    write_label(axes, (1, row - _TITLE_ABOVE), value, above=True, right=True)


# Outages

_MAX_COLUMN_CHARACTERS: Final = 30
"""Characters of a label in a legend with two columns."""
_OUTAGE_ROW_IN: Final = 0.2
_OUTAGE_FRAME_IN: Final = 0.85
STEP_LABELS: Final = {
    OutageStep.DETECTED: "broker fenced",
    OutageStep.ELECTED: "new leader elected",
    OutageStep.LEARNED: "client knows the leader",
    OutageStep.FIRST_AFTER: "records flow again",
}
"""The step that ends each part; two labels fit side by side into the legend."""
_STEP_COLOURS: Final = {
    OutageStep.DETECTED: ORANGE,
    OutageStep.ELECTED: BLUE,
    OutageStep.LEARNED: SKY,
    OutageStep.FIRST_AFTER: GREEN,
}


def outages_chart(rows: Sequence[tuple[str, Outage | str]], name: str, alt: str) -> str:
    """Return a chart with one bar per outage, split into its parts, below the name of its cell.

    Args:
        rows: from top to bottom: a trial id and its outage, or a cell's name and "" as a heading.
        name: unique in the page.
        alt: the chart's content in words.
    """
    drawn, axes = new_figure(_OUTAGE_FRAME_IN + _OUTAGE_ROW_IN * len(rows))
    outages = [outage for _, outage in rows if isinstance(outage, Outage)]
    for place, (title, outage) in enumerate(rows):
        if isinstance(outage, str):
            write_label(axes, (0, place), title)
            continue
        for part in outage.parts:
            colour = _STEP_COLOURS[part.step] if outage.is_split else FAINT
            axes.barh(place, part.lasted_ms, left=part.from_ms, height=0.72, color=colour)
        length = f"{'' if outage.answered else '> '}{outage.length_ms:,.0f}"
        axes.annotate(
            length,
            (outage.length_ms, place),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=8.5,
            color=INK,
            va="center",
        )
    longest = max((outage.length_ms for outage in outages), default=1.0)
    axes.set_xlim(0, longest * 1.14 or 1.0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks([])
    style_time_axis(axes, "ms after the last record before the outage")
    steps = {part.step for outage in outages if outage.is_split for part in outage.parts}
    entries = {label: _STEP_COLOURS[step] for step, label in STEP_LABELS.items() if step in steps}
    if not all(outage.is_split for outage in outages):
        entries["not split"] = FAINT
    write_legend(drawn, entries)
    return to_svg(drawn, name, alt)


def legend_columns(labels: Collection[str]) -> int:
    """Return the number of columns of a legend: one if two labels do not fit side by side."""
    longest = max(map(len, labels), default=0)
    return 1 if longest > _MAX_COLUMN_CHARACTERS else 2


def write_legend(drawn: Figure, entries: Mapping[str, str]) -> None:
    """Write a legend of filled colours above the chart.

    Args:
        drawn: the figure.
        entries: colour by label.
    """
    from matplotlib.patches import Patch

    drawn.legend(
        handles=[Patch(facecolor=colour, label=label) for label, colour in entries.items()],
        loc="outside upper left",
        ncols=legend_columns(entries),
        frameon=False,
        fontsize=9,
        handlelength=1.4,
        columnspacing=1.2,
        borderpad=0,
    )
