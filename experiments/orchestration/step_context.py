"""Locks, interrupts and failure records of a step.

The run's state is that of this process. Variables of Airflow say whether it is a task.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

from ackbench.experiments.ledger.location import Location
from ackbench.experiments.messages.errors import StorageError, TrialFailed, UnknownName
from ackbench.experiments.messages.phrases import format_value, one_line
from ackbench.experiments.sweep import published, several_hosts
from ackbench.experiments.sweep.folder import REASON, SweepFolder
from ackbench.experiments.sweep.lock import TaskLock
from ackbench.experiments.sweep.lookup import STORE_VARIABLE, is_sweep_id
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.sweep.progress import FAILED, report_queued
from ackbench.experiments.sweep.trial_lock import own_dag_run
from ackbench.infra.errors import AckbenchError, HarnessError, MachineError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home, keep_files_private
from ackbench.infra.machine.resources import failure_reason, full_disk
from ackbench.infra.process.load_lock import COMMAND_MAX_WAIT_S, MAX_WAIT_S, hold_machine_lock
from ackbench.infra.process.processes import end_with_forking_parent

TASK_START_GRACE_S: Final = 120.0
"""Cluster and lock outlive the task that used them last by this, so that the next can start."""
RETRY_PUBLISHING_S: Final = 60.0
"""How long trials are not uploaded after a failed upload, whose retries take seconds to minutes."""
_BESIDE_VERIFY: Final = frozenset({"report", "track"})
_LOG: Final = logging.getLogger(__name__)


class Interrupted(HarnessError):
    """The run was asked to stop, so the step did not start."""


@dataclass
class RunState:
    """The state of the run in this process."""

    stopping: bool = False
    """Whether the run was asked to stop.

    Airflow turns Ctrl-C into the failure of one task and would start the next one.
    """
    failures: tuple[str, ...] = ()
    """`step: reason`, in order."""
    is_command: bool = False
    """`True`: a command runs the step, for a scheduler, without the modules of Airflow."""


RUN_STATE: Final = RunState()


def sweep_named(named: object) -> SweepFolder:
    """Return a sweep to read: of this home, by its id, or a copy of the published one, by its URI.

    The copy is as new as the store, and has no ledgers.

    Args:
        named: what Airflow hands on from task to task, and lets its users change.

    Raises:
        UnknownName: there is no such sweep, or it is named otherwise than by `uri_of_several`.
        StorageError: the URI cannot be read.
    """
    home = Home.from_environment()
    if uri := uri_of_several(named):
        return published.fetch_sweep(home, uri)
    sweep = SweepFolder(home.sweeps / str(named))
    if not sweep.root.is_dir():
        raise UnknownName(f"no sweep {named} in {sweep.root.parent}")
    return sweep


def plan_named(named: object) -> Plan:
    """Return the plan of a sweep, of which nothing else is read.

    Raises:
        UnknownName, StorageError: as `sweep_named`.
        LedgerError: the plan cannot be read.
    """
    if uri := uri_of_several(named):
        return published.read_plan(uri)
    return sweep_named(named).plan()


def uri_of_several(named: object) -> str | None:
    """Return the URI of a sweep that several hosts run; `None`: it is named by its id.

    Args:
        named: as for `sweep_named`. A path could lead to any folder that this process may write,
            and a URI to any store: its plan would run here, and its folder would be written.

    Raises:
        UnknownName: it is no sweep's id, nor the URI of one in the store of this host, or in that
            of this home's sweep of the same id.
        StorageError: `ACKBENCH_STORE` cannot be opened.
    """
    text = named if isinstance(named, str) else ""
    with suppress(ValueError):  # of a URI that is none
        sweep_id = urlsplit(text).path.rpartition("/")[2]
        if is_sweep_id(sweep_id) and text == sweep_id:
            return None
        if is_sweep_id(sweep_id) and text in _uris_of(sweep_id):
            return text
    raise UnknownName(
        f"a task was given {format_value(named)} as its sweep (allowed: the id of a sweep in this "
        f"home, or its URI in the store of {STORE_VARIABLE})"
    )


def _uris_of(sweep_id: str) -> Iterator[str | None]:
    """Yield where this host expects a sweep: in its own store, and where the home's is kept."""
    if store := published.store_of_environment():
        yield store.at(sweep_id).uri
    yield published.published_uri(SweepFolder(Home.from_environment().sweeps / sweep_id))


def begin_step(name: str) -> None:
    """Prepare this process for a step: its files are private, and signals interrupt it.

    Raises:
        Interrupted: the run was interrupted, so the step does not start.
    """
    keep_files_private()  # a worker of another Airflow has its own umask
    if own_dag_run() and not RUN_STATE.is_command:
        _end_when_asked()
    if RUN_STATE.stopping:
        raise Interrupted(f"{name}: not started, because the run was interrupted")


def _end_when_asked() -> None:
    """Let a task end with its supervisor, and let SIGTERM interrupt it.

    Airflow gives a task a process group of its own. When its supervisor is killed together with the
    worker, the task would run on, unknown to the scheduler, which starts others. And Airflow's
    handler of SIGTERM calls the operator's `on_kill`, which does nothing for a function: the task
    of a pod that is deleted would run until SIGKILL.
    """
    if end_with_forking_parent() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)


def interrupt(number: int, _frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt` at the first signal; later ones must not break the cleanup."""
    if not RUN_STATE.stopping:
        RUN_STATE.stopping = True
        raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def report_failure(name: str, note: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Record the failure of a step in the run's state, and with `note`."""
    try:
        yield
    except KeyboardInterrupt:
        RUN_STATE.stopping = True
        raise
    except Exception as error:
        full = full_disk(error, Home.from_environment().root)
        text = f"{error}; {full}" if full else str(error)
        RUN_STATE.failures = (*RUN_STATE.failures, f"{name}: {text}")
        note(text)
        if full and not isinstance(error, AckbenchError):
            raise MachineError(one_line(text)) from error
        raise


@dataclass(frozen=True)
class SweepRun:
    """A sweep in the hands of one task: its folder, its locks, and what its steps say of it."""

    sweep: SweepFolder
    """Of this home, or a copy of a published sweep."""
    home: Home = field(default_factory=Home.from_environment)

    @classmethod
    def named(cls, named: object) -> SweepRun:
        """Return the run of a sweep that Airflow names; see `sweep_named`."""
        return cls(sweep_named(named))

    @contextmanager
    def step(self, name: str, activity: str, *, is_last: bool = False) -> Iterator[None]:
        """Run a step under the task's lock; record its activity and its failure."""
        with self.hold(name, is_last=is_last), self.report(name, activity):
            yield

    @contextmanager
    def hold(self, name: str, *, is_last: bool = False) -> Iterator[None]:
        """Hold the task's lock while it runs a step.

        Args:
            name: the step.
            is_last: the task leaves nothing to the next one of the DAG run.

        Raises:
            Interrupted: the run was interrupted, so the step does not start.
            SweepInUse: another command or DAG run runs the sweep.
        """
        begin_step(name)
        with self.lock(is_last=is_last):
            yield

    def lock(self, *, is_last: bool = False) -> AbstractContextManager[object]:
        """Return the lock of this task; of a run without Airflow, the command has it.

        A copy of a published sweep needs none.

        Args:
            is_last: no task of the DAG run follows.
        """
        dag_run = own_dag_run()
        if dag_run is None or self.sweep.origin:
            return nullcontext()
        grace_s = 0.0 if is_last else TASK_START_GRACE_S
        return TaskLock(self.home, self.sweep, dag_run, grace_s)

    @contextmanager
    def report(self, name: str, activity: str, trial_id: str | None = None) -> Iterator[None]:
        """Record what the sweep is doing, and the failure of it.

        Report and MLflow do not hide that `verify`, which does not wait for them, has failed.
        """
        last = self.sweep.activity() if name in _BESIDE_VERIFY else None
        if last is None or last.stage != FAILED:
            self.sweep.report_activity(name, activity, trial_id)
        with report_failure(name, lambda why: self.sweep.report_activity(FAILED, why, trial_id)):
            yield

    @contextmanager
    def machine(self) -> Iterator[None]:
        """Hold the machine lock; record for whom the sweep waits. Reentrant within a process."""
        timeout_s = MAX_WAIT_S if own_dag_run() else COMMAND_MAX_WAIT_S
        waiting = partial(report_queued, self.sweep)
        with hold_machine_lock(self.home, self.sweep.sweep_id, waiting, timeout_s):
            yield

    @contextmanager
    def record_trial_failure(self, spec: TrialSpec, *, stops_sweep: bool = False) -> Iterator[None]:
        """Record any exception as the failure of a trial, with the reason, unless it has one.

        Args:
            spec: the trial that runs, or that needs the cluster.
            stops_sweep: also record it as the reason why no other trial is run.

        Raises:
            TrialFailed: in place of an exception that is no error of ackbench's.
        """
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            raise
        except TrialFailed:
            raise  # `run_trial` has recorded it
        except BaseException as error:  # a time-out of Airflow's is no `Exception`
            reason = failure_reason(error, self.sweep.root)
            if not self.sweep.trial(spec.trial_id).exists():
                failed = self.sweep.failed(spec.trial_id)
                failed.mkdir(parents=True, exist_ok=True)
                replace_file(failed / REASON, f"{reason}\n")
                os.utime(failed)
                if stops_sweep:
                    several_hosts.stop(self.sweep, f"no cluster: {one_line(str(error))}")
            if isinstance(error, AckbenchError):
                raise
            raise TrialFailed(f"trial {spec.trial_id} ({spec.label}): {reason}") from error

    def publish(
        self, upload: Callable[[SweepFolder, Location], None], *, again: bool = False
    ) -> StorageError | None:
        """Upload a part of the sweep to its store, if it has one; log and return the error.

        Args:
            upload: uploads the part.
            again: also after an upload that has just failed.
        """
        sweep = self.sweep
        if not sweep.store.is_file() or not (again or _may_publish(sweep)):
            return None
        try:
            target = published.published_location(sweep)
            if target:
                upload(sweep, target)
        except StorageError as error:
            published.note_failure(sweep, error)
            _LOG.warning("not published: %s", error)
            return error
        return None


def _may_publish(sweep: SweepFolder) -> bool:
    """Return whether the last upload succeeded, or failed long enough ago."""
    try:
        failed_s = sweep.unpublished.stat().st_mtime
    except FileNotFoundError:
        return True
    return time.time() - failed_s > RETRY_PUBLISHING_S
