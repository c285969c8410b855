"""A client's process as its parent sees it: it says one line when it comes to something, and is told one line to go on.

Each client is a process of its own, so that the compiled loops do not share an interpreter, can be killed as an experiment
wants it, and take nothing with them. Its standard output is the conversation; its errors and librdkafka's log are files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.errors import HarnessError
from infra.process import spawn_dying_with_parent
from infra.waiting import wait_until

READY: Final = "ready"
BEGIN: Final = "begin"
FINISH: Final = "finish"
DONE: Final = "done"
_LAST_LINES: Final = 5
_EVERY_S: Final = 0.002


class Child:
    """A started client. It gets SIGKILL when the thread that started it ends.

    Args:
        name: who it is, for messages: `producer 0`.
        module: what to run.
        arguments: for it.
        errors: the file for its standard error.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, name: str, module: str, arguments: Sequence[str], errors: Path) -> None:
        self.name, self._errors, self._heard = name, errors, b""
        with errors.open("wb") as file:
            self._process = spawn_dying_with_parent([sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file)
        os.set_blocking(self._process.stdout.fileno(), False)  # type: ignore[union-attr]

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def hear(self, word: str, timeout_s: float) -> str:
        """Wait for a line that begins with a word; return what follows the word.

        Raises:
            HarnessError: the process ended, or said something else; the text ends with its last errors.
            WaitTimeout: it did not say so in time.
        """
        line = wait_until(
            self._line, awaiting=f"{self.name} to say {word!r}", timeout_s=timeout_s, every_s=_EVERY_S, seen=lambda: f"silence; {self._last_errors()}"
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
            os.write(self._process.stdin.fileno(), f"{line}\n".encode())  # type: ignore[union-attr]
        except OSError as error:
            raise HarnessError(f"{self.name} ended before it was told {line!r}; {self._last_errors()}") from error

    def wait(self, timeout_s: float) -> int:
        """Wait for its end; return its exit code.

        Raises:
            WaitTimeout: it still runs.
        """
        wait_until(lambda: self._process.poll() is not None, awaiting=f"the end of {self.name}", timeout_s=timeout_s, every_s=_EVERY_S)
        return self._process.returncode

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; nothing, when it has ended already."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _line(self) -> str | None:
        ended = self._process.poll() is not None
        self._heard += self._process.stdout.read() or b""  # type: ignore[union-attr]
        line, newline, rest = self._heard.partition(b"\n")
        if newline:
            self._heard = rest
            return line.decode()
        if ended:
            raise HarnessError(f"{self.name} ended with exit code {self._process.returncode}; {self._last_errors()}")
        return None

    def _last_errors(self) -> str:
        lines = self._errors.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "its last errors: " + " | ".join(lines) if lines else f"it wrote no errors to {self._errors}"


def listen(word: str) -> str:
    """In the client's process: wait for a line that begins with a word; return what follows it.

    Raises:
        HarnessError: the parent has gone, or says something else.
    """
    said, _, rest = sys.stdin.readline().strip().partition(" ")
    if said != word:
        raise HarnessError(f"told {said!r} instead of {word!r}")
    return rest


def say(word: str, rest: str = "") -> None:
    """In the client's process: say one line."""
    sys.stdout.write(f"{word} {rest}\n" if rest else f"{word}\n")
    sys.stdout.flush()
