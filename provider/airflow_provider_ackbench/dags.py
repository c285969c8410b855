"""A DAG with one sweep: as one task, or with a task per step and trial."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, get_current_context, task

from airflow_provider_ackbench.base import AirflowFailException
from airflow_provider_ackbench.lineage import finished_sweeps
from airflow_provider_ackbench.operators import AckbenchStepOperator, AckbenchSweepOperator

MACHINE_POOL: Final = "ackbench_machine"
"""A pool with one slot per host, which runs one trial, or batch, at a time."""
STARTED_SWEEP_PRIORITY: Final = 10
"""Of `trial` and `measure`, so that a sweep that has its cluster precedes one that has none."""
RETRIES: Final = 3
"""Of the steps that may be repeated; never of a trial, as that would be survivorship bias."""
STEP_DEFAULTS: Final[Mapping[str, Any]] = {
    "retries": 0,
    "retry_delay": timedelta(seconds=30),
    # A factor; before Airflow 3.2, whether the delay is doubled.
    "retry_exponential_backoff": True if BaseOperator.retry_exponential_backoff is False else 2,
    "execution_timeout": timedelta(hours=2),
    "weight_rule": "absolute",
}
_START: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)


def sweep_dag(
    dag_id: str,
    experiment: str,
    *,
    schedule: Any = None,
    start_date: datetime = _START,
    dag: dict[str, Any] | None = None,
    **operator: Any,
) -> DAG:
    """Return a DAG that runs an experiment as one task; one sweep at a time, none for the past.

    Args:
        dag_id: of the DAG.
        experiment: as of the operator.
        schedule: as of a DAG; `None`: when it is triggered.
        start_date: as of a DAG.
        dag: further arguments of the DAG.
        operator: further arguments of `AckbenchSweepOperator`.
    """
    with _dag(dag_id, schedule, start_date, dag) as made:
        arguments = {"outlets": [finished_sweeps(dag_id)], **operator}
        AckbenchSweepOperator(task_id="sweep", experiment=experiment, **arguments)
    return made


def step_dag(
    dag_id: str,
    experiment: str,
    *,
    schedule: Any = None,
    start_date: datetime = _START,
    dag: dict[str, Any] | None = None,
    request: dict[str, Any] | None = None,
    pool: str = MACHINE_POOL,
    **operator: Any,
) -> DAG:
    """Return a DAG that runs an experiment with a task per step, and one per trial.

    Its tasks and their order are those of ackbench's own DAG. Publishing, missing trials and
    alerts do not wait for the report or MLflow. `destroy` is the teardown of `provision`; `alert`
    is one too, so that it runs after failures and does not decide whether the run has failed.
    `outcome` fails a run that was marked as failed: one with teardowns would end as a success.

    Args:
        dag_id: of the DAG.
        experiment: as of the operator.
        schedule: as of a DAG; `None`: when it is triggered.
        start_date: as of a DAG.
        dag: further arguments of the DAG.
        request: further arguments of the task `plan`: `axes`, `expect`, `repeats`.
        pool: of the tasks that need a machine; it has one slot per host.
        operator: further arguments of each `AckbenchStepOperator`.
    """
    defaults = {**STEP_DEFAULTS, **((dag or {}).get("default_args") or {})}
    machine = {"pool": pool}
    first = {"priority_weight": STARTED_SWEEP_PRIORITY}

    def step(name: str, **arguments: Any) -> Any:
        return AckbenchStepOperator(task_id=name, step=name, **operator, **arguments)

    with _dag(dag_id, schedule, start_date, {**(dag or {}), "default_args": defaults}) as made:
        sweep = step("plan", experiment=experiment, **(request or {})).output
        provision = step("provision", sweep=sweep, retries=RETRIES, **machine)
        listed = step("list_trials", sweep=sweep, retries=RETRIES).output
        trials = AckbenchStepOperator.partial(
            task_id="trial",
            step="trial",
            sweep=sweep,
            map_index_template="{{ trial | default(task.planned['label']) }}",
            **operator,
            **machine,
            **first,
        ).expand(planned=listed)
        destroy = step("destroy", sweep=sweep, retries=RETRIES)
        provision >> trials >> destroy
        destroy.as_teardown(setups=provision, on_failure_fail_dagrun=True)
        measure = step(
            "measure", sweep=sweep, retries=RETRIES, trigger_rule="all_done", **machine, **first
        )
        report = step("report", sweep=sweep, retries=RETRIES)
        track = step("track", sweep=sweep, retries=RETRIES)
        verify = step("verify", sweep=sweep, trigger_rule="all_done")
        outlets = [finished_sweeps(dag_id)]
        finish = step("finish", sweep=sweep, retries=RETRIES, outlets=outlets)
        trials >> measure >> report >> track
        stopped = outcome().as_teardown(on_failure_fail_dagrun=True)
        alert = step("alert", sweep=sweep, experiment=experiment)
        measure >> verify >> alert.as_teardown() >> stopped
        [verify, track] >> finish
    return made


@task
def outcome() -> None:
    """Fail if the run was marked as failed: Airflow skips its tasks then, and counts them as done.

    Otherwise `finish` has not been skipped when `alert` ends, unless `plan` has failed.
    """
    ti: Any = get_current_context()["ti"]
    states = ti.get_task_states(ti.dag_id, task_ids=["plan", "finish"], run_ids=[ti.run_id])
    found = states.get(ti.run_id, {})
    if "skipped" in found.values() and found.get("plan") != "failed":
        raise AirflowFailException("the run was marked as failed; clear it to go on with its sweep")


def _dag(dag_id: str, schedule: Any, start_date: datetime, more: dict[str, Any] | None) -> DAG:
    settings: dict[str, Any] = {"catchup": False, "max_active_runs": 1, "tags": ["ackbench"]}
    return DAG(dag_id, schedule=schedule, start_date=start_date, **settings | (more or {}))
