"""`ackbench list`: the catalogue's experiments, with what they ask and how long they take."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from ackbench.experiments.messages.console import console_for_results
from ackbench.experiments.planning.catalog import ExperimentExtent, catalog_names, stored_extents


def list_experiments() -> int:
    """Print the claims in the order of the lessons, the other experiments, and known bugs."""
    extents = {name: stored_extents().get(name) or _planned(name) for name in catalog_names()}
    claims = sorted((one.lesson, name) for name, one in extents.items() if one.lesson)
    others = [name for name, one in extents.items() if not one.lesson]
    console = console_for_results(terminal=sys.stdout.isatty())
    for head, names in (
        (
            "claims about Kafka, in the order of the lessons (`ackbench explain NAME`)",
            [name for _, name in claims],
        ),
        ("other questions", [name for name in others if not extents[name].is_bug]),
        (
            "known bugs, in releases with and without them",
            [name for name in others if extents[name].is_bug],
        ),
    ):
        _print_list(console, head, {name: extents[name] for name in names})
    return 0


def _planned(name: str) -> ExperimentExtent:
    """Return the extent of an experiment whose file has changed."""
    from ackbench.experiments.planning.extents import planned_extent

    return planned_extent(name)


def _print_list(console: Console, head: str, extents: Mapping[str, ExperimentExtent]) -> None:
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
    for name, one in extents.items():
        scheduled = f"\nscheduled {one.schedule}" if one.schedule else ""
        table.add_row(str(one.lesson or ""), name, one.title + scheduled, f"{one.minutes} min")
    console.print(table)
    console.print()
