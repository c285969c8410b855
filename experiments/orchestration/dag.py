"""The DAG of one sweep, the same for a person's request and for a schedule. Nothing heavy is imported before a task runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import dag, get_current_context, task
from airflow.sdk.definitions.dag import DAG

from experiments.faults import FAULTS
from experiments.orchestration.environment import MACHINE_POOL
from experiments.orchestration.request import form
from experiments.planning.catalog import catalog_names

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

BEGUN_FIRST: Final = 10
"""Priority of trials and measuring over provisioning (1): a sweep that has its cluster goes on before another one starts its own."""


def sweep_dag(
    dag_id: str,
    *,
    experiment: str,
    doc: str,
    schedule: str | None = None,
    display_name: str | None = None,
) -> DAG:
    """Return the DAG that runs a sweep.

    plan -> turns, provision -> trial (one mapped task a trial, one at a time) -> measure -> report -> track -> verify; destroy is provision's teardown.
    A trial is never retried: a failed one that is run again until it passes is survivorship bias.

    Args:
        dag_id: its name in Airflow.
        experiment: what the trigger form has filled in, and what a schedule runs.
        doc: its page, Markdown.
        schedule: a cron expression (UTC), or `None` for requests only.
        display_name: what Airflow's page calls it.
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
        params=form(catalog_names(), tuple(FAULTS), experiment),
        default_args={
            "retries": 0,
            "owner": "ackbench",
            "weight_rule": "absolute",
        },  # by default, what has more to follow goes first
        tags=["ackbench", "scheduled" if schedule else "ad hoc"],
    )
    def sweep() -> None:
        sweep_id: Any = plan()
        provisioned: Any = provision(sweep_id)
        trials = trial.partial(sweep_id=sweep_id).expand(turn=turns(sweep_id))
        provisioned >> trials >> destroy(sweep_id).as_teardown(setups=provisioned)
        measured = measure(sweep_id)
        trials >> measured >> report(sweep_id) >> track(sweep_id) >> verify(sweep_id)

    return sweep()


@task
def plan(**context: Any) -> str:
    """Write the sweep's folder, or find the one that is named."""
    from experiments.orchestration import steps

    return steps.plan_sweep(context["params"])


@task
def turns(sweep_id: str) -> list[int]:
    """Count the trials that are to be run; Airflow maps over the return value of a task and nothing else."""
    from experiments.orchestration import steps

    return steps.turns(sweep_id)


@task(pool=MACHINE_POOL)
def provision(sweep_id: str) -> str:
    """Start the cluster."""
    from experiments.orchestration import steps

    return steps.provision(sweep_id)


@task(
    pool=MACHINE_POOL,
    max_active_tis_per_dag=1,
    map_index_template="{{ trial }}",
    priority_weight=BEGUN_FIRST,
)
def trial(sweep_id: str, turn: int) -> str:
    """Run the trial whose turn it is."""
    from experiments.orchestration import steps

    del turn  # which trial a turn takes is `next_trial`'s to say
    return steps.take_turn(sweep_id, name_it)


@task(pool=MACHINE_POOL, trigger_rule="all_done", priority_weight=BEGUN_FIRST)
def measure(sweep_id: str) -> None:
    """Make the results from the ledgers, also when a trial failed."""
    from experiments.orchestration import steps

    steps.measure(sweep_id)


@task
def report(sweep_id: str) -> None:
    """Make the sweep's page."""
    from experiments.orchestration import steps

    steps.report(sweep_id)


@task
def track(sweep_id: str) -> None:
    """Bring the results into MLflow."""
    from experiments.orchestration import steps

    steps.track(sweep_id)


@task
def verify(sweep_id: str) -> None:
    """Fail when a planned trial is missing, and say which."""
    from experiments.orchestration import steps

    steps.verify(sweep_id)


@task
def destroy(sweep_id: str) -> None:
    """Take the cluster down."""
    from experiments.orchestration import steps

    steps.destroy(sweep_id)


def name_it(label: str) -> None:
    """Give the mapped task the name of its trial, for Airflow's page."""
    context: Context = get_current_context()
    context["trial"] = label  # type: ignore[typeddict-unknown-key]
