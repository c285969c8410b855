"""`ackbench matrix`: faults down, clients' settings across, over several sweeps."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich import box
from rich.table import Table

from experiments.matrix import Matrix, as_markdown, below, duplicates_text, heads, loss_text, matrix_of
from experiments.results.reading import read_results
from experiments.sweeps import find_sweep
from experiments.tables import console_for_results, print_text
from infra.home import Home


def print_matrix(home: Home, named: Sequence[str], *, markdown: bool) -> int:
    """Print the table of the sweeps that are named; of the newest when none is.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: its results cannot be read.
    """
    matrix = matrix_of([read_results(find_sweep(home, name)) for name in named or (None,)])
    if markdown:
        click.echo("\n".join(as_markdown(matrix)))
        return 0
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    console.print(_table(matrix), crop=False, highlight=False)
    for line in below(matrix):
        print_text(console, line, wrap=terminal)
    for line in matrix.violations:
        print_text(console, line, wrap=terminal, style="bold red")
    return 0


def _table(matrix: Matrix) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), show_lines=False)
    for head in ("fault", "bit", *heads(matrix)):
        table.add_column(head, overflow="fold")
    for row in matrix.rows:
        name = "\n".join(filter(None, (row.fault, row.circumstances)))
        table.add_row(name, f"{row.bit} of {row.struck}", *(f"{loss_text(cell)}\n{duplicates_text(cell)}" for cell in row.cells))
    return table
