"""A client process and the line protocol with its parent.

Each client is a process of its own: the compiled loops do not share an interpreter, and a fault
can kill one client without affecting another. The parent writes lines to the client's stdin and
reads lines from its stdout; the client's stderr and librdkafka's log are files.

`ClientProcess` is the parent's side; the functions at the end are the client's.
"""

from __future__ import annotations

import faulthandler
import os
import re
import select
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ackbench.experiments.trial.clients.process.fork_server import SpawnRequest, spawn
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.process.log_tail import last_lines, read_from
from ackbench.infra.process.processes import wait_until_stopped
from ackbench.infra.process.waiting import wait_until

READY: Final = "ready"
BEGIN: Final = "begin"
FINISH: Final = "finish"
DONE: Final = "done"
START_TIMEOUT_S: Final = 60.0
"""A new process that compiles nothing is ready in seconds. One that compiles everything on a busy
machine is ready within this."""
_LAST_LINES: Final = 5
_STACK_SIGNAL: Final = signal.SIGUSR1
"""On this signal a client writes to its stderr where it is."""
_STACK_HEAD: Final = "(most recent call first):\n"
_FRAME: Final = re.compile(r'  File ".*/([^/"]+)", line (\d+) in (\S+)')
_OUTERMOST: Final = " in <module>\n"
_SHOWN_CALLS: Final = 4
_STACK_TIMEOUT_S: Final = 2.0
_POLL_INTERVAL_S: Final = 0.002
_KILL_TIMEOUT_S: Final = 10.0
_EXIT_TIMEOUT_S: Final = 10.0
"""From the end of a process's pipe to the end of the process."""
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Call:
    """A call that a process is in."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """Return the function and its place."""
        return f"{self.function} ({self.file}:{self.line})"


class ClientProcess:
    """A started client. It exits with the run at the latest, and when its context ends.

    Args:
        name: the client's name in messages: `producer 0`.
        request: which client to start, and its job.
        errors: the file for its stderr.

    Raises:
        HarnessError: the process could not be started.
        OSError: the file could not be created.
    """

    def __init__(self, name: str, request: SpawnRequest, errors: Path) -> None:
        self.name, self._is_paused = name, False
        self.start_process(request, errors)

    def start_process(self, request: SpawnRequest, errors: Path) -> None:
        """Start the process: once on creation, and again after a `kill`.

        Raises:
            HarnessError: the process could not be started.
            OSError: the file could not be created.
        """
        self._errors, self._received, self._exited = errors, b"", False
        self._is_done = False
        stdin, self._input = os.pipe()
        self._output, stdout = os.pipe()
        stderr = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        stdio = (stdin, stdout, stderr)
        try:
            self._forked = spawn(request, stdio)
        finally:
            for descriptor in stdio:
                os.close(descriptor)
        self.pid, self._pidfd = self._forked.pid, self._forked.pidfd
        os.set_blocking(self._output, False)

    def __enter__(self) -> Self:
        """Return the client; the process is killed when the context ends."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process unless it has exited."""
        self.kill()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the client reports that it has warmed up.

        Raises:
            HarnessError: it could not start or warm up; the message has its last stderr lines.
            WaitTimeout: it was not ready in time.
        """
        self.expect_line(READY, timeout_s)

    def expect_line(self, word: str, timeout_s: float) -> str:
        """Wait for the client's next line, which must begin with a word; return what follows it.

        Raises:
            HarnessError: the process exited, or sent another line.
            WaitTimeout: it sent no line in time.
        """
        line = wait_until(
            self._next_line,
            awaiting=f"{self.name} to send {word!r}",
            timeout_s=timeout_s,
            every_s=_POLL_INTERVAL_S,
            seen=lambda: f"no line; {describe_calls(self.calls()) or self._stderr_tail()}",
        )
        received, _, rest = line.partition(" ")
        if received != word:
            raise HarnessError(f"{self.name} sent {line!r}; expected {word!r}")
        self._is_done = word == DONE
        return rest

    def send_line(self, line: str) -> None:
        """Write one line to the client's stdin.

        Raises:
            HarnessError: the process has exited.
        """
        try:
            os.write(self._input, f"{line}\n".encode())
        except OSError as error:
            raise HarnessError(
                f"{self._describe_exit()} before it received {line!r}; {self._stderr_tail()}"
            ) from error

    def wait_for_exit(self, timeout_s: float) -> None:
        """Wait until the process has exited.

        Raises:
            WaitTimeout: it still runs.
        """
        wait_until(
            self._has_exited,
            awaiting=f"{self.name} to exit",
            timeout_s=timeout_s,
            every_s=_POLL_INTERVAL_S,
        )

    def crash(self) -> None:
        """Kill the process, which runs, as a fault; as `kill`.

        Raises:
            HarnessError: it has exited by itself, which is not what the fault asks for.
        """
        self.require_alive()
        self.kill()

    def unexpected_exit(self) -> str | None:
        """Return how the process has exited before it was done: `producer 0 exited by SIGKILL`.

        `None`: it runs, was killed by `kill`, or has reported that it is done.
        """
        if self._pidfd < 0 or self._is_done or not self._has_exited():
            return None
        return self._describe_exit()

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has exited; its files stay.

        Does nothing if it was killed before.

        Raises:
            WaitTimeout: the process did not exit within 10 s.
        """
        if self._pidfd < 0:
            return
        if not self._has_exited():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self.wait_for_exit(_KILL_TIMEOUT_S)
        for descriptor in (self._pidfd, self._input, self._output):
            os.close(descriptor)
        self._pidfd = -1

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal through the pidfd, so that no other process with its pid can receive it.

        Raises:
            HarnessError: the process has exited.
        """
        self.require_alive()
        signal.pidfd_send_signal(self._pidfd, number)

    def pause(self) -> None:
        """Send SIGSTOP; return once the kernel reports the process as stopped.

        Raises:
            WaitTimeout: the process does not stop.
        """
        self._is_paused = True  # before the process stops, for whoever observes that
        self.send_signal(signal.SIGSTOP)
        wait_until_stopped(self.pid, self.name)

    def resume(self) -> None:
        """Send SIGCONT; has no effect on a process that has exited."""
        if self.is_alive():
            self.send_signal(signal.SIGCONT)
        self._is_paused = False

    def is_held(self) -> bool:
        """Return whether a fault keeps the process stopped now."""
        return self._is_paused

    def require_alive(self) -> None:
        """Check that the process runs.

        Raises:
            HarnessError: it has exited; the message has its last stderr lines.
        """
        if not self.is_alive():
            raise HarnessError(f"{self._describe_exit()}; {self._stderr_tail()}")

    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self._pidfd >= 0 and not self._has_exited()

    def _describe_exit(self) -> str:
        if self._pidfd < 0:
            return f"{self.name} was killed"
        self.wait_for_exit(_EXIT_TIMEOUT_S)
        return f"{self.name} {self._forked.describe_exit()}"

    def _has_exited(self) -> bool:
        """Poll the pidfd, which is readable once its process has exited (pidfd_open(2))."""
        self._exited = self._exited or bool(select.select([self._pidfd], [], [], 0)[0])
        return self._exited

    def _next_line(self) -> str | None:
        exited = self._has_exited()
        self._received += self._read_output()
        line, newline, rest = self._received.partition(b"\n")
        if newline:
            self._received = rest
            return line.decode()
        if exited:
            raise HarnessError(f"{self._describe_exit()}; {self._stderr_tail()}")
        return None

    def _read_output(self) -> bytes:
        try:
            return os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return b""

    def calls(self) -> tuple[Call, ...]:
        """Return the calls that the process is in, innermost first.

        None if it is stopped, has exited, or does not say.
        """
        if self._is_paused or not self.is_alive():
            return ()
        begin = self._errors.stat().st_size
        self.send_signal(_STACK_SIGNAL)
        with suppress(WaitTimeout):
            wait_until(
                lambda: is_entire(read_from(self._errors, begin)),
                awaiting=f"the stack of {self.name}",
                timeout_s=_STACK_TIMEOUT_S,
                every_s=_POLL_INTERVAL_S,
            )
        return calls_of(read_from(self._errors, begin))

    def _stderr_tail(self) -> str:
        lines = last_lines(self._errors, _LAST_LINES)
        return f"its stderr ends with: {' | '.join(lines)}" if lines else f"{self._errors} is empty"


def is_entire(trace: str) -> bool:
    """Return whether a trace of `faulthandler`, which is written by the line, has all its calls."""
    _, _, frames = trace.partition(_STACK_HEAD)
    return _OUTERMOST in frames


def calls_of(trace: str) -> tuple[Call, ...]:
    """Return the calls of a trace of `faulthandler`, innermost first; there may be none yet."""
    _, _, frames = trace.partition(_STACK_HEAD)
    return tuple(Call(file, int(line), name) for file, line, name in _FRAME.findall(frames))


def describe_calls(calls: Sequence[Call]) -> str:
    """Return the innermost of these calls as a sentence; empty: there are none."""
    shown = ", called by ".join(map(str, calls[:_SHOWN_CALLS]))
    return f"it is in {shown}" if shown else ""


def write_stack_on_signal() -> None:
    """In the client: write where it is to stderr, whenever the parent asks."""
    faulthandler.register(_STACK_SIGNAL, file=sys.stderr, all_threads=False)


def expect_line(word: str) -> str:
    """In the client: wait for a line that begins with a word; return what follows it.

    Raises:
        HarnessError: the parent has exited, or sent another line.
    """
    received, _, rest = read_line().partition(" ")
    if received != word:
        raise HarnessError(f"the parent sent {received!r}; expected {word!r}")
    return rest


def read_line() -> str:
    """In the client: return the parent's next line; an empty one if the parent has exited.

    Reads byte by byte, so that a further line stays in the pipe, where `select` sees it. In
    Python's own buffer it would go unnoticed.
    """
    line = bytearray()
    while (byte := os.read(sys.stdin.fileno(), 1)) not in {b"", b"\n"}:
        line += byte
    return line.decode().strip()


def write_line(word: str, rest: str = "") -> None:
    """In the client: send one line to the parent."""
    sys.stdout.write(f"{word} {rest}\n" if rest else f"{word}\n")
    sys.stdout.flush()
