"""Counts, lists, values and suggestions, as messages and reports write them. Pure."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

_MAX_LISTED_NAMES: Final = 8
_PARTS: Final = re.compile(r"[._-]")
_MAX_VALUE_CHARACTERS: Final = 60
_MAX_WORD_CHARACTERS: Final = 200
_MAX_LINE_CHARACTERS: Final = 2000
HELD_SIGN, VIOLATED_SIGN, UNKNOWN_SIGN = "✓", "✗", "?"
"""Signs of verdicts."""
_DECIMALS_BELOW: Final = 100
_BYTE_UNITS: Final = ("B", "kB", "MB", "GB", "TB")
_THOUSAND: Final = 1000
_WHOLE_FROM: Final = 10
"""Sizes from here on are written without a decimal, in any unit."""


def plural(number: int, noun: str) -> str:
    """Return the noun in its singular or plural form: `cell`, `cells`."""
    return noun if number == 1 else f"{noun}s"


def format_count(number: int, noun: str) -> str:
    """Return a count with its noun: `1 cell`, `2 cells`."""
    return f"{number:,} {plural(number, noun)}"


def format_bytes(size_bytes: float) -> str:
    """Return a size in decimal units with at most three digits: `950 kB`, `1.2 GB`."""
    size, place = float(size_bytes), 0
    while size >= _THOUSAND - 0.5 and place < len(_BYTE_UNITS) - 1:
        size, place = size / _THOUSAND, place + 1
    digits = 1 if place and size < _WHOLE_FROM else 0
    return f"{size:.{digits}f} {_BYTE_UNITS[place]}"


def decimal_text(value: float) -> str:
    """Return a number with one decimal below 100, and with none from 100 up."""
    return f"{value:,.1f}" if abs(value) < _DECIMALS_BELOW else f"{value:,.0f}"


def format_list(parts: Sequence[str], conjunction: str = "and") -> str:
    """Return the parts as a phrase: `a`, `a and b`, or `a, b and c`."""
    heads = ", ".join(parts[:-1])
    return f" {conjunction} ".join(part for part in (heads, *parts[-1:]) if part)


def list_some(parts: Sequence[str], most: int = 5) -> str:
    """Return the parts with commas; of more than `most`, the first ones and how many others."""
    listed = ", ".join(parts[:most])
    others = len(parts) - most
    return f"{listed} and {format_count(others, 'other')}" if others > 0 else listed


def format_value(value: Any) -> str:
    """Return a value as it looks in YAML, shortened to 60 characters; `None` is `nothing`."""
    if value is None:
        text = "nothing"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    else:
        text = repr(value)
    return shorten(text)


def shorten(text: str, most_characters: int = _MAX_VALUE_CHARACTERS) -> str:
    """Return the text, or its beginning with an ellipsis if it is longer than that."""
    if len(text) <= most_characters:
        return text
    return text[: most_characters - 3] + "..."


def one_line(text: str) -> str:
    """Return the text with each run of white space replaced by one space."""
    return " ".join(text.split())


def wrap_line(line: str, columns: int, indent: str = "") -> list[str]:
    """Return a line broken between words; an empty one for a line without words.

    Args:
        line: the line. Words longer than the width stay whole.
        columns: the width.
        indent: of the further lines.
    """
    return textwrap.wrap(
        line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]


def fit_line(text: str) -> str:
    """Return the text in one line of at most 2000 characters, with long words shortened.

    A word of more than 200 characters is an argument of the user's, of which both ends are kept.
    """
    words = [
        word if len(word) <= _MAX_WORD_CHARACTERS else f"{word[:100]}...{word[-50:]}"
        for word in text.split()
    ]
    return shorten(" ".join(words), _MAX_LINE_CHARACTERS)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remark to append to an error message about an unknown name.

    It suggests the most similar known names, or those of which it is a part (`rate` of
    `rate_records_per_s`). If there is none, it lists all known names when there are at most 8, and
    is empty otherwise.
    """
    names = sorted(set(known))
    similar = (
        difflib.get_close_matches(name, names, n=3, cutoff=0.6)
        or [other for other in names if name in _PARTS.split(other)][:3]
    )
    if similar:
        return f"; did you mean {format_list(similar, 'or')}?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= _MAX_LISTED_NAMES else ""
