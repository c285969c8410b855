"""The steps of a sweep: what each task of the DAG does. No step depends on Airflow.

What the steps share is in the sweep's folder, so each can run in a process of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ackbench.experiments.ledger.location import Location
from ackbench.experiments.messages.errors import LedgerError, NotPublished, TrialFailed
from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.orchestration import task_log
from ackbench.experiments.orchestration.permission import provide_references, provide_references_of
from ackbench.experiments.orchestration.step_context import (
    SweepRun,
    begin_step,
    plan_named,
    report_failure,
    uri_of_several,
)
from ackbench.experiments.orchestration.task_hosts import task_hosts
from ackbench.experiments.sweep import published, several_hosts, time_limits
from ackbench.experiments.sweep.documents import read_note
from ackbench.experiments.sweep.folder import DAG_RUN, SweepFolder
from ackbench.experiments.sweep.lock import require_version_of_scheduler
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.spark_master import is_on_cluster
from ackbench.experiments.sweep.trial_lock import is_cleared_task, own_dag_run, read_locks
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from ackbench.experiments.planning.overrides import Overrides

LIMITED: Final = ("provision", "trial", "measure", "verify")
"""The steps whose time limit is in the plan."""
_LOG: Final = logging.getLogger(__name__)


def limit_s(step: str, sweep_id: object) -> float | None:
    """Return the time limit of a step by the plan of its sweep, seconds.

    Args:
        step: one of `LIMITED`.
        sweep_id: the sweep's id or URI, as Airflow hands it on.

    Returns:
        The limit; `None`: the plan cannot be read, and the step fails with the reason.
    """
    try:
        plan = plan_named(sweep_id)
    except AckbenchError:
        return None
    if step in {"measure", "verify"}:
        return time_limits.results_limit_s(plan)
    one_trial = task_hosts().share_home
    return time_limits.trial_limit_s(plan) if one_trial else time_limits.batch_limit_s(plan)


def plan_sweep(form: Mapping[str, Any], scheduled: str | None = None) -> str:
    """Return the sweep to run: a new one from the form's fields, or the one that it names.

    Args:
        form: the fields of the form.
        scheduled: the experiment that the DAG's schedule runs. Without a change of the form's it is
            the operator's own, so that it may load code and run commands.

    Returns:
        The sweep's id; its URI, if each task may run on a host with a home of its own.

    Raises:
        InputError: the request is invalid, the process of a locked trial lives, or another version
            was installed since the scheduler was started; one line, and nothing was started.
    """
    from ackbench.experiments.orchestration.request import SweepRequest

    begin_step("plan")
    with report_failure("plan"):
        require_version_of_scheduler()
        request = SweepRequest.of(form)
        home, store = _home_and_store()
        if resumed := _resume(home, store, request.sweep_id):
            return resumed
        source = request.source()
        from_form = not request.is_only(scheduled)
        return _plan(home, store, source, replace(request.overrides(), from_form=from_form))


def plan_experiment(experiment: str, overrides: Overrides) -> str:
    """Return the sweep to run, of an experiment that the operator of this machine names.

    Args:
        experiment: a name of the catalogue, or a file, which may load code and run commands.
        overrides: values that replace the experiment's own.

    Returns:
        As `plan_sweep`.

    Raises:
        InputError: as `plan_sweep`.
    """
    begin_step("plan")
    with report_failure("plan"):
        home, store = _home_and_store()
        return _resume(home, store, None) or _plan(home, store, experiment, overrides)


def _home_and_store() -> tuple[Home, Location | None]:
    """Return where sweeps are planned and published, once MLflow's server was asked.

    Raises:
        InputError: as `plan_sweep`.
    """
    from ackbench.experiments.orchestration.tracking.server_access import check_server

    home = Home.from_environment()
    check_server(home, _LOG.warning)
    return home, published.store_of_environment()


def _resume(home: Home, store: Location | None, named: str | None) -> str | None:
    """Let the missing trials of a sweep run, and return it; `None`: a new one is to be planned.

    Args:
        home: of the sweep.
        store: of this host.
        named: the sweep that the request names; `None`: the one that this DAG run has planned.

    Raises:
        InputError: as `plan_sweep`.
    """
    hosts = task_hosts()
    resumed = named or _planned_before(home, store)
    if not resumed:
        return None
    run = SweepRun(hosts.sweep_to_resume(home, resumed, store), home)
    with run.lock():
        for line in hosts.resume(run.sweep):
            _LOG.info("%s", line)
        run.publish(published.publish_plan)
    return hosts.name_of(run.sweep)


def _plan(home: Home, store: Location | None, source: str, overrides: Overrides) -> str:
    """Plan a sweep of an experiment, and return it.

    Raises:
        InputError: as `plan_sweep`.
    """
    from ackbench.experiments.orchestration.plan_needs import references_in
    from ackbench.experiments.planning.catalog.loading import load_experiment
    from ackbench.experiments.planning.new_sweep import new_sweep

    hosts = task_hosts()
    provide_references(references_in(load_experiment(source)))
    sweep = new_sweep(home, source, overrides, _LOG.info)
    run = SweepRun(sweep, home)
    with run.lock():
        if dag_run := own_dag_run():
            replace_file(sweep.root / DAG_RUN, dag_run)
        if store:
            hosts.publish_plan(run, store, dag_run)
    task_log.log_plan(sweep)
    return hosts.name_of(sweep)


def _planned_before(home: Home, store: Location | None) -> str | None:
    """Return the sweep that this DAG run has planned, if a person has cleared the task `plan`.

    Args:
        home: has the sweeps that this host has planned.
        store: of this host; has a note of the others.

    Raises:
        StorageError: the store cannot be read.
    """
    own = own_dag_run()
    if not is_cleared_task() or own is None:
        return None
    for sweep in list_sweeps(home):
        with suppress(LedgerError):
            if read_note(sweep.root / DAG_RUN) == own:
                return sweep.sweep_id
    return task_hosts().planned_by(store, own)


def provision(sweep_id: str) -> str:
    """Start the cluster that the next trial needs, if all tasks run on this machine.

    Returns:
        The cluster's folder; empty when no trial is left to run, or when each batch of trials
        starts a cluster of its own.

    Raises:
        InputError, HarnessError: the cluster did not start; only its logs are left.
    """
    from ackbench.experiments.orchestration import clusters
    from ackbench.experiments.orchestration.trials import next_trial
    from ackbench.experiments.trial.clients.process.fork_server import open_fork_server

    if not task_hosts().share_home:
        _LOG.info("each batch of trials starts and destroys its own cluster")
        return ""
    run = SweepRun.named(sweep_id)
    with run.step("provision", "starting the cluster"):
        provide_references_of(run.home, run.sweep)
        trial = next_trial(run.sweep)
        if trial is None:
            return ""
        with run.record_trial_failure(trial, stops_sweep=True), run.machine():
            several_hosts.record_machine(run.sweep)
            if own_dag_run() is None:
                # It starts while the cluster does. That of a task would end with the task.
                open_fork_server()
            cluster = clusters.provision(run.home, trial, task_hosts().cluster_grace_s())
            run.sweep.stop_reason.unlink(missing_ok=True)
            return str(cluster.folder)


def measure(sweep_id: str) -> None:
    """Compute the results from the ledgers of all complete trials, if there are any.

    A trial whose ledger is damaged is left out: it does not keep the others from being measured,
    and `verify` names it. On a Spark cluster, a published sweep is measured in its store: the
    executors cannot read this machine's folder.

    Raises:
        InputError, HarnessError: Spark failed.
    """
    from ackbench.experiments.results import spark_job

    run = SweepRun.named(sweep_id)
    sweep, home = run.sweep, run.home
    with run.step("measure", "measuring the ledgers with Spark"):
        if sweep.origin:
            if sweep.complete_ids():
                with run.machine():
                    uri = sweep.origin.uri
                    spark_job.measure_location(uri, home, sweep.sweep_id, skip_unfit=True)
            return
        several_hosts.fetch_trials(sweep)
        if not sweep.complete_ids():
            return
        store = published.published_location(sweep) if is_on_cluster() else None
        with run.machine():
            if store is None:
                spark_job.measure(sweep, home, skip_unfit=True)
                return
            published.publish_sweep(sweep, store)
            spark_job.measure_location(store.uri, home, sweep.sweep_id, skip_unfit=True)
            published.fetch_results(sweep, store)


def report(sweep_id: str) -> None:
    """Render the sweep's report, also if nothing was measured.

    Raises:
        InputError: a trial's manifest or a table of the results cannot be read.
        NotPublished, StorageError: the store did not accept the page.
    """
    from ackbench.experiments.pages.report import page
    from ackbench.experiments.results.history import warehouse
    from ackbench.experiments.results.history.shared import publish_history

    run = SweepRun.named(sweep_id)
    sweep = run.sweep
    with run.step("report", "rendering the report"):
        if sweep.origin:
            several_hosts.gather_hosts(sweep, sweep.origin)
        results = page.write_report(sweep, run.home)
        task_log.log_answer(sweep, results)
        files = warehouse.files_of(sweep, results)

        def publish(_: SweepFolder, target: Location) -> None:
            published.publish_page(sweep, target)
            with published.storage_errors():
                publish_history(sweep, files, target)

        with published.storage_errors():
            warehouse.write_files(files, warehouse.warehouse_of_home(run.home))
        if sweep.origin:
            publish(sweep, sweep.origin)
        elif error := run.publish(publish, again=True):
            raise NotPublished(
                f"the report is not published: run ackbench publish {sweep.sweep_id} ({error})"
            ) from error


def track(sweep_id: str) -> None:
    """Write the results to MLflow. Idempotent: existing runs are updated.

    Raises:
        HarnessError: MLflow refused, or is unreachable.
    """
    from ackbench.experiments.orchestration.tracking import store

    run = SweepRun.named(sweep_id)
    with run.step("track", "writing to MLflow", is_last=True):
        store.track(run.sweep, run.home)
        task_log.log_mlflow(run.sweep, run.home)


def destroy(sweep_id: str) -> None:
    """Destroy every cluster of the sweep, whichever process created it. Idempotent.

    Raises:
        SweepInUse: another command or DAG run uses them now.
        HarnessError: topics or groups of the sweep may be left in an external cluster.
    """
    from ackbench.experiments.orchestration import clusters

    if uri_of_several(sweep_id):
        _LOG.info("each batch of trials has destroyed its own cluster")
        return
    run = SweepRun.named(sweep_id)
    with run.lock(), report_failure("destroy"):
        run.sweep.report_activity("destroy", "destroying the cluster")
        provide_references_of(run.home, run.sweep)
        if left := clusters.destroy_all(run.home, sweep_id):
            raise left


def verify(sweep_id: str) -> None:
    """Publish what is not published yet, if the sweep has a store; then check for missing trials.

    Every planned trial has to be sealed or void, with a ledger that could be measured; the tasks'
    states do not show that.

    Raises:
        TrialFailed: trials are missing; the message names each with the reason.
        NotPublished: the store did not accept everything; the message has the remedy.
    """
    from ackbench.experiments.results.rows import read_results_manifest

    run = SweepRun.named(sweep_id)
    sweep = run.sweep
    activity = "publishing the sweep" if sweep.store.is_file() else "checking for missing trials"
    with run.step("verify", activity, is_last=True):
        not_published = run.publish(published.publish_sweep, again=True)
        locked = _locked_trials(sweep)
        missing = {
            trial_id: locked.get(trial_id) or _failure_reason(sweep, trial_id)
            for trial_id in sweep.pending()
        }
        manifest = read_results_manifest(sweep)
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


def finish(sweep_id: str) -> None:
    """Record that the sweep is complete, with its report and its runs."""
    run = SweepRun.named(sweep_id)
    with run.lock(is_last=True):
        run.sweep.report_activity("done")


def _locked_trials(sweep: SweepFolder) -> dict[str, str]:
    """Return the trials whose lock was left, each with a clause that says who locked it."""
    locks = read_locks(sweep.origin or published.locks_location(sweep))
    return {
        lock.trial_id: f"locked by {lock.describe()}, which did not finish it" for lock in locks
    }


def _failure_reason(sweep: SweepFolder, trial_id: str) -> str:
    reason = sweep.failure_reason(trial_id)
    if reason is not None:
        return one_line(reason)
    if stopped := several_hosts.stop_reason(sweep):
        return f"never run: {stopped}"
    return "never run"
