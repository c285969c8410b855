"""A client's process as its parent sees it: it says one line when it comes to something, and is told one line to go on.

Each client is a process of its own, so that the compiled loops do not share an interpreter, can be killed as an experiment
wants it, and take nothing with them. Its standard output is the conversation; its errors and librdkafka's log are files.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from experiments.clients.process.fork_server import SpawnRequest, spawn
from infra.errors import HarnessError
from infra.process.waiting import wait_until

READY: Final = "ready"
BEGIN: Final = "begin"
FINISH: Final = "finish"
DONE: Final = "done"
START_TIMEOUT_S: Final = 60.0
"""A new process that compiles nothing is ready in seconds; one that compiles all, on a busy machine, is within this."""
_LAST_LINES: Final = 5
_EVERY_S: Final = 0.002
_KILL_TIMEOUT_S: Final = 10.0
_READ_BYTES: Final = 1 << 16


class Child:
    """A started client; it ends with the run at the latest.

    Args:
        name: who it is, for messages: `producer 0`.
        birth: which client it is, and its job.
        errors: the file for its standard error.

    Raises:
        HarnessError: it cannot be started.
        OSError: its files cannot be made.
    """

    def __init__(self, name: str, birth: SpawnRequest, errors: Path) -> None:
        self.name = name
        self.live(birth, errors)

    def live(self, birth: SpawnRequest, errors: Path) -> None:
        """Start its process: once, and again after each `kill`.

        Raises:
            HarnessError: it cannot be started.
            OSError: its files cannot be made.
        """
        self._errors, self._heard, self._ended = errors, b"", False
        their_input, self._input = os.pipe()
        self._output, their_output = os.pipe()
        their_errors = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        streams = (their_input, their_output, their_errors)
        try:
            self.pid, self._pidfd = spawn(birth, streams)
        finally:
            for descriptor in streams:
                os.close(descriptor)
        os.set_blocking(self._output, False)

    def __enter__(self) -> Self:
        """Return the client; it ends with the context for certain."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, if it has not ended by itself."""
        self.kill()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return when the client says that it is warm.

        Raises:
            HarnessError: it could not start or warm up; the text says why.
            WaitTimeout: it was not ready in time.
        """
        self.hear(READY, timeout_s)

    def hear(self, word: str, timeout_s: float) -> str:
        """Wait for a line that begins with a word; return what follows the word.

        Raises:
            HarnessError: the process ended, or said something else; the text ends with its last errors.
            WaitTimeout: it did not say so in time.
        """
        line = wait_until(
            self._line,
            awaiting=f"{self.name} to say {word!r}",
            timeout_s=timeout_s,
            every_s=_EVERY_S,
            seen=lambda: f"silence; {self._last_errors()}",
        )
        said, _, rest = line.partition(" ")
        if said != word:
            raise HarnessError(f"{self.name} said {line!r} instead of {word!r}")
        return rest

    def tell(self, line: str) -> None:
        """Say one line.

        Raises:
            HarnessError: the process has ended.
        """
        try:
            os.write(self._input, f"{line}\n".encode())
        except OSError as error:
            raise HarnessError(
                f"{self.name} ended before it was told {line!r}; {self._last_errors()}"
            ) from error

    def wait(self, timeout_s: float) -> None:
        """Wait for its end.

        Raises:
            WaitTimeout: it still runs.
        """
        wait_until(
            self._has_ended,
            awaiting=f"the end of {self.name}",
            timeout_s=timeout_s,
            every_s=_EVERY_S,
        )

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; what it wrote stays. Nothing, when it has ended already.

        Raises:
            WaitTimeout: the kernel did not end it.
        """
        if self._pidfd < 0:
            return
        if not self._has_ended():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self.wait(_KILL_TIMEOUT_S)
        for descriptor in (self._pidfd, self._input, self._output):
            os.close(descriptor)
        self._pidfd = -1

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, and to no other that might have its pid.

        Raises:
            HarnessError: it has ended.
        """
        self.require_alive()
        signal.pidfd_send_signal(self._pidfd, number)

    def require_alive(self) -> None:
        """See that its process is there.

        Raises:
            HarnessError: it has ended; the text ends with its last errors.
        """
        if not self.lives():
            raise HarnessError(f"{self.name} ended early; {self._last_errors()}")

    def lives(self) -> bool:
        """Whether its process is there."""
        return self._pidfd >= 0 and not self._has_ended()

    def _has_ended(self) -> bool:
        """A pidfd is readable once its process has ended (pidfd_open(2))."""
        self._ended = self._ended or bool(select.select([self._pidfd], [], [], 0)[0])
        return self._ended

    def _line(self) -> str | None:
        ended = self._has_ended()
        self._heard += self._said()
        line, newline, rest = self._heard.partition(b"\n")
        if newline:
            self._heard = rest
            return line.decode()
        if ended:
            raise HarnessError(f"{self.name} ended early; {self._last_errors()}")
        return None

    def _said(self) -> bytes:
        try:
            return os.read(self._output, _READ_BYTES)
        except BlockingIOError:
            return b""

    def _last_errors(self) -> str:
        lines = self._errors.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return (
            "its last errors: " + " | ".join(lines)
            if lines
            else f"it wrote no errors to {self._errors}"
        )


def listen(word: str) -> str:
    """In the client's process: wait for a line that begins with a word; return what follows it.

    Raises:
        HarnessError: the parent has gone, or says something else.
    """
    said, _, rest = told().partition(" ")
    if said != word:
        raise HarnessError(f"told {said!r} instead of {word!r}")
    return rest


def told() -> str:
    """In the client's process: return the next line that the parent says; empty where it has gone.

    It is read byte by byte, so that a further line stays in the pipe, where `select` sees it: in Python's own buffer nobody would look for it.
    """
    line = bytearray()
    while (byte := os.read(sys.stdin.fileno(), 1)) not in {b"", b"\n"}:
        line += byte
    return line.decode().strip()


def say(word: str, rest: str = "") -> None:
    """In the client's process: say one line."""
    sys.stdout.write(f"{word} {rest}\n" if rest else f"{word}\n")
    sys.stdout.flush()
