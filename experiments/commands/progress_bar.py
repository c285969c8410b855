"""The progress bar of a run: trials done, time left, and the current trial with its stage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from experiments.sweep.progress import Progress, format_duration


class Bar:
    """Show progress on a terminal; without a terminal, print only the lines."""

    def __init__(self, live: Live | None, console: Console) -> None:
        self._live, self._console = live, console

    def show(self, progress: Progress) -> None:
        """Draw the progress."""
        if self._live:
            self._live.update(render_progress(progress))

    def print_line(self, text: str) -> None:
        """Print a line above the bar, with or without a terminal."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """Open the bar on stderr, if both stdout and stderr are terminals."""
    console = Console(stderr=True)
    if not (sys.stdout.isatty() and console.is_terminal):
        yield Bar(None, console)
        return
    with Live(
        console=console,
        transient=True,
        refresh_per_second=4,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as live:
        yield Bar(live, console)


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
        f"{format_duration(progress.remaining_s)} left",
    )
    what = f"{progress.trial}: {progress.activity}" if progress.trial else progress.activity
    return Group(line, Text(what, style="dim", no_wrap=True, overflow="ellipsis"))
