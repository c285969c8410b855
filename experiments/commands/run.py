"""`ackbench run`: plan a sweep, run it in a child process, show progress and results."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from ackbench.experiments.commands.catalog import print_plan
from ackbench.experiments.commands.progress_display import progress_display
from ackbench.experiments.commands.run_process import (
    RunOutcome,
    RunProcess,
    counted_interrupts,
    runner_command,
)
from ackbench.experiments.commands.run_until import RepeatLimits, RepeatUntil, planned_repeats_text
from ackbench.experiments.commands.setup import ensure_set_up
from ackbench.experiments.commands.show import (
    NO_REPORTING,
    Reporting,
    print_results,
    sweep_gate_exit_code,
    write_result_files,
)
from ackbench.experiments.ledger.location import Location, is_uri
from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.errors import StorageError
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.messages.terminal import echo_error
from ackbench.experiments.orchestration.permission import check_plan, plan_to_run
from ackbench.experiments.orchestration.tracking.server_access import check_server
from ackbench.experiments.pages.live.process import WITHOUT_METRICS, LiveOptions, live_page
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.new_sweep import (
    check_machine,
    new_sweep,
    plan_new_sweep,
    prepare_kafka,
)
from ackbench.experiments.planning.overrides import Overrides, parse_override
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepLock
from ackbench.experiments.sweep.lookup import find_sweep
from ackbench.experiments.sweep.own_plans import mark_as_own
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import ProgressReader
from ackbench.experiments.sweep.published import (
    keep_store,
    open_store,
    publish_plan,
    published_uri,
    runs_on_several_hosts,
    store_of_environment,
)
from ackbench.experiments.sweep.several_hosts import check_out
from ackbench.experiments.sweep.several_hosts import resume as resume_trials
from ackbench.experiments.sweep.time_limits import run_limit_s
from ackbench.infra.errors import AckbenchError, HarnessError, InputError, MachineError
from ackbench.infra.machine.home import HeldHome, Home, HomeMoved
from ackbench.infra.machine.resources import full_disk, full_disk_is_named
from ackbench.infra.process.log_tail import last_lines

_LOG_LINES: Final = 40
"""How many of the log's last lines may show that the disk is full."""


def run_new(
    home: Home,
    experiment: str,
    overrides: Overrides,
    limits: RepeatLimits | None = None,
    reporting: Reporting = NO_REPORTING,
    store: str | None = None,
    live: LiveOptions = WITHOUT_METRICS,
) -> int:
    """Plan a sweep, run it and show it; return the exit code.

    Args:
        home: the folder that the sweep is written to.
        experiment: the name of a catalogue experiment, or a file.
        overrides: values that replace the experiment's own.
        limits: how narrow further repeats have to make the intervals. None: no further repeats.
        reporting: the verdicts that the caller does not accept, and files to write.
        store: a URI or a folder that the sweep is published to. None: that of `ACKBENCH_STORE`.
        live: what is shown while it runs.

    Raises:
        InputError: invalid request, or the store cannot be written; nothing was started.
        HarnessError: a trial, or a step after the trials, failed, or was not published.
    """
    live.check()
    target = open_store(store) if store else store_of_environment()
    sweep = _new_sweep(home, experiment, overrides)
    if target:
        keep_store(sweep, target)
        try:
            publish_plan(sweep, target.at(sweep.sweep_id))
        except StorageError:
            shutil.rmtree(sweep.root)
            raise
    with SweepLock(home, sweep) as lock:
        return _run_and_show(home, sweep, lock, limits, reporting, live)


def run_sweep(home: Home, experiment: str, overrides: Overrides) -> tuple[SweepFolder, int]:
    """Plan a sweep and run it, without showing its results.

    Args:
        home: the folder that the sweep is written to.
        experiment: the name of a catalogue experiment, or a file.
        overrides: values that replace the experiment's own.

    Returns:
        The sweep, and 0 or the exit code that an interrupting signal asks for.

    Raises:
        InputError: invalid request; nothing was started.
        HarnessError: a trial, or a step after the trials, failed.
    """
    sweep = _new_sweep(home, experiment, overrides)
    with SweepLock(home, sweep) as lock:
        outcome = run_in_child(home, sweep, lock)
        if outcome.interrupted:
            return sweep, report_interrupt(home, sweep, outcome)
    _require_complete(home, sweep, outcome)
    return sweep, 0


def _new_sweep(home: Home, experiment: str, overrides: Overrides) -> SweepFolder:
    """Plan a sweep, and set up the home if it is not; a sweep that cannot run is removed."""
    check_server(home, _say)
    sweep = new_sweep(home, experiment, overrides, _say)
    try:
        ensure_set_up(home, _say)
    except AckbenchError:
        shutil.rmtree(sweep.root)
        raise
    return sweep


def dry_run(
    home: Home, experiment: str, overrides: Overrides, limits: RepeatLimits | None = None
) -> int:
    """Print what `run_new` would run, how long it takes and what it needs; start nothing.

    Raises:
        InputError: as `run_new`.
        HarnessError: a program of Kafka's failed.
    """
    planned = plan_new_sweep(home, experiment, overrides, _say, downloads=False)
    print_plan(planned, planned_repeats_text(planned.plan, limits) if limits else None)
    return 0


def resume(
    home: Home,
    named: str,
    limits: RepeatLimits | None = None,
    reporting: Reporting = NO_REPORTING,
    store: str | None = None,
    live: LiveOptions = WITHOUT_METRICS,
    file: str | None = None,
) -> int:
    """Run the trials of a sweep that are not sealed, then measure, publish and show all of it.

    Args:
        home: the folder of the sweep.
        named: the sweep; or the URI of one whose trials several hosts run.
        limits: as in `run_new`.
        reporting: as in `run_new`.
        store: a URI or a folder to publish to from now on. None: as before.
        live: as in `run_new`.
        file: the sweep's experiment on this machine. It permits what the plan does, if another home
            has made the plan: commands, libraries, security properties, an external cluster.

    Returns:
        The exit code.

    Raises:
        InputError: there is no such sweep, another process runs it or one of its trials, or this
            machine cannot run it.
        HarnessError: as `run_new`.
    """
    live.check()
    home.ensure_writable()
    files = [load_experiment(file)] if file else []
    permits = partial(check_plan, argument=named, files=files)
    sweep = check_out(home, named, permits) if is_uri(named) else find_sweep(home, named)
    plan = plan_to_run(home, sweep, files)
    if file:
        _require_file_of(plan, files[0], file)
        mark_as_own(home, sweep)
    if store:
        _change_store(sweep, open_store(store))
    with SweepLock(home, sweep) as lock:
        check_machine(plan, home)
        ensure_set_up(home, _say)
        for line in resume_trials(sweep, complete=True):
            _say(line)
        prepare_kafka(plan, home, _say)
        return _run_and_show(home, sweep, lock, limits, reporting, live)


def _require_file_of(plan: Plan, experiment: Experiment, file: str) -> None:
    if experiment.name != plan.experiment:
        raise InputError(
            f"{file} is the experiment {experiment.name}, and {plan.sweep_id} is a sweep of "
            f"{plan.experiment}: name its own file, or none"
        )


def _change_store(sweep: SweepFolder, store: Location) -> None:
    """Publish a sweep to a store from now on; several hosts have to agree on one.

    Raises:
        InputError: several hosts run the sweep.
    """
    if runs_on_several_hosts(sweep):
        raise InputError(
            f"several hosts run sweep {sweep.sweep_id}, whose store is {published_uri(sweep)}: "
            "resume it without --store"
        )
    keep_store(sweep, store)


def _say(text: str) -> None:
    echo_error(text)


def axes_of(overrides: Sequence[str]) -> dict[str, tuple[Scalar, ...]]:
    """Return the values by axis, from texts such as `acks=1,all`.

    Raises:
        InputError: a text has another form, or an axis is given twice.
    """
    axes: dict[str, tuple[Scalar, ...]] = {}
    for axis, values in map(parse_override, overrides):
        if axis in axes:
            raise InputError(f"--set {axis} is given twice: write --set {axis}=value1,value2")
        axes[axis] = values
    return axes


def limits_of(
    until: str | None, budget: str | None, max_repeats: int | None
) -> RepeatLimits | None:
    """Return what `--until`, `--budget` and `--max-repeats` request; None: nothing.

    Raises:
        InputError: a text has another form, or a limit is given without `--until`.
    """
    if until is not None:
        return RepeatLimits.of(until, budget, max_repeats)
    if budget is not None or max_repeats is not None:
        raise InputError('--budget and --max-repeats need --until, as in --until "ci<0.1"')
    return None


def _run_and_show(
    home: Home,
    sweep: SweepFolder,
    lock: SweepLock,
    limits: RepeatLimits | None,
    reporting: Reporting,
    live: LiveOptions,
) -> int:
    if limits:
        outcome = _run_until_precise(home, sweep, lock, limits, live)
    else:
        outcome = run_in_child(home, sweep, lock, live)
    if outcome.interrupted:
        return report_interrupt(home, sweep, outcome)
    results = read_results(sweep) if sweep.results.is_dir() else None
    if results:
        print_results(sweep, results)
        write_result_files(sweep, results, reporting.files)
    _require_complete(home, sweep, outcome)
    return sweep_gate_exit_code(reporting.gate, results or read_results(sweep))


def _require_complete(home: Home, sweep: SweepFolder, outcome: RunOutcome) -> None:
    """Check that a run that was not interrupted has done everything.

    Raises:
        HarnessError: it has not; with the reason, the log, and how to resume it.
    """
    if outcome.code or sweep.pending():
        log = log_of(home, sweep)
        lines = [reason_of_failure(sweep, log, outcome.code), f"log: {log}"]
        if sweep.pending() or not sweep.unpublished.is_file():  # else the reason has the remedy
            lines.append(f"resume with: ackbench run --resume {sweep.sweep_id}")
        raise HarnessError("\n".join(lines))


def _run_until_precise(
    home: Home, sweep: SweepFolder, lock: SweepLock, limits: RepeatLimits, live: LiveOptions
) -> RunOutcome:
    """Run the sweep, then again with more repeats, until its intervals are narrow enough.

    A run that failed or was interrupted ends the repeating.
    """
    repeats = RepeatUntil(home, sweep, limits, _say)
    outcome = run_in_child(home, sweep, lock, live)
    try:
        while not (outcome.interrupted or outcome.code or sweep.pending()) and repeats.plan_more():
            outcome = run_in_child(home, sweep, lock, live)
    except KeyboardInterrupt:  # between two runs, while no child process exists
        outcome = RunOutcome(code=0, interrupted=128 + signal.SIGINT, killed=False)
    if outcome.interrupted or outcome.code or sweep.pending():
        repeats.end("interrupted" if outcome.interrupted else "a run failed")
    return outcome


def log_of(home: Home, sweep: SweepFolder) -> Path:
    """Return the file that a run's output goes to."""
    return home.logs / sweep.sweep_id / "run.log"


def run_in_child(
    home: Home, sweep: SweepFolder, lock: SweepLock, live: LiveOptions = WITHOUT_METRICS
) -> RunOutcome:
    """Run the steps of a sweep in a child process and show its progress until it ends.

    Raises:
        MachineError: the home was moved meanwhile; the run was killed.
    """
    from ackbench.infra.airflow.environment import airflow_environment

    plan, log = sweep.plan(), log_of(home, sweep)
    progress = ProgressReader(sweep, plan)
    with (
        _held_home(home, sweep) as held,
        counted_interrupts() as interrupts,
        progress_display() as display,
    ):
        display.print_line(_announcement(sweep, plan))
        with live_page(home, sweep, live, display.print_line) as check_page:
            run = RunProcess(runner_command(sweep.sweep_id), airflow_environment(home), log)
            lock.note_runner(run.identity)

            def look() -> None:
                held.require_unmoved()
                display.show(progress.read())
                check_page()

            return run.follow(interrupts, look, display.print_line, run_limit_s(plan))


@contextmanager
def _held_home(home: Home, sweep: SweepFolder) -> Iterator[HeldHome]:
    """Hold the home of a run; once the home was moved, kill what is left of the sweep's clusters.

    Raises:
        MachineError: the home was moved; whatever error this has led to.
    """
    with HeldHome(home) as held:
        try:
            yield held
            held.require_unmoved()
        except Exception as error:
            try:
                held.require_unmoved()
            except HomeMoved as moved:
                _kill_clusters(moved.moved, sweep)
                raise MachineError(
                    f"{moved}, then resume with: ackbench run --resume {sweep.sweep_id}"
                ) from error
            raise


def _kill_clusters(home: Home, sweep: SweepFolder) -> None:
    """Kill what is left of the sweep's clusters; their logs stay."""
    from ackbench.experiments.orchestration.clusters import cluster_folders
    from ackbench.infra.cluster import cleaning

    for cluster in cluster_folders(home, sweep.sweep_id):
        cleaning.remove_processes(cluster)


def _announcement(sweep: SweepFolder, plan: Plan) -> str:
    complete = len(plan.trials) - len(sweep.pending())
    already = f", {complete} already complete" if complete else ""
    refused = f", {format_count(len(plan.refused), 'cell')} refused" if plan.refused else ""
    return f"sweep {sweep.sweep_id}: {format_count(len(plan.trials), 'trial')}{already}{refused}"


def report_interrupt(home: Home, sweep: SweepFolder, outcome: RunOutcome) -> int:
    """Kill what is left of an interrupted run's clusters and print how to resume it.

    The logs of the clusters stay.

    Returns:
        The exit code that the signal asks for.
    """
    _kill_clusters(home, sweep)
    planned = len(sweep.plan().trials)
    complete = planned - len(sweep.pending())
    how = "killed" if outcome.killed else "stopped"
    _say(f"{how}; {complete} of {planned} trials are complete and kept")
    _say(f"resume with: ackbench run --resume {sweep.sweep_id}")
    return outcome.interrupted


def reason_of_failure(sweep: SweepFolder, log: Path, code: int = 1) -> str:
    """Return why a run failed: the reasons of its failed trials, or else the log's last line.

    Of a run that a signal ended, the last line is any line, so the signal is the reason. A full
    disk takes neither reasons nor the log's last lines, so it is looked for here as well.
    """
    found = {trial_id: sweep.failure_reason(trial_id) for trial_id in sweep.pending()}
    reasons = [f"trial {trial_id} failed: {reason}" for trial_id, reason in found.items() if reason]
    if code < 0:
        ended_by = signal.Signals(-code).name
        reasons.append(f"the process that runs the sweep was ended by {ended_by}")
    lines = last_lines(log, _LOG_LINES)
    full = full_disk(HarnessError("\n".join(lines)), sweep.root)
    if full and not any(full_disk_is_named(reason) for reason in reasons):
        return "\n".join([*reasons, full])
    return "\n".join(reasons) or "".join(lines[-1:]).strip() or "the run exited without output"
