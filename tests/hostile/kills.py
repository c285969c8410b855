"""SIGKILL to each kind of process in each stage of a run, every pair equally often.

After each kill the machine is inspected, `ackbench clean` is run, the machine is inspected again,
and the sweep is resumed. Trials that were sealed before the kill must be unchanged.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.stages import (
    EXPERIMENT,
    digests,
    new_sweep,
    sweep_ids,
    wait_for_stage,
)
from support.machine_state import machine_state

from experiments.sweep.folder import SweepFolder
from infra.errors import WaitTimeout
from infra.process.waiting import wait_until

PROCESSES: Final[Mapping[str, str]] = {
    "command": "experiments.cli",
    "run": "experiments.orchestration.embedded",
    "supervisor": "infra.cluster.supervisor",
    "clients": "experiments.clients.process.fork_server_main",
    "broker": "kafka.Kafka",
    "spark": "spark_jobs",
}
"""The kinds of processes, by a part of their command lines; `command` also starts `ackbench`."""
_ALWAYS: Final = ("command", "run")
_CLUSTER: Final = (*_ALWAYS, "supervisor", "broker")
_TRIAL: Final = (*_CLUSTER, "clients")
STAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "plan": ("command",),
    "provision": _CLUSTER,
    "prepare": _TRIAL,
    "load": _TRIAL,
    "fault": _TRIAL,
    "heal": _TRIAL,
    "read": _TRIAL,
    "seal": _TRIAL,
    "measure": (*_ALWAYS, "spark"),
    "report": _ALWAYS,
    "track": _ALWAYS,
}
"""The stages of a run, and the kinds of processes that exist in each."""
MAX_DELAY_S: Final[Mapping[str, float]] = {"plan": 1.5, "provision": 4.0, "load": 0.4, "fault": 2.0}
"""How long after the beginning of a stage the kill may be; elsewhere it follows at once."""
_PROCESS_TIMEOUT_S: Final = 60.0
_EXIT_TIMEOUT_S: Final = 180.0


@dataclass(frozen=True)
class Kill:
    """What is killed, and when."""

    stage: str
    process: str


@dataclass
class KillCounts:
    """The outcomes of all kills."""

    killed: Counter[Kill] = field(default_factory=Counter)
    missed: Counter[Kill] = field(default_factory=Counter)
    """The process had ended, or the stage was over, when its turn came."""
    left_before_clean: Counter[str] = field(default_factory=Counter)
    """Leftovers by kind."""
    left_after_clean: int = 0
    resumed: int = 0
    sealed: int = 0
    """Trials that were sealed before a kill."""
    altered: int = 0
    failures: list[str] = field(default_factory=list)


def pairs() -> tuple[Kill, ...]:
    """Return every pair of a stage and a kind of process that exists in it."""
    return tuple(Kill(stage, process) for stage, kinds in STAGES.items() for process in kinds)


def run(rounds: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Kill one process in each round, and check what is left and what can be resumed.

    Args:
        rounds: how many kills; every pair of `pairs` comes equally often, as far as they divide.
        seed: determines the order of the kills and their delays.
        say: called with one line per round.
    """
    start_s = time.monotonic()
    order = random.Random(seed)  # noqa: S311 - no secret
    kills = [pair for _ in range(rounds // len(pairs()) + 1) for pair in pairs()][:rounds]
    order.shuffle(kills)
    counts = KillCounts()
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        experiment = Path(folder) / "killed.yaml"
        experiment.write_text(EXPERIMENT)
        for number, kill in enumerate(kills, start=1):
            failures = len(counts.failures)
            _round(bench, str(experiment), kill, order.random(), counts)
            outcome = "; ".join(counts.failures[failures:]) or "held"
            say(f"{number} of {rounds}: {kill.process} during {kill.stage}: {outcome}")
    for line in _lines(counts):
        say(line)
    return Figures(
        "kills",
        "nothing is left after clean, the sweep is resumed, no sealed trial is altered",
        sum(counts.killed.values()),
        tuple(counts.failures),
        time.monotonic() - start_s,
    )


def _lines(counts: KillCounts) -> list[str]:
    stages = Counter[str]()
    processes = Counter[str]()
    for kill, number in counts.killed.items():
        stages[kill.stage] += number
        processes[kill.process] += number
    return [
        f"killed by stage: {_listed(stages)}",
        f"killed by process: {_listed(processes)}; not there any more: {counts.missed.total()}",
        (
            f"left before clean: {_listed(counts.left_before_clean) or 'nothing'}; "
            f"after: {counts.left_after_clean}"
        ),
        (
            f"resumed: {counts.resumed} of {counts.killed.total() + counts.missed.total()}; "
            f"sealed trials altered: {counts.altered} of {counts.sealed}"
        ),
    ]


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(numbers.items()))


def _round(
    bench: AckbenchCommand, experiment: str, kill: Kill, delay: float, counts: KillCounts
) -> None:
    """Run a sweep, kill, clean and resume; add the outcome to the counts.

    Args:
        bench: the command and its home.
        experiment: the file of the experiment.
        kill: what to kill, and when.
        delay: the share of the stage's longest delay after which to kill.
        counts: the counts to add to.
    """
    before = machine_state(bench.home.root)
    known = set(sweep_ids(bench))
    command = bench.start("run", experiment)
    try:
        killed = _kill_in_stage(bench, command, known, kill, delay)
        sealed = digests(new_sweep(bench, known))
        command.communicate(timeout=_EXIT_TIMEOUT_S)
    except (WaitTimeout, subprocess.TimeoutExpired) as error:
        counts.failures.append(f"{kill.process} during {kill.stage}: {error}")
        killed, sealed = False, {}
    finally:
        _end(command)
    (counts.killed if killed else counts.missed)[kill] += 1
    left = machine_state(bench.home.root).added_since(before)
    counts.left_before_clean.update(line.split(":")[0] for line in left)
    try:
        cleaned = bench.run("clean")
        if cleaned.returncode != 0:
            counts.failures.append(f"{kill}: clean: {cleaned.stderr.strip()}")
    except subprocess.TimeoutExpired as error:
        counts.failures.append(f"{kill}: {error}")
    left = machine_state(bench.home.root).added_since(before)
    counts.left_after_clean += len(left)
    counts.failures += [f"{kill}: left after clean: {line}" for line in left]
    _resume(bench, new_sweep(bench, known), kill, counts)
    _compare(sealed, digests(new_sweep(bench, known)), kill, counts)


def _kill_in_stage(
    bench: AckbenchCommand,
    command: subprocess.Popen[str],
    known: set[str],
    kill: Kill,
    delay: float,
) -> bool:
    """Wait for the stage and send SIGKILL; return whether a process of the kind was there."""
    if kill.stage != "plan":
        wait_for_stage(bench, command, known, kill.stage)
    deadline_s = time.monotonic() + delay * MAX_DELAY_S.get(kill.stage, 0.0)
    pids: list[int] = []

    def found() -> bool:
        pids[:] = _pids(bench, command, kill.process)
        return time.monotonic() >= deadline_s and (bool(pids) or command.poll() is not None)

    wait_until(
        found, awaiting=f"a process {kill.process}", timeout_s=_PROCESS_TIMEOUT_S, every_s=0.005
    )
    if not pids or command.poll() is not None:
        return False
    try:
        os.kill(pids[0], 9)
    except ProcessLookupError:
        return False
    return True


def _pids(bench: AckbenchCommand, command: subprocess.Popen[str], kind: str) -> list[int]:
    """Return the pids of the processes of a kind, those of the home only."""
    if kind == "command":
        return [command.pid]
    lines = [line for line in bench.processes() if PROCESSES[kind] in _command_line(line)]
    return [int(line.split()[0]) for line in lines]


def _command_line(line: str) -> str:
    """Return the whole command line: `processes` shortens it before the class of a broker."""
    try:
        return " ".join(psutil.Process(int(line.split(maxsplit=1)[0])).cmdline())
    except psutil.Error:
        return ""


def _resume(
    bench: AckbenchCommand, sweep: SweepFolder | None, kill: Kill, counts: KillCounts
) -> None:
    """Resume the sweep, or count it as resumed where the kill left no plan to resume."""
    if sweep is None:
        counts.resumed += 1
        return
    try:
        resumed = bench.run("run", "--resume", sweep.sweep_id)
    except subprocess.TimeoutExpired as error:
        counts.failures.append(f"{kill}: not resumed: {error}")
        return
    if resumed.returncode == 0 and not sweep.pending():
        counts.resumed += 1
    else:
        counts.failures.append(f"{kill}: not resumed: {resumed.stderr.strip()[-300:]}")


def _compare(
    before: Mapping[str, str], after: Mapping[str, str], kill: Kill, counts: KillCounts
) -> None:
    trials = {str(Path(path).parent) for path in before}
    altered = {str(Path(path).parent) for path in before if before[path] != after.get(path)}
    counts.sealed += len(trials)
    counts.altered += len(altered)
    counts.failures += [f"{kill}: altered: {trial}" for trial in sorted(altered)]


def _end(command: subprocess.Popen[str]) -> None:
    """Kill the command if it runs: also when the storm itself is interrupted."""
    if command.poll() is None:
        command.kill()
        command.communicate()
