"""Loss and duplicates with their intervals: in how many trials of a cell, and how many records in each trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from experiments.ledger.result_tables import OutageStep
from experiments.lessons.finding import format_percent
from experiments.report.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    SKY,
    VERMILLION,
    figure,
    row_in,
    rows_axis,
    seconds_axis,
    svg,
    write,
)
from experiments.results.outages import PART_NAMES, Outage
from experiments.verdicts.statistics import Share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAME_IN: Final = 0.55
LINEAR_TO: Final = 10
"""Records up to which the axis is linear: 0 must be on it."""
SPREAD: Final = 0.11
"""How far apart dots of one cell stand that would cover each other."""


@dataclass(frozen=True)
class ShareBar:
    """A cell's share of trials in which something was seen."""

    name: str
    share: Share


@dataclass(frozen=True)
class CountBar:
    """A cell's counts, one a trial: at least and at most so many records."""

    name: str
    counts: tuple[tuple[int, int], ...]


def shares_chart(rows: Sequence[ShareBar], name: str, alt: str) -> str:
    """Return dots with their intervals, a row a cell, on an axis from 0 to 100 % of the trials."""
    drawn, axes = figure(_FRAME_IN + row_in(row.name for row in rows) * len(rows))
    for place, row in enumerate(rows):
        value, interval = row.share.seen / max(row.share.of, 1), row.share.interval
        colour = VERMILLION if row.share.seen else BLUE
        axes.hlines(place, interval.low, interval.high, color=colour, linewidth=1.6)
        axes.vlines(
            [interval.low, interval.high], place - 0.14, place + 0.14, color=colour, linewidth=1.2
        )
        axes.plot(
            value,
            place,
            "o" if row.share.seen else "D",
            color=colour,
            markersize=5.5,
            clip_on=False,
        )
        _title(axes, place, row.name, f"{row.share.seen} of {row.share.of}")
    axes.set_xlim(0, 1)
    axes.set_xticks(
        [0, 0.25, 0.5, 0.75, 1], [format_percent(tick) for tick in (0, 0.25, 0.5, 0.75, 1)]
    )
    rows_axis(axes, len(rows))
    axes.set_xlabel("share of the trials, with its 95 % interval")
    return svg(drawn, name, alt)


def counts_chart(rows: Sequence[CountBar], name: str, label: str, alt: str) -> str:
    """Return a dot for each trial, a row a cell; a line leads to what it may have been at most."""
    drawn, axes = figure(_FRAME_IN + row_in(row.name for row in rows) * len(rows))
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
        _title(axes, place, row.name, "")
    largest = max((high for row in rows for _, high in row.counts), default=0)
    _counts_axis(axes, largest)
    rows_axis(axes, len(rows))
    axes.set_xlabel(label)
    return svg(drawn, name, alt)


def _counts_axis(axes: Axes, largest: int) -> None:
    """Give the axis a decade a step, and 0 its place."""
    axes.set_xscale("symlog", linthresh=LINEAR_TO, linscale=0.6)
    ticks = [0, 10]
    while ticks[-1] < largest:
        ticks.append(ticks[-1] * 10)
    axes.set_xlim(0, ticks[-1])
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()


def _title(axes: Axes, place: float, name: str, told: str) -> None:
    write(axes, (0, place - 0.24), name, above=True)
    write(axes, (1, place - 0.24), told, above=True, right=True)


# ---------- A bar for each outage, made of its parts.


if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW_IN: Final = 0.2
_FRAME_IN_OUTAGES: Final = 0.85
_COLOURS: Final = {
    OutageStep.DETECTED: ORANGE,
    OutageStep.ELECTED: BLUE,
    OutageStep.LEARNED: SKY,
    OutageStep.FIRST_AFTER: GREEN,
}


def outages_chart(rows: Sequence[tuple[str, Outage | str]], name: str, alt: str) -> str:
    """Return a bar for each outage, under its cell's name.

    Args:
        rows: from above: a row's name and its outage, or a cell's name and "" as a heading.
        name: unique in the page.
        alt: what is to be seen.
    """
    drawn, axes = figure(_FRAME_IN_OUTAGES + _ROW_IN * len(rows))
    told: set[OutageStep] = set()
    for place, (title, outage) in enumerate(rows):
        if isinstance(outage, str):
            write(axes, (0, place), title)
            continue
        for part in outage.parts:
            colour = _COLOURS[part.mark] if outage.apart else FAINT
            axes.barh(place, part.lasted_ms, left=part.from_ms, height=0.72, color=colour)
            told |= {part.mark} if outage.apart else set()
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
    longest = max(
        (outage.length_ms for _, outage in rows if isinstance(outage, Outage)), default=1.0
    )
    axes.set_xlim(0, longest * 1.14 or 1.0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks([])
    seconds_axis(axes, "ms after the last record before the outage")
    _legend(
        drawn,
        [mark for mark in PART_NAMES if mark in told],
        whole=any(isinstance(outage, Outage) and not outage.apart for _, outage in rows),
    )
    return svg(drawn, name, alt)


def _legend(drawn: Figure, marks: Sequence[OutageStep], *, whole: bool) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=_COLOURS[mark], label=PART_NAMES[mark]) for mark in marks]
    handles += [Patch(facecolor=FAINT, label="not taken apart")] if whole else []
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
