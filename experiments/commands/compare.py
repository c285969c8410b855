"""`ackbench compare` and `ackbench matrix`: sweeps and cells side by side.

As a table, as JSON, as a page, and as a gate.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.table import Table

from ackbench.experiments.commands.show import ResultFiles, gate_exit_code
from ackbench.experiments.ledger.location import is_uri
from ackbench.experiments.messages.console import console_for_results, print_text, result_table
from ackbench.experiments.messages.terminal import echo, echo_error, echo_json
from ackbench.experiments.pages.report.comparison_files import (
    comparison_cases,
    comparison_lines,
    table_lines,
)
from ackbench.experiments.pages.report.comparison_page import render_comparison
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.results.comparing.cell_texts import ComparedCellTexts, compared_cell_texts
from ackbench.experiments.results.comparing.comparison import ComparedSweep, Comparison, compare
from ackbench.experiments.results.comparing.gate import NO_GATE, Gate
from ackbench.experiments.results.comparing.matrix import (
    Matrix,
    as_markdown,
    column_heads,
    duplicates_text,
    loss_text,
    matrix_notes,
    matrix_of,
)
from ackbench.experiments.results.comparing.within import (
    AxisComparison,
    compare_within,
    differences_shown,
)
from ackbench.experiments.results.formats.junit import junit_xml
from ackbench.experiments.results.formats.tables import axis_tables, print_cells
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.cell_names import axis_named
from ackbench.experiments.sweep.published import open_sweep
from ackbench.infra.errors import InputError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

NO_FILES: Final = ResultFiles()


def compare_results(
    home: Home,
    name: str,
    other: str | None,
    axis: str | None,
    *,
    gate: Gate,
    as_json: bool,
    html: Path | None = None,
    files: ResultFiles = NO_FILES,
    in_full: bool = False,
) -> int:
    """Print two sweeps side by side, or the cells of one that differ in a single axis.

    Args:
        home: the home of the sweeps.
        name: the sweep.
        other: another sweep to compare it with; `None`: its own cells are compared.
        axis: without another sweep, the axis in which the cells differ.
        gate: what the caller does not accept.
        as_json: print JSON instead of tables.
        html: also write a page to this file.
        files: also write the comparison for CI systems.
        in_full: of the cells of one sweep, also each pair with its intervals and tests.

    Returns:
        0, or the gate's exit code if the comparison does not pass it.

    Raises:
        InputError: a sweep or the axis does not exist, both names are of one sweep, there is
            nothing to compare, too few trials for the gate, or the page cannot be written.
        LedgerError: the results of a sweep cannot be read.
    """
    axis = axis_named(axis) if axis else axis
    folders = [open_sweep(home, one, echo_error) for one in (name, other) if one is not None]
    if other is not None and folders[0].root == folders[1].root:
        raise InputError(
            f"{name} and {other} are one sweep: name another one than {folders[0].sweep_id}, or "
            "compare its cells: --by acks"
        )
    sides = [ComparedSweep(folder.plan(), read_results(folder)) for folder in folders]
    compared = compare_within(sides[0], str(axis)) if other is None else compare(*sides)
    comparisons = compared.comparisons if isinstance(compared, AxisComparison) else (compared,)
    if html:
        _write(html, home, lambda: render_comparison(compared, sides[0].results.cells))
    if as_json:
        echo_json(compared.model_dump_json(indent=2))
    elif isinstance(compared, AxisComparison):
        argument = name if is_uri(name) else compared.sweep
        _print_within(compared, sides[0].results, argument, in_full=in_full)
    else:
        _print(compared)
        _print_unpaired((("only in A", compared.only_a), ("only in B", compared.only_b)))
    if files.junit is not None:
        replace_file(files.junit, junit_xml(comparison_cases(comparisons, gate)))
    if files.markdown is not None:
        tables = axis_tables(sides[0].results.cells, str(axis)) if other is None else ()
        lines = [*table_lines(tables), *comparison_lines(comparisons)]
        replace_file(files.markdown, "\n".join(lines) + "\n")
    if gate == NO_GATE:
        return 0
    reasons = gate.comparison_failures(comparisons, [side.results for side in sides])
    return gate_exit_code(reasons, gate.comparison_summary(comparisons))


def _write(path: Path, home: Home, render: Callable[[], str]) -> None:
    set_matplotlib_cache(home)
    page = render()
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--html {path}: cannot be written ({error.strerror})") from error


def _print_within(
    within: AxisComparison, results: SweepResults, argument: str, *, in_full: bool
) -> None:
    """Print a table per group of cells that differ in the axis alone, and what it shows."""
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    print_text(console, f"{within.sweep} by {within.axis}\n", wrap=False)
    print_cells(console, results.cells, in_full=False, by=within.axis)
    console.print()
    for comparison in within.comparisons if in_full else ():
        _print(comparison)
        console.print()
    for sentence in differences_shown(within, results):
        print_text(console, sentence, wrap=terminal, style="bold")
    _print_unpaired((("in no pair", within.left_out),))
    if not in_full:
        named = f"ackbench compare {shlex.quote(argument)} --by {within.axis}"
        print_text(console, f"details: {named} --all  (pairs, intervals, tests)", wrap=False)


def _print(comparison: Comparison) -> None:
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    print_text(console, f"A: {comparison.a}\nB: {comparison.b}", wrap=False)
    for change in comparison.settings:
        print_text(
            console,
            f"differs: {change.scope} {change.name}: {change.a} | {change.b}",
            wrap=terminal,
        )
    for remark in comparison.remarks:
        print_text(console, f"note: {remark}", wrap=terminal)
    for cell in comparison.cells:
        console.print()
        view = compared_cell_texts(cell)
        console.print(_table(view))
        for verdict in view.verdicts:
            print_text(console, f"verdict: {verdict}", wrap=terminal)
    console.print()
    for sentence in comparison.sentences:
        print_text(console, sentence, wrap=terminal, style="bold")


def _print_unpaired(groups: Sequence[tuple[str, Sequence[str]]]) -> None:
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    for where, labels in groups:
        for label in labels:
            print_text(console, f"{where}: {label}", wrap=terminal)


def _table(view: ComparedCellTexts) -> Table:
    title = f"{view.name} ({view.role})" if view.role else view.name
    table = result_table(title)
    for head in ("", "measure", "A", "B", "B against A", "p", "effect"):
        table.add_column(head, overflow="fold")
    styles = {"worse": "red", "better": "green"}
    for row in view.rows:
        word = row.kind if row.kind in styles else ""
        table.add_row(
            word,
            row.name,
            row.a,
            row.b,
            row.change,
            row.p_value,
            row.effect,
            style=styles.get(row.kind),
        )
    return table


def print_matrix(home: Home, named: Sequence[str], *, markdown: bool) -> int:
    """Print faults against client settings over several sweeps; over the newest when none is named.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: its results cannot be read.
    """
    sweeps = [open_sweep(home, name, echo_error) for name in named or (None,)]
    matrix = matrix_of([read_results(sweep) for sweep in sweeps])
    if markdown:
        echo("\n".join(as_markdown(matrix)))
        return 0
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    console.print(_matrix_table(matrix), crop=False)
    for line in matrix_notes(matrix):
        print_text(console, line, wrap=terminal)
    for line in matrix.violations:
        print_text(console, line, wrap=terminal, style="bold red")
    return 0


def _matrix_table(matrix: Matrix) -> Table:
    table = result_table()
    for head in ("fault", "took effect", *column_heads(matrix)):
        table.add_column(head, overflow="fold")
    for row in matrix.rows:
        name = "\n".join(filter(None, (row.fault, row.circumstances)))
        table.add_row(
            name,
            f"{row.took_effect} of {row.injected}",
            *(f"{loss_text(cell)}\n{duplicates_text(cell)}" for cell in row.cells),
        )
    return table
