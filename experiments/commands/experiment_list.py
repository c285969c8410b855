"""`ackbench list`: the catalogue's experiments, with what they ask and how long they take."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

from rich.console import Console
from rich.table import Table

from ackbench.experiments.catalog import ExperimentExtent, catalog_names, stored_extents
from ackbench.experiments.messages.console import console_for_results


def list_experiments() -> int:
    """Print the claims in the order of the lessons, the other experiments, and known bugs."""
    known = _extents()
    claims = sorted((name for name in known if known[name].lesson), key=_lesson)
    others = [name for name in known if not known[name].lesson]
    console = console_for_results(terminal=sys.stdout.isatty())
    _print_list(
        console, "claims about Kafka, in the order of the lessons (`ackbench explain NAME`)", claims
    )
    _print_list(console, "other questions", [one for one in others if not known[one].is_bug])
    _print_list(
        console,
        "known bugs, in releases with and without them",
        [one for one in others if known[one].is_bug],
    )
    return 0


def _lesson(name: str) -> int:
    return _extents()[name].lesson or 0


@cache
def _extents() -> Mapping[str, ExperimentExtent]:
    """Return the extents of all experiments; those whose files have changed are planned."""
    return {name: stored_extents().get(name) or _planned(name) for name in catalog_names()}


def _planned(name: str) -> ExperimentExtent:
    from ackbench.experiments.planning.extents import planned_extent

    return planned_extent(name)


def _print_list(console: Console, head: str, names: list[str]) -> None:
    table = Table(
        box=None,
        show_header=False,
        padding=(0, 2, 0, 0),
        title=head,
        title_justify="left",
        title_style="bold",
    )
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for name in names:
        one = _extents()[name]
        scheduled = f"\nscheduled {one.schedule}" if one.schedule else ""
        table.add_row(str(one.lesson or ""), name, one.title + scheduled, f"{one.minutes} min")
    console.print(table)
    console.print()
