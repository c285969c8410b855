"""A task whose process was killed or never started says why on its page and in its sweep."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.commands.show import remarks
from ackbench.experiments.messages.errors import TrialFailed
from ackbench.experiments.orchestration import steps
from ackbench.experiments.orchestration.killed_tasks import killed_line
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

SAID = "Airflow ended this task: its process was killed, or did not start"


def fails_in_the_executor(dags: Any, task_id: str, run_id: str) -> None:
    """Do what Airflow's DAG processor does when an executor reports that a task has failed."""
    import structlog
    from airflow.api_fastapi.execution_api.datamodels.taskinstance import TaskInstance
    from airflow.callbacks.callback_requests import TaskCallbackRequest
    from airflow.dag_processing.processor import _execute_task_callbacks

    instance = TaskInstance(
        id=uuid.uuid4(),
        task_id=task_id,
        dag_id="ackbench_sweep",
        run_id=run_id,
        try_number=1,
        dag_version_id=uuid.uuid4(),
    )
    request = TaskCallbackRequest(
        filepath="sweep.py", bundle_name="dags", bundle_version=None, ti=instance
    )
    _execute_task_callbacks(dags, request, structlog.get_logger())


@pytest.fixture
def sweep(world: FakeInfrastructure, dags: Any, monkeypatch: pytest.MonkeyPatch) -> SweepFolder:
    """Return the sweep that the task `plan` of the run has handed on."""
    del dags
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    sweep = world.sweep(2)
    monkeypatch.setattr(RuntimeTaskInstance, "xcom_pull", lambda *_, **__: sweep.sweep_id)
    return sweep


@pytest.fixture
def errors(airflow: Home, request: pytest.FixtureRequest) -> Callable[[str], list[str]]:
    """Return a function that returns the errors in the log of a task, as its page has them."""
    run_id = request.node.name

    def read(task_id: str) -> list[str]:
        folder = airflow.logs / "airflow" / "dag_id=ackbench_sweep" / f"run_id={run_id}"
        entries = map(json.loads, (folder / f"task_id={task_id}/attempt=1.log").open())
        return [entry["event"] for entry in entries if entry["level"] == "error"]

    return read


@pytest.mark.usefixtures("sweep")
def test_the_log_of_a_task_that_never_started_says_why(
    dags: Any, errors: Callable[[str], list[str]], request: pytest.FixtureRequest
) -> None:
    """The log is where a user looks; it was empty."""
    fails_in_the_executor(dags, "measure", request.node.name)
    (line,) = errors("measure")

    assert line.startswith(SAID)
    assert "clear the task to run it again" in line


@pytest.mark.usefixtures("sweep")
def test_a_task_that_airflow_reports_twice_says_it_once(
    dags: Any, errors: Callable[[str], list[str]], request: pytest.FixtureRequest
) -> None:
    """A killed worker's task is reported without heartbeats, and as failed by the executor."""
    fails_in_the_executor(dags, "measure", request.node.name)
    fails_in_the_executor(dags, "measure", request.node.name)

    assert len(errors("measure")) == 1


def test_show_names_the_task_that_never_started(
    dags: Any, sweep: SweepFolder, request: pytest.FixtureRequest
) -> None:
    """Before the command that resumes the sweep."""
    fails_in_the_executor(dags, "list_trials", request.node.name)
    failed, resume = remarks(sweep, read_results(sweep))

    assert failed.startswith(f"failed: list_trials: {SAID}")
    assert resume.startswith("not run: 2 trials; resume with")


def test_missing_trials_name_the_provisioning_that_never_started(
    dags: Any, sweep: SweepFolder, request: pytest.FixtureRequest
) -> None:
    """As they do when the cluster did not start."""
    fails_in_the_executor(dags, "provision", request.node.name)

    with pytest.raises(TrialFailed, match=f"never run: no cluster: {SAID}"):
        steps.verify(sweep.sweep_id)


@pytest.mark.further
def test_a_task_that_fails_by_itself_says_nothing_else(
    dags: Any, world: FakeInfrastructure, sweep: SweepFolder
) -> None:
    """Its process has logged why."""
    world.fails = frozenset({"000-abcdef"})
    dags.get_dag("ackbench_sweep").test(run_conf={"sweep_id": sweep.sweep_id})
    activity = sweep.activity()

    assert activity
    assert SAID not in activity.what


@pytest.mark.parametrize(("age", "quoted"), [(timedelta(minutes=1), True), (timedelta(1), False)])
def test_the_error_of_the_scheduler_is_quoted_if_it_has_just_occurred(
    tmp_path: Path, age: timedelta, *, quoted: bool
) -> None:
    """An older one is that of another task."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    home = Home(tmp_path)
    home.service_logs.mkdir(parents=True)
    at = (now - age).strftime("%Y-%m-%dT%H:%M:%S.%f")
    (home.service_logs / "scheduler.log").write_text(
        f"{at}Z [error    ] Workload execution failed.     [airflow.executors.local_executor."
        'LocalExecutor] loc=local_executor.py:101\nTraceback (most recent call last):\n  File "x"\n'
        f"httpx.ReadTimeout: timed out\n{at}Z [info     ] next\nAnother line\n"
    )

    assert ("start (httpx.ReadTimeout: timed out); details" in killed_line(home, now)) == quoted
