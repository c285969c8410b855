"""The DAG `ackbench_prune`: deletes old sweeps every day, as `ackbench prune --apply` does.

The limits are those of the machine, `ACKBENCH_PRUNE`, such as `keep=30,older-than=90d`: without
them nothing is deleted, and a request cannot change them. It is paused until it is unpaused on
Airflow's page.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task

from ackbench.dags.tasks import RUN_TYPES, failing_in_one_line
from ackbench.infra.airflow.environment import MACHINE_POOL


@dag(
    dag_id="ackbench_prune",
    dag_display_name="ackbench prune",
    doc_md=__doc__,
    schedule="0 12 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    allowed_run_types=RUN_TYPES,
    is_paused_upon_creation=True,
    default_args={"retries": 0, "owner": "ackbench", "execution_timeout": timedelta(days=1)},
    tags=["ackbench", "maintenance"],
)
def maintenance() -> None:
    """Prune in the machine's pool: deleting gigabytes beside a trial would slow its disk down."""

    @task(pool=MACHINE_POOL)
    @failing_in_one_line
    def prune(**context: Any) -> None:
        """Delete what the machine's limits allow; pinned and running sweeps stay."""
        from ackbench.experiments.commands.history.prune import prune_by_request
        from ackbench.infra.machine.home import Home

        prune_by_request(Home.from_environment(), context["params"])

    prune()


maintenance()
