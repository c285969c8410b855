"""What the tests counted, for the end of pytest's output: a checker that ran over nothing would be green too."""

from __future__ import annotations

from collections import Counter

_COUNTED: Counter[str] = Counter()


def count(what: str, number: int) -> None:
    """Add to a count."""
    _COUNTED[what] += number


def counted() -> dict[str, int]:
    """Return all counts."""
    return dict(_COUNTED)


def lines() -> list[str]:
    """Return a line a count."""
    return [f"{number:,} {what}" for what, number in _COUNTED.items()]
