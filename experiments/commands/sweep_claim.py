"""Which process runs a sweep: one at a time, recorded in the home's `runs` folder while it lasts.

`ackbench clean` reads the records to find runs whose command was killed.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from infra.errors import InputError
from infra.machine.home import Home
from infra.process.processes import ProcessIdentity, is_alive


class RunRecord(BaseModel):
    """The command that follows a run and the child that runs the DAG, by pid and start time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sweep_id: str
    watcher_pid: int
    watcher_start_ticks: int
    runner_pid: int | None = None
    runner_start_ticks: int | None = None

    @property
    def runner(self) -> ProcessIdentity | None:
        """The child that runs the DAG; None before it was started."""
        if self.runner_pid is None or self.runner_start_ticks is None:
            return None
        return ProcessIdentity(self.runner_pid, self.runner_start_ticks)

    def is_watched(self) -> bool:
        """Return whether the command that started the run is still alive."""
        return is_alive(self.watcher_pid, self.watcher_start_ticks)


class SweepClaim:
    """The right to run one sweep, held between entering and leaving the context.

    One process holds it at a time. The kernel releases it when that process ends, even after a
    SIGKILL (flock(2)).

    Args:
        home: the home of the sweep.
        sweep_id: the sweep.

    Raises:
        InputError: on entering: another process runs the sweep; the message names it.
    """

    def __init__(self, home: Home, sweep_id: str) -> None:
        watcher = ProcessIdentity.own()
        self._record = RunRecord(
            sweep_id=sweep_id, watcher_pid=watcher.pid, watcher_start_ticks=watcher.start_ticks
        )
        self._path = _folder(home) / f"{sweep_id}.json"
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        """Take the claim and write the record."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        while self._file is None:
            self._file = self._lock()
        self._write(self._record)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the record and release the claim."""
        self._path.unlink(missing_ok=True)
        if self._file is not None:
            self._file.close()
            self._file = None

    def note_runner(self, runner: ProcessIdentity) -> None:
        """Record the process that runs the DAG."""
        self._write(
            self._record.model_copy(
                update={"runner_pid": runner.pid, "runner_start_ticks": runner.start_ticks}
            )
        )

    def _lock(self) -> IO[str] | None:
        """Return the locked file; None when its last holder removed it before it was locked."""
        file = self._path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(self._refusal()) from None
        try:
            is_current = os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            is_current = False
        if is_current:
            return file
        file.close()
        return None

    def _refusal(self) -> str:
        holder = _read(self._path)
        who = f"process {holder.watcher_pid}" if holder else "another process"
        return f"sweep {self._record.sweep_id} is being run by {who}: wait until it ends or stop it"

    def _write(self, record: RunRecord) -> None:
        """Write into the locked file itself: a file that replaces it would not be locked."""
        if self._file is None:
            raise AssertionError("the claim is not held")
        self._file.seek(0)
        self._file.truncate()
        self._file.write(record.model_dump_json())
        self._file.flush()


def run_records(home: Home) -> tuple[tuple[Path, RunRecord | None], ...]:
    """Return each record with its file; None for one that a kill left unreadable."""
    return tuple((path, _read(path)) for path in sorted(_folder(home).glob("*.json")))


def _read(path: Path) -> RunRecord | None:
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _folder(home: Home) -> Path:
    return home.root / "runs"
