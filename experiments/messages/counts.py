"""Counts with their nouns, and lists of words, as a person reads them. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def plural(number: int, noun: str) -> str:
    """Return the noun, as that number wants it."""
    return noun if number == 1 else f"{noun}s"


def counted(number: int, noun: str) -> str:
    """Return `1 cell`, `2 cells`."""
    return f"{number:,} {plural(number, noun)}"


def listed(parts: Sequence[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)
