"""A program of others in a session of its own: what it forks ends with it.

It may be a script that starts the client. Unlike `client_process`, it knows nothing of a parent.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.process.exits import describe_exit
from ackbench.infra.process.log_tail import last_error_lines
from ackbench.infra.process.processes import (
    ProcessIdentity,
    spawn_dying_with_parent,
    wait_until_stopped,
)
from ackbench.infra.process.sessions import end_sessions, guard_sessions, write_session_record

_KILL_TIMEOUT_S: Final = 15.0
_LAST_LINES: Final = 5


class SessionProcess:
    """The process of a program. It never outlives this process.

    Args:
        name: of the program in messages: `producer 0`.
        command: the program and its arguments.
        environment: its variables.
        log: the file for its standard error.
        output: the file for its standard output; `None`: that of the log.
        may_fork: whether its session is guarded: a process of its own ends it if this one is
            killed. Without, the kernel kills the program, which must have no child processes.

    Raises:
        OSError: a file could not be created, or the program could not be started.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        output: Path | None = None,
        *,
        may_fork: bool = True,
    ) -> None:
        self.name, self.log = name, log
        self.was_ended = False
        """Whether `terminate` or `kill` was to end it while it ran."""
        self.is_paused = False
        reported = output.open("wb") if output else nullcontext(None)
        with log.open("wb") as errors, reported as reports:
            self._process: subprocess.Popen[bytes] = spawn_dying_with_parent(
                command,
                stdin=subprocess.DEVNULL,
                stdout=reports or errors,
                stderr=errors,
                env=environment,
                start_new_session=True,
            )
        self._leader = ProcessIdentity.of(self._process.pid)
        self._record, self._guard = log.with_suffix(".session"), None
        if may_fork:
            write_session_record(self._record, [self._leader])
            self._guard = guard_sessions(self._record)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def has_exited(self) -> bool:
        """Return whether the process has exited."""
        return self._process.poll() is not None

    def exit_code(self) -> int | None:
        """Return the code with which the process exited; `None`: it runs, or was killed."""
        code = self._process.poll()
        return None if code is None or code < 0 else code

    def require_alive(self) -> None:
        """Raise an error if the process has exited.

        Raises:
            HarnessError: it has; with the last errors of its log.
        """
        if self.has_exited():
            raise HarnessError(f"{self.describe_exit()}; {self.log_excerpt()}")

    def pause(self) -> None:
        """Send SIGSTOP; wait until the kernel reports the process as stopped.

        Raises:
            HarnessError: the process has exited.
            WaitTimeout: it does not stop.
        """
        self.require_alive()
        self.is_paused = True  # before the process stops, for whoever observes that
        self._signal(signal.SIGSTOP)
        wait_until_stopped(self.pid, self.name)

    def resume(self) -> None:
        """Send SIGCONT; has no effect on a process that has exited."""
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def request_exit(self) -> None:
        """Send SIGTERM; has no effect on a process that has exited."""
        if not self.has_exited():
            self.was_ended = True
            self._signal(signal.SIGTERM)

    def terminate(self, timeout_s: float) -> None:
        """Send SIGTERM and wait for the exit; after the timeout, send SIGKILL."""
        self.request_exit()
        if not self.wait(timeout_s):
            self.kill()

    def kill(self) -> None:
        """Kill the process, unless it has exited, and what is left of its session.

        Raises:
            WaitTimeout: a process did not end.
        """
        self.was_ended |= not self.has_exited()
        if self._guard is None:
            self._process.kill()
        else:
            end_sessions([self._leader], grace_s=None)
            self._record.unlink(missing_ok=True)
            self._guard.kill()
            self._guard.wait()
        self._process.wait(_KILL_TIMEOUT_S)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the exit; return whether the process has exited."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def describe_exit(self) -> str:
        """Return how the process has exited: `producer 0 exited by SIGKILL`."""
        return f"{self.name} {describe_exit(self._process.poll())}"

    def log_excerpt(self) -> str:
        """Return the last error in the program's log, or its end, for a message."""
        lines = last_error_lines(self.log, _LAST_LINES)
        if not lines:
            return f"it wrote nothing to {self.log}"
        return "its log ends with: " + " | ".join(lines)

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process and its children. While it is not reaped, the group's id is ours."""
        if self._process.poll() is None:
            os.killpg(self.pid, number)
