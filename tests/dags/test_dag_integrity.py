"""The DAGs as a scheduler sees them: they parse, quickly, and their forms say what the tasks read."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from experiments.faults import FAULTS
from experiments.orchestration.environment import DAGS_FOLDER, MACHINE_POOL
from experiments.orchestration.request import SweepRequest
from experiments.planning.catalog import catalog_experiments, catalog_names
from infra.machine.home import Home

HEAVY = ("mlflow", "pyspark", "pandas", "numba", "confluent_kafka", "scipy", "matplotlib")
SCHEDULED = [experiment.name for experiment in catalog_experiments() if experiment.schedule]
IDS = ["ackbench_sweep", *(f"ackbench_{name}" for name in SCHEDULED)]

PROBE = """
import json, runpy, sys, time
begun = time.process_time(); import airflow.sdk; airflow_s = time.process_time() - begun
begun = time.process_time(); [runpy.run_path(path) for path in sys.argv[1:]]; ours_s = time.process_time() - begun
print(json.dumps({"airflow_s": airflow_s, "ours_s": ours_s, "modules": sorted(sys.modules)}))
"""


def test_no_dag_file_has_an_import_error(dags: Any) -> None:
    """A DAG that does not parse is a DAG that nobody sees."""
    assert dags.import_errors == {}


def test_there_is_one_dag_for_requests_and_one_for_each_schedule(dags: Any) -> None:
    """No entry with a schedule is forgotten, and nothing else is there."""
    assert sorted(dags.dag_ids) == sorted(IDS)


@pytest.mark.parametrize("dag_id", IDS)
def test_every_dag_has_the_same_tasks(dags: Any, dag_id: str) -> None:
    """A scheduled sweep is no other sweep."""
    assert sorted(dags.get_dag(dag_id).task_ids) == [
        "destroy",
        "measure",
        "plan",
        "provision",
        "report",
        "track",
        "trial",
        "list_trials",
        "verify",
    ]


@pytest.mark.parametrize("dag_id", IDS)
def test_no_task_is_retried(dags: Any, dag_id: str) -> None:
    """A trial that is run until it passes is survivorship bias."""
    assert {task.retries for task in dags.get_dag(dag_id).tasks} == {0}


@pytest.mark.parametrize("dag_id", IDS)
def test_a_sweep_that_has_begun_goes_before_one_that_has_not(dags: Any, dag_id: str) -> None:
    """Provision, trial and measure wait in one pool of one slot, by weight; Airflow's own rule would let provision go first."""
    tasks = {task.task_id: task for task in dags.get_dag(dag_id).tasks}
    assert {tasks[name].pool for name in ("provision", "trial", "measure")} == {MACHINE_POOL}
    assert {str(task.weight_rule) for task in tasks.values()} == {"absolute"}
    assert (
        tasks["provision"].priority_weight
        < tasks["trial"].priority_weight
        == tasks["measure"].priority_weight
    )


@pytest.mark.parametrize("dag_id", IDS)
def test_nothing_is_caught_up_and_one_run_goes_at_a_time(dags: Any, dag_id: str) -> None:
    """A machine that was off for a week does not run a week's sweeps."""
    dag = dags.get_dag(dag_id)
    assert (dag.catchup, dag.max_active_runs) == (False, 1)


@pytest.mark.parametrize("dag_id", IDS)
def test_a_form_as_it_stands_is_a_request(dags: Any, dag_id: str) -> None:
    """Every field has a default, a title and a description, and the request knows it."""
    params = dags.get_dag(dag_id).params
    request = SweepRequest.of(params.dump())
    assert request.experiment == (
        "quick" if dag_id == "ackbench_sweep" else dag_id.removeprefix("ackbench_")
    )
    assert set(params) == set(SweepRequest.model_fields)
    assert all(
        params.get_param(name).schema.get("title") and params.get_param(name).description
        for name in params
    )


def test_the_form_offers_the_catalogue_and_every_fault(dags: Any) -> None:
    """What can be asked for can be chosen."""
    params = dags.get_dag("ackbench_sweep").params
    assert params.get_param("experiment").schema["examples"] == list(catalog_names())
    assert params.get_param("fault").schema["examples"] == list(FAULTS)


def test_a_dag_file_imports_nothing_heavy_and_costs_less_than_airflow_itself(airflow: Home) -> None:
    """A scheduler parses every file again and again."""
    del airflow
    files = [str(path) for path in sorted(DAGS_FOLDER.glob("*.py"))]
    seen = json.loads(
        subprocess.run(
            [sys.executable, "-c", PROBE, *files], capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
    )
    assert [name for name in HEAVY if name in seen["modules"]] == []
    assert seen["ours_s"] < seen["airflow_s"]
