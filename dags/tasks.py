"""The DAG of one sweep, for requests and for schedules.

Heavy modules are imported inside the tasks: a scheduler parses the DAG files again and again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from airflow.sdk import DAG, Asset, BaseOperatorLink, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from ackbench.experiments.messages.log_records import keep_log_records_visible
from ackbench.experiments.orchestration.request import offered_files, trigger_form
from ackbench.experiments.planning.catalog import catalog_names
from ackbench.experiments.trial.faults import FAULTS
from ackbench.infra.airflow.environment import MACHINE_POOL
from ackbench.infra.errors import AckbenchError, HarnessError, says_all

if TYPE_CHECKING:
    from airflow.sdk import Context

STARTED_SWEEP_PRIORITY: Final = 10
"""Priority of `trial` and `measure`; `provision` has 1.

So a sweep that has its cluster finishes before another one starts its own.
"""
RETRIES: Final = 3
"""Of the steps that may be repeated: listing, starting and destroying the cluster, and results."""
RETRY_DELAY: Final = timedelta(seconds=30)
"""At least so long before the first retry, and twice as long before each further one."""
STEP_LIMIT: Final = timedelta(hours=2)
"""The limit of a step whose own is not in the plan."""
RUN_LIMIT: Final = timedelta(days=7)
"""The limit of a scheduled run, which keeps the next one waiting."""
RUN_TYPES: Final[Any] = ("scheduled", "manual", "asset_triggered", "operator_triggered")
"""All but backfills: each run of one would test the Kafka of today."""
REASON_KEY: Final = "reason"
"""The XCom in which `plan` leaves why it has failed, for `alert`."""
_LOG: Final = logging.getLogger(__name__)


def finished_sweeps(dag_id: str) -> Asset:
    """Return the asset that a DAG's complete sweeps update, for the DAGs that follow them."""
    return Asset(name=f"{dag_id}_finished", uri=f"ackbench://{dag_id}", group="ackbench")


class ReportLink(BaseOperatorLink):
    """A link to the sweep's report: on the site, or else in MLflow, or else in its store.

    Airflow calls `get_link` in the worker, after the task, and keeps the address. An empty one is
    no link.
    """

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: object) -> str:  # noqa: ARG002 - Airflow's names
        """Return the address for the task of an operator."""
        from ackbench.experiments.orchestration import sweep_links

        return sweep_links.link_of(operator.op_args[0], sweep_links.report_address)


class MlflowLink(BaseOperatorLink):
    """A link to the charts of the sweep's trials in MLflow, side by side."""

    name = "Runs in MLflow"

    def get_link(self, operator: Any, *, ti_key: object) -> str:  # noqa: ARG002 - Airflow's names
        """Return the address for the task of an operator."""
        from ackbench.experiments.orchestration import sweep_links

        return sweep_links.link_of(operator.op_args[0], sweep_links.mlflow_address)


def sweep_dag(
    dag_id: str,
    *,
    experiment: str,
    doc: str,
    schedule: str | None = None,
    display_name: str | None = None,
) -> DAG:
    """Return the DAG that runs a sweep.

    `docs/running.md`, The DAG, has the order of the tasks. Publishing, missing trials and alerts
    do not wait for the report or MLflow. `destroy` is the teardown of `provision`; `alert` is one
    too, so that it runs after failures and does not decide whether the run has failed. `outcome`
    fails a run that was marked as failed: a run with teardowns would end as a success. The pool has
    as many slots as there are hosts, so that each runs one trial, or batch, at a time.

    A trial is never retried: repeating a failed one until it passes is survivorship bias. Steps
    that may be repeated are.

    Args:
        dag_id: the DAG's id.
        experiment: the default of the trigger form; what a schedule runs.
        doc: the DAG's documentation, Markdown.
        schedule: a cron expression (UTC), or `None` for requests only.
        display_name: the DAG's name on Airflow's page.
    """

    @dag(
        dag_id=dag_id,
        dag_display_name=display_name or dag_id,
        doc_md=doc,
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=RUN_LIMIT if schedule else None,
        allowed_run_types=RUN_TYPES,
        is_paused_upon_creation=schedule is not None,
        params=trigger_form((*catalog_names(), *offered_files()), tuple(FAULTS), experiment),
        default_args={
            "retries": 0,
            "retry_delay": RETRY_DELAY,
            "retry_exponential_backoff": 2,
            "execution_timeout": STEP_LIMIT,
            "owner": "ackbench",
            # Airflow's default, `downstream`, would start `provision` before `trial`.
            "weight_rule": "absolute",
            "on_failure_callback": report_killed_task,
            "on_retry_callback": report_killed_task,
        },
        tags=["ackbench", experiment, "scheduled"] if schedule else ["ackbench", "ad hoc"],
    )
    def sweep() -> None:
        sweep_id: Any = plan(experiment if schedule else None)
        provisioned: Any = provision.override(retries=RETRIES)(sweep_id=sweep_id)
        listed = list_trials.override(retries=RETRIES)(sweep_id)
        trials = trial.partial(sweep_id=sweep_id).expand(planned=listed)
        destroyed = destroy.override(retries=RETRIES)(sweep_id)
        provisioned >> trials >> destroyed
        destroyed.as_teardown(setups=provisioned, on_failure_fail_dagrun=True)
        measured: Any = measure.override(retries=RETRIES)(sweep_id=sweep_id)
        tracked: Any = track.override(retries=RETRIES)(sweep_id)
        tracked.operator.operator_extra_links = (ReportLink(), MlflowLink())
        verified: Any = verify(sweep_id=sweep_id)
        finished: Any = finish.override(retries=RETRIES, outlets=[finished_sweeps(dag_id)])(
            sweep_id
        )
        trials >> measured >> report.override(retries=RETRIES)(sweep_id) >> tracked
        stopped = outcome().as_teardown(on_failure_fail_dagrun=True)
        measured >> verified >> alert(sweep_id).as_teardown() >> stopped
        [verified, tracked] >> finished

    return sweep()


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def failing_in_one_line(run: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Return a task whose expected errors are one line of its log, not a traceback.

    Airflow logs the traceback of an exception, and one line for `SystemExit`; either fails the
    task. An error with another cause than an error of ackbench's keeps its traceback.
    """

    @wraps(run)
    def reporting(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        keep_log_records_visible()
        try:
            return run(*args, **kwargs)
        except AckbenchError as error:
            if not says_all(error):
                raise
            _LOG.error("%s", error)
            raise SystemExit(error.exit_code) from error
        except KeyboardInterrupt as interrupt:
            _LOG.error("interrupted (%s): the cluster was destroyed; resume the sweep", interrupt)
            raise SystemExit(1) from interrupt

    return reporting


def limit_by_plan(context: Context) -> None:
    """Limit the time of a task by the plan of its sweep, which the parsed DAG does not know."""
    from ackbench.experiments.orchestration import steps

    operator: Any = context["task"]
    limit_s = steps.limit_s(operator.task_id, operator.op_kwargs["sweep_id"])
    if limit_s is not None:
        operator.execution_timeout = timedelta(seconds=limit_s)


@task
@failing_in_one_line
def plan(scheduled: str | None, **context: Any) -> str:
    """Plan the sweep and write its folder, or find the sweep to resume.

    Args:
        scheduled: the experiment that the DAG's schedule runs.
        context: of the task.
    """
    from ackbench.experiments.orchestration import steps

    try:
        return steps.plan_sweep(context["params"], scheduled)
    except Exception as error:
        context["ti"].xcom_push(REASON_KEY, str(error))
        raise


@task
@failing_in_one_line
def list_trials(sweep_id: str) -> list[dict[str, Any]]:
    """List the trials or batches to run: Airflow maps only over the return value of a task."""
    from ackbench.experiments.orchestration import batches

    return batches.list_batches(sweep_id)


@task(pool=MACHINE_POOL, pre_execute=limit_by_plan)
@failing_in_one_line
def provision(sweep_id: str) -> str:
    """Start the Kafka cluster; on several hosts each batch starts its own."""
    from ackbench.experiments.orchestration import steps

    return steps.provision(sweep_id)


@task(
    pool=MACHINE_POOL,
    pre_execute=limit_by_plan,
    # The planned trial when the task starts, then the one that it runs; or the batch.
    map_index_template="{{ trial | default(task.op_kwargs['planned']['label']) }}",
    priority_weight=STARTED_SWEEP_PRIORITY,
)
@failing_in_one_line
def trial(sweep_id: str, planned: dict[str, Any]) -> str:
    """Run the next trial of the plan, or a batch of trials on a cluster of its own."""
    from ackbench.experiments.orchestration import batches
    from ackbench.experiments.sweep.trial_lock import TASK_INDEX

    os.environ[TASK_INDEX] = str(get_current_context()["ti"].map_index)
    ran = batches.run_planned(sweep_id, planned, set_task_label)
    if not ran:
        raise AirflowSkipException("no trial was run: all are complete or locked")
    return ran


@task(
    pool=MACHINE_POOL,
    pre_execute=limit_by_plan,
    trigger_rule="all_done",
    priority_weight=STARTED_SWEEP_PRIORITY,
)
@failing_in_one_line
def measure(sweep_id: str | None) -> None:
    """Compute the results from the ledgers with Spark, also if a trial failed."""
    from ackbench.experiments.orchestration import steps

    if sweep_id is None:
        raise AirflowSkipException("nothing to measure: the request was refused")
    steps.measure(sweep_id)


@task
@failing_in_one_line
def report(sweep_id: str) -> None:
    """Render the sweep's report."""
    from ackbench.experiments.orchestration import steps

    steps.report(sweep_id)


@task
@failing_in_one_line
def track(sweep_id: str) -> None:
    """Write the results to MLflow."""
    from ackbench.experiments.orchestration import steps

    steps.track(sweep_id)


@task(trigger_rule="all_done", pre_execute=limit_by_plan)
@failing_in_one_line
def verify(sweep_id: str | None) -> None:
    """Publish the sweep, if it has a store; fail if a planned trial is missing, and name it."""
    from ackbench.experiments.orchestration import steps

    if sweep_id is None:
        raise AirflowSkipException("nothing to verify: the request was refused")
    steps.verify(sweep_id)


@task
@failing_in_one_line
def finish(sweep_id: str) -> None:
    """Record that the sweep is complete; this is an event of the task's asset."""
    from ackbench.experiments.orchestration import steps, sweep_links

    steps.finish(sweep_id)
    context = get_current_context()
    for asset in context["outlets"]:
        context["outlet_events"][asset].extra.update(sweep_links.asset_extra(sweep_id))


@task
@failing_in_one_line
def alert(sweep_id: str | None) -> None:
    """Report the sweep if a condition of the experiment's `alert_on` holds."""
    from ackbench.experiments.orchestration import alerts

    context = get_current_context()
    if sweep_id is None:
        reason = context["ti"].xcom_pull(task_ids="plan", key=REASON_KEY)
        alerts.alert_of_plan(context["params"], reason, context)
    else:
        alerts.alert(sweep_id, context)


@task
@failing_in_one_line
def outcome() -> None:
    """Fail if the run was marked as failed: Airflow skips its tasks then, and counts them as done.

    Otherwise `finish` has not been skipped when `alert` ends, unless `plan` has failed.
    """
    ti: Any = get_current_context()["ti"]
    states = ti.get_task_states(ti.dag_id, task_ids=["plan", "finish"], run_ids=[ti.run_id])
    found = states.get(ti.run_id, {})
    if "skipped" in found.values() and found.get("plan") != "failed":
        raise HarnessError("the run was marked as failed; clear it to go on with its sweep")


@task
@failing_in_one_line
def destroy(sweep_id: str) -> None:
    """Destroy the Kafka cluster."""
    from ackbench.experiments.orchestration import steps

    steps.destroy(sweep_id)


def report_killed_task(context: Context) -> None:
    """Say why Airflow has ended a task whose process was killed or never started."""
    from ackbench.experiments.orchestration import killed_tasks

    killed_tasks.report_killed_task(context)


def set_task_label(label: str) -> None:
    """Show the trial's label on Airflow's page instead of the mapped task's index."""
    context: Context = get_current_context()
    context["trial"] = label  # type: ignore[typeddict-unknown-key]
