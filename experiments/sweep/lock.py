"""Which process runs a sweep: one command, or the tasks of one run of the DAG, at a time.

Who runs a sweep holds the lock of its folder, a command alone and the tasks of a DAG run shared. A
record in the home's `runs` folder names it. The record of a DAG run outlives each task for a while:
a scheduler needs time to start the next one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import IO, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.sweep.documents import read_document
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import InputError, MachineError, WaitTimeout
from ackbench.infra.machine.files import is_locked, replace_file, try_lock
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity
from ackbench.infra.process.waiting import wait_until

LOCK_FILE: Final = ".claim"
"""In the sweep's folder, by the name that earlier versions also lock; deleted only with it."""
SCHEDULER_VARIABLE: Final = "ACKBENCH_UP"
"""Pid and start time of the `ackbench up` whose scheduler starts the tasks; else it is not set."""
VERSION_VARIABLE: Final = "ACKBENCH_UP_VERSION"
"""The version of ackbench of that `ackbench up`."""
_SHORT_LOCK_S: Final = 0.5
"""The time for which a process that only looks for a lock, or shares it, may exclude others."""


class RunRecord(BaseModel):
    """The processes that run a sweep."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    sweep_id: str
    watcher: ProcessIdentity
    """The command that follows the run, or the task."""
    machine: MachineIdentity
    """Where the processes run."""
    runner: ProcessIdentity | None = None
    """The child of a command that runs the steps, once it was started."""
    dag_run: str | None = None
    """The DAG run whose task it is; `None`: a command runs the sweep."""
    scheduler: ProcessIdentity | None = None
    """The `ackbench up` whose scheduler starts the tasks."""
    waits_until_s: float | None = None
    """Between two tasks: when the next one must have started, seconds of CLOCK_BOOTTIME."""

    def describe(self) -> str:
        """Return the name of what runs the sweep, for messages."""
        who = f"process {self.watcher.pid}"
        if self.dag_run is not None:
            between = "between two tasks" if self.waits_until_s else who
            who = f"Airflow's run {self.dag_run} ({between})"
        return who if self.machine.is_own else f"{who} {self.machine.describe()}"

    def has_scheduler_ended(self) -> bool:
        """Return whether the `ackbench up` of the run is known to have ended."""
        return bool(self.scheduler and self.machine.is_own and not self.scheduler.is_alive())

    def outlives_its_lock(self) -> bool:
        """Return whether the run may be in progress although no process holds the lock.

        That is the case between two tasks, and on another machine, whose locks are not seen here.
        """
        if not self.machine.has_own_kernel:
            return not self.machine.has_restarted
        waits = self.waits_until_s is not None and _boot_time_s() < self.waits_until_s
        return waits and not self.has_scheduler_ended()


class SweepInUse(InputError):
    """Another process runs the sweep; the message names it."""

    def __init__(self, sweep_id: str, record: RunRecord | None) -> None:
        self.record = record
        """What is known about the run; `None`: nothing."""
        self.runner = record.describe() if record else "another process"
        super().__init__(
            f"sweep {sweep_id} is being run by {self.runner}: wait until it ends or stop it"
        )


class SweepLock:
    """The right of a command to run, measure or delete one sweep, while the context lasts.

    The kernel releases it when the process ends, even after a SIGKILL (flock(2)).

    Args:
        home: the home with the record.
        sweep: the sweep; its folder exists.

    Raises:
        SweepInUse: on entering: another process runs the sweep.
        MachineError: on entering: the sweep's folder cannot be written.
    """

    def __init__(self, home: Home, sweep: SweepFolder) -> None:
        self._sweep, self._path = sweep, record_path(home, sweep.sweep_id)
        self._lock: IO[str] | None = None
        self._record = RunRecord(
            sweep_id=sweep.sweep_id, watcher=ProcessIdentity.own(), machine=MachineIdentity.own()
        )
        self.previous: RunRecord | None = None
        """The record of a run that was killed; `None`: the last one ended by itself."""

    def __enter__(self) -> Self:
        """Take the lock and write the record."""
        self._lock = self._acquire()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, self._record.model_dump_json(), durable=False)
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the record and release the lock."""
        self._path.unlink(missing_ok=True)
        self._release()

    def note_runner(self, runner: ProcessIdentity) -> None:
        """Record the process that runs the steps."""
        self._record = self._record.model_copy(update={"runner": runner})
        replace_file(self._path, self._record.model_dump_json(), durable=False)

    def _acquire(self) -> IO[str]:
        try:
            return wait_until(
                self._try_acquire,
                awaiting=f"the lock of sweep {self._sweep.sweep_id}",
                timeout_s=_SHORT_LOCK_S,
            )
        except WaitTimeout:
            raise SweepInUse(self._sweep.sweep_id, self.previous) from None

    def _try_acquire(self) -> IO[str] | None:
        path = self._sweep.root / LOCK_FILE
        try:
            lock = try_lock(path)
        except OSError as error:
            raise MachineError(
                f"cannot lock {path} ({error.strerror}): the sweep's folder must be writable"
            ) from error
        self.previous = read_run_record(self._path)
        if lock and self.previous and not self._is_same_run() and self.previous.outlives_its_lock():
            lock.close()
            raise SweepInUse(self._sweep.sweep_id, self.previous)
        return lock

    def _is_same_run(self) -> bool:
        """Return whether the previous record is that of the same DAG run."""
        dag_run = self._record.dag_run
        return bool(dag_run is not None and self.previous and self.previous.dag_run == dag_run)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class TaskLock(SweepLock):
    """The right of a task to run a sweep, which it shares with the tasks of the same DAG run.

    Args:
        home: the home with the record.
        sweep: the sweep.
        dag_run: the DAG run.
        grace_s: how long the lock outlives the task, so that the next one can start.

    Raises:
        SweepInUse: on entering: a command or another DAG run runs the sweep.
    """

    def __init__(self, home: Home, sweep: SweepFolder, dag_run: str, grace_s: float) -> None:
        super().__init__(home, sweep)
        self._grace_s = grace_s
        self._record = self._record.model_copy(
            update={"dag_run": dag_run, "scheduler": _scheduler()}
        )

    def __exit__(self, *_: object) -> None:
        """Release the lock of the task; without a grace, end that of the DAG run too.

        Not while another task of the run has it: the record names the run until that one ends.
        """
        if self._grace_s:
            waits = self._record.model_copy(
                update={"waits_until_s": _boot_time_s() + self._grace_s}
            )
            replace_file(self._path, waits.model_dump_json(), durable=False)
            self._release()
            return
        self._release()
        if alone := try_lock(self._sweep.root / LOCK_FILE):
            self._path.unlink(missing_ok=True)
            alone.close()

    def _try_acquire(self) -> IO[str] | None:
        """Return the lock, shared; `None`: another process has it alone."""
        lock = super()._try_acquire()
        if lock is None:
            path = self._sweep.root / LOCK_FILE
            return try_lock(path, shared=True) if self._is_same_run() else None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return lock


def runs(home: Home) -> Mapping[str, RunRecord | None]:
    """Return the records of this home by sweep; `None` for one that cannot be read."""
    paths = sorted((home.root / "runs").glob("*.json"))
    return {path.name.removesuffix(".json"): read_run_record(path) for path in paths}


def read_run_record(path: Path) -> RunRecord | None:
    """Return a record; `None`: there is none, or it was written by another version."""
    try:
        return RunRecord.model_validate_json(read_document(path))
    except (FileNotFoundError, LedgerError, ValidationError):
        return None


def record_path(home: Home, sweep_id: str) -> Path:
    """Return the file of a sweep's record."""
    return home.root / "runs" / f"{sweep_id}.json"


def is_in_progress(sweep: SweepFolder, record: RunRecord | None) -> bool:
    """Return whether a command or a DAG run runs a sweep."""
    return is_locked(sweep.root / LOCK_FILE) or bool(record and record.outlives_its_lock())


def is_run_by_another(sweep: SweepFolder) -> bool:
    """Return whether another process than this one runs a sweep of a home."""
    record = read_run_record(record_path(Home(sweep.root.parents[1]), sweep.sweep_id))
    is_own = record is not None and record.watcher == ProcessIdentity.own()
    return is_in_progress(sweep, record) and not is_own


def scheduler_variables() -> dict[str, str]:
    """Return the environment variables by which tasks know this process, their scheduler."""
    own = ProcessIdentity.own()
    return {
        SCHEDULER_VARIABLE: f"{own.pid} {own.start_ticks}",
        VERSION_VARIABLE: version("ackbench"),
    }


def require_version_of_scheduler() -> None:
    """Check that this task has the code of the version that started its scheduler.

    A task imports modules from the disk in addition to those that the scheduler has imported.

    Raises:
        MachineError: another version was installed since.
    """
    started, installed = os.environ.get(VERSION_VARIABLE), version("ackbench")
    if started and started != installed:
        raise MachineError(
            f"`ackbench up` was started by ackbench {started}, and ackbench {installed} is "
            "installed now: stop it, start it again, and trigger the sweep again"
        )


def _scheduler() -> ProcessIdentity | None:
    named = os.environ.get(SCHEDULER_VARIABLE, "").split()
    return ProcessIdentity(*map(int, named)) if named else None


def _boot_time_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
