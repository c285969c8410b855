"""The steps of a sweep: what each task of the DAG does. No step depends on Airflow.

What the steps share is in the sweep's folder, so each can run in a process of its own.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from experiments.errors import HealFailed, NotPublished, StorageError, TrialFailed, UnknownName
from experiments.ledger.digests import with_digest
from experiments.messages.phrases import one_line
from experiments.orchestration import task_log
from experiments.sweep.claim import TaskClaim
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import TrialSpec
from infra.errors import AckbenchError, HarnessError, MachineError
from infra.machine.files import replace_file
from infra.machine.home import Home, keep_files_private
from infra.machine.resources import failure_reason, full_disk
from infra.process.load_lock import COMMAND_MAX_WAIT_S, MAX_WAIT_S, hold_machine_lock

if TYPE_CHECKING:
    from experiments.ledger.location import Location

EMBEDDED: Final = "ACKBENCH_EMBEDDED"
"""An environment variable: set if one process runs the whole DAG; else each task has its own."""
TASK_START_GRACE_S: Final = 120.0
"""How long cluster and claim outlive the task that used them last, so that the next can start."""
_DAG_RUN: Final = ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_DAG_RUN_ID")
"""Variables that Airflow sets in the process of a task."""
RETRY_PUBLISHING_S: Final = 60.0
"""How long trials are not uploaded after a failed upload, whose retries take seconds to minutes."""
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


RUN_STATE: Final = RunState()


def cluster_grace_s() -> float:
    """Return how long a cluster outlives this process."""
    return 0.0 if os.environ.get(EMBEDDED) else TASK_START_GRACE_S


def plan_sweep(form: Mapping[str, Any]) -> str:
    """Return the id of the sweep to run: a new one from the form's fields, or the one it names.

    Raises:
        InputError: the request is invalid; one line, and nothing was started.
    """
    from experiments.orchestration.request import SweepRequest
    from experiments.planning.new_sweep import new_sweep
    from experiments.sweep import published
    from experiments.sweep.lookup import sweep_of_id

    with _step("plan"):
        home, request = Home.from_environment(), SweepRequest.of(form)
        if request.sweep_id:
            existing = sweep_of_id(home, request.sweep_id)
            with _claim(existing):
                existing.stop_reason.unlink(missing_ok=True)
                _publish(existing, published.publish_plan)
            return existing.sweep_id
        store = published.store_of_environment()
        sweep = new_sweep(home, request.source(), request.overrides(), _LOG.info)
        with _claim(sweep):
            if store:
                published.keep_store(sweep, store)
                _publish(sweep, published.publish_plan)
        task_log.log_plan(sweep)
        return sweep.sweep_id


def trial_labels(sweep_id: str) -> list[str]:
    """Return a label for each trial to run, in order; the DAG's trial task is mapped over them."""
    sweep = _sweep(sweep_id)
    plan = sweep.plan()
    return [_label(plan.trial(trial_id)) for trial_id in sweep.pending()]


def _label(spec: TrialSpec) -> str:
    return f"{spec.label} ({spec.trial_id})"


def next_trial(sweep: SweepFolder) -> TrialSpec | None:
    """Return the trial to run next; `None` when all are complete.

    Trials run in the plan's order. Those that failed follow, the earliest failure first.

    A mapped task is not bound to a trial in advance, because only a scheduler starts mapped tasks
    in the order of their indexes. `dag.test()` iterates over a set of them, and the plan's order is
    part of the experiment.
    """
    plan, pending = sweep.plan(), sweep.pending()
    failed = sorted(
        (t for t in pending if sweep.failed(t).is_dir()),
        key=lambda t: sweep.failed(t).stat().st_mtime_ns,
    )
    not_run = [trial_id for trial_id in pending if trial_id not in failed]
    return next((plan.trial(trial_id) for trial_id in (*not_run, *failed)), None)


def provision(sweep_id: str) -> str:
    """Start the cluster that the next trial needs.

    Returns:
        The cluster's folder; empty when no trial is left to run.

    Raises:
        InputError, HarnessError: the cluster did not start; only its logs are left.
    """
    from experiments.clients.process.fork_server import open_fork_server
    from experiments.orchestration import clusters

    sweep = _sweep(sweep_id)
    with _step("provision", sweep, "starting the cluster"):
        trial = next_trial(sweep)
        if trial is None:
            return ""
        with _failure_recorded(sweep, trial, stops_sweep=True), _machine_lock(sweep, "provision"):
            _record_machine(sweep)
            if os.environ.get(EMBEDDED):
                # It starts while the cluster does. Elsewhere it would end with this task.
                open_fork_server()
            cluster = clusters.provision(
                Home.from_environment(), sweep_id, trial.cluster, cluster_grace_s()
            )
            sweep.stop_reason.unlink(missing_ok=True)
            return str(cluster.folder)


def _record_machine(sweep: SweepFolder) -> None:
    """Record the machine of the trials: figures of two machines are not comparable."""
    import platform

    from infra.machine.resources import GIB, this_machine

    machine = this_machine(sweep.root)
    properties = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": machine.cores,
        "free memory, GiB": machine.memory_bytes // GIB,
    }
    replace_file(sweep.root / "machine.json", with_digest(json.dumps(properties, indent=1)))


def run_next_trial(sweep_id: str, on_start: Callable[[str], None]) -> str:
    """Run the next trial; return its id, empty when none is left.

    Args:
        sweep_id: the sweep.
        on_start: called with the trial's label before the trial starts.

    Raises:
        HarnessError: as `run_trial`.
        Interrupted: the fault of an earlier trial could not be healed.
    """
    sweep = _sweep(sweep_id)
    spec = next_trial(sweep)
    if spec is None:
        return ""
    if sweep.stop_reason.is_file():
        raise Interrupted(f"trial {spec.trial_id} not started: {sweep.stop_reason.read_text()}")
    on_start(_label(spec))
    run_trial(sweep_id, spec.trial_id)
    return spec.trial_id


def run_trial(sweep_id: str, trial_id: str) -> None:
    """Run a trial, seal its ledger and publish it, if the sweep has a store.

    A failed upload stops nothing: the ledger is sealed, and `verify` uploads it later.

    Raises:
        HealFailed: the trial's fault could not be healed; no trial starts until the sweep is
            resumed.
        HarnessError: the trial could not be completed; this is no result about Kafka.
    """
    from experiments.orchestration import clusters
    from experiments.sweep import published
    from experiments.trial import run as trial_run

    sweep = _sweep(sweep_id)
    spec = sweep.plan().trial(trial_id)
    with (
        _step("trial", sweep, "finding the cluster", trial_id),
        _failure_recorded(sweep, spec),
        _machine_lock(sweep, "trial", trial_id),
    ):
        home = Home.from_environment()
        assigned = clusters.assign_cluster(home, spec, cluster_grace_s())
        try:
            task_log.log_trial_begin(sweep, spec, assigned.assignment)
            trial_run.run_trial(sweep, spec, assigned.cluster, home, assigned.assignment)
            task_log.log_trial_end(sweep, spec)
        except HealFailed as error:
            replace_file(sweep.stop_reason, one_line(str(error)))
            raise
        finally:
            clusters.destroy_after_use(home, spec, assigned.cluster)
        # Left by an earlier attempt, if this run resumes the sweep.
        shutil.rmtree(sweep.failed(trial_id), ignore_errors=True)
        _publish(sweep, lambda _, target: published.publish_trial(sweep, trial_id, target))


def measure(sweep_id: str) -> None:
    """Compute the results from the ledgers of all complete trials, if there are any.

    A trial whose ledger is damaged is left out: it does not keep the others from being measured,
    and `verify` names it. On a Spark cluster, a published sweep is measured in its store: the
    executors cannot read this machine's folder.

    Raises:
        InputError, HarnessError: Spark failed.
    """
    from experiments.results import spark_job
    from experiments.sweep import published

    sweep, home = _sweep(sweep_id), Home.from_environment()
    with _step("measure", sweep, "measuring the ledgers with Spark"):
        if not sweep.complete_ids():
            return
        store = published.published_location(sweep) if spark_job.is_on_cluster() else None
        with _machine_lock(sweep, "measure"):
            if store is None:
                spark_job.measure(sweep, home, skip_unfit=True)
                return
            published.publish_sweep(sweep, store)
            spark_job.measure_location(store.uri, home, sweep.sweep_id, skip_unfit=True)
            published.fetch_results(sweep, store)


def report(sweep_id: str) -> None:
    """Render the sweep's report, also if nothing was measured.

    Raises:
        InputError: a trial's record or a table of the results cannot be read.
    """
    from experiments.report import page

    sweep = _sweep(sweep_id)
    with _step("report", sweep, "rendering the report"):
        results = page.write_report(sweep, Home.from_environment())
        task_log.log_answer(sweep, results)


def track(sweep_id: str) -> None:
    """Write the results to MLflow. Idempotent: existing runs are updated.

    Raises:
        HarnessError: MLflow refused, or is unreachable.
    """
    from experiments.tracking import store

    sweep = _sweep(sweep_id)
    with _step("track", sweep, "writing to MLflow"):
        home = Home.from_environment()
        store.track(sweep, home)
        task_log.log_mlflow(sweep, home)


def destroy(sweep_id: str) -> None:
    """Destroy every cluster of the sweep, whichever process created it. Idempotent.

    Raises:
        SweepInUse: another command or DAG run uses them now.
    """
    from experiments.orchestration import clusters

    sweep = _sweep(sweep_id)
    with _claim(sweep):
        sweep.report_activity("destroy", "destroying the cluster")
        clusters.destroy_all(Home.from_environment(), sweep_id)


def verify(sweep_id: str) -> None:
    """Publish what is not published yet, if the sweep has a store; then check for missing trials.

    Every planned trial has to be sealed or void, with a ledger that could be measured; the tasks'
    states do not show that.

    Raises:
        TrialFailed: trials are missing; the message names each with the reason.
        NotPublished: the store did not accept everything; the message has the remedy.
    """
    from experiments.results.rows import read_manifest
    from experiments.sweep import published

    sweep = _sweep(sweep_id)
    activity = "publishing the sweep" if sweep.store.is_file() else "checking for missing trials"
    with _step("verify", sweep, activity, is_last=True):
        not_published = _publish(sweep, published.publish_sweep, again=True)
        missing = {trial_id: _failure_reason(sweep, trial_id) for trial_id in sweep.pending()}
        manifest = read_manifest(sweep)
        unfit = manifest.left_out if manifest else {}
        reasons = "; ".join(f"{name} ({reason})" for name, reason in {**missing, **unfit}.items())
        if missing:
            raise TrialFailed(
                f"{len(missing)} of {len(sweep.plan().trials)} trials are missing: {reasons}"
            )
        if unfit:
            raise TrialFailed(
                f"{len(unfit)} of {len(sweep.plan().trials)} trials are damaged: {reasons}; restore"
                f" the files, or delete the trials' folders in {sweep.root / 'trials'} and run them"
                f" again with: ackbench run --resume {sweep.sweep_id}"
            )
        if not_published:
            raise NotPublished(str(not_published)) from not_published
    sweep.report_activity("done")


def _publish(
    sweep: SweepFolder,
    upload: Callable[[SweepFolder, Location], None],
    *,
    again: bool = False,
) -> StorageError | None:
    """Upload a part of a sweep to its store, if it has one; log and return the error.

    Args:
        sweep: the sweep.
        upload: uploads the part.
        again: also after an upload that has just failed.
    """
    from experiments.sweep import published

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


def _sweep(sweep_id: str) -> SweepFolder:
    sweep = SweepFolder(Home.from_environment().sweeps / sweep_id)
    if not sweep.root.is_dir():
        raise UnknownName(f"no sweep {sweep_id} in {sweep.root.parent}")
    return sweep


def _claim(sweep: SweepFolder, *, is_last: bool = False) -> AbstractContextManager[object]:
    """Return the claim of this task; in an embedded run, the command has it.

    Args:
        sweep: the sweep that the task runs.
        is_last: no task of the DAG run follows.
    """
    if os.environ.get(EMBEDDED):
        return nullcontext()
    dag_run = "/".join(os.environ.get(name, "?") for name in _DAG_RUN)
    grace_s = 0.0 if is_last else TASK_START_GRACE_S
    return TaskClaim(Home.from_environment(), sweep, dag_run, grace_s)


@contextmanager
def _step(
    name: str,
    sweep: SweepFolder | None = None,
    activity: str = "",
    trial_id: str | None = None,
    *,
    is_last: bool = False,
) -> Iterator[None]:
    """Run a step; record its activity and its failure. After an interrupt, refuse to start it."""
    keep_files_private()  # a worker of another Airflow has its own umask
    if RUN_STATE.stopping:
        raise Interrupted(f"{name}: not started, because the run was interrupted")
    with (
        _claim(sweep, is_last=is_last) if sweep else nullcontext(),
        _recorded(name, sweep, activity, trial_id),
    ):
        yield


@contextmanager
def _recorded(
    name: str, sweep: SweepFolder | None, activity: str, trial_id: str | None
) -> Iterator[None]:
    if sweep:
        sweep.report_activity(name, activity, trial_id)
    try:
        yield
    except KeyboardInterrupt:
        RUN_STATE.stopping = True
        raise
    except Exception as error:
        full = full_disk(error, Home.from_environment().root)
        text = f"{error}; {full}" if full else str(error)
        RUN_STATE.failures = (*RUN_STATE.failures, f"{name}: {text}")
        if sweep:
            sweep.report_activity("failed", text, trial_id)
        if full and not isinstance(error, AckbenchError):
            raise MachineError(one_line(text)) from error
        raise


@contextmanager
def _machine_lock(sweep: SweepFolder, stage: str, trial_id: str | None = None) -> Iterator[None]:
    def on_wait(holder: str) -> None:
        sweep.report_activity(stage, f"waiting for the machine lock, held by {holder}", trial_id)

    timeout_s = COMMAND_MAX_WAIT_S if os.environ.get(EMBEDDED) else MAX_WAIT_S
    with hold_machine_lock(Home.from_environment(), sweep.sweep_id, on_wait, timeout_s):
        yield


@contextmanager
def _failure_recorded(
    sweep: SweepFolder, spec: TrialSpec, *, stops_sweep: bool = False
) -> Iterator[None]:
    """Record any exception as the failure of a trial, with the reason, unless it has one already.

    Args:
        sweep: the sweep.
        spec: the trial that runs, or that needs the cluster.
        stops_sweep: also record it as the reason why no other trial is run.

    Raises:
        TrialFailed: in place of an exception that is no error of ackbench's.
    """
    try:
        yield
    except TrialFailed:
        raise  # `run_trial` has recorded it
    except Exception as error:
        reason = failure_reason(error, sweep.root)
        if not sweep.trial(spec.trial_id).exists():
            failed = sweep.failed(spec.trial_id)
            failed.mkdir(parents=True, exist_ok=True)
            replace_file(failed / "reason.txt", f"{reason}\n")
            os.utime(failed)
            if stops_sweep:
                replace_file(sweep.stop_reason, f"no cluster: {one_line(str(error))}")
        if isinstance(error, AckbenchError):
            raise
        raise TrialFailed(f"trial {spec.trial_id} ({spec.label}): {reason}") from error


def _failure_reason(sweep: SweepFolder, trial_id: str) -> str:
    reason = sweep.failed(trial_id) / "reason.txt"
    if reason.is_file():
        return one_line(reason.read_text())
    if sweep.stop_reason.is_file():
        return f"never run: {sweep.stop_reason.read_text()}"
    return "never run"
