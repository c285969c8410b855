"""The trials of a sweep: which one is next, and what happens around its run.

A trial is locked before it starts, so that no other process runs it, on whichever host.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from typing import Final

from ackbench.experiments.ledger.location import Location
from ackbench.experiments.messages.errors import HealFailed, StorageError
from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.orchestration import clusters, task_log
from ackbench.experiments.orchestration.permission import provide_references_of
from ackbench.experiments.orchestration.step_context import Interrupted, SweepRun
from ackbench.experiments.orchestration.task_hosts import task_hosts
from ackbench.experiments.sweep import batch_choice, published, several_hosts
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.sweep.trial_lock import (
    LockLost,
    TrialLock,
    can_be_cleared,
    is_cleared_task,
    own_dag_run,
    release_ended,
    release_lock,
    require_lock,
    take_lock,
)

_LOG: Final = logging.getLogger(__name__)


def label_of(spec: TrialSpec) -> str:
    """Return how Airflow's page names a trial."""
    return f"{spec.label} ({spec.trial_id})"


def next_trial(sweep: SweepFolder) -> TrialSpec | None:
    """Return the trial to run next; `None` when all are complete."""
    return next(iter(trials_in_order(sweep)), None)


def trials_in_order(sweep: SweepFolder) -> list[TrialSpec]:
    """Return the trials that are not complete, in the order in which they are to run.

    Trials run in the plan's order. Those that failed follow, the earliest failure first.

    A mapped task is not bound to a trial in advance, because only a scheduler starts mapped tasks
    in the order of their indexes. `dag.test()` iterates over a set of them, and the plan's order is
    part of the experiment.
    """
    pending = sweep.pending_trials()
    failed_ns = {
        trial.trial_id: folder.stat().st_mtime_ns
        for trial in pending
        if (folder := sweep.failed(trial.trial_id)).is_dir()
    }
    return sorted(pending, key=lambda trial: failed_ns.get(trial.trial_id, 0))


def run_next_trial(sweep_id: str, on_start: Callable[[str], None]) -> str:
    """Run the next trial that nobody has locked; return its id, empty when none is left.

    Args:
        sweep_id: the sweep.
        on_start: called with the trial's label before the trial starts.

    Raises:
        HarnessError: as `run_locked_trial`.
        Interrupted: the fault of an earlier trial could not be healed.
    """
    run = SweepRun.named(sweep_id)
    with run.hold("trial"):
        provide_references_of(run.home, run.sweep)
        release_ended_locks(run.sweep)
        for spec in trials_in_order(run.sweep):
            if lock_and_run_trial(run, spec, on_start):
                return spec.trial_id
    return ""


def release_ended_locks(sweep: SweepFolder) -> None:
    """Let the trials of killed tasks run again, if this is a task that a person has cleared."""
    if is_cleared_task():
        locks, pending = published.locks_location(sweep), sweep.pending()
        for lock in release_ended(locks, pending):
            _LOG.info("released trial %s, locked by %s", lock.trial_id, lock.describe())
        batch_choice.release_ended_batches(locks, pending)


def lock_and_run_trial(run: SweepRun, spec: TrialSpec, on_start: Callable[[str], None]) -> bool:
    """Lock a trial and run it; return whether this process has run it.

    A trial that another process has locked is not run, nor is one that is complete. One that a
    task of a DAG run has begun stays locked when it is interrupted: the run's next task does not
    take it, and a person who clears the task releases it.

    Raises:
        HarnessError: as `run_locked_trial`.
        Interrupted: a fault could not be healed, so that no trial starts.
        StorageError: the store of several hosts does not answer.
    """
    sweep = run.sweep
    if reason := several_hosts.stop_reason(sweep):
        raise Interrupted(f"trial {spec.trial_id} not started: {reason}")
    locks = published.locks_location(sweep)
    lock = take_lock(locks, spec.trial_id)
    if lock is None:
        _LOG.warning("trial %s not started: it is locked", spec.trial_id)
        return False
    stays_locked = False
    try:
        if reason := sweep.why_foreign(spec.trial_id):
            sweep.fail_sealed_trial(spec.trial_id, reason)
            _LOG.warning("counts as failed, and is run again: %s", reason)
        if _is_complete(sweep, spec.trial_id):
            return False
        on_start(label_of(spec))
        run_locked_trial(run, spec, lock)
    except KeyboardInterrupt:
        stays_locked = can_be_cleared()
        raise
    finally:
        if not stays_locked:
            _release(locks, lock)
    return True


def _release(locks: Location, lock: TrialLock) -> None:
    try:
        release_lock(locks, lock)
    except StorageError as error:
        _LOG.warning(
            "the lock of trial %s stays until the sweep is resumed: %s", lock.trial_id, error
        )


def _is_complete(sweep: SweepFolder, trial_id: str) -> bool:
    if sweep.trial(trial_id).is_dir():
        return True
    return published.runs_on_several_hosts(sweep) and several_hosts.is_published(sweep, trial_id)


def run_locked_trial(run: SweepRun, spec: TrialSpec, lock: TrialLock) -> None:
    """Run a trial, seal its ledger and publish it, if the sweep has a store.

    A failed upload stops nothing: the ledger is sealed, and `verify` uploads it later.

    Raises:
        HealFailed: the trial's fault could not be healed; no trial starts until the sweep is
            resumed.
        LockLost: the lock was released meanwhile; the trial counts as failed here.
        HarnessError: the trial could not be completed; this is no result about Kafka.
    """
    from ackbench.experiments.trial import run as trial_run

    sweep, home, trial_id = run.sweep, run.home, spec.trial_id
    with (
        run.report("trial", "finding the cluster", trial_id),
        run.record_trial_failure(spec),
        run.machine(),
    ):
        assigned = clusters.assign_cluster(home, spec, task_hosts().cluster_grace_s())
        try:
            task_log.log_trial_begin(sweep, spec, assigned.assignment)
            trial_run.run_trial(sweep, spec, assigned.cluster, home, assigned.assignment)
            task_log.log_trial_end(sweep, spec)
        except HealFailed as error:
            _stop(sweep, one_line(str(error)))
            raise
        except KeyboardInterrupt:
            if own_dag_run():  # else the command destroys it; the next task would find its topic
                clusters.destroy_all(home, sweep.sweep_id)
            raise
        finally:
            clusters.destroy_after_use(home, spec, assigned.cluster)
        _require_lock(sweep, spec, lock)
        # Left by an earlier attempt, if this run resumes the sweep.
        shutil.rmtree(sweep.failed(trial_id), ignore_errors=True)
        run.publish(lambda _, target: published.publish_trial(sweep, trial_id, target))


def _stop(sweep: SweepFolder, reason: str) -> None:
    """Start no other trial, on any host."""
    try:
        several_hosts.stop(sweep, reason)
    except StorageError as error:
        _LOG.warning("other hosts may start trials: %s", error)


def _require_lock(sweep: SweepFolder, spec: TrialSpec, lock: TrialLock) -> None:
    """Set a sealed ledger aside whose lock was released while the trial ran.

    Raises:
        LockLost: as `experiments.sweep.trial_lock.require_lock`.
    """
    try:
        require_lock(published.locks_location(sweep), lock)
    except LockLost as error:
        sweep.fail_sealed_trial(spec.trial_id, str(error))
        raise
    except StorageError as error:
        _LOG.warning("the lock of trial %s cannot be checked: %s", spec.trial_id, error)
