"""The process that runs the DAG: started so that it dies with this one, watched, and ended when someone asks for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Self

from experiments.sweep.plan import Plan
from infra.machine.home import CLONE
from infra.process.processes import ProcessIdentity, spawn_dying_with_parent
from infra.process.waiting import wait_until

# ---------- Ctrl-C, SIGTERM and SIGHUP while a sweep runs: noted, and acted on by the loop that watches the run.


HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the signals that ask for an end, between entering and leaving the context."""

    def __init__(self) -> None:
        self.count = 0
        self.first: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Take the signals over."""
        self._before = {heard: signal.signal(heard, self._note) for heard in HEARD}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give them back."""
        for heard, before in self._before.items():
            signal.signal(heard, before)

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that such a signal ended: 128 and its number."""
        return 128 + (self.first or 0)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.first = self.first or signal.Signals(number)
        self.count += 1


LOOK_EVERY_S: Final = 0.2
TEARDOWN_S: Final = 90.0
"""How long a run that was asked to end may take to destroy its cluster before it is killed."""
START_LIMIT_S: Final = 1800.0
"""Airflow's start, a cluster's start and the measuring together; only a hung run takes longer."""
TRIAL_LIMIT_S: Final = 600.0
"""What a trial may take beside its load."""


@dataclass(frozen=True)
class RunOutcome:
    """How the run ended."""

    code: int
    interrupted: int
    """0, or the exit code that the interrupting signal asks for."""
    killed: bool
    """It did not end by itself after it was asked to."""


class RunProcess:
    """One run of the DAG, as a process in a session of its own, so that the terminal's Ctrl-C reaches only us."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as chatter:
            self._process: subprocess.Popen[Any] = spawn_dying_with_parent(
                command,
                env=dict(environment),
                cwd=CLONE,
                stdin=subprocess.DEVNULL,
                stdout=chatter,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._stop_by_s: float | None = None
        self._killed = False

    @property
    def identity(self) -> ProcessIdentity:
        """The run's process; it is not reaped before `follow` returns, so the pid is its own."""
        return ProcessIdentity.of(self._process.pid)

    def follow(
        self,
        interrupts: Interrupts,
        look: Callable[[], None],
        say: Callable[[str], None],
        limit_s: float,
    ) -> RunOutcome:
        """Look on until the run has ended; the first interrupt asks it to end, the second kills it.

        Raises:
            WaitTimeout: it hung for longer than any run takes; it is killed.
        """

        def ended() -> bool:
            self._obey(interrupts, say)
            look()
            return self._has_ended()

        try:
            wait_until(
                ended, awaiting="the end of the run", timeout_s=limit_s, every_s=LOOK_EVERY_S
            )
        finally:
            self._kill_all()
        return RunOutcome(
            self._process.returncode, interrupts.exit_code if interrupts.count else 0, self._killed
        )

    def _obey(self, interrupts: Interrupts, say: Callable[[str], None]) -> None:
        if interrupts.count == 0 or self._killed:
            return
        if self._stop_by_s is None:
            say("stopping: the cluster is being taken down (once more to kill everything at once)")
            self._stop_by_s = time.monotonic() + TEARDOWN_S
            self._process.send_signal(signal.SIGINT)
        elif interrupts.count > 1 or time.monotonic() > self._stop_by_s:
            say("killing the run")
            self._killed = True
            self._kill_all()

    def _has_ended(self) -> bool:
        """Whether it ended; it stays a zombie, so that its number, and its group's, is nobody else's yet."""
        return (
            self._process.returncode is not None
            or os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            is not None
        )

    def _kill_all(self) -> None:
        """SIGKILL to all that is left of the run's process group, then reap the run."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def embedded(sweep_id: str) -> tuple[str, ...]:
    """Return the command that runs the DAG for a sweep in one process."""
    return (sys.executable, "-m", "experiments.orchestration.embedded", sweep_id)


def limit_s(plan: Plan) -> float:
    """Return what no healthy run of the plan exceeds."""
    return START_LIMIT_S + sum(trial.workload.duration_s + TRIAL_LIMIT_S for trial in plan.trials)
