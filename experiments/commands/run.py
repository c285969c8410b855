"""`ackbench run`: plan, run the DAG in a process of its own, show how far it is, then the table."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import click

from experiments.commands.progress_bar import bar
from experiments.commands.run_process import Interrupts, RunOutcome, RunProcess, embedded, limit_s
from experiments.commands.run_until import RepeatLimits, RepeatUntil
from experiments.commands.show import passed, print_results
from experiments.commands.sweep_claim import SweepClaim
from experiments.comparing.gate import NO_GATE, Gate
from experiments.ledger.record import Scalar
from experiments.planning.new_sweep import check_machine, find_sweep, make_ready, new_sweep
from experiments.planning.overrides import Overrides, parse_override
from experiments.results.read import read_results
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan
from experiments.sweep.progress import ProgressReader
from infra.errors import HarnessError, InputError
from infra.machine.home import Home
from infra.process.log_tail import last_lines


def run_new(
    home: Home,
    experiment: str,
    overrides: Overrides,
    limits: RepeatLimits | None = None,
    gate: Gate = NO_GATE,
) -> int:
    """Plan a sweep, run it and show it; return the exit code.

    Args:
        home: where it will lie.
        experiment: a name of the catalogue, or a file.
        overrides: what is to be other than the experiment has it.
        limits: how narrow intervals are to be made by further repeats; `None`: it is run once.
        gate: which verdicts the caller does not take.

    Raises:
        InputError: the request cannot be; nothing was started.
        HarnessError: a trial, or a step after the trials, could not be carried out.
    """
    sweep = new_sweep(home, experiment, overrides, _say)
    with SweepClaim(home, sweep.sweep_id) as claim:
        return _carry_out(home, sweep, claim, limits, gate)


def resume(home: Home, named: str, limits: RepeatLimits | None = None, gate: Gate = NO_GATE) -> int:
    """Run the trials of a sweep that are not whole, then measure and show all of it; return the exit code.

    Raises:
        InputError: there is no such sweep, another process runs it, or this machine cannot run it.
        HarnessError: as `run_new`.
    """
    home.ensure_writable()
    sweep = find_sweep(home, named)
    plan = sweep.plan()
    with SweepClaim(home, sweep.sweep_id) as claim:
        check_machine(plan, home)
        make_ready(plan, home, _say)
        return _carry_out(home, sweep, claim, limits, gate)


def _say(text: str) -> None:
    click.echo(text, err=True)


def axes_of(overrides: Sequence[str]) -> dict[str, tuple[Scalar, ...]]:
    """Return the values by axis of `axis=v1,v2` each.

    Raises:
        InputError: one is of another form, or an axis is named twice.
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
    """Return what `--until` and its two limits ask for; `None`: nothing.

    Raises:
        InputError: one is of another form, or a limit stands without `--until`.
    """
    if until is not None:
        return RepeatLimits.of(until, budget, max_repeats)
    if budget is not None or max_repeats is not None:
        raise InputError(
            '--budget and --max-repeats limit --until: name it too, as in --until "ci<0.1"'
        )
    return None


def _carry_out(
    home: Home, sweep: SweepFolder, claim: SweepClaim, limits: RepeatLimits | None, gate: Gate
) -> int:
    log = log_of(home, sweep)
    ended = _until(home, sweep, claim, limits) if limits else followed(home, sweep, claim)
    if ended.interrupted:
        return interrupted(home, sweep, ended)
    if sweep.results.is_dir():
        print_results(sweep)
        _print_places(home, sweep)
    if ended.code or sweep.pending():
        raise HarnessError(
            f"{reason_of_failure(sweep, log)}\nlog: {log}\ngo on with: ackbench run --resume {sweep.sweep_id}"
        )
    return passed(gate.of_sweep(read_results(sweep)))


def _until(home: Home, sweep: SweepFolder, claim: SweepClaim, limits: RepeatLimits) -> RunOutcome:
    """Run the sweep, and again with more repeats, until its intervals are narrow enough; one that did not end well is not gone on with."""
    repeating = RepeatUntil(home, sweep, limits, lambda text: click.echo(text, err=True))
    ended = followed(home, sweep, claim)
    try:
        while not (ended.interrupted or ended.code or sweep.pending()) and repeating.go_on():
            ended = followed(home, sweep, claim)
    except KeyboardInterrupt:  # between two runs, while nothing runs
        ended = RunOutcome(code=0, interrupted=128 + signal.SIGINT, killed=False)
    if ended.interrupted or ended.code or sweep.pending():
        repeating.end(
            "interrupted" if ended.interrupted else "the harness could not carry a run to its end"
        )
    return ended


def log_of(home: Home, sweep: SweepFolder) -> Path:
    """Return where a run's chatter goes."""
    return home.logs / sweep.sweep_id / "airflow.log"


def followed(home: Home, sweep: SweepFolder, claim: SweepClaim) -> RunOutcome:
    """Run the trials of a sweep that are not whole, and what comes after them; show how far it is, and return how that ended."""
    from experiments.orchestration.environment import airflow_environment

    plan, log = sweep.plan(), log_of(home, sweep)
    watcher = ProgressReader(sweep, plan)
    with Interrupts() as interrupts, bar() as shown:
        shown.say(_announced(sweep, plan))
        run = RunProcess(embedded(sweep.sweep_id), airflow_environment(home), log)
        claim.note_runner(run.identity)
        return run.follow(interrupts, lambda: shown.show(watcher.look()), shown.say, limit_s(plan))


def _print_places(home: Home, sweep: SweepFolder) -> None:
    """Print where to look further."""
    from experiments.tracking import store

    for link in store.links(sweep, home):
        click.echo(f"MLflow:  {link}")
    if sweep.report.is_file():
        click.echo(f"report:  {sweep.report}")
    click.echo(f"sweep:   {sweep.root}\nlogs:    {log_of(home, sweep).parent}")


def _announced(sweep: SweepFolder, plan: Plan) -> str:
    pending = len(sweep.pending())
    whole = f", {len(plan.trials) - pending} already whole" if pending < len(plan.trials) else ""
    refused = f", {len(plan.refused)} cells refused" if plan.refused else ""
    trials = "1 trial" if len(plan.trials) == 1 else f"{len(plan.trials)} trials"
    return f"sweep {sweep.sweep_id}: {trials}{whole}{refused}"


def interrupted(home: Home, sweep: SweepFolder, ended: RunOutcome) -> int:
    """See that no process is left (the cluster's logs are), and say how to go on."""
    from infra.cluster import cleaning

    for cluster in home.clusters.glob(f"{sweep.sweep_id}.*"):
        cleaning.remove_processes(cluster)
    planned = len(sweep.plan().trials)
    whole = planned - len(sweep.pending())
    how = "killed" if ended.killed else "stopped"
    click.echo(
        f"{how}; {whole} of {planned} trials are whole and kept\ngo on with: ackbench run --resume {sweep.sweep_id}",
        err=True,
    )
    return ended.interrupted


def reason_of_failure(sweep: SweepFolder, log: Path) -> str:
    """Return what failed: the trials' own reasons, or else the last thing the run said."""
    failed = [(trial_id, sweep.failed(trial_id) / "reason.txt") for trial_id in sweep.pending()]
    told = [
        f"trial {trial_id} failed: {reason.read_text().strip()}"
        for trial_id, reason in failed
        if reason.is_file()
    ]
    return "\n".join(told) or "".join(last_lines(log, 1)).strip() or "the run ended without a word"
