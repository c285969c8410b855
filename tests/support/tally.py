"""Counts of checked cases for the end of pytest's output.

A test that checks no case would pass too.
"""

from __future__ import annotations

from collections import Counter

_COUNTS: Counter[str] = Counter()


def count(name: str, number: int) -> None:
    """Add to the count with this name."""
    _COUNTS[name] += number


def counts() -> dict[str, int]:
    """Return all counts."""
    return dict(_COUNTS)


def summary_lines() -> list[str]:
    """Return one line per count."""
    return [f"{number:,} {name}" for name, number in _COUNTS.items()]
