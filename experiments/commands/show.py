"""`ackbench show` and `ackbench measure`: a sweep's results, as a table or as data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence

import click

from experiments.comparing.gate import EXIT_CODE, Gate
from experiments.ledger.record import Status
from experiments.lessons import finding_of
from experiments.planning.new_sweep import find_sweep
from experiments.report.page import make_report
from experiments.results.models import SweepResults
from experiments.results.read import read_results
from experiments.results.tables import console_for_results, print_cells, print_lines, print_text
from experiments.sweep.folder import SweepFolder
from infra.machine.home import Home


def show(home: Home, named: str | None, *, as_json: bool) -> int:
    """Print a sweep's results; the newest's when none is named.

    Raises:
        UnknownName: there is no such sweep, or none at all.
        LedgerError: its results cannot be read.
    """
    sweep = find_sweep(home, named)
    if as_json:
        click.echo(_as_json(sweep))
    else:
        print_results(sweep)
    return 0


def _as_json(sweep: SweepFolder) -> str:
    """Return the results, with the finding where the experiment makes a claim."""
    results = read_results(sweep)
    finding = finding_of(sweep, results)
    if finding is None:
        return results.to_json()
    return json.dumps(
        {"finding": finding.model_dump(mode="json"), **json.loads(results.to_json())},
        indent=2,
        ensure_ascii=False,
    )


def measure_again(home: Home, named: str) -> int:
    """Make a sweep's results again from its ledgers, and print them.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a ledger is incomplete or of another version.
        HarnessError: the job could not do its work.
    """
    from experiments.results.spark_job import measure

    sweep = find_sweep(home, named)
    measure(sweep, home)
    print_results(sweep)
    return 0


def print_results(sweep: SweepFolder) -> None:
    """Print the question, the table, and what else a reader must know: what is void, failed, not run or not measured."""
    results, terminal = read_results(sweep), sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    print_text(console, f"{results.question.strip()}\n", wrap=terminal)
    for line in finding_lines(sweep, results):
        print_text(console, line, wrap=terminal)
    print_cells(console, results.cells)
    print_lines(console, results)
    for line in remarks(results):
        print_text(console, line, wrap=terminal)


def finding_lines(sweep: SweepFolder, results: SweepResults) -> Iterator[str]:
    """Yield what the sweep says to its experiment's claim; nothing where that makes none."""
    claim, finding = sweep.plan().claim, finding_of(sweep, results)
    if claim and finding:
        yield f"lesson {claim.lesson}: {claim.says}"
        yield "\n".join([*finding.lines(), ""])


def remarks(results: SweepResults) -> Iterator[str]:
    """Yield a line for each trial that says nothing about Kafka, and for what is still missing."""
    for trial in results.trials:
        if trial.status in {Status.VOID, Status.FAILED}:
            yield f"{trial.status}: {trial.trial_id} ({trial.label}): {' '.join((trial.reason or '').split())}"
    if results.pending:
        yield f"not run: {len(results.pending)} trials; go on with: ackbench run --resume {results.sweep_id}"
    if results.unmeasured:
        yield f"not measured: {len(results.unmeasured)} trials; measure with: ackbench measure {results.sweep_id}"


# ---------- The gate's last word: its reasons, a line each, and its exit code.


def passed(reasons: Sequence[str]) -> int:
    """Return the exit code, and say on stderr why it is not 0."""
    for reason in reasons:
        click.echo(f"ackbench: {' '.join(reason.split())}", err=True)
    return EXIT_CODE if reasons else 0


# ---------- `ackbench report`: a sweep's page, made anew.


def report(home: Home, named: str | None, fail_on: Sequence[str]) -> int:
    """Make a sweep's page, the newest's when none is named, and print its path; return the exit code, the gate's where it does not let the sweep pass.

    Raises:
        InputError: an expression of the gate is wrong.
        UnknownName: there is no such sweep, or none at all.
        LedgerError: its results cannot be read; the old page stays.
    """
    gate, sweep = Gate.of(fail_on), find_sweep(home, named)
    click.echo(make_report(sweep, home))
    return passed(gate.of_sweep(read_results(sweep)))
