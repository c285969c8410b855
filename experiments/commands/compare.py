"""`ackbench compare` and `ackbench matrix`: sweeps and cells side by side.

As a table, as JSON, as a page, and as a gate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich import box
from rich.table import Table

from ackbench.experiments.commands.show import ResultFiles, gate_exit_code
from ackbench.experiments.messages.console import console_for_results, print_text
from ackbench.experiments.messages.terminal import echo, echo_error, echo_json
from ackbench.experiments.pages.report.comparison_files import comparison_cases, comparison_lines
from ackbench.experiments.pages.report.comparison_page import (
    render_axis_comparison,
    render_comparison,
)
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.results.comparing.cell_texts import ComparedCellTexts, compared_cell_texts
from ackbench.experiments.results.comparing.comparison import ComparedSweep, Comparison, compare
from ackbench.experiments.results.comparing.gate import Gate
from ackbench.experiments.results.comparing.matrix import (
    Matrix,
    as_markdown,
    column_heads,
    duplicates_text,
    loss_text,
    matrix_notes,
    matrix_of,
)
from ackbench.experiments.results.comparing.within import AxisComparison, compare_within
from ackbench.experiments.results.junit import junit_xml
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.published import open_sweep
from ackbench.infra.errors import InputError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

NO_FILES: Final = ResultFiles()


def compare_sweeps(
    home: Home,
    names: tuple[str, str],
    *,
    gate: Gate,
    as_json: bool,
    html: Path | None = None,
    files: ResultFiles = NO_FILES,
) -> int:
    """Print two sweeps side by side.

    Args:
        home: the home of the sweeps.
        names: the sweeps.
        gate: what the caller does not accept.
        as_json: print JSON instead of tables.
        html: also write a page to this file.
        files: also write the comparison for CI systems.

    Returns:
        0, or the gate's exit code if the comparison does not pass it.

    Raises:
        InputError: a sweep does not exist, the sweeps cannot be compared, too few trials for the
            gate, or the page cannot be written.
        LedgerError: the results of a sweep cannot be read.
    """
    a, b = (_sweep(home, name) for name in names)
    comparison = compare(a, b)
    if html:
        _write(html, home, lambda: render_comparison(comparison))
    if as_json:
        echo_json(comparison.to_json())
    else:
        _print(comparison)
        _print_unpaired((("only in A", comparison.only_a), ("only in B", comparison.only_b)))
    _write_files([comparison], gate, files)
    return _gate_exit_code(gate, [comparison], (a.results, b.results))


def compare_cells(
    home: Home,
    named: tuple[str, str],
    *,
    gate: Gate,
    as_json: bool,
    html: Path | None = None,
    files: ResultFiles = NO_FILES,
) -> int:
    """Print the cells of one sweep that differ in a single axis side by side.

    Args:
        home: the home of the sweep.
        named: the sweep and the axis.
        gate: what the caller does not accept.
        as_json: print JSON instead of tables.
        html: also write a page to this file.
        files: also write the comparison for CI systems.

    Returns:
        0, or the gate's exit code if the cells do not pass it.

    Raises:
        InputError: the sweep or the axis does not exist, no cells can be compared, too few trials
            for the gate, or the page cannot be written.
        LedgerError: the results cannot be read.
    """
    sweep = _sweep(home, named[0])
    within = compare_within(sweep, named[1])
    if html:
        _write(html, home, lambda: render_axis_comparison(within))
    if as_json:
        echo_json(within.to_json())
    else:
        _print_within(within)
    _write_files(within.comparisons, gate, files)
    return _gate_exit_code(gate, within.comparisons, [sweep.results])


def _write_files(comparisons: Sequence[Comparison], gate: Gate, files: ResultFiles) -> None:
    if files.junit is not None:
        replace_file(files.junit, junit_xml(comparison_cases(comparisons, gate)))
    if files.markdown is not None:
        replace_file(files.markdown, "\n".join(comparison_lines(comparisons)) + "\n")


def _gate_exit_code(
    gate: Gate, comparisons: Sequence[Comparison], sweeps: Sequence[SweepResults]
) -> int:
    reasons = gate.comparison_failures(comparisons, sweeps)
    return gate_exit_code(gate, reasons, gate.comparison_summary(comparisons))


def _sweep(home: Home, named: str) -> ComparedSweep:
    folder = open_sweep(home, named, echo_error)
    return ComparedSweep(folder.plan(), read_results(folder))


def _write(path: Path, home: Home, render: Callable[[], str]) -> None:
    set_matplotlib_cache(home)
    page = render()
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--html {path}: cannot be written ({error.strerror})") from error


def _print_within(within: AxisComparison) -> None:
    console = console_for_results(terminal=sys.stdout.isatty())
    print_text(console, f"{within.sweep} by {within.axis}\n", wrap=False)
    for comparison in within.comparisons:
        _print(comparison)
        console.print()
    _print_unpaired((("in no pair", within.left_out),))


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
    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        title=title,
        title_justify="left",
        title_style="bold",
    )
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
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), show_lines=False)
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
