"""A console of rich's that shows text of others as it is, and never acts on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ackbench.experiments.messages.visible import visible

PIPED_WIDTH: Final = 160
"""The width of the output if it is not a terminal."""


class TerminalConsole(Console):
    """Prints strings without markup, emoji codes, highlighting or control characters.

    Its arguments are those of `rich.console.Console`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as rich lays it out."""
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the parts of the output; rich's own control codes are segments of their own."""
        for segment in super().render(renderable, options):
            yield (
                segment if segment.control else Segment(visible(segment.text), segment.style, None)
            )


def console_for_results(*, terminal: bool) -> Console:
    """Return the console for results: with colours on a terminal, else plain and wide."""
    if terminal:
        return TerminalConsole()
    return TerminalConsole(width=PIPED_WIDTH, color_system=None, force_terminal=False)


def result_table(title: str | None = None) -> Table:
    """Return an empty table of results: a rule below the heads, and no frame."""
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
        title_style="bold",
    )


def print_text(console: Console, text: str, *, wrap: bool, style: str | None = None) -> None:
    """Print text, wrapped between words or not at all."""
    console.print(text, soft_wrap=not wrap, style=style)
