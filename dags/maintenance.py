"""The DAG `ackbench_prune`: deletes old sweeps every day, as `ackbench prune --apply` does.

The limits are its parameters. It is paused until it is unpaused on Airflow's page.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Param, dag, task

from experiments.orchestration.dag import failing_in_one_line
from experiments.orchestration.environment import MACHINE_POOL


@dag(
    dag_id="ackbench_prune",
    dag_display_name="ackbench prune",
    doc_md=__doc__,
    schedule="0 12 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    params={
        "keep": Param(
            30, type="integer", minimum=1, description="The newest sweeps of each experiment stay."
        ),
        "older_than": Param(
            "90d", type="string", description="Others are pruned if they are older: 12h, 90d, 8w."
        ),
        "max_bytes": Param(
            None,
            type=["string", "null"],
            description="Then the oldest others, until the home takes no more, such as 50GB.",
        ),
    },
    default_args={"retries": 0, "owner": "ackbench"},
    tags=["ackbench", "maintenance"],
)
def maintenance() -> None:
    """Prune in the machine's pool: deleting gigabytes beside a trial would slow its disk down."""

    @task(pool=MACHINE_POOL)
    @failing_in_one_line
    def prune(**context: Any) -> None:
        """Delete what the parameters allow; pinned and running sweeps stay."""
        from experiments.commands.history.prune import prune_with
        from infra.machine.home import Home

        form = context["params"]
        prune_with(Home.from_environment(), form["keep"], form["older_than"], form["max_bytes"])

    prune()


maintenance()
