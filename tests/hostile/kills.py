"""SIGKILL to each kind of process in each stage of a run, every pair equally often.

After each kill the machine is inspected, `ackbench clean` is run, and the machine is inspected
again. Then the sweep is resumed, and killed in a later stage, until the resumed sweep is complete:
one sweep has up to eleven kills. Trials that were sealed before a kill must be unchanged.
"""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import psutil
from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.stages import EXPERIMENT, digests, new_sweep, sweep_ids, wait_for_stage
from support.machine_state import MachineState, machine_state

from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.waiting import wait_until

PROCESSES: Final[Mapping[str, str]] = {
    "command": "ackbench",
    "run": "ackbench.experiments.orchestration.runner",
    "supervisor": "ackbench.infra.cluster.supervisor",
    "clients": "ackbench.experiments.trial.clients.fork_server_main",
    "broker": "kafka.Kafka",
    "live": "ackbench.experiments.pages.live.reader",
    "spark": "spark_jobs",
}
"""The kinds of processes, by a part of their command lines; `command` also starts `ackbench`."""
_ALWAYS: Final = ("command", "run")
_CLUSTER: Final = (*_ALWAYS, "supervisor", "broker")
_TRIAL: Final = (*_CLUSTER, "clients", "live")
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
_EXIT_TIMEOUT_S: Final = 600.0
"""No law is about time: long enough for a busy machine."""


@dataclass(frozen=True)
class Kill:
    """What is killed, and when."""

    stage: str
    process: str

    def __str__(self) -> str:
        """Return the kill as the beginning of a line."""
        return f"{self.process} during {self.stage}"


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
    """Kills whose sweep is complete now, or had no plan to resume."""
    sealed: int = 0
    """How often a sealed trial was compared with itself before a kill."""
    altered: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass
class KilledSweep:
    """A sweep between its kills."""

    sweep: SweepFolder
    kills: list[Kill]
    """Those that it was resumed after, or is to be."""
    sealed: Mapping[str, str]
    """The digests of its sealed trials, as they were at the last kill."""


def chains(rounds: int, seed: int) -> Iterator[list[Kill]]:
    """Yield the kills of one sweep each, in the order of the stages.

    Every pair of a stage and a kind of process that exists in it comes equally often, as far as
    they divide the rounds.
    """
    random = Random(seed)  # noqa: S311 - no secret
    while rounds > 0:
        shuffled = {stage: random.sample(kinds, len(kinds)) for stage, kinds in STAGES.items()}
        for number in range(max(map(len, shuffled.values()))):
            chain = [
                Kill(stage, kinds[number])
                for stage, kinds in shuffled.items()
                if number < len(kinds)
            ]
            if chain := chain[: max(rounds, 0)]:
                yield chain
            rounds -= len(chain)


def run(
    rounds: int,
    seed: int,
    say: Callable[[str], None] = lambda _: None,
    *,
    skipped: int = 0,
    budget_s: float = math.inf,
) -> Figures:
    """Kill one process in each round, and check what is left and what can be resumed.

    Args:
        rounds: how many kills.
        seed: determines the order of the kills.
        say: called with one line per round.
        skipped: how many of these kills an earlier run with this seed has done; sweeps of which
            some were done start again.
        budget_s: kill none after this time; the sweep that was killed last is resumed.
    """
    start_s = time.monotonic()
    delays, counts = Random(seed), KillCounts()  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        experiment = Path(folder) / "killed.yaml"
        experiment.write_text(EXPERIMENT)
        done = 0
        for chain in chains(rounds, seed):
            if done + len(chain) <= skipped:
                done += len(chain)
                continue
            sweep: KilledSweep | None = None
            for kill in chain:
                if time.monotonic() - start_s > budget_s:
                    break
                failures, done, last = len(counts.failures), done + 1, kill
                sweep = _round(bench, str(experiment), sweep, kill, delays.random(), counts)
                outcome = "; ".join(counts.failures[failures:]) or "held"
                say(f"{done} of {rounds}: {kill.process} during {kill.stage}: {outcome}")
            if sweep is not None:
                _complete(bench, sweep, last, counts)
    for line in _lines(counts):
        say(line)
    return Figures(
        "kills",
        "nothing is left after clean, the sweep is resumed, no sealed trial is altered",
        counts.killed.total(),
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
            f"kills whose sweep was resumed and is complete: {counts.resumed} of "
            f"{counts.killed.total()}; sealed trials altered: {counts.altered} of {counts.sealed} "
            "comparisons"
        ),
    ]


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(numbers.items()))


def _round(
    bench: AckbenchCommand,
    experiment: str,
    killed: KilledSweep | None,
    kill: Kill,
    delay: float,
    counts: KillCounts,
) -> KilledSweep | None:
    """Run a sweep or resume it, kill, and clean; add the outcome to the counts.

    Args:
        bench: the command and its home.
        experiment: the file of the experiment.
        killed: the sweep to resume; `None`: run another one.
        kill: what to kill, and when.
        delay: the share of the stage's longest delay after which to kill.
        counts: the counts to add to.

    Returns:
        The sweep, to be resumed; `None`: it is complete, or there is none yet.
    """
    before = machine_state(bench.home.root)
    known = set(sweep_ids(bench)) - ({killed.sweep.sweep_id} if killed else set())
    arguments = ("--resume", killed.sweep.sweep_id) if killed else (experiment,)
    command = bench.start("run", *arguments)
    try:
        was_killed = _kill_in_stage(bench, command, known, kill, delay)
        sealed = digests(new_sweep(bench, known))
        command.communicate(timeout=_EXIT_TIMEOUT_S)
    except (WaitTimeout, subprocess.TimeoutExpired) as error:
        counts.failures.append(f"{kill}: {error}")
        was_killed, sealed = False, {}
    finally:
        _end(command)
    (counts.killed if was_killed else counts.missed)[kill] += 1
    _clean(bench, before, kill, counts)
    sweep = new_sweep(bench, known)
    if sweep is None:  # no plan that could be resumed
        counts.resumed += was_killed
        return None
    if killed:
        _compare(killed.sealed, digests(sweep), kill, counts)
    _compare(sealed, digests(sweep), kill, counts)
    after = KilledSweep(
        sweep, [*(killed.kills if killed else ()), *([kill] if was_killed else ())], digests(sweep)
    )
    if command.returncode == 0 and not sweep.pending():
        counts.resumed += len(after.kills)
        return None
    return after


def _clean(bench: AckbenchCommand, before: MachineState, kill: Kill, counts: KillCounts) -> None:
    """Count what is left, run `ackbench clean`, and count again."""
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
        pids[:] = pids_of(bench, command, kill.process)
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


def pids_of(bench: AckbenchCommand, command: subprocess.Popen[str], kind: str) -> list[int]:
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


def _complete(bench: AckbenchCommand, killed: KilledSweep, last: Kill, counts: KillCounts) -> None:
    """Resume a sweep to its end after its last kill."""
    sweep = killed.sweep
    kills = ", ".join(map(str, killed.kills))
    try:
        resumed = bench.run("run", "--resume", sweep.sweep_id, timeout_s=_EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        counts.failures.append(f"{kills}: not resumed: {error}")
        return
    if resumed.returncode == 0 and not sweep.pending():
        counts.resumed += len(killed.kills)
    else:
        counts.failures.append(f"{kills}: not resumed: {resumed.stderr.strip()[-300:]}")
    _compare(killed.sealed, digests(sweep), last, counts)


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
