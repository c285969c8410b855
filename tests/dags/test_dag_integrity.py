"""The DAG files parse quickly, and the trigger form has the fields that the tasks read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ackbench.experiments.commands.machine.step import STEPS
from ackbench.experiments.orchestration import alerts, batches, runner, steps
from ackbench.experiments.orchestration.request import SweepRequest
from ackbench.experiments.planning.catalog import as_markdown, catalog_names, stored_extents
from ackbench.experiments.planning.catalog.loading import catalog_experiments
from ackbench.experiments.trial.faults import FAULTS
from ackbench.infra.airflow.environment import DAGS_FOLDER, MACHINE_POOL
from ackbench.infra.machine.home import Home

HEAVY = ("mlflow", "pyspark", "pandas", "numba", "confluent_kafka", "scipy", "matplotlib")
SCHEDULED = [experiment.name for experiment in catalog_experiments() if experiment.schedule]
IDS = ["ackbench_sweep", *(f"ackbench_{name}" for name in SCHEDULED)]

PROBE = """
import json, runpy, sys, time
begin = time.process_time()
import airflow.sdk
airflow_s = time.process_time() - begin
begin = time.process_time()
for path in sys.argv[1:]:
    runpy.run_path(path)
dags_s = time.process_time() - begin
print(json.dumps({"airflow_s": airflow_s, "dags_s": dags_s, "modules": sorted(sys.modules)}))
"""


def test_no_dag_file_has_an_import_error(dags: Any) -> None:
    """Airflow does not show a DAG that it cannot parse."""
    assert dags.import_errors == {}


def test_there_is_one_dag_for_requests_and_one_per_schedule(dags: Any) -> None:
    """Every scheduled experiment has a DAG; the only other one prunes old sweeps."""
    assert sorted(dags.dag_ids) == sorted([*IDS, "ackbench_prune"])


def test_pruning_is_scheduled_paused_and_waits_for_the_machine(dags: Any) -> None:
    """Nothing is deleted before a user unpauses it, and nothing beside a trial."""
    dag = dags.get_dag("ackbench_prune")
    (task,) = dag.tasks
    assert dag.is_paused_upon_creation
    assert (dag.catchup, dag.max_active_runs, task.retries) == (False, 1, 0)
    assert task.pool == MACHINE_POOL
    assert dag.params.dump() == {}


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_scheduled_dag_is_listed_with_the_name_of_its_experiment(dags: Any, name: str) -> None:
    """In Airflow's list, which has no other column for it."""
    dag = dags.get_dag(f"ackbench_{name}")

    assert name in dag.dag_display_name
    assert {"ackbench", "scheduled", name} <= dag.tags


@pytest.mark.parametrize("dag_id", IDS)
def test_every_dag_has_the_same_tasks(dags: Any, dag_id: str) -> None:
    """A scheduled sweep runs like a requested one."""
    assert sorted(dags.get_dag(dag_id).task_ids) == [
        "alert",
        "destroy",
        "finish",
        "list_trials",
        "measure",
        "outcome",
        "plan",
        "provision",
        "report",
        "track",
        "trial",
        "verify",
    ]


def test_a_run_without_airflow_has_the_steps_of_the_dag_in_an_order_of_it(
    dags: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is added to one of them is missed here in the other.

    `outcome` asks Airflow for the states of its tasks.
    """
    ran: list[str] = []

    def record(step: str) -> list[dict[str, str]]:
        ran.append(step)
        return [{}]

    for module, name in (
        *((steps, name) for name in ("provision", "destroy", "measure", "report", "track")),
        *((steps, name) for name in ("verify", "finish")),
        *((batches, name) for name in ("list_batches", "run_planned")),
        (alerts, "alert"),
    ):
        step = {"list_batches": "list_trials", "run_planned": "trial"}.get(name, name)
        monkeypatch.setattr(module, name, lambda *_, step=step: record(step))
    assert runner.run_steps("planted")

    dag = dags.get_dag("ackbench_sweep")
    assert sorted(["outcome", "plan", *ran]) == sorted(dag.task_ids)
    for task in dag.tasks:
        if task.task_id not in {"outcome", "plan"}:
            before = task.upstream_task_ids - {"plan"}
            assert before <= {*ran[: ran.index(task.task_id)]}, task.task_id


def test_the_command_has_the_steps_of_the_dag_and_their_limits(dags: Any) -> None:
    """Another scheduler runs them by `ackbench step`."""
    tasks = dags.get_dag("ackbench_sweep").tasks
    assert {*STEPS, "outcome"} == {task.task_id for task in tasks}
    hooks = {
        task.task_id: task.partial_kwargs.get("pre_execute")
        if task.is_mapped
        else task._pre_execute_hook
        for task in tasks
    }
    assert {*steps.LIMITED} == {name for name, hook in hooks.items() if hook}


@pytest.mark.parametrize("dag_id", IDS)
def test_only_steps_that_may_be_repeated_are_retried(dags: Any, dag_id: str) -> None:
    """Repeating a trial until it passes is survivorship bias; an alert would be sent twice."""
    retries = {task.task_id: task.retries for task in dags.get_dag(dag_id).tasks}
    from ackbench.dags.tasks import RETRIES  # imports Airflow, which is configured now

    repeated = {"list_trials", "provision", "destroy", "measure", "report", "track", "finish"}
    assert retries == {name: RETRIES if name in repeated else 0 for name in retries}


@pytest.mark.parametrize("dag_id", [*IDS, "ackbench_prune"])
def test_a_backfill_is_refused_in_one_line(dags: Any, dag_id: str) -> None:
    """Each of its runs would test the Kafka of today; Airflow says so before one is created."""
    from airflow.models.backfill import BackfillDagRun  # noqa: F401 - registers what DAGs refer to
    from airflow.utils.types import DagRunType

    allowed = {str(one.value) for one in dags.get_dag(dag_id).allowed_run_types}
    assert allowed == {str(one) for one in DagRunType} - {"backfill", "asset_materialization"}


@pytest.mark.parametrize("dag_id", [*IDS, "ackbench_prune"])
def test_every_step_has_a_limit(dags: Any, dag_id: str) -> None:
    """A step that hangs would keep the machine and the sweep forever."""
    assert [
        task.task_id for task in dags.get_dag(dag_id).tasks if task.execution_timeout is None
    ] == []


@pytest.mark.parametrize("dag_id", IDS)
def test_publishing_and_alerts_do_not_wait_for_the_report_or_mlflow(dags: Any, dag_id: str) -> None:
    """Whether these succeed, fail or hang."""
    dag = dags.get_dag(dag_id)
    for name in ("verify", "alert"):
        before = {task.task_id for task in dag.get_task(name).get_flat_relatives(upstream=True)}
        assert before.isdisjoint({"report", "track"}), name


@pytest.mark.parametrize("dag_id", IDS)
def test_a_sweep_that_has_its_cluster_precedes_one_that_has_none(dags: Any, dag_id: str) -> None:
    """The three share a pool of one slot; Airflow's default weights would prefer provision."""
    tasks = {task.task_id: task for task in dags.get_dag(dag_id).tasks}
    assert {tasks[name].pool for name in ("provision", "trial", "measure")} == {MACHINE_POOL}
    assert {str(task.weight_rule) for task in tasks.values()} == {"absolute"}
    assert (
        tasks["provision"].priority_weight
        < tasks["trial"].priority_weight
        == tasks["measure"].priority_weight
    )


@pytest.mark.parametrize("dag_id", IDS)
def test_there_is_no_catch_up_and_one_run_at_a_time(dags: Any, dag_id: str) -> None:
    """A machine that was off for a week does not run the missed sweeps."""
    dag = dags.get_dag(dag_id)
    assert (dag.catchup, dag.max_active_runs) == (False, 1)


@pytest.mark.parametrize("dag_id", IDS)
def test_the_form_with_its_defaults_is_a_valid_request(dags: Any, dag_id: str) -> None:
    """Every field has a default, a title and a description, and is a field of the request."""
    params = dags.get_dag(dag_id).params
    request = SweepRequest.of(params.dump())
    assert request.experiment == (
        "quick" if dag_id == "ackbench_sweep" else dag_id.removeprefix("ackbench_")
    )
    assert set(params) == {field.alias or name for name, field in SweepRequest.model_fields.items()}
    assert all(
        params.get_param(name).schema.get("title") and params.get_param(name).description
        for name in params
    )


def test_the_form_says_how_large_the_experiment_is_that_it_is_filled_in_with(dags: Any) -> None:
    """Axes, cells and minutes; the documentation of the DAG has those of all others."""
    dag = dags.get_dag("ackbench_sweep")
    extent, about = stored_extents()["quick"], dag.params.get_param("experiment").description
    assert extent.text() in about
    assert extent.compared in about
    assert as_markdown() in dag.doc_md


def test_the_form_offers_the_catalogue_and_every_fault(dags: Any) -> None:
    """They are the examples of their fields."""
    params = dags.get_dag("ackbench_sweep").params
    assert params.get_param("experiment").schema["examples"] == list(catalog_names())
    assert params.get_param("fault").schema["examples"] == list(FAULTS)


def test_dag_files_import_nothing_heavy_and_cost_less_than_airflow_itself(airflow: Home) -> None:
    """A scheduler parses every DAG file again and again."""
    del airflow
    files = [str(path) for path in sorted(DAGS_FOLDER.glob("*.py"))]
    probed = json.loads(
        subprocess.run(
            [sys.executable, "-c", PROBE, *files], capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
    )
    assert [name for name in HEAVY if name in probed["modules"]] == []
    assert probed["dags_s"] < probed["airflow_s"]


def test_airflows_pages_are_served_for_this_machine_only(airflow: Home) -> None:
    """The plugin of the API server adds Starlette's check of the Host header."""
    del airflow
    from ackbench.experiments.orchestration.airflow_plugins.allowed_hosts import AllowedHosts

    (middleware,) = AllowedHosts.fastapi_root_middlewares
    assert middleware["kwargs"] == {"allowed_hosts": ["127.0.0.1", "localhost"]}


def test_the_label_of_each_field_of_the_form_is_its_name_in_the_api(dags: Any) -> None:
    """Whoever reads the form can write the request."""
    labels = {name: param.schema["title"] for name, param in form_of(dags).items()}

    assert {"enable.idempotence", "workload.rate_records_per_s", "repeats"} <= labels.keys()
    assert labels == {name: name for name in labels}


def form_of(dags: Any) -> dict[str, Any]:
    """Return the fields of the trigger form."""
    params = dags.get_dag("ackbench_sweep").params
    return {name: params.get_param(name) for name in params}


@pytest.mark.parametrize("dag_id", IDS)
def test_the_page_of_the_tracked_sweep_has_links(dags: Any, dag_id: str) -> None:
    """They are known to the server, which does not load the DAG's file."""
    from airflow.serialization.serialized_objects import DagSerialization

    known = DagSerialization.from_dict(DagSerialization.to_dict(dags.get_dag(dag_id)))

    assert set(known.get_task("track").extra_links) == {"Report", "Runs in MLflow"}
    assert not known.get_task("report").extra_links


def test_the_documented_dag_follows_the_sweeps_of_the_other(dags: Any, tmp_path: Path) -> None:
    """Airflow finds the asset by its name."""
    from airflow.dag_processing.dagbag import DagBag

    text = (DAGS_FOLDER.parent / "docs" / "running.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (code,) = [block for block in blocks if "after_a_sweep" in block]
    (tmp_path / "after.py").write_text(code)
    following = DagBag(dag_folder=str(tmp_path))

    assert following.import_errors == {}
    condition = following.get_dag("after_a_sweep").timetable.asset_condition
    (outlet,) = dags.get_dag("ackbench_sweep").get_task("finish").outlets
    assert condition.name == outlet.name


def test_the_live_page_is_served_to_users_who_are_logged_in(dags: Any, tmp_path: Path) -> None:
    """And nothing of the home but the page, and what it links to."""
    del dags  # Airflow is configured
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    from ackbench.experiments.orchestration.airflow_plugins.live_page import LivePage, live_app

    home = Home(tmp_path)
    trial = home.sweeps / "quick-1" / "trials" / "000-abcdef"
    trial.mkdir(parents=True)
    (home.root / "live").mkdir()
    for path in ("live/index.html", "live/data.js", "up.json", "sweeps/quick-1/plan.json"):
        (home.root / path).write_text(path)
    (home.sweeps / "quick-1" / "report.html").write_text("a report")
    (trial / "trial.json").write_text("{}")
    (trial / "attempts.parquet").write_text("")
    (home.sweeps / "linked").symlink_to(home.sweeps / "quick-1")

    app = live_app(home)
    client = TestClient(app)
    served = (
        *("/live/", "/live/data.js", "/sweeps/quick-1/report.html"),
        "/sweeps/quick-1/trials/000-abcdef/trial.json",
    )
    login = client.get("/live/", follow_redirects=False)
    assert login.headers["location"] == "/api/v2/auth/login?next=%2Fackbench%2Flive%2F"
    assert [client.get(path).status_code for path in served[1:]] == [401] * 3

    app.dependency_overrides[get_user] = lambda: "a user"
    answers = [client.get(path) for path in served]
    assert [answer.status_code for answer in answers] == [200] * len(served)
    assert "default-src 'none'" in answers[0].headers["content-security-policy"]
    for path in (
        *("/live/.lock", "/up.json", "/sweeps/quick-1/plan.json", "/sweeps/linked/report.html"),
        "/sweeps/quick-1/trials/000-abcdef/attempts.parquet",
        *("/sweeps/..%2fquick-1/report.html", "/sweeps/.hidden/report.html", "/openapi.json"),
    ):
        assert client.get(path).status_code == 404, path
    (view,) = LivePage.external_views
    assert view["href"] == "/ackbench/live/"
