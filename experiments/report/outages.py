"""A bar for each outage, made of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from experiments.ledger.measured import Mark
from experiments.report.drawing import BLUE, FAINT, GREEN, INK, ORANGE, SKY, figure, seconds_axis, svg, write
from experiments.results.outages import PARTS, Outage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW_IN: Final = 0.2
_FRAME_IN: Final = 0.85
_COLOURS: Final = {Mark.DETECTED: ORANGE, Mark.ELECTED: BLUE, Mark.LEARNED: SKY, Mark.FIRST_AFTER: GREEN}


def outages_chart(rows: Sequence[tuple[str, Outage | str]], name: str, alt: str) -> str:
    """Return a bar for each outage, under its cell's name.

    Args:
        rows: from above: a row's name and its outage, or a cell's name and "" as a heading.
        name: unique in the page.
        alt: what is to be seen.
    """
    drawn, axes = figure(_FRAME_IN + _ROW_IN * len(rows))
    told: set[Mark] = set()
    for place, (title, outage) in enumerate(rows):
        if isinstance(outage, str):
            write(axes, (0, place), title)
            continue
        for part in outage.parts:
            colour = _COLOURS[part.mark] if outage.apart else FAINT
            axes.barh(place, part.lasted_ms, left=part.from_ms, height=0.72, color=colour)
            told |= {part.mark} if outage.apart else set()
        length = f"{'' if outage.answered else '> '}{outage.length_ms:,.0f}"
        axes.annotate(length, (outage.length_ms, place), xytext=(3, 0), textcoords="offset points", fontsize=8.5, color=INK, va="center")
    longest = max((outage.length_ms for _, outage in rows if isinstance(outage, Outage)), default=1.0)
    axes.set_xlim(0, longest * 1.14 or 1.0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks([])
    seconds_axis(axes, "ms after the last record before the outage")
    _legend(drawn, [mark for mark in PARTS if mark in told], whole=any(isinstance(outage, Outage) and not outage.apart for _, outage in rows))
    return svg(drawn, name, alt)


def _legend(drawn: Figure, marks: Sequence[Mark], *, whole: bool) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=_COLOURS[mark], label=PARTS[mark]) for mark in marks]
    handles += [Patch(facecolor=FAINT, label="not taken apart")] if whole else []
    drawn.legend(handles=handles, loc="outside upper left", ncols=2, frameon=False, fontsize=9, handlelength=1.4, columnspacing=1.2, borderpad=0)
