"""A client's program in its own process, and the lines that it reports.

The program is started early and starts its client later. The properties file on its command line is
a FIFO (fifo(7)): when the program opens it, it is up and has read its arguments, and it blocks
until the settings are written.

The program's reports go to a file. A pipe with a slow reader would fill up and block the client.
Verifiable clients report one JSON object per line, each with its timestamp in milliseconds
(`docs/clients.md`).
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import json as pa_json

from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.trial.clients.process.session_process import SessionProcess
from ackbench.experiments.trial.clients.programs.dialect import Dialect, Role
from ackbench.experiments.trial.events.clock import ahead_of_wall_ns
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.kraft import properties_text
from ackbench.infra.kafka.secrets import resolve_references
from ackbench.infra.process.log_tail import LineFollower
from ackbench.infra.process.waiting import wait_until

START_TIMEOUT_S: Final = 60.0
_POLL_INTERVAL_S: Final = 0.005
EXIT_TIMEOUT_S: Final = 15.0
_LONGEST_LINE_BYTES: Final = 100_000
"""A line of `records_consumed` with a thousand partitions has as much."""


class VerifiableProgram(SessionProcess):
    """The process of a client's program, as a context manager.

    Args:
        name: the client's name in messages: `producer 0`.
        dialect: starts the program, and reads what it reports.
        role: what the program is to do.
        arguments: of the role, without the properties file.
        settings: the content of that file. It is never written to a disk: it may contain secrets.
        connection: further settings, with references resolved.
        folder: where the program writes its output and its log.

    Raises:
        OSError: the files could not be created, or the program could not be started.
        InputError: an environment variable that a setting refers to is not set, or the command for
            tokens gives none.
    """

    def __init__(
        self,
        name: str,
        dialect: Dialect,
        role: Role,
        arguments: Sequence[str],
        settings: Mapping[str, str],
        connection: Mapping[str, str],
        folder: Path,
    ) -> None:
        stem = name.replace(" ", "-")
        self.output = folder / f"{stem}.out"
        self._dialect, self._ahead_ns = dialect, ahead_of_wall_ns()
        self._started: dict[str, Any] = {}
        """The line `startup_complete`, once the program has reported it."""
        self._fifo, self._writing = folder / f"{stem}.settings", -1
        with ExitStack() as opened:
            launch = dialect.launch(
                role, arguments, {**resolve_references(settings), **connection}, opened
            )
            self._settings = properties_text(launch.settings)
            os.mkfifo(self._fifo, 0o600)
            super().__init__(
                name,
                [*launch.command, str(self._fifo)],
                launch.environment,
                folder / f"{stem}.log",
                self.output,
                may_fork=launch.may_fork,
            )
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        """Return the program; leaving the context kills it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process unless it has exited."""
        self.kill()

    def is_held(self) -> bool:
        """Return `False`: no fault stops a client's program."""
        return False

    def wait_started(self) -> None:
        """Wait until the program is up and blocks on its settings.

        Raises:
            HarnessError: the process exited, or did not open the properties file in time.
        """
        wait_until(
            self._is_waiting_for_settings,
            awaiting=f"{self.name} to open its properties file",
            timeout_s=START_TIMEOUT_S,
            every_s=_POLL_INTERVAL_S,
            seen=self.log_excerpt,
        )

    def send_settings(self) -> None:
        """Write the settings, so that the program starts its client.

        Raises:
            HarnessError: the process has exited.
        """
        try:
            os.write(self._writing, self._settings.encode())
        except BrokenPipeError as error:
            self.wait(EXIT_TIMEOUT_S)
            raise HarnessError(
                f"{self.describe_exit()} before it read its settings; {self.log_excerpt()}"
            ) from error
        self._close()

    def has_succeeded(self) -> bool:
        """Return whether the process has exited with code 0."""
        return self.exit_code() == 0

    def unexpected_exit(self) -> str | None:
        """Return how the process has died: `producer 0 exited by SIGKILL`.

        `None`: it runs, was ended by this class, or has exited with code 0.
        """
        if self.was_ended or self.has_succeeded() or not self.has_exited():
            return None
        return self.describe_exit()

    def require_not_died(self) -> None:
        """Raise an error if the process has died; see `unexpected_exit`.

        Raises:
            HarnessError: it has.
        """
        exit_ = self.unexpected_exit()
        if exit_ is not None:
            raise HarnessError(f"{exit_}; {self.log_excerpt()}")

    def wait_for_exit(self, timeout_s: float) -> None:
        """Wait until the process has exited on its own.

        Raises:
            HarnessError: it did not exit in time, or not with code 0.
        """
        wait_until(
            self.has_exited,
            awaiting=f"{self.name} to exit",
            timeout_s=timeout_s,
            every_s=_POLL_INTERVAL_S,
            seen=self.log_excerpt,
        )
        self.require_not_died()

    def terminate(self, timeout_s: float = EXIT_TIMEOUT_S) -> None:
        """Send SIGTERM and wait for a clean exit; then send SIGKILL. The output stays."""
        super().terminate(timeout_s)

    def kill(self) -> None:
        """Send SIGKILL and wait for the exit, unless the process has exited. The output stays."""
        self._close()
        super().kill()
        self._opened.close()

    def delete_files(self) -> None:
        """Delete the reports; the log stays."""
        self.output.unlink()

    def _read_new(self, tail: OutputTail, read: Callable[[Mapping[str, Any]], object]) -> None:
        """Pass each new line to a function, but for `startup_complete`, which is noted.

        Raises:
            HarnessError: a line lacks a field, or has another type in it.
        """
        for line in tail.new_lines():
            if line["name"] == "startup_complete":
                self._note_start(line)
                continue
            try:
                read(line)
            except (KeyError, TypeError, ValueError) as error:
                raise HarnessError(
                    f"{self.name}: a line that cannot be read: {str(line)[:120]}"
                ) from error

    def _note_start(self, line: dict[str, Any]) -> None:
        self._started = line
        if problem := self._dialect.problem(line):
            raise HarnessError(f"{self.name}: {problem}")

    def _read_log(self) -> str:
        return self.log.read_text(errors="replace")

    def _is_waiting_for_settings(self) -> bool:
        """Open the FIFO for writing: without blocking, this succeeds only if it has a reader."""
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


_NS_PER_MS: Final = 1_000_000
LINE_SCHEMA: Final = pa.schema(
    [
        pa.field("timestamp", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("value", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("exception", pa.string()),
        pa.field("code", pa.int32()),
        pa.field("outcome", pa.string()),
        pa.field("sent_ns", pa.int64()),
        pa.field("acked_ns", pa.int64()),
        pa.field("received_ns", pa.int64()),
    ]
)
"""The fields of a line, with the programs' own names; null if a line lacks the field.

Those after `exception` are beyond what Kafka's own programs report.
"""


def parse_lines(reported: bytes, *names: str) -> pa.Table:
    """Return the lines with these names, in their order; schema `LINE_SCHEMA`.

    An incomplete last line of a crashed program is left out. So is every line that is not a JSON
    object: both programs document that such lines are to be ignored.

    Args:
        reported: the program's standard output.
        names: the names of the lines: `producer_send_success`, ...

    Raises:
        HarnessError: a line is too long, is no JSON, or a field has another type.
    """
    wanted = [f'"{name}"'.encode() for name in names]
    complete = reported[: reported.rfind(b"\n") + 1]
    lines = [
        line
        for line in complete.split(b"\n")
        if line.startswith(b"{") and any(name in line for name in wanted)
    ]
    if not lines:
        return LINE_SCHEMA.empty_table()
    options = pa_json.ParseOptions(explicit_schema=LINE_SCHEMA, unexpected_field_behavior="ignore")
    if (longest := max(map(len, lines))) > _LONGEST_LINE_BYTES:
        raise HarnessError(f"a line of {longest:,} bytes; allowed: {_LONGEST_LINE_BYTES:,}")
    try:
        table = pa_json.read_json(
            io.BytesIO(b"\n".join(lines)),
            pa_json.ReadOptions(use_threads=False, block_size=longest + (1 << 20)),
            options,
        )
    except pa.ArrowInvalid as error:
        raise HarnessError(f"a line that cannot be read: {one_line(str(error))[:200]}") from error
    return table.filter(pa.compute.is_in(table["name"], pa.array(names)))


class OutputTail:
    """The lines with certain names in a growing file, each returned once."""

    def __init__(self, path: Path, *names: str) -> None:
        """Start at the beginning of the file."""
        self._follower = LineFollower(path)
        self._names = [f'"{name}"'.encode() for name in names]

    def new_lines(self) -> list[dict[str, Any]]:
        """Return the complete lines that were not returned before.

        Raises:
            HarnessError: one of them is no JSON.
        """
        lines = [
            line
            for line in self._follower.new_lines()
            if line.startswith(b"{") and any(name in line for name in self._names)
        ]
        try:
            return [json.loads(line) for line in lines]
        except ValueError as error:
            raise HarnessError(f"a line that is no JSON: {lines[-1][:80]!r}") from error


def trial_clock_ns(wall_ms: int, ahead_ns: int) -> int:
    """Convert a wall-clock timestamp to the trial's clock."""
    return wall_ms * _NS_PER_MS + ahead_ns
