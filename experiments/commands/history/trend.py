"""`ackbench trend`: an experiment over time, as tables, as JSON, as a page."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table

from ackbench.experiments.commands.history.sweeps import announce_summaries, history_store, why_none
from ackbench.experiments.messages.console import console_for_results, print_text, result_table
from ackbench.experiments.messages.errors import NotComparable, UnknownName
from ackbench.experiments.messages.terminal import echo_json
from ackbench.experiments.results.history.index import IndexFilter, has_words, index
from ackbench.experiments.results.history.kept import complete_summaries
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.results.history.trend import (
    MEASURE_TITLES,
    Trend,
    TrendCell,
    trend_of,
    uncollected,
)
from ackbench.experiments.results.history.wording import (
    boundary_line,
    change_line,
    interval_text,
    lowest_and_highest,
    point_text,
    series_line,
    trend_head,
    unusual_line,
)
from ackbench.experiments.results.wording import LEGEND_OF_OVERLOAD
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from ackbench.experiments.ledger.location import Location

_BARS_NARROW, _BARS_WIDE = 9, 40
"""How many of the newest sweeps the small chart of a row has, by the width of the terminal."""
_WIDE: Final = 120


@uncollected()  # until nothing refers to the points any more
def trend(
    home: Home, wanted: IndexFilter, store: str | None, *, as_json: bool, html: Path | None
) -> int:
    """Print the trend of an experiment.

    Args:
        home: the home of its sweeps.
        wanted: the experiment; optionally a version, and words of the cells to show.
        store: as of `history_store`.
        as_json: print JSON instead of tables.
        html: also write a page to this file.

    Raises:
        UnknownName: there is no sweep of the experiment, or no such cell.
        NotComparable: there is only one.
        StorageError: the named store cannot be read.
    """
    with history_store(store) as shared:
        found = read_trend(home, wanted, shared)
    if html:
        from ackbench.experiments.pages.site.trend_page import render_trend

        replace_file(html, render_trend(found))
    if as_json:
        echo_json(found.to_json())
    else:
        _print(found)
    return 0


def read_trend(home: Home, wanted: IndexFilter, store: Location | None = None) -> Trend:
    """Return the trend of an experiment, with only the wanted cells.

    Raises:
        UnknownName: there is no sweep of the experiment, or no such cell.
        NotComparable: there is only one with results.
    """
    name = wanted.experiment
    of_experiment = IndexFilter(name, wanted.version)
    everything = index(home, of_experiment, announce_summaries(), store=store, details=False)
    if not everything:
        raise UnknownName(why_none(home, of_experiment, store))
    chosen = _ChosenCells(wanted.cell)
    summaries = complete_summaries(home, [one.summary for one in everything])
    found = trend_of(map(chosen.of, summaries))
    if chosen.measured < 2:  # noqa: PLR2004 - a trend has a before and an after
        raise NotComparable(
            f"a trend needs at least 2 sweeps with results; {name} has {chosen.measured}: "
            f"`ackbench show {name}` shows the newest"
        )
    if not found.sweeps:
        raise UnknownName(
            f"no cell has the words {' '.join(wanted.cell)}; cells: {'; '.join(chosen.labels)}"
        )
    return found


@dataclass
class _ChosenCells:
    """Chooses the cells with certain words of one summary after the other."""

    words: Sequence[str]
    measured: int = 0
    """Summaries with results so far."""
    labels: Sequence[str] = ()
    """The cells of the last one."""

    def of(self, summary: SweepSummary) -> SweepSummary:
        """Return a summary with only the wanted cells."""
        if summary.cells:
            self.measured += 1
        if not self.words:
            return summary
        if summary.cells:
            self.labels = [cell.label for cell in summary.cells if not cell.added]
        cells = tuple(cell for cell in summary.cells if has_words(self.words, cell))
        return summary.model_copy(update={"cells": cells})


def _print(found: Trend) -> None:
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    for line in trend_head(found):
        print_text(console, line, wrap=terminal)
    for cell in found.cells:
        console.print()
        console.print(_table(cell, console.width))
    console.print()
    for line in _lines(found):
        print_text(console, line, wrap=terminal)
    for change in found.changes:
        style = "bold red" if change.worse else "green"
        print_text(console, change_line(change), wrap=terminal, style=style)
    for unusual in found.unusual:
        print_text(console, unusual_line(unusual), wrap=terminal, style="bold red")
    if not found.changes:
        print_text(console, "no change found", wrap=terminal, style="bold")


def _lines(found: Trend) -> Iterator[str]:
    if found.overloaded:
        yield LEGEND_OF_OVERLOAD
    for boundary in found.boundaries:
        yield boundary_line(boundary, len(found.cells))


def _table(cell: TrendCell, width: int) -> Table:
    table = result_table(cell.label)
    table.add_column("", no_wrap=True)
    for head in ("lowest", "highest", "newest", "95 % interval"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("over time")
    bars = _BARS_WIDE if width >= _WIDE else _BARS_NARROW
    for series in cell.series:
        table.add_row(
            MEASURE_TITLES[series.measure],
            *lowest_and_highest(series),
            point_text(series.measure, series.points[-1]),
            interval_text(series.measure, series.points[-1]),
            series_line([point.value for point in series.points[-bars:]]),
        )
    return table
