"""Text of others in Markdown: it is shown as it is, and makes no element of its own.

CommonMark 0.31 (§2.4: any punctuation can be escaped) and GitHub's extensions: tables,
strikethrough, formulas and links without brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.messages.visible import visible

_SPECIAL: Final = re.compile(
    r"[\\|*_`<>\[\]~#$]"
    r"|&(?=#?\w+;)"  # an entity
    r"|(?<=\w)@(?=\w)"  # an address of mail
    r"|:(?=//)"
    r"|(?<=\bwww)\."
)
_BEGINNING: Final = re.compile(r"^(?P<digits>\d*)(?P<sign>[-+=:.)])")
"""What begins a list, an underline of a heading or a row of a table."""
_BACKTICKS: Final = re.compile("`+")


def escaped(text: str) -> str:
    """Return text in one line in which Markdown sees no HTML, table, link or emphasis."""
    line = _SPECIAL.sub(r"\\\g<0>", one_line(visible(text)))
    return _BEGINNING.sub(r"\g<digits>\\\g<sign>", line, count=1)


def code_span(text: str) -> str:
    """Return text in one line as code."""
    line = one_line(visible(text))
    fence = _longer_than_any_in(line, 1)
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def code_block(text: str) -> str:
    """Return lines of text as code."""
    shown = visible(text)
    fence = _longer_than_any_in(shown, 3)
    return f"{fence}\n{shown}\n{fence}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, of texts that are Markdown already."""
    yield _row(heads)
    yield "|---" * len(heads) + "|"
    yield from map(_row, rows)


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _longer_than_any_in(text: str, least: int) -> str:
    """Return a run of backticks that ends at none of the text's own."""
    return "`" * max([least, *(len(found) + 1 for found in _BACKTICKS.findall(text))])
