"""Outages taken apart: how long until it was noticed, until another replica led, until the client knew, until a record was acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from experiments.ledger.measured import Mark, Side
from experiments.ledger.record import TrialRecord
from experiments.report.drawing import BLUE, FAINT, GREEN, INK, ORANGE, SKY, figure, seconds_axis, svg, write
from experiments.results.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NS_PER_MS: Final = 1e6
_ROW_IN: Final = 0.2
_FRAME_IN: Final = 0.85

PARTS: Final[Mapping[Mark, str]] = {
    Mark.DETECTED: "until the controller noticed",
    Mark.ELECTED: "until another replica led",
    Mark.LEARNED: "until the client knew",
    Mark.FIRST_AFTER: "until records flowed again",
}
"""What ends at each mark."""
_COLOURS: Final = {Mark.DETECTED: ORANGE, Mark.ELECTED: BLUE, Mark.LEARNED: SKY, Mark.FIRST_AFTER: GREEN}


@dataclass(frozen=True)
class Part:
    """A stretch of an outage, milliseconds after the last record before it."""

    mark: Mark
    """What ended it."""
    from_ms: float
    to_ms: float


@dataclass(frozen=True)
class Outage:
    """A partition's longest gap, by the marks that were seen; one that was not seen has no part, and its time is in the next one's."""

    trial_id: str
    partition: int
    side: Side
    parts: tuple[Part, ...]
    answered: bool
    """Something flowed again; else it lasted until nothing was due any more."""
    disordered: tuple[Mark, ...]
    """Seen before the mark that should come before them; they end no part."""
    resolutions_ms: Mapping[Mark, float]

    @property
    def length_ms(self) -> float:
        """From the last record before, or the load's begin, to the first one after, or the settling."""
        return self.parts[-1].to_ms

    @property
    def apart(self) -> bool:
        """Whether a mark within was seen."""
        return len(self.parts) > 1


def outages_of(record: TrialRecord, rows: Sequence[Row]) -> list[Outage]:
    """Return a trial's outages, one for each partition and side, from rows of the table `outages`; the longest first."""
    marks: dict[tuple[int, Side], dict[Mark, Row]] = {}
    for row in rows:
        marks.setdefault((row["partition"], Side(row["side"])), {})[Mark(row["mark"])] = row
    found = [_outage(record, partition, side, of) for (partition, side), of in marks.items()]
    return sorted(found, key=lambda outage: (-outage.length_ms, outage.partition, outage.side))


def _outage(record: TrialRecord, partition: int, side: Side, marks: Mapping[Mark, Row]) -> Outage:
    at_ns = {mark: row["at_ns"] for mark, row in marks.items() if row["at_ns"] is not None}
    answered = Mark.FIRST_AFTER in at_ns
    begin_ns = at_ns.get(Mark.LAST_BEFORE, record.phases.load_begin_ns)
    end_ns = at_ns.setdefault(Mark.FIRST_AFTER, record.phases.settled_ns)
    parts: list[Part] = []
    disordered: list[Mark] = []
    for mark in (mark for mark in PARTS if mark in at_ns):
        came_ms, to_ms = (parts[-1].to_ms if parts else 0.0), (at_ns[mark] - begin_ns) / _NS_PER_MS
        if came_ms <= to_ms and at_ns[mark] <= end_ns:
            parts.append(Part(mark, came_ms, to_ms))
        else:
            disordered.append(mark)
    resolutions_ms = {mark: row["resolution_ns"] / _NS_PER_MS for mark, row in marks.items() if row["resolution_ns"] is not None}
    return Outage(record.trial_id, partition, side, tuple(parts) or (Part(Mark.FIRST_AFTER, 0.0, 0.0),), answered, tuple(disordered), resolutions_ms)


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
            axes.barh(place, part.to_ms - part.from_ms, left=part.from_ms, height=0.72, color=colour)
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
