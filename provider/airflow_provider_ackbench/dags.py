"""A DAG with one sweep."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from airflow.sdk import DAG

from airflow_provider_ackbench.operators import AckbenchSweepOperator


def sweep_dag(
    dag_id: str,
    experiment: str,
    *,
    schedule: Any = None,
    start_date: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc),
    dag: dict[str, Any] | None = None,
    **operator: Any,
) -> DAG:
    """Return a DAG that runs an experiment; one sweep at a time, and none for the past.

    Args:
        dag_id: of the DAG.
        experiment: as of the operator.
        schedule: as of a DAG; `None`: when it is triggered.
        start_date: as of a DAG.
        dag: further arguments of the DAG.
        operator: further arguments of `AckbenchSweepOperator`.
    """
    settings: dict[str, Any] = {"catchup": False, "max_active_runs": 1, "tags": ["ackbench"]}
    with DAG(dag_id, schedule=schedule, start_date=start_date, **settings | (dag or {})) as made:
        AckbenchSweepOperator(task_id="sweep", experiment=experiment, **operator)
    return made
