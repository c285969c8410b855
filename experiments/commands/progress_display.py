"""The progress of a run: a bar on a terminal, and elsewhere a line per trial and per stage."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ackbench.experiments.messages.console import TerminalConsole
from ackbench.experiments.sweep.progress import Progress, format_duration


class ProgressDisplay(Protocol):
    """Shows the progress of a run, and lines for the user."""

    def show(self, progress: Progress) -> None:
        """Show what has changed since the last call, which may be nothing."""

    def print_line(self, text: str) -> None:
        """Print a line that stays, so not where the progress is drawn."""


class Bar:
    """Shows progress on a terminal, in two lines that are drawn again and again."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, progress: Progress) -> None:
        """Draw the progress."""
        self._live.update(render_progress(progress))

    def print_line(self, text: str) -> None:
        """Print a line above the bar."""
        _print(self._live.console, text)


class Lines:
    """Prints a line for each trial that has ended, and for each stage that has begun.

    Args:
        console: where the lines go.
        clock: returns the local time that stands before each line.
    """

    def __init__(self, console: Console, clock: Callable[[], datetime] = datetime.now) -> None:
        self._console, self._clock = console, clock
        self._stage = ""

    def show(self, progress: Progress) -> None:
        """Print what has happened since the progress was shown last."""
        first = progress.done - len(progress.ended) + 1
        for number, trial in enumerate(progress.ended, first):
            self.print_line(
                f"{number}/{progress.total} {trial.outcome}: {trial.label}{_left(progress)}"
            )
        if progress.trial is None and progress.activity != self._stage:
            self._stage = progress.activity
            self.print_line(f"{self._stage}{_left(progress)}")

    def print_line(self, text: str) -> None:
        """Print a line with the time before it."""
        _print(self._console, f"{self._clock():%H:%M:%S} {text}")


def _print(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True)


@contextmanager
def progress_display() -> Iterator[ProgressDisplay]:
    """Open the display on stderr: a bar if both stdout and stderr are terminals, else lines."""
    console = TerminalConsole(stderr=True)
    if not (sys.stdout.isatty() and console.is_terminal):
        yield Lines(console)
        return
    with Live(
        console=console,
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as live:
        yield Bar(live)


def render_progress(progress: Progress) -> Group:
    """Return the bar's two lines, cut at the terminal's width and never wrapped."""
    counts = f"{progress.done}/{progress.total} trials" + (
        f", {progress.failed} failed" if progress.failed else ""
    )
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(no_wrap=True)
    line.add_column(ratio=1)
    line.add_column(no_wrap=True, justify="right")
    line.add_row(
        counts,
        ProgressBar(total=max(progress.total, 1), completed=progress.done),
        f"{format_duration(progress.elapsed_s)}{_left(progress)}",
    )
    activity = f"{progress.activity} ({format_duration(progress.activity_s)})"
    what = f"{activity}: {progress.trial}" if progress.trial else activity
    return Group(line, Text(what, style="dim", no_wrap=True, overflow="ellipsis"))


def _left(progress: Progress) -> str:
    if progress.remaining_s is None:
        return ""
    return f", {format_duration(progress.remaining_s)} left"
