"""Which process runs a trial: at most one at a time, on whichever host.

A lock is a file in `claims/` of the sweep: of its folder, or of its store if several hosts run its
trials. Not every store can create a file only if there is none. So a process writes a lock with a
name of its own and then lists the locks. It has the trial if its lock is the only one. Of two
processes each has written before it lists, so at least one of them sees the other. This needs
listings that show every completed write: folders, S3, Google Cloud Storage and Azure have them.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Container, Iterator, Sequence
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.documents import why_unreadable, with_version, without_version
from ackbench.experiments.ledger.location import Location
from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import StorageError, TrialFailed
from ackbench.experiments.sweep.published import storage_errors
from ackbench.infra.errors import InputError, WaitTimeout
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity
from ackbench.infra.process.waiting import wait_until

LOCKS: Final = "claims"
"""The folder of the locks, below the sweep, by the name that earlier versions also look for."""
_WITHDRAW_S: Final = 10.0
"""How long the preferred one of two processes waits until the other one has withdrawn."""
_POLL_S: Final = 0.2
_SUFFIX: Final = ".json"
_ALONE, _WITHDRAWS = "it is the only lock", "another lock goes first"
_DAG_RUN: Final = ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_DAG_RUN_ID")
_TASK: Final = "AIRFLOW_CTX_TASK_ID"
_TRY_NUMBER: Final = "AIRFLOW_CTX_TRY_NUMBER"
"""Variables that Airflow sets in the process of a task."""
TASK_INDEX: Final = "ACKBENCH_TASK_INDEX"
"""A variable of the same kind, which the mapped tasks set: which of them the process is."""


class TrialLock(Frozen):
    """The process that runs a trial."""

    trial_id: str
    token: str
    """Random: no two locks have the same name."""
    machine: MachineIdentity
    """Host, boot and pid namespace."""
    process: ProcessIdentity
    dag_run: str | None
    """The DAG run whose task it is; `None`: a command runs the trial."""
    task: str | None = None
    """The task of that run, with its index: `trial[3]`."""
    try_number: int = 1
    """Which try of that task it is."""

    @classmethod
    def own(cls, trial_id: str) -> TrialLock:
        """Return a lock of this process."""
        return cls(
            trial_id=trial_id,
            token=secrets.token_hex(8),
            machine=MachineIdentity.own(),
            process=ProcessIdentity.own(),
            dag_run=own_dag_run(),
            task=_own_task(),
            try_number=_own_try_number(),
        )

    @property
    def name(self) -> str:
        """The lock's file, relative to the sweep."""
        return f"{LOCKS}/{self.trial_id}.{self.token}{_SUFFIX}"

    def is_held(self) -> bool:
        """Return whether its process is known to live; of another host that is not known."""
        return self.machine.is_own and self.process.is_alive()

    def has_ended(self) -> bool:
        """Return whether its process is known to have ended; of another host that is not known."""
        ended_here = self.machine.is_own and not self.process.is_alive()
        return ended_here or self.machine.has_restarted

    def is_of_earlier_try(self) -> bool:
        """Return whether this process is a later try of the task that locked the trial.

        Airflow starts a try once it knows that the one before has ended, on whichever host.
        """
        same = self.dag_run == own_dag_run() and self.task == _own_task()
        return bool(same and self.task) and self.try_number < _own_try_number()

    def describe(self) -> str:
        """Return who has locked the trial, for messages."""
        where = "" if self.machine.is_own else f" {self.machine.describe()}"
        run = f" (Airflow's run {self.dag_run})" if self.dag_run else ""
        return f"process {self.process.pid}{where}{run}"


class TrialLocked(InputError):
    """Another process has locked a trial; the message names both."""

    def __init__(self, lock: TrialLock, remedy: str) -> None:
        self.lock = lock
        super().__init__(f"trial {lock.trial_id} is locked by {lock.describe()}: {remedy}")


class LockLost(TrialFailed):
    """A lock was released while its trial ran, so another process may have run the trial too."""


def own_dag_run() -> str | None:
    """Return `<dag id>/<run id>` of the task that this process is; `None`: it is no task."""
    names = [os.environ.get(name) for name in _DAG_RUN]
    return "/".join(map(str, names)) if all(names) else None


def name_own_run(scheduler: str, run: str) -> None:
    """Name the run that this process is a task of, unless its scheduler has named one."""
    if own_dag_run() is None:
        os.environ.update(zip(_DAG_RUN, (scheduler, run), strict=True))


def is_cleared_task() -> bool:
    """Return whether this process is a task that a person has cleared in Airflow.

    Only of tasks without retries.
    """
    return _own_try_number() > 1


def can_be_cleared() -> bool:
    """Return whether this process is a task of Airflow, which counts a task's tries."""
    return _TRY_NUMBER in os.environ


def _own_task() -> str | None:
    task, index = os.environ.get(_TASK), os.environ.get(TASK_INDEX)
    return f"{task}[{index}]" if task and index else None


def _own_try_number() -> int:
    return int(os.environ.get(_TRY_NUMBER) or 1)


def take_lock(sweep: Location, trial_id: str) -> TrialLock | None:
    """Lock a trial for this process.

    Args:
        sweep: where the sweep's locks are.
        trial_id: the trial.

    Returns:
        The lock; `None`: another process has the trial, or has had it when it was killed.

    Raises:
        StorageError: the locks cannot be read or written.
    """
    lock = TrialLock.own(trial_id)
    with storage_errors():
        if _others(sweep, lock):
            return None
        sweep.write(lock.name, with_version(lock.model_dump_json()).encode())
        try:
            if _becomes_only(sweep, lock):
                return lock
        except BaseException:
            sweep.delete(lock.name)
            raise
        sweep.delete(lock.name)
        return None


def _becomes_only(sweep: Location, lock: TrialLock) -> bool:
    """Return whether a lock that was written is the only one, or becomes it.

    Of processes that have written at the same time the one with the lowest token waits, and the
    others withdraw. It does not know whether another one already has the trial, hence the timeout.
    """

    def decided() -> str | None:
        others = _others(sweep, lock)
        if not others:
            return _ALONE
        return _WITHDRAWS if min(others) < lock.token else None

    try:
        decision = wait_until(
            decided,
            awaiting=f"the lock of trial {lock.trial_id}",
            timeout_s=_WITHDRAW_S,
            every_s=_POLL_S,
        )
    except WaitTimeout:
        return False
    return decision == _ALONE


def _others(sweep: Location, lock: TrialLock) -> set[str]:
    """Return the tokens of the other locks of the same trial."""
    tokens = {token for trial_id, token in _listed(sweep) if trial_id == lock.trial_id}
    return tokens - {lock.token}


def _listed(sweep: Location) -> Iterator[tuple[str, str]]:
    """Yield trial and token of each lock, from the names of the files alone."""
    for name in sweep.at(LOCKS).list_files():
        trial_id, _, token = name.removesuffix(_SUFFIX).rpartition(".")
        if name.endswith(_SUFFIX) and "/" not in name:
            yield trial_id, token


def require_lock(sweep: Location, lock: TrialLock) -> None:
    """Check that nobody has released a lock of this process.

    Raises:
        LockLost: somebody has.
        StorageError: the locks cannot be read.
    """
    with storage_errors():
        if sweep.read(lock.name) is None:
            raise LockLost(
                f"trial {lock.trial_id}: its lock was released while it ran, so that another "
                "process may have run it: this ledger is not used"
            )


def release_lock(sweep: Location, lock: TrialLock) -> None:
    """Release a lock of this process. Idempotent.

    Raises:
        StorageError: the lock cannot be deleted.
    """
    with storage_errors():
        sweep.delete(lock.name)


def read_locks(sweep: Location) -> Sequence[TrialLock]:
    """Return the locks of a sweep, sorted by trial.

    Raises:
        StorageError: they cannot be read, or one is damaged; the message names it.
    """
    with storage_errors():
        found = {name: sweep.read(name) for name in locks_of(sweep)}
    locks = [
        _parsed(sweep, name, content) for name, content in found.items() if content is not None
    ]
    return sorted(locks, key=lambda lock: (lock.trial_id, lock.token))


def locks_of(sweep: Location) -> list[str]:
    """Return the files of the locks of a sweep, relative to it."""
    return [f"{LOCKS}/{trial_id}.{token}{_SUFFIX}" for trial_id, token in _listed(sweep)]


def _parsed(sweep: Location, name: str, content: bytes) -> TrialLock:
    """Return a lock; one of another name is damaged: its file would be deleted instead.

    Raises:
        StorageError: it is damaged.
    """
    damaged = "is damaged: delete it if no process runs the trial"
    try:
        lock = TrialLock.model_validate_json(without_version(content))
    except ValidationError as error:
        raise StorageError(f"{name} in {sweep.uri} {why_unreadable(content, damaged)}") from error
    if lock.name != name:
        raise StorageError(f"{name} in {sweep.uri} {damaged}")
    return lock


def release_abandoned(sweep: Location) -> Sequence[TrialLock]:
    """Release the locks of processes that are not known to live: a person resumes the sweep.

    A process of another host cannot be looked at. If it lives nevertheless, it finds that its lock
    is gone before it publishes its trial (`require_lock`).

    Returns:
        The released locks.

    Raises:
        TrialLocked: the process of a lock lives; nothing was released.
        StorageError: the locks cannot be read or deleted.
    """
    locks = read_locks(sweep)
    for lock in locks:
        if lock.is_held():
            raise TrialLocked(lock, "wait until it ends or stop it")
    with storage_errors():
        for lock in locks:
            sweep.delete(lock.name)
    return locks


def release_ended(sweep: Location, trial_ids: Container[str]) -> Sequence[TrialLock]:
    """Release the locks of this DAG run whose processes are known to have ended.

    A person has cleared a task of the run, so its trials are to run again. Of a process on another
    host it is known if this process is a later try of the same task. If it lives nevertheless, it
    finds that its lock is gone before it publishes its trial (`require_lock`).

    Args:
        sweep: where the locks are.
        trial_ids: the trials whose locks may be released.

    Returns:
        The released locks.

    Raises:
        StorageError: the locks cannot be read or deleted.
    """
    own = own_dag_run()
    released = [
        lock
        for lock in read_locks(sweep)
        if own
        and lock.dag_run == own
        and lock.trial_id in trial_ids
        and (lock.has_ended() or lock.is_of_earlier_try())
    ]
    with storage_errors():
        for lock in released:
            sweep.delete(lock.name)
    return released
