"""`ackbench show` and `ackbench measure`: a sweep's results, as a table or as data."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from experiments.ledger.record import Status
from experiments.results.models import SweepResults
from experiments.results.reading import read_results
from experiments.sweep_folder import SweepFolder
from experiments.sweeps import find_sweep
from experiments.tables import console_for_results, print_cells, print_lines, print_text
from infra.home import Home


def show(home: Home, named: str | None, *, as_json: bool) -> int:
    """Print a sweep's results; the newest's when none is named.

    Raises:
        UnknownName: there is no such sweep, or none at all.
        LedgerError: its results cannot be read.
    """
    sweep = find_sweep(home, named)
    if as_json:
        click.echo(read_results(sweep).to_json())
    else:
        print_results(sweep)
    return 0


def measure_again(home: Home, named: str) -> int:
    """Make a sweep's results again from its ledgers, and print them.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a ledger is incomplete or of another version.
        HarnessError: the job could not do its work.
    """
    from experiments.measuring import measure

    sweep = find_sweep(home, named)
    measure(sweep, home)
    print_results(sweep)
    return 0


def print_results(sweep: SweepFolder) -> None:
    """Print the question, the table, and what else a reader must know: what is void, failed, not run or not measured."""
    results, terminal = read_results(sweep), sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    print_text(console, f"{results.question.strip()}\n", wrap=terminal)
    print_cells(console, results.cells)
    print_lines(console, results)
    for line in remarks(results):
        print_text(console, line, wrap=terminal)


def remarks(results: SweepResults) -> Iterator[str]:
    """Yield a line for each trial that says nothing about Kafka, and for what is still missing."""
    for trial in results.trials:
        if trial.status in {Status.VOID, Status.FAILED}:
            yield f"{trial.status}: {trial.trial_id} ({trial.label}): {' '.join((trial.reason or '').split())}"
    if results.pending:
        yield f"not run: {len(results.pending)} trials; go on with: ackbench run --resume {results.sweep_id}"
    if results.unmeasured:
        yield f"not measured: {len(results.unmeasured)} trials; measure with: ackbench measure {results.sweep_id}"
