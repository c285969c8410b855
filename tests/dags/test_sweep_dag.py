"""Airflow runs the DAG; brokers, Spark and MLflow are fakes."""

from __future__ import annotations

import json
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.orchestration import alerts, batches, step_context, steps
from ackbench.experiments.sweep import time_limits
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.airflow.environment import DAGS_FOLDER
from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.home import Home


@pytest.fixture(scope="module")
def parsed_dags(installed_airflow: Any) -> Any:
    """Return the DAGs without retries, which wait for half a minute each."""
    with pytest.MonkeyPatch.context() as patch, installed_airflow.environment(patch):
        from airflow.dag_processing.dagbag import DagBag

        patch.setattr("ackbench.dags.tasks.RETRIES", 0)
        return DagBag(dag_folder=str(DAGS_FOLDER))


def run(dags: Any, sweep: SweepFolder) -> Any:
    """Run the DAG for a planned sweep; return the DAG run."""
    return dags.get_dag("ackbench_sweep").test(run_conf={"sweep_id": sweep.sweep_id})


def task_states(dag_run: Any) -> dict[str, set[str]]:
    """Return the states of each task's instances."""
    states: dict[str, set[str]] = {}
    for instance in dag_run.get_task_instances():
        states.setdefault(instance.task_id, set()).add(str(instance.state))
    return states


def finished_events() -> list[dict[str, Any]]:
    """Return the extra of each event of the asset of complete sweeps."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session

    with create_session() as session:
        events = session.query(AssetEvent).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        return [event.extra for event in events if event.asset.name == "ackbench_sweep_finished"]


def test_trials_run_in_the_plans_order(dags: Any, world: FakeInfrastructure) -> None:
    """The shuffled order is part of the experiment; Airflow iterates over a set of mapped tasks."""
    sweep = world.sweep(5)
    dag_run = run(dags, sweep)
    assert dag_run.state == "success"
    assert world.started_trials() == [trial.trial_id for trial in sweep.plan().trials]


@pytest.mark.further
def test_a_path_in_place_of_a_sweeps_id_starts_nothing(
    dags: Any, world: FakeInfrastructure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's users may write what `plan` hands on, and clear the other tasks."""
    outside = FakeInfrastructure(Home(tmp_path / "outside")).sweep(1)
    before = sorted(outside.root.rglob("*"))
    monkeypatch.setattr(steps, "plan_sweep", lambda *_, **__: str(outside.root))
    states = task_states(dags.get_dag("ackbench_sweep").test(run_conf={}))
    succeeded = {task for task, found in states.items() if "success" in found}
    assert succeeded == {"plan", "alert", "outcome"}
    assert world.steps == []
    assert sorted(outside.root.rglob("*")) == before


def test_every_step_runs_once_and_the_cluster_is_destroyed_independently_of_spark(
    dags: Any, world: FakeInfrastructure
) -> None:
    """Provision comes first, then the trials."""
    run(dags, world.sweep(1))
    assert sorted(world.steps) == ["destroy", "measure", "provision", "track", "trial 000-abcdef"]
    assert world.steps[:2] == ["provision", "trial 000-abcdef"]


def test_a_sweep_that_leaves_topics_in_an_external_cluster_fails_and_is_measured(
    dags: Any, world: FakeInfrastructure
) -> None:
    """A teardown must not hide it; the results are not affected."""
    world.left = "topics of quick may be left"
    dag_run = run(dags, world.sweep(1))
    states = task_states(dag_run)

    assert (dag_run.state, states["destroy"]) == ("failed", {"failed"})
    assert states["measure"] == states["track"] == states["finish"] == {"success"}


def test_the_sweep_has_a_report_and_a_record_of_its_machine(
    dags: Any, world: FakeInfrastructure
) -> None:
    """The report shows that a trial was not measured."""
    sweep = world.sweep(1)
    run(dags, sweep)
    assert "not measured" in sweep.report.read_text()
    assert "cores" in json.loads((sweep.root / "machine.json").read_text())


@pytest.mark.further
def test_the_links_of_the_sweep_are_kept_for_the_tasks_page(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow keeps the address that the worker has found."""
    monkeypatch.setenv("ACKBENCH_SITE_URL", "https://kafka.example/bench")
    sweep = world.sweep(1)
    (tracked,) = [
        instance
        for instance in run(dags, sweep).get_task_instances()
        if instance.task_id == "track"
    ]
    address = tracked.xcom_pull(task_ids="track", key="_link_ReportLink")
    assert address == f"https://kafka.example/bench/sweeps/{sweep.sweep_id}.html"


@pytest.mark.further
def test_a_complete_sweep_is_an_event_of_its_asset_and_an_incomplete_one_is_none(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a team's own DAG can follow it, and knows which sweep it was."""
    monkeypatch.setenv("ACKBENCH_SITE_URL", "https://kafka.example/bench")
    before, sweep = len(finished_events()), world.sweep(1)
    world.fails = frozenset({"000-abcdef"})
    run(dags, sweep)
    assert len(finished_events()) == before
    world.fails = frozenset()
    run(dags, sweep)
    (event,) = finished_events()[before:]
    assert event["sweep"] == sweep.sweep_id
    assert event["experiment"] == sweep.plan().experiment
    assert event["report"] == f"https://kafka.example/bench/sweeps/{sweep.sweep_id}.html"


@pytest.mark.further
def test_a_mapped_task_is_named_after_its_trial(dags: Any, world: FakeInfrastructure) -> None:
    """Airflow's page shows the cell and the trial id instead of an index."""
    dag_run = run(dags, world.sweep(2))
    names = {
        instance.rendered_map_index
        for instance in dag_run.get_task_instances()
        if instance.task_id == "trial"
    }
    assert names == {"acks=1 number=0 (000-abcdef)", "acks=1 number=1 (001-abcdef)"}


def test_a_failed_trial_is_not_repeated_and_the_others_still_run(
    dags: Any, world: FakeInfrastructure
) -> None:
    """Repeating a trial until it passes is survivorship bias."""
    world.fails = frozenset({"001-abcdef"})
    run(dags, world.sweep(3))
    assert world.started_trials() == ["000-abcdef", "001-abcdef", "002-abcdef"]


def test_verify_fails_and_names_the_missing_trial(dags: Any, world: FakeInfrastructure) -> None:
    """The sealed trials are measured and tracked, and the DAG run fails."""
    world.fails = frozenset({"001-abcdef"})
    dag_run = run(dags, world.sweep(3))
    assert dag_run.state == "failed"
    assert {"measure", "track", "destroy"} <= set(world.steps)
    assert (
        step_context.RUN_STATE.failures[-1]
        == "verify: 1 of 3 trials are missing: 001-abcdef (NodeFailed: node 3 died)"
    )


@pytest.mark.further
def test_an_alert_that_fails_does_not_fail_the_run(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook is no part of the sweep."""

    def broken(sweep_id: str | None, _: object) -> None:
        raise RuntimeError(f"no alert of {sweep_id}")

    monkeypatch.setattr(alerts, "alert", broken)
    dag_run = run(dags, world.sweep(1))
    assert dag_run.state == "success"
    assert task_states(dag_run)["alert"] == {"failed"}


@pytest.mark.further
def test_a_sweep_that_failed_is_reported_and_the_run_is_still_failed(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task runs after failures, and hides none."""
    reported: list[str | None] = []
    monkeypatch.setattr(alerts, "alert", lambda sweep_id, _: reported.append(sweep_id))
    world.fails = frozenset({"001-abcdef"})
    sweep = world.sweep(3)
    dag_run = run(dags, sweep)
    assert dag_run.state == "failed"
    assert reported == [sweep.sweep_id]


@pytest.mark.further("report")
@pytest.mark.parametrize("broken", ["report", "track"])
def test_missing_trials_are_named_and_reported_without_the_report_and_mlflow(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The sweep's failure is also what its folder says of it."""

    def fail(_sweep_id: str) -> None:
        raise HarnessError(f"{broken} is broken")

    reported: list[str | None] = []
    monkeypatch.setattr(alerts, "alert", lambda sweep_id, _: reported.append(sweep_id))
    monkeypatch.setattr(steps, broken, fail)
    world.fails = frozenset({"001-abcdef"})
    sweep = world.sweep(2)
    dag_run = run(dags, sweep)

    assert dag_run.state == "failed"
    assert task_states(dag_run)["verify"] == {"failed"}
    assert any("1 of 2 trials are missing" in one for one in step_context.RUN_STATE.failures)
    assert reported == [sweep.sweep_id]


@pytest.mark.further
def test_a_sweep_that_cannot_be_measured_is_verified_and_fails(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is published, and no leaf of the DAG hides the failure."""

    def fail(_sweep_id: str) -> None:
        raise HarnessError("Spark is broken")

    monkeypatch.setattr(steps, "measure", fail)
    dag_run = run(dags, world.sweep(1))

    assert dag_run.state == "failed"
    assert task_states(dag_run)["verify"] == {"success"}
    assert task_states(dag_run)["finish"] == {"upstream_failed"}


def test_a_request_that_is_refused_is_reported_with_its_reason(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no sweep whose folder could say it."""
    del world
    reasons: list[object] = []
    monkeypatch.setattr(alerts, "alert_of_plan", lambda _form, reason, _: reasons.append(reason))
    dags.get_dag("ackbench_sweep").test(run_conf={"experiment": "quikc", "sweep_id": None})

    (reason,) = reasons
    assert "unknown experiment 'quikc'" in str(reason)


def test_resuming_runs_only_the_missing_trials(dags: Any, world: FakeInfrastructure) -> None:
    """A sealed trial is never repeated; a failed one is, when the sweep is resumed."""
    world.fails = frozenset({"001-abcdef"})
    sweep = world.sweep(3)
    run(dags, sweep)
    world.fails, world.steps = frozenset(), []
    assert run(dags, sweep).state == "success"
    assert world.started_trials() == ["001-abcdef"]
    assert not sweep.failed("001-abcdef").exists()


@pytest.mark.further
def test_with_nothing_to_run_the_sweep_is_measured_and_tracked_again(
    dags: Any, world: FakeInfrastructure
) -> None:
    """Airflow skips an empty mapped task; the tasks after it run, and no cluster is started."""
    sweep = world.sweep(2)
    run(dags, sweep)
    world.steps = []
    dag_run = run(dags, sweep)
    assert dag_run.state == "success"
    assert sorted(world.steps) == ["destroy", "measure", "track"]
    assert task_states(dag_run)["trial"] == {"skipped"}


def test_a_trial_task_that_finds_nothing_to_run_is_skipped(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's page does not show it as a trial that was run."""
    listed = batches.list_batches
    monkeypatch.setattr(batches, "list_batches", lambda sweep_id: [*listed(sweep_id)] * 2)
    dag_run = run(dags, world.sweep(1))

    assert dag_run.state == "success"
    assert task_states(dag_run)["trial"] == {"success", "skipped"}
    assert world.started_trials() == ["000-abcdef"]


def test_the_time_of_a_task_is_limited_by_the_plan_of_its_sweep(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parsed DAG does not know the plan, so the limit is set when the task starts."""
    from airflow.sdk import get_current_context

    limits: list[timedelta | None] = []
    run_trial = world.run_trial

    def noting(*arguments: Any) -> Any:
        limits.append(get_current_context()["task"].execution_timeout)
        return run_trial(*arguments)

    monkeypatch.setattr("ackbench.experiments.trial.run.run_trial", noting)
    sweep = world.sweep(1)
    assert run(dags, sweep).state == "success"
    assert limits == [timedelta(seconds=time_limits.trial_limit_s(sweep.plan()))]


def test_a_trial_that_airflow_ends_has_failed_and_the_next_one_runs(
    dags: Any, world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's time-out is no `Exception`; the next task would run the same trial again."""
    from airflow.sdk.exceptions import AirflowTaskTimeout

    run_trial = world.run_trial

    def hanging(sweep: SweepFolder, spec: Any, *others: Any) -> Any:
        if spec.trial_id == "000-abcdef":
            raise AirflowTaskTimeout("Timeout, PID: 4711")
        return run_trial(sweep, spec, *others)

    monkeypatch.setattr("ackbench.experiments.trial.run.run_trial", hanging)
    sweep = world.sweep(2)
    dag_run = run(dags, sweep)

    assert dag_run.state == "failed"
    assert task_states(dag_run)["trial"] == {"failed", "success"}
    assert sweep.failure_reason("000-abcdef") == "AirflowTaskTimeout: Timeout, PID: 4711"
    assert sweep.pending() == ("000-abcdef",)


@pytest.mark.further
def test_without_a_cluster_no_trial_starts(dags: Any, world: FakeInfrastructure) -> None:
    """The first failure is that of provision."""
    world.no_cluster = True
    dag_run = run(dags, world.sweep(2))
    assert dag_run.state == "failed"
    assert world.started_trials() == []
    assert step_context.RUN_STATE.failures[0] == "provision: node 2 did not start"


@pytest.mark.further
def test_after_an_interrupt_no_trial_starts(dags: Any, world: FakeInfrastructure) -> None:
    """Airflow turns Ctrl-C into a failed task, and `airflow dags test` starts the next one."""
    world.interrupted_at = "001-abcdef"
    dag_run = run(dags, world.sweep(6))
    assert dag_run.state == "failed"
    started = ["provision", "trial 000-abcdef", "trial 001-abcdef"]
    assert world.steps == [*started, "destroy", "destroy"]  # by the trial, then by the teardown


@pytest.mark.further("experiment")
@pytest.mark.parametrize(
    "unknown",
    [{"sweep_id": "nowhere-20260101T000000-0000"}, {"experiment": "quikc"}, {"expriment": "quick"}],
    ids=["sweep", "experiment", "field"],
)
def test_an_invalid_request_is_refused_before_anything_starts(
    dags: Any, world: FakeInfrastructure, unknown: dict[str, str]
) -> None:
    """Unknown sweeps, experiments and fields; Airflow itself accepts unknown fields."""
    dag_run = dags.get_dag("ackbench_sweep").test(run_conf=unknown)
    assert dag_run.state == "failed"
    assert world.steps in ([], ["destroy"])
    assert (
        "quick" in step_context.RUN_STATE.failures[0]
        or "sweep" in step_context.RUN_STATE.failures[0]
        or "experiment" in step_context.RUN_STATE.failures[0]
    )


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"experiment": "quikc"}, "unknown experiment 'quikc'; did you mean quick?"),
        ({"experiment": "quick", "frobnicate": ["1"]}, "unknown key frobnicate"),
    ],
    ids=["experiment", "key"],
)
def test_a_refused_request_is_one_line_and_nothing_after_it_runs(
    dags: Any,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    request_: dict[str, object],
    message: str,
) -> None:
    """No task fails because of the refused one, and no log has a traceback of ackbench's code."""
    # Airflow keeps the params of an earlier test of the same DAG.
    request = {"sweep_id": None, **request_}
    with caplog.at_level("INFO", "experiments"):
        dag_run = dags.get_dag("ackbench_sweep").test(run_conf=request)
    states = task_states(dag_run)

    assert states["plan"] == {"failed"}
    assert states["measure"] == {"skipped"}
    for name in ("report", "track", "verify"):
        assert states[name] <= {"skipped", "upstream_failed"}
    assert any(message in one for one in caplog.messages)
    assert "Traceback" not in "".join(capfd.readouterr()) + caplog.text


@pytest.mark.further
def test_the_tasks_log_what_runs_and_the_answer(
    dags: Any, world: FakeInfrastructure, caplog: pytest.LogCaptureFixture
) -> None:
    """The sweep, its folder, the answer, and where the report is."""
    sweep = world.sweep(1)
    with caplog.at_level("INFO", "experiments"):
        run(dags, sweep)

    assert "No trial has been measured." in caplog.messages
    assert f"report: {sweep.report} (ackbench open report {sweep.sweep_id})" in caplog.messages


@pytest.mark.further
def test_an_unexpected_error_keeps_its_traceback(
    dags: Any,
    world: FakeInfrastructure,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It is a bug, which its place explains."""

    def broken(_sweep_id: str) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(steps, "report", broken)
    run(dags, world.sweep(1))
    logged = "".join(capfd.readouterr())

    assert "ZeroDivisionError" in logged
    assert "Traceback" in logged or "broken" in logged


@pytest.mark.parametrize(
    ("states", "fails"),
    [
        ({"plan": "success", "finish": "skipped"}, True),
        ({"plan": "skipped", "finish": "skipped"}, True),
        ({"plan": "failed", "finish": "skipped"}, False),
        ({"plan": "success"}, False),
        ({"plan": "success", "finish": "upstream_failed"}, False),
    ],
    ids=["in mid-run", "queued", "refused", "complete", "a trial is missing"],
)
@pytest.mark.parametrize("module", ["ackbench.dags.tasks", "airflow_provider_ackbench.dags"])
def test_a_run_that_was_marked_as_failed_fails(
    dags: Any, monkeypatch: pytest.MonkeyPatch, module: str, states: dict[str, str], *, fails: bool
) -> None:
    """Airflow skips what has not begun; the run's end would be a success."""
    del dags
    tasks = import_module(module)
    ti = SimpleNamespace(dag_id="d", run_id="r", get_task_states=lambda *_, **__: {"r": states})
    monkeypatch.setattr(tasks, "get_current_context", lambda: {"ti": ti})
    if not fails:
        tasks.outcome.function()
        return
    with pytest.raises((SystemExit, getattr(tasks, "AirflowFailException", SystemExit))):
        tasks.outcome.function()
