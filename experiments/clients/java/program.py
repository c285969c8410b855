"""One of Kafka's own command-line clients, in a JVM of its own that is started early and held until it is let go.

The file of settings that its command line names is a FIFO: the JVM is up and has read its arguments when it opens that, and waits there
(fifo(7)). What it reports of records goes to a file and not to a pipe, which a slow reader would let run full: then the client would stand still.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import json as pa_json

from infra.errors import HarnessError
from infra.jvm.runtime import java_environment
from infra.kafka.kraft import properties_text
from infra.process.log_tail import LineFollower, last_lines
from infra.process.processes import spawn_dying_with_parent
from infra.process.waiting import wait_until

START_TIMEOUT_S: Final = 60.0
_EVERY_S: Final = 0.005
_END_TIMEOUT_S: Final = 15.0
_LAST_LINES: Final = 5


class JavaProgram:
    """A context manager around the process; it ends with the run at the latest.

    Args:
        name: who it is, for messages: `producer 0`.
        command: what runs it, with all arguments but the file of settings.
        config_argument: what names that file.
        settings: what the file holds; never written to a disk, for it may hold secrets.
        folder: where its output goes.

    Raises:
        OSError: its files cannot be made.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        config_argument: str,
        settings: Mapping[str, str],
        folder: Path,
    ) -> None:
        stem = name.replace(" ", "-")
        self.name, self.output, self.log = name, folder / f"{stem}.out", folder / f"{stem}.log"
        self._settings, self._fifo, self._writing = (
            properties_text(settings),
            folder / f"{stem}.settings",
            -1,
        )
        os.mkfifo(self._fifo, 0o600)
        with self.output.open("wb") as output, self.log.open("wb") as log:
            self._process: subprocess.Popen[bytes] = spawn_dying_with_parent(
                [*command, config_argument, str(self._fifo)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                env=java_environment(),
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        """Return the program; it ends with the context for certain."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it, if it has not ended by itself."""
        self.kill()

    def wait_held(self) -> None:
        """Return when it waits for its settings.

        Raises:
            HarnessError: it ended before, or did not come so far in time.
        """
        wait_until(
            self._is_held,
            awaiting=f"{self.name} to ask for its settings",
            timeout_s=START_TIMEOUT_S,
            every_s=_EVERY_S,
            seen=self.last_words,
        )

    def let_go(self) -> None:
        """Give it its settings.

        Raises:
            HarnessError: it has ended.
        """
        try:
            os.write(self._writing, self._settings.encode())
        except BrokenPipeError as error:
            raise HarnessError(
                f"{self.name} ended before it had its settings; {self.last_words()}"
            ) from error
        self._close()

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def has_ended_well(self) -> bool:
        """Whether it came to its own end."""
        return self._process.poll() == 0

    def require_alive(self) -> None:
        """See that it runs.

        Raises:
            HarnessError: it has ended.
        """
        if self.has_ended():
            raise HarnessError(f"{self.name} ended early; {self.last_words()}")

    def wait_ended(self, timeout_s: float) -> None:
        """Return when it has ended by itself.

        Raises:
            HarnessError: not in time, or with an error.
        """
        wait_until(
            self.has_ended,
            awaiting=f"the end of {self.name}",
            timeout_s=timeout_s,
            every_s=_EVERY_S,
            seen=self.last_words,
        )
        if self._process.returncode != 0:
            raise HarnessError(
                f"{self.name} ended with code {self._process.returncode}; {self.last_words()}"
            )

    def terminate(self) -> None:
        """SIGTERM, and wait for its clean end; where it does not come, SIGKILL. What it wrote stays."""
        if not self.has_ended():
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; what it wrote stays. Nothing, when it has ended already."""
        self._close()
        self._process.kill()
        self._process.wait(_END_TIMEOUT_S)

    def last_words(self) -> str:
        """Return the end of its log, for a message."""
        lines = last_lines(self.log, _LAST_LINES)
        return (
            "its last words: " + " | ".join(lines) if lines else f"it wrote nothing to {self.log}"
        )

    def _is_held(self) -> bool:
        """A FIFO can be opened for writing at once only when somebody reads it, or waits to."""
        self.require_alive()
        try:
            self._writing = os.open(self._fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        os.set_blocking(self._writing, True)
        return True

    def _close(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1
        self._fifo.unlink(missing_ok=True)


# ---------- What Kafka's VerifiableProducer and VerifiableConsumer report: a JSON object a line, each with the millisecond in which it was made.


_NS_PER_MS: Final = 1_000_000
LINE_SCHEMA: Final = pa.schema(
    [
        pa.field("timestamp", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("value", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("exception", pa.string()),
    ]
)
"""What is kept of a line; null where it does not say so. The names are the programs' own."""


def parse_lines(reported: bytes, *names: str) -> pa.Table:
    """Return the lines of some names, in their order; schema `LINES`.

    A line that was cut off by the program's death is left out, and so is what is no JSON object: both programs call that to be ignored.

    Args:
        reported: the program's standard output.
        names: which lines: `producer_send_success`, ...
    """
    wanted = [f'"{name}"'.encode() for name in names]
    whole = reported[: reported.rfind(b"\n") + 1]
    lines = [
        line
        for line in whole.split(b"\n")
        if line.startswith(b"{") and any(name in line for name in wanted)
    ]
    if not lines:
        return LINE_SCHEMA.empty_table()
    options = pa_json.ParseOptions(explicit_schema=LINE_SCHEMA, unexpected_field_behavior="ignore")
    read = pa_json.read_json(
        io.BytesIO(b"\n".join(lines)),
        pa_json.ReadOptions(use_threads=False, block_size=max(map(len, lines)) + (1 << 20)),
        options,
    )
    return read.filter(pa.compute.is_in(read["name"], pa.array(names)))


class OutputTail:
    """The lines of a growing file, each once; those of some names only."""

    def __init__(self, path: Path, *names: str) -> None:
        """Begin at the file's begin."""
        self._follower = LineFollower(path)
        self._names = [f'"{name}"'.encode() for name in names]

    def more(self) -> list[dict[str, Any]]:
        """Return the lines that are whole by now and were not returned before."""
        return [
            json.loads(line)
            for line in self._follower.new_lines()
            if line.startswith(b"{") and any(name in line for name in self._names)
        ]


def trial_clock_ns(wall_ms: int, ahead_ns: int) -> int:
    """Return a millisecond of the wall clock on the trial's clock."""
    return wall_ms * _NS_PER_MS + ahead_ns
