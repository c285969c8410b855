"""Signals to one process, each at a random moment of a trial's load or of another activity."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from e2e.command import AckbenchCommand
from hostile.stages import new_sweep

from ackbench.experiments.trial.events.journal import JOURNAL_FILE
from ackbench.infra.process.waiting import sleep_until, wait_until

TIMEOUT_S: Final = 900.0
"""No law is about time: long enough for a busy machine."""
LONGEST_STOP_S: Final = 4.0
"""Not longer than the processes of a trial wait for each other."""
_SHORTEST_STOP_S: Final = 0.5


@dataclass(frozen=True)
class Signal:
    """A signal, and when it is sent."""

    at_s: float
    """Seconds after the begin of what it disturbs: the load of a trial, a sweep, the tracking."""
    stopped_s: float | None = None
    """For how long the process is stopped (SIGSTOP, SIGCONT); `None`: it is killed (SIGKILL)."""

    def __str__(self) -> str:
        """Return the signal as the beginning of a line."""
        what = "killed" if self.stopped_s is None else f"stopped for {self.stopped_s:.1f} s"
        return f"{what} after {self.at_s:.1f} s"


@dataclass(frozen=True)
class SentSignal:
    """A signal that was sent."""

    signal: Signal
    trial_id: str


def signals(
    rounds: int, seed: int, longest_s: float, longest_stop_s: float = LONGEST_STOP_S
) -> tuple[Signal, ...]:
    """Return half as many kills as rounds, and as many stops, in a random order.

    Args:
        rounds: how many signals.
        seed: determines them.
        longest_s: how long what they disturb lasts, seconds.
        longest_stop_s: the longest time that a process is stopped, seconds.
    """
    random = Random(seed)  # noqa: S311 - no secret
    kinds = random.sample([number % 2 == 0 for number in range(rounds)], rounds)
    return tuple(
        Signal(
            random.uniform(0, longest_s),
            None if kill else random.uniform(_SHORTEST_STOP_S, longest_stop_s),
        )
        for kill in kinds
    )


def send_in_trials(
    bench: AckbenchCommand,
    command: subprocess.Popen[str],
    known: set[str],
    wanted: deque[Signal],
    find: Callable[[], Sequence[int]],
) -> Iterator[SentSignal]:
    """Send each signal in another trial of a run; yield those that met a process.

    Args:
        bench: the command and its home.
        command: the run.
        known: the sweeps of the home that are not this one.
        wanted: the signals, one per trial, in this order; those that were sent are removed.
        find: returns the pids of the process that gets them.

    Raises:
        WaitTimeout: no further trial began, and the run did not end.
    """
    done: set[str] = set()
    while wanted:
        trials = wait_until(
            lambda: _loads(bench, known, done) or command.poll() is not None,
            awaiting="the load of a trial",
            timeout_s=TIMEOUT_S,
            every_s=0.01,
        )
        if not isinstance(trials, dict):
            return
        ((trial_id, begin_ns),) = trials.items()
        done.add(trial_id)
        one = wanted[0]
        sleep_until(time.monotonic() + one.at_s - (time.time_ns() - begin_ns) / 1e9)
        if send(one, find()):
            wanted.popleft()
            yield SentSignal(one, trial_id)


def send(one: Signal, pids: Sequence[int]) -> bool:
    """Send a signal to the first process; return whether there was one."""
    if not pids:
        return False
    try:
        os.kill(pids[0], signal.SIGKILL if one.stopped_s is None else signal.SIGSTOP)
    except ProcessLookupError:
        return False
    if one.stopped_s is not None:
        try:
            sleep_until(time.monotonic() + one.stopped_s)
        finally:
            with suppress(ProcessLookupError):  # the run has killed it meanwhile
                os.kill(pids[0], signal.SIGCONT)
    return True


def _loads(bench: AckbenchCommand, known: set[str], done: set[str]) -> dict[str, int]:
    """Return the trial under load that is not done yet, with the begin of its load."""
    sweep = new_sweep(bench, known)
    for journal in sweep.root.glob(f"trials/*.partial/{JOURNAL_FILE}") if sweep else ():
        trial_id = journal.parent.name.removesuffix(".partial")
        begin_ns = None if trial_id in done else _load_begin_ns(journal)
        if begin_ns is not None:
            return {trial_id: begin_ns}
    return {}


def _load_begin_ns(journal: Path) -> int | None:
    with suppress(OSError, ValueError):  # it is sealed meanwhile, or its last line is incomplete
        for line in journal.read_text().splitlines():
            event = json.loads(line)
            if event["kind"] == "load_begin":
                return int(event["at_ns"])
    return None
