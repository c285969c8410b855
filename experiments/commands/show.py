"""`ackbench show`, `measure` and `report`: a sweep's results as a table, as JSON, as a page."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.console import console_for_results, print_text
from ackbench.experiments.messages.errors import GATE_EXIT_CODE
from ackbench.experiments.messages.phrases import fit_line, format_count, list_some, one_line
from ackbench.experiments.messages.terminal import echo, echo_error, echo_json
from ackbench.experiments.results.comparing.findings import GateFailure, Inspected
from ackbench.experiments.results.comparing.gate import NO_GATE, Gate
from ackbench.experiments.results.comparing.sentences import failure_sentence, inspected_sentence
from ackbench.experiments.results.expectations import expectation_lines
from ackbench.experiments.results.formats.junit import junit_xml
from ackbench.experiments.results.formats.markdown import markdown_lines
from ackbench.experiments.results.formats.sweep_junit import sweep_cases
from ackbench.experiments.results.formats.tables import print_cells, print_notes
from ackbench.experiments.results.lessons.of_sweep import finding_of
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.read import read_results
from ackbench.experiments.results.run_description import (
    describe_run,
    is_as_in_catalog,
    next_question,
)
from ackbench.experiments.results.sentences import describe_set_aside, plain_answer
from ackbench.experiments.results.statements import set_aside_trials
from ackbench.experiments.sweep.documents import read_note
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepLock, is_run_by_another
from ackbench.experiments.sweep.progress import FAILED
from ackbench.experiments.sweep.published import open_sweep, published_uri, storage_errors
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home
from ackbench.infra.process.load_lock import hold_machine_lock_for_command


def show(
    home: Home, named: str | None, *, as_json: bool, files: ResultFiles, in_full: bool = False
) -> int:
    """Print the results of a sweep, of the newest one when none is named, and write its files.

    Raises:
        UnknownName: there is no such sweep, or none at all.
        StorageError: it is a URI that cannot be read.
        LedgerError: its results cannot be read.
    """
    sweep = open_sweep(home, named, echo_error)
    results = read_results(sweep)
    if as_json:
        echo_json(_as_json(sweep, results))
    else:
        print_results(sweep, results, in_full=in_full)
    write_result_files(sweep, results, files)
    return 0


_MOST_UNMET: Final = 5
"""So many cells that did not meet an expectation have a line, without `--all`."""


@dataclass(frozen=True)
class ResultFiles:
    """Where to write a sweep's results for other programs; `None`: not."""

    junit: Path | None = None
    markdown: Path | None = None
    json: Path | None = None


@dataclass(frozen=True)
class Reporting:
    """What a run does with its results, beside printing them."""

    gate: Gate = NO_GATE
    files: ResultFiles = ResultFiles()


NO_REPORTING: Final = Reporting()


def write_result_files(sweep: SweepFolder, results: SweepResults, files: ResultFiles) -> None:
    """Write the results for other programs.

    Raises:
        OSError: a file cannot be written.
    """
    if files.junit is not None:
        replace_file(files.junit, junit_xml(sweep_cases(results)))
    if files.json is not None:
        replace_file(files.json, f"{_as_json(sweep, results)}\n")
    if files.markdown is not None:
        run = describe_run(results.plan, list(results.manifests.values()))
        lines = markdown_lines(results, run, remarks(sweep, results))
        replace_file(files.markdown, "\n".join(lines) + "\n")


def _as_json(sweep: SweepFolder, results: SweepResults) -> str:
    """Return the results, with the finding if the experiment tests a claim."""
    finding = finding_of(sweep, results)
    if finding is None:
        return results.to_json()
    return json.dumps(
        {"finding": finding.model_dump(mode="json"), **json.loads(results.to_json())},
        indent=2,
        ensure_ascii=False,
    )


def measure_again(home: Home, named: str, *, skip_unfit: bool = False) -> int:
    """Compute a sweep's results again from its ledgers and print them.

    The job reads and writes a published sweep where it is.

    Args:
        home: the home of the sweep.
        named: the sweep.
        skip_unfit: leave out the trials whose ledgers cannot be measured; they are printed as
            failed trials, with the reasons.

    Raises:
        UnknownName: there is no such sweep.
        StorageError: it is a URI that cannot be read.
        LedgerError: a ledger is incomplete or of another version.
        SweepInUse: another process runs the sweep, and measures it itself.
        HarnessError: the measuring job failed, or another load runs on this machine for too long.
    """
    from ackbench.experiments.results.history import warehouse
    from ackbench.experiments.results.history.shared import publish_history
    from ackbench.experiments.results.spark_job import measure, measure_location

    sweep = open_sweep(home, named, echo_error)
    with ExitStack() as claims:
        if not sweep.origin:
            claims.enter_context(SweepLock(home, sweep))
        claims.enter_context(
            hold_machine_lock_for_command(home, f"measure {sweep.sweep_id}", echo_error)
        )
        if sweep.origin:
            measure_location(sweep.origin.uri, home, sweep.sweep_id, skip_unfit=skip_unfit)
            sweep = open_sweep(home, sweep.origin.uri)
        else:
            measure(sweep, home, skip_unfit=skip_unfit)
    results = read_results(sweep)
    files = warehouse.files_of(sweep, results)
    with storage_errors():
        if sweep.origin:
            publish_history(sweep, files, sweep.origin)
        else:
            warehouse.write_files(files, warehouse.warehouse_of_home(home))
    print_results(sweep, results)
    return 0


def print_results(sweep: SweepFolder, results: SweepResults, *, in_full: bool = False) -> None:
    """Print what was run, the question, the finding, the table, its notes, and the answer.

    The answer comes last, with where to look next: it is what stays on the terminal.

    Args:
        sweep: the sweep.
        results: of it.
        in_full: also settings, controls, power, and what each column means.
    """
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    print_text(
        console,
        f"{results.sweep_id}: {describe_run(results.plan, list(results.manifests.values()))}\n",
        wrap=terminal,
    )
    print_text(console, f"{results.question.strip()}\n", wrap=terminal)
    for line in finding_lines(sweep, results):
        print_text(console, line, wrap=terminal)
    print_cells(console, results.cells, in_full=in_full)
    print_notes(console, results, in_full=in_full)
    for line in remarks(sweep, results):
        print_text(console, line, wrap=terminal)
    print_text(console, "", wrap=terminal)
    for sentence in plain_answer(results):
        print_text(console, str(sentence), wrap=terminal, style="bold")
    for line in expectation_lines(results.expectations, None if in_full else _MOST_UNMET):
        print_text(console, line, wrap=terminal)
    for line in _places(sweep, console.width, in_full=in_full):
        print_text(console, line, wrap=False)
    if named := _experiment_as_run(sweep, results):
        more = next_question(named, expects=bool(results.expectations))
        line = _remarked(f"next:    ackbench {more}", "any setting: --acks 1,all", console.width)
        print_text(console, line, wrap=False)


def _experiment_as_run(sweep: SweepFolder, results: SweepResults) -> str | None:
    """Return what `run` takes for the same settings: the name, or the sweep's file if it has other.

    `None`: this machine has no such file.
    """
    if is_as_in_catalog(sweep, results.experiment):
        return results.experiment
    has_file = not sweep.origin and sweep.experiment_yaml.is_file()
    return shlex.quote(str(sweep.experiment_yaml)) if has_file else None


def _remarked(command: str, remark: str, columns: int) -> str:
    """Return a line with a command, and the remark on it if there is room: none is broken."""
    line = f"{command}  ({remark})"
    return line if len(line) <= columns else command


def _places(sweep: SweepFolder, columns: int, *, in_full: bool) -> Iterator[str]:
    """Yield how to look at the results: with details, as a page, in MLflow, and where they are."""
    if not in_full:
        command = f"details: ackbench show --all {sweep.argument}"
        yield _remarked(command, "settings, controls, legends", columns)
    if sweep.report.is_file():
        yield f"report:  ackbench open report {sweep.argument}"
    if sweep.tracked.is_file():
        yield f"MLflow:  ackbench open mlflow {sweep.argument}"
    yield f"folder:  {sweep.root}"
    uri = published_uri(sweep)
    if uri and not sweep.unpublished.is_file():
        yield f"store:   {uri}"


def finding_lines(sweep: SweepFolder, results: SweepResults) -> Iterator[str]:
    """Yield the claim and the sweep's finding on it; nothing if the experiment tests no claim."""
    claim, finding = results.plan.claim, finding_of(sweep, results)
    if claim and finding:
        yield f"lesson {claim.lesson}: {claim.says}"
        yield "\n".join([*finding.lines(), ""])


def remarks(sweep: SweepFolder, results: SweepResults) -> Iterator[str]:
    """Yield one line per trial that is set aside, and one for trials not run or not measured."""
    for trial in set_aside_trials(results):
        yield f"{trial.status}: {trial.trial_id} ({trial.label}): {describe_set_aside(trial)}"
    overloaded = [trial.trial_id for trial in results.trials if trial.overloaded]
    if overloaded:
        count = format_count(len(overloaded), "trial")
        yield (
            f"overloaded: {count} ({list_some(overloaded)}): latencies and outages say nothing of "
            "the settings"
        )
    if results.pending:
        count = format_count(len(results.pending), "trial")
        if sweep.origin:
            yield f"not published: {count}; the machine that runs the sweep may have them"
        elif is_run_by_another(sweep):
            yield f"not run yet: {count}; the sweep is in progress (`ackbench open live`)"
        else:
            last = sweep.activity()
            if last and last.stage == FAILED:
                yield f"failed: {fit_line(last.what)}"
            yield f"not run: {count}; resume with: ackbench run --resume {results.sweep_id}"
    if results.unmeasured:
        count = format_count(len(results.unmeasured), "trial")
        yield f"not measured: {count}; measure with: ackbench measure {sweep.argument}"
    if unnotified := read_note(sweep.unnotified):
        yield f"not notified: {one_line(unnotified)}"
    if results.without_digests:
        count = format_count(len(results.without_digests), "trial")
        yield f"not covered by digests: {count}, sealed before ledger version 5"


def gate_exit_code(failures: Iterable[GateFailure], summary: Iterable[Inspected]) -> int:
    """Return the exit code of a gate; print to stderr what it looked at, and its reasons.

    Args:
        failures: why the results do not pass.
        summary: what the gate looked at.
    """
    reasons = [failure_sentence(one) for one in failures]
    inspected = (f"gate: {inspected_sentence(one)}" for one in summary)
    for line in (*inspected, *reasons, f"gate: {'failed' if reasons else 'passed'}"):
        echo_error(f"ackbench: {one_line(line)}")
    return GATE_EXIT_CODE if reasons else 0


def sweep_gate_exit_code(gate: Gate, results: SweepResults) -> int:
    """Return the exit code of a gate and of what a sweep's experiment expects.

    Prints as `gate_exit_code` does; nothing if there is neither.
    """
    if gate.is_open_for(results):
        return 0
    return gate_exit_code(gate.sweep_failures(results), gate.sweep_summary(results))


def report(home: Home, named: str | None, fail_on: Sequence[str]) -> int:
    """Render a sweep's page again, the newest one's when none is named, and print its path.

    The page of a published sweep is written on this machine, next to the copies of its files.

    Returns:
        0, or the gate's exit code if the sweep does not pass it.

    Raises:
        InputError: an expression of the gate is invalid.
        UnknownName: there is no such sweep, or none at all.
        LedgerError: its results cannot be read; the old page stays.
    """
    from ackbench.experiments.pages.report.page import write_report

    gate, sweep = Gate.parse(fail_on), open_sweep(home, named, echo_error)
    results = write_report(sweep, home)
    echo(sweep.report)
    return sweep_gate_exit_code(gate, results)
