"""The child process that runs the steps of a sweep, and the signals that interrupt it.

The child has a session of its own, so that the terminal's Ctrl-C reaches only the command. It dies
with the command (PR_SET_PDEATHSIG). The first interrupt asks it to destroy its cluster; the second
one, or a teardown that takes too long, kills it and its process group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from ackbench.infra.machine.home import REPOSITORY
from ackbench.infra.process.interrupts import handled_by
from ackbench.infra.process.processes import ProcessIdentity, spawn_dying_with_parent
from ackbench.infra.process.waiting import wait_until
from ackbench.infra.start import module_command

POLL_INTERVAL_S: Final = 0.2
TEARDOWN_S: Final = 90.0
"""How long an interrupted run may take to destroy its cluster before it is killed."""


@dataclass
class Interrupts:
    """The signals since the context began; the loop that follows the run acts on them."""

    count: int = 0
    first: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """128 + the number of the first signal, as shells report it."""
        return 128 + (self.first or 0)

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Count one."""
        self.first = self.first or signal.Signals(number)
        self.count += 1


@contextmanager
def counted_interrupts() -> Iterator[Interrupts]:
    """Count SIGINT, SIGTERM and SIGHUP within the context; they do nothing else."""
    interrupts = Interrupts()
    with handled_by(interrupts.note):
        yield interrupts


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    code: int
    """The child's exit code."""
    interrupted: int
    """0, or the exit code that the interrupting signal asks for."""
    killed: bool
    """The run did not end in time after the first interrupt, or there was a second one."""


class RunProcess:
    """One run of a sweep in a child process.

    Args:
        command: program and arguments.
        environment: the child's whole environment.
        log: the file that its output is appended to.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process: subprocess.Popen[Any] = spawn_dying_with_parent(
                command,
                env=dict(environment),
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._stop_by_s: float | None = None
        self._killed = False

    @property
    def identity(self) -> ProcessIdentity:
        """The child process. It is not reaped before `follow` returns, so its pid is not reused."""
        return ProcessIdentity.of(self._process.pid)

    def follow(
        self,
        interrupts: Interrupts,
        look: Callable[[], None],
        say: Callable[[str], None],
        limit_s: float,
    ) -> RunOutcome:
        """Wait until the run has ended and pass interrupts on to it.

        Args:
            interrupts: the signals counted so far.
            look: called at every poll, to show progress.
            say: called with a line for the user.
            limit_s: the longest time that a run may take, seconds.

        Raises:
            WaitTimeout: the run took longer than `limit_s`; it is killed.
            BrokenPipeError, SystemExit: nobody reads what this process writes; the run has ended
                as after an interrupt, which may have come together with the end of the reader.
        """
        unread: list[BaseException] = []

        def has_ended() -> bool:
            try:
                self._pass_on(interrupts, say)
                look()
            except (BrokenPipeError, SystemExit) as error:  # `Console.on_broken_pipe` of rich exits
                unread.append(error)
                self._stop()
            return self._has_ended()

        try:
            wait_until(
                has_ended, awaiting="the end of the run", timeout_s=limit_s, every_s=POLL_INTERVAL_S
            )
        finally:
            self._kill_all()
        if unread and not interrupts.count:
            raise unread[0]
        return RunOutcome(
            self._process.returncode, interrupts.exit_code if interrupts.count else 0, self._killed
        )

    def _pass_on(self, interrupts: Interrupts, say: Callable[[str], None]) -> None:
        if self._killed or (interrupts.count == 0 and self._stop_by_s is None):
            return
        if self._stop_by_s is None:
            self._stop()
            say("stopping: destroying the cluster (interrupt again to kill everything at once)")
        elif interrupts.count > 1 or time.monotonic() > self._stop_by_s:
            self._killed = True
            self._kill_all()
            say("killing the run")

    def _stop(self) -> None:
        """Have the run destroy its cluster, once."""
        if self._stop_by_s is None:
            self._stop_by_s = time.monotonic() + TEARDOWN_S
            self._process.send_signal(signal.SIGINT)

    def _has_ended(self) -> bool:
        """Return whether the child has ended; as a zombie it keeps its pid from being reused."""
        return (
            self._process.returncode is not None
            or os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            is not None
        )

    def _kill_all(self) -> None:
        """Kill what is left of the child's process group, then reap the child."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def runner_command(sweep_id: str) -> tuple[str, ...]:
    """Return the command that runs the steps of a sweep in one process."""
    return tuple(module_command("ackbench.experiments.orchestration.runner", sweep_id))
