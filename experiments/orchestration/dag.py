"""The DAG of one sweep, for requests and for schedules.

Heavy modules are imported inside the tasks: a scheduler parses the DAG files again and again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import dag, get_current_context, task
from airflow.sdk.definitions.dag import DAG

from experiments.faults import FAULTS
from experiments.orchestration.environment import MACHINE_POOL
from experiments.orchestration.request import offered_files, trigger_form
from experiments.planning.catalog import catalog_names

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

STARTED_SWEEP_PRIORITY: Final = 10
"""Priority of `trial` and `measure`; `provision` has 1.

So a sweep that has its cluster finishes before another one starts its own.
"""


def sweep_dag(
    dag_id: str,
    *,
    experiment: str,
    doc: str,
    schedule: str | None = None,
    display_name: str | None = None,
) -> DAG:
    """Return the DAG that runs a sweep.

    plan -> list_trials, provision -> trial (one mapped task per trial, one at a time) -> measure
    -> report -> track -> verify. `destroy` is the teardown of `provision`.

    A trial is never retried: repeating a failed one until it passes is survivorship bias.

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
        is_paused_upon_creation=schedule is not None,
        params=trigger_form((*catalog_names(), *offered_files()), tuple(FAULTS), experiment),
        default_args={
            "retries": 0,
            "owner": "ackbench",
            # Airflow's default, `downstream`, would start `provision` before `trial`.
            "weight_rule": "absolute",
            "on_failure_callback": leave_interrupted_run,
        },
        tags=["ackbench", "scheduled" if schedule else "ad hoc"],
    )
    def sweep() -> None:
        sweep_id: Any = plan()
        provisioned: Any = provision(sweep_id)
        trials = trial.partial(sweep_id=sweep_id).expand(index=list_trials(sweep_id))
        provisioned >> trials >> destroy(sweep_id).as_teardown(setups=provisioned)
        measured = measure(sweep_id)
        trials >> measured >> report(sweep_id) >> track(sweep_id) >> verify(sweep_id)

    return sweep()


@task
def plan(**context: Any) -> str:
    """Plan the sweep and write its folder, or find the sweep to resume."""
    from experiments.orchestration import steps

    return steps.plan_sweep(context["params"])


@task
def list_trials(sweep_id: str) -> list[int]:
    """List the trials to run: Airflow maps only over the return value of a task."""
    from experiments.orchestration import steps

    return steps.trial_indexes(sweep_id)


@task(pool=MACHINE_POOL)
def provision(sweep_id: str) -> str:
    """Start the Kafka cluster."""
    from experiments.orchestration import steps

    return steps.provision(sweep_id)


@task(
    pool=MACHINE_POOL,
    max_active_tis_per_dag=1,
    map_index_template="{{ trial }}",
    priority_weight=STARTED_SWEEP_PRIORITY,
)
def trial(sweep_id: str, index: int) -> str:
    """Run the next trial of the plan."""
    from experiments.orchestration import steps

    del index  # `next_trial` decides which trial runs
    return steps.run_next_trial(sweep_id, set_task_label)


@task(pool=MACHINE_POOL, trigger_rule="all_done", priority_weight=STARTED_SWEEP_PRIORITY)
def measure(sweep_id: str) -> None:
    """Compute the results from the ledgers with Spark, also if a trial failed."""
    from experiments.orchestration import steps

    steps.measure(sweep_id)


@task
def report(sweep_id: str) -> None:
    """Render the sweep's report."""
    from experiments.orchestration import steps

    steps.report(sweep_id)


@task
def track(sweep_id: str) -> None:
    """Write the results to MLflow."""
    from experiments.orchestration import steps

    steps.track(sweep_id)


@task
def verify(sweep_id: str) -> None:
    """Publish the sweep, if it has a store; fail if a planned trial is missing, and name it."""
    from experiments.orchestration import steps

    steps.verify(sweep_id)


@task
def destroy(sweep_id: str) -> None:
    """Destroy the Kafka cluster."""
    from experiments.orchestration import steps

    steps.destroy(sweep_id)


def leave_interrupted_run(_context: Context) -> None:
    """End an embedded run whose task was interrupted, with all tasks that have not started.

    `dag.test()` turns an interrupt into the failure of one task and starts the next one, hundreds
    in a long sweep. It lets a `KeyboardInterrupt` of a callback pass.

    Raises:
        KeyboardInterrupt: the run is embedded and was interrupted.
    """
    from experiments.orchestration import steps

    if steps.RUN_STATE.stopping:
        raise KeyboardInterrupt


def set_task_label(label: str) -> None:
    """Show the trial's label on Airflow's page instead of the mapped task's index."""
    context: Context = get_current_context()
    context["trial"] = label  # type: ignore[typeddict-unknown-key]
