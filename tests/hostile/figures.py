"""What each kind of hostile condition found."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Figures:
    """The figures of one kind: how often it was tried, and where the law did not hold."""

    kind: str
    law: str
    """What has to hold each time, as a clause."""
    tried: int
    failures: tuple[str, ...]
    """One line each: what was tried, and what happened instead."""
    seconds: float


def figures_table(figures: tuple[Figures, ...]) -> Table:
    """Return the figures as a table, one row per kind."""
    table = Table("kind", "law", "tried", "held", "seconds")
    for row in figures:
        held = row.tried - len(row.failures)
        table.add_row(row.kind, row.law, f"{row.tried:,}", f"{held:,}", f"{row.seconds:.0f}")
    return table
