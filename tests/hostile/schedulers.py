"""SIGKILL and SIGSTOP to Airflow's scheduler while it runs a sweep, and to the run of a command.

`ackbench up` ends with its scheduler. It is started again, and the DAG run that was killed ends by
itself; a sweep that is not complete then is resumed. A command has no scheduler: the process that
runs its DAG stands in for it.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from e2e.command import AckbenchCommand, new_bench
from e2e.services import free_ports
from hostile.figures import Figures
from hostile.services import RUN_TIMEOUT_S, Services, start_services
from hostile.signals import Signal, send, signals
from hostile.stages import digests, new_sweep, sweep_ids
from support.machine_state import MachineState, machine_state

from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.processes import ProcessIdentity
from ackbench.infra.process.waiting import sleep_until, wait_until

EXPERIMENT: Final = """\
name: small
title: Small
question: Does a sweep end although a service is killed or paused?
construction: Two short trials without a fault.
axes: {acks: all, enable.idempotence: true, replication.factor: 3, partitions: 1, fault: none}
workload: {rate_records_per_s: 1000, record_size_bytes: 100, duration_s: 5, producers: 1}
controls: false
repeats: 2
"""
FILE: Final = "small.yaml"
RUNNER: Final = "ackbench.experiments.orchestration.runner"
_LONGEST_S: Final = 40.0
"""About how long a sweep takes; the moment of a signal is within it."""
_LONGEST_STOP_S: Final = 20.0
_STATE_TIMEOUT_S: Final = 60.0
_LAW: Final = (
    "the sweep ends or is resumed with the verdicts of an undisturbed one, nothing is left"
)
Verdicts = list[tuple[str, str, str]]
"""Cell, guarantee and verdict of each judgement of a sweep."""
_Found = tuple[list[str], str]
"""The laws that did not hold in a round, and what was done."""


def run(rounds: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Kill or pause the scheduler of `ackbench up` at random moments of triggered sweeps.

    Args:
        rounds: how many, half of them kills.
        seed: determines the moments and the pauses.
        say: called with one line per round.
    """
    start_s, failures = time.monotonic(), list[str]()
    with undisturbed(failures) as (bench, file, verdicts):
        before = machine_state(bench.home.root)
        under_up = _UnderUp(bench, file.parent, verdicts)
        try:
            failures += _rounds(rounds, seed, under_up.round, say)
        finally:
            under_up.stop()
        failures += left_behind(bench, before)
    return Figures("schedulers", _LAW, rounds, tuple(failures), time.monotonic() - start_s)


def _rounds(
    rounds: int, seed: int, try_one: Callable[[int, Signal], _Found], say: Callable[[str], None]
) -> list[str]:
    """Try each signal; return what did not hold, each with what was done."""
    failures = []
    for number, one in enumerate(signals(rounds, seed, _LONGEST_S, _LONGEST_STOP_S), 1):
        found, what = try_one(number, one)
        failures += [f"{what}: {line}" for line in found]
        say(f"{number} of {rounds}: {what}: {'; '.join(found) or 'held'}")
    return failures


def run_commands(rounds: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Kill or pause the process that runs the DAG of `ackbench run`, at random moments.

    Args:
        rounds: how many, half of them kills.
        seed: determines the moments and the pauses.
        say: called with one line per round.
    """
    start_s, failures = time.monotonic(), list[str]()
    with undisturbed(failures) as (bench, file, verdicts):
        before = machine_state(bench.home.root)

        def round_of_command(_: int, one: Signal) -> _Found:
            found, what = _round_of_command(bench, str(file), one, verdicts)
            return [*found, *left_behind(bench, before)], what

        failures += _rounds(rounds, seed, round_of_command, say)
    return Figures("runners", _LAW, rounds, tuple(failures), time.monotonic() - start_s)


@contextmanager
def undisturbed(failures: list[str]) -> Iterator[tuple[AckbenchCommand, Path, Verdicts]]:
    """Run a sweep without any disturbance in a new home.

    Args:
        failures: a line is added if it fails.

    Yields:
        The command, the experiment in a folder of its own, and the verdicts.
    """
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        file = Path(folder) / "experiments" / FILE
        file.parent.mkdir()
        file.write_text(EXPERIMENT)
        ran = bench.run("run", str(file), timeout_s=RUN_TIMEOUT_S)
        if ran.returncode:
            failures.append(f"the undisturbed sweep failed: {ran.stderr[-300:]}")
        yield bench, file, verdicts_of(bench)


def verdicts_of(bench: AckbenchCommand, *sweep: str) -> Verdicts:
    """Return cell, guarantee and verdict of each judgement of a sweep."""
    return sorted(
        (cell["cell"], judgement["guarantee"], judgement["verdict"])
        for cell in bench.show(*sweep)["cells"]
        for judgement in cell["judgements"]
    )


def left_behind(bench: AckbenchCommand, before: MachineState) -> list[str]:
    """Return what is left of a home's sweeps and services once they have had time to end."""
    left: list[str] = []
    own = str(bench.home.root.parent)

    def nothing() -> bool:
        added = machine_state(bench.home.root).added_since(before)
        # Others of this machine mount folders, too.
        left[:] = [line for line in added if not line.startswith("mounts: ") or own in line]
        return not left

    try:
        wait_until(nothing, awaiting="nothing to be left", timeout_s=_STATE_TIMEOUT_S, every_s=0.5)
    except WaitTimeout:
        return [f"left behind: {line}" for line in left]
    return []


def wrong_end(bench: AckbenchCommand, sweep: SweepFolder | None, verdicts: Verdicts) -> list[str]:
    """Resume a sweep that is not complete; return what does not hold then."""
    if sweep is None:
        return []
    sealed, wrong = digests(sweep), list[str]()
    if (
        sweep.pending()
        or not sweep.results.is_dir()
        or verdicts_of(bench, sweep.sweep_id) != verdicts
    ):
        resumed = bench.run("run", "--resume", sweep.sweep_id, timeout_s=RUN_TIMEOUT_S)
        if resumed.returncode or "Traceback" in resumed.stderr:
            wrong.append(f"not resumed: {resumed.stderr.strip()[-400:]}")
    now = digests(sweep)
    wrong += [f"altered: {path}" for path in sealed if sealed[path] != now.get(path)]
    if sweep.pending():
        wrong.append(f"not complete: {', '.join(sweep.pending())}")
    elif (found := verdicts_of(bench, sweep.sweep_id)) != verdicts:
        wrong.append(f"other verdicts: {found}")
    return wrong


class _UnderUp:
    """Services that are started again after each kill."""

    def __init__(self, bench: AckbenchCommand, experiments: Path, verdicts: Verdicts) -> None:
        self._bench, self._experiments, self._verdicts = bench, experiments, verdicts
        self._ports = free_ports()
        self._services: Services | None = None

    def round(self, number: int, one: Signal) -> _Found:
        """Send the signals during a sweep; return what does not hold, and what was done."""
        what, known, run_id = str(one), set(sweep_ids(self._bench)), f"round-{number}"
        try:
            services = self._running()
            services.trigger(run_id, FILE)
            sleep_until(time.monotonic() + one.at_s)
            what += f" ({stage_of(new_sweep(self._bench, known))})"
            send(one, [services.pid_of("scheduler")])
            wrong = self._end_after_kill(services) if one.stopped_s is None else []
            services = self._running()
            state = services.wait_for_run(run_id)
            reasons = services.errors_of(run_id)
        except (WaitTimeout, OSError) as error:
            return [str(error)], what
        what += f", run {state}"
        if state == "failed" and reasons:
            what += f" ({reasons[0][:160]})"
        if state == "failed" and one.stopped_s is not None:
            wrong.append(f"the run failed: {'; '.join(reasons)[:400]}")
        sweep = new_sweep(self._bench, known)
        if sweep is None and not (state == "failed" and reasons):
            wrong.append(f"no sweep was planned, and the run does not say why: {state}")
        return [*wrong, *wrong_end(self._bench, sweep, self._verdicts)], what

    def stop(self) -> None:
        """Stop the services."""
        if self._services:
            self._services.stop()

    def _running(self) -> Services:
        if self._services is None:
            self._services = start_services(self._bench, self._experiments, self._ports)
        return self._services

    def _end_after_kill(self, services: Services) -> list[str]:
        """Wait for the end of the other services; return what does not hold."""
        self._services = None
        try:
            _, errors = services.process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return ["`ackbench up` did not end"]
        wrong = [f"left behind: {line}" for line in self._bench.processes()]
        if services.process.returncode != 1 or "scheduler exited with status -9" not in errors:
            wrong.append(f"exit code {services.process.returncode}: {errors[-300:]}")
        return wrong


def stage_of(sweep: SweepFolder | None) -> str:
    """Return what a sweep does now."""
    activity = sweep.activity() if sweep else None
    return activity.stage if activity else "not planned"


def _round_of_command(
    bench: AckbenchCommand, experiment: str, one: Signal, verdicts: Verdicts
) -> tuple[list[str], str]:
    """Send the signals to the process that runs the DAG of a command."""
    what, known = str(one), set(sweep_ids(bench))
    command = bench.start("run", experiment)
    runner = wait_until(
        lambda: _runner(bench), awaiting="the process that runs the DAG", timeout_s=RUN_TIMEOUT_S
    )
    sleep_until(time.monotonic() + one.at_s)
    what += f" ({stage_of(new_sweep(bench, known))})"
    if not send(one, [runner.pid] if runner.is_alive() else []):
        what += ", had ended"
    try:
        _, errors = command.communicate(timeout=RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        command.kill()
        command.communicate()
        return ["`ackbench run` did not end"], what
    wrong = []
    if "Traceback" in errors:
        wrong.append(f"a traceback: {errors[-300:]}")
    if command.returncode and one.stopped_s is not None:
        wrong.append(f"exit code {command.returncode}: {errors.strip()[-400:]}")
    if command.returncode:
        what += f", exit code {command.returncode} ({errors.strip().splitlines()[-3:]})"
    sweep = new_sweep(bench, known)
    if sweep and command.returncode and sweep.pending():
        cleaned = bench.run("clean")
        wrong += [cleaned.stderr] if cleaned.returncode else []
    return [*wrong, *wrong_end(bench, sweep, verdicts)], what


def _runner(bench: AckbenchCommand) -> ProcessIdentity | None:
    found = [line for line in bench.processes() if RUNNER in line]
    return ProcessIdentity.of(int(found[0].split()[0])) if found else None
