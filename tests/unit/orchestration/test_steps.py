"""The steps and what they rely on: trial order, machine lock, Airflow's environment, services."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.ledger.location import Location, open_location
from ackbench.experiments.messages.errors import HealFailed, NotPublished, StorageError
from ackbench.experiments.orchestration import services, step_context, steps, trials
from ackbench.experiments.results import spark_job
from ackbench.experiments.results.history import warehouse
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import VERSION_VARIABLE
from ackbench.experiments.sweep.published import keep_store, note_failure
from ackbench.experiments.sweep.spark_master import MASTER_VARIABLE
from ackbench.infra.airflow.environment import airflow_environment
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.files import sqlite_url
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity
from ackbench.infra.process.sessions import (
    end_sessions,
    read_session_record,
    session_members,
    write_session_record,
)
from ackbench.infra.process.waiting import wait_until

FORKING = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "600"]).pid, flush=True)
input()
"""


def test_trials_run_in_the_plans_order_and_failed_ones_last(tmp_path: Path) -> None:
    """Among the failed ones, the earliest failure comes first."""
    sweep = FakeInfrastructure(Home(tmp_path)).sweep(4)
    for trial_id, failed_at_ns in (("000-abcdef", 2_000), ("002-abcdef", 1_000)):
        sweep.failed(trial_id).mkdir()
        os.utime(sweep.failed(trial_id), ns=(failed_at_ns, failed_at_ns))
    order = []
    while trial := trials.next_trial(sweep):
        order.append(trial.trial_id)
        sweep.trial(trial.trial_id).mkdir()
    assert order == ["001-abcdef", "003-abcdef", "002-abcdef", "000-abcdef"]


def test_a_fault_that_cannot_be_healed_stops_the_sweep_until_it_is_resumed(
    world: FakeInfrastructure,
) -> None:
    """Later trials would be invalid; the user who resumes has checked the machine."""
    sweep = world.sweep(3)
    world.unhealed_at = "001-abcdef"
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    with pytest.raises(HealFailed, match="rules of node 2"):
        trials.run_next_trial(sweep.sweep_id, lambda _: None)
    with pytest.raises(step_context.Interrupted, match="rules of node 2"):
        trials.run_next_trial(sweep.sweep_id, lambda _: None)
    assert world.started_trials() == ["000-abcdef", "001-abcdef"]
    steps.plan_sweep({"experiment": "quick", "sweep_id": sweep.sweep_id})
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    assert world.started_trials()[-1] == "002-abcdef"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeInfrastructure:
    """Return fakes of clusters, trials, Spark and MLflow, installed for the steps."""
    infrastructure = FakeInfrastructure(Home(tmp_path))
    infrastructure.install(monkeypatch.setattr)
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setenv("ACKBENCH_ONE_MACHINE", "1")
    monkeypatch.setattr(step_context, "RUN_STATE", step_context.RunState())
    return infrastructure


def test_a_sealed_trial_is_published_before_the_next_one(
    world: FakeInfrastructure, tmp_path: Path
) -> None:
    """Readers of the store see a sweep grow; `verify` adds results and report."""
    sweep, target = a_stored_sweep_with_a_trial(world, tmp_path / "store")
    assert "trials/000-abcdef/trial.json" in target.list_files()
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    sweep.report.write_text("page")
    steps.verify(sweep.sweep_id)
    assert {"plan.json", "report.html"} <= target.list_files().keys()


def test_the_report_leaves_the_results_in_the_warehouses_of_home_and_store(
    world: FakeInfrastructure, tmp_path: Path
) -> None:
    """For questions over many sweeps, on this host and on any other."""
    sweep, target = a_stored_sweep_with_a_trial(world, tmp_path / "store")
    steps.report(sweep.sweep_id)
    places = (warehouse.warehouse_of_home(world.home), target.parent.at(warehouse.WAREHOUSE))
    for place in places:
        rows = warehouse.read_history(place, "trials").to_pylist()
        assert {row["sweep_id"] for row in rows} == {sweep.sweep_id}


def test_on_a_spark_cluster_a_published_sweep_is_measured_in_its_store(
    world: FakeInfrastructure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executors cannot read this machine's folder; the results are copied into it."""
    sweep, target = a_stored_sweep(world, tmp_path / "store")

    def measured(location: str, _home: Home, _name: str, *, skip_unfit: bool) -> None:
        assert skip_unfit
        assert (location, "trials/000-abcdef/trial.json" in target.list_files()) == (
            target.uri,
            True,
        )
        results = Path(target.path, "results")
        results.mkdir()
        (results / "trials.parquet").write_bytes(b"measured there")

    monkeypatch.setattr(spark_job, "measure_location", measured)
    monkeypatch.setenv(MASTER_VARIABLE, "spark://127.0.0.1:7077")
    steps.plan_sweep({"experiment": "quick", "sweep_id": sweep.sweep_id})
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    steps.measure(sweep.sweep_id)
    assert (sweep.results / "trials.parquet").read_bytes() == b"measured there"


def test_a_task_ends_with_its_supervisor_and_a_command_does_not(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's process group was killed, and its task ran all trials of its batch."""
    sweep, tied = world.sweep(1), list[str]()
    monkeypatch.setattr(step_context, "end_with_forking_parent", lambda: tied.append("task"))
    for dag_id, expected in (("", []), ("ackbench_sweep", ["task"])):
        monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", dag_id)
        monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", dag_id and "manual")
        with step_context.SweepRun(sweep).hold("trial"):
            assert tied == expected


STOPPED = """
import os, signal, sys
from ackbench.dags.tasks import failing_in_one_line
from ackbench.experiments.orchestration.step_context import begin_step

@failing_in_one_line
def task():
    begin_step("trial")
    os.kill(os.getpid(), signal.SIGTERM)
    print("runs on", flush=True)

signal.signal(signal.SIGTERM, lambda *_: None)  # as Airflow's handler, which calls `on_kill`
pid = os.fork()
if pid == 0:
    task()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_sigterm_interrupts_a_task_and_its_log_says_so_in_one_line(tmp_path: Path) -> None:
    """That of a pod which is deleted: Airflow's own handler lets the trial run on."""
    ran = subprocess.run(
        [sys.executable, "-c", STOPPED],
        env={
            **os.environ,
            "ACKBENCH_HOME": str(tmp_path),
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW_CTX_DAG_ID": "ackbench_sweep",
            "AIRFLOW_CTX_DAG_RUN_ID": "manual",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "runs on" not in ran.stdout
    assert "Traceback" not in ran.stderr
    assert "interrupted (SIGTERM): the cluster was destroyed; resume the sweep" in (
        ran.stdout + ran.stderr
    )


def test_a_store_that_refuses_uploads_stops_no_trial(
    world: FakeInfrastructure, tmp_path: Path
) -> None:
    """The trials are sealed, `verify` fails with the remedy, and publishing again fixes it."""
    sweep, target = a_stored_sweep(world, tmp_path / "store")
    (tmp_path / "store").write_text("a file where the folder should be")
    for _ in range(2):
        trials.run_next_trial(sweep.sweep_id, lambda _: None)
    assert sweep.pending() == ()
    with pytest.raises(NotPublished, match=f"with: ackbench publish {sweep.sweep_id}"):
        steps.verify(sweep.sweep_id)
    (tmp_path / "store").unlink()
    steps.verify(sweep.sweep_id)
    assert "trials/001-abcdef/trial.json" in target.list_files()
    assert not sweep.unpublished.exists()


def test_after_a_failed_upload_trials_wait_for_a_minute(
    world: FakeInfrastructure, tmp_path: Path
) -> None:
    """A store that does not answer takes seconds to minutes per attempt."""
    sweep, target = a_stored_sweep(world, tmp_path / "store")
    note_failure(sweep, StorageError("the store does not answer"))
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    assert target.list_files() == {}
    os.utime(sweep.unpublished, (0, 0))
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    assert "trials/001-abcdef/trial.json" in target.list_files()


def test_the_store_of_the_environment_is_that_of_new_sweeps(
    world: FakeInfrastructure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a scheduler's operator names it, and not who triggers a run."""
    store = tmp_path / "store"
    monkeypatch.setenv("ACKBENCH_STORE", str(store))
    sweep_id = steps.plan_sweep({"experiment": "quick", "repeats": 1})
    assert (store / sweep_id / "plan.json").is_file()
    assert world.started_trials() == []


def test_a_scheduler_of_another_version_plans_no_sweep(
    world: FakeInfrastructure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks would have modules of both versions."""
    monkeypatch.setenv(VERSION_VARIABLE, "0.0.9")
    with pytest.raises(MachineError, match=r"was started by ackbench 0\.0\.9, and ackbench .* is"):
        steps.plan_sweep({"experiment": "quick"})
    assert not list(world.home.sweeps.glob("*"))


def a_stored_sweep(world: FakeInfrastructure, store: Path) -> tuple[SweepFolder, Location]:
    """Return a sweep of two trials, and where it is to be published."""
    sweep = world.sweep(2)
    location = open_location(store.as_uri())
    keep_store(sweep, location)
    return sweep, location.at(sweep.sweep_id)


def a_stored_sweep_with_a_trial(
    world: FakeInfrastructure, store: Path
) -> tuple[SweepFolder, Location]:
    """Return such a sweep, of which the first trial has run."""
    sweep, target = a_stored_sweep(world, store)
    steps.plan_sweep({"experiment": "quick", "sweep_id": sweep.sweep_id})
    trials.run_next_trial(sweep.sweep_id, lambda _: None)
    return sweep, target


def test_airflow_writes_below_the_home_and_ignores_another_installations_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Database and logs are below ackbench's home; inherited AIRFLOW variables are removed."""
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW__CELERY__BROKER_URL", "redis://elsewhere")
    environment = airflow_environment(Home(tmp_path))
    assert environment["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert "AIRFLOW__CELERY__BROKER_URL" not in environment
    written = (
        "AIRFLOW_HOME",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER",
        "AIRFLOW__CORE__PLUGINS_FOLDER",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    )
    assert all(str(tmp_path) in environment[name] for name in written)


def test_a_sqlite_path_is_quoted_for_sqlalchemy(tmp_path: Path) -> None:
    """SQLAlchemy unquotes the path since 2.1."""
    from sqlalchemy import create_engine

    folder = tmp_path / "100%20 sure?"
    folder.mkdir()
    with create_engine(sqlite_url(folder / "a.db")).connect():
        assert (folder / "a.db").is_file()


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """The error is one line that names the port and the option."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(MachineError, match=f"port {port} .* name another with --airflow-port"):
            services.up(Home(tmp_path / "home"), airflow_port=port, say=lambda _: None)
    assert not (tmp_path / "home").exists()


def test_ending_a_session_kills_processes_that_ignore_sigterm() -> None:
    """Otherwise a service's forks would outlive it."""
    leader = subprocess.Popen(
        [sys.executable, "-c", FORKING],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert leader.stdout
    fork = ProcessIdentity.of(int(leader.stdout.readline()))
    identity = ProcessIdentity.of(leader.pid)
    end_sessions([identity], grace_s=0.1)
    leader.communicate()
    assert not fork.is_alive()
    assert session_members(identity) == ()


def test_sessions_of_another_container_or_before_a_restart_are_not_ended(tmp_path: Path) -> None:
    """Session ids are pids, and these are other sessions here."""
    own, record = ProcessIdentity.own(), tmp_path / "up.json"
    write_session_record(record, [own])
    assert read_session_record(record) == (own,)
    written = record.read_text()
    for key in ("boot_id", "pid_namespace"):
        here = getattr(MachineIdentity.own(), key)
        record.write_text(written.replace(here, "other"))
        assert read_session_record(record) == ()


def test_the_guard_ends_the_sessions_of_a_killed_process(tmp_path: Path) -> None:
    """A killed process cannot clean up; the guard does, and then exits."""
    service = subprocess.Popen(["sleep", "600"], start_new_session=True)
    killed = subprocess.Popen(["sleep", "600"])
    write_session_record(tmp_path / "up.json", [ProcessIdentity.of(service.pid)])
    guarded = ProcessIdentity.of(killed.pid)
    guard = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ackbench.infra.process.sessions",
            str(guarded.pid),
            str(guarded.start_ticks),
            str(tmp_path / "up.json"),
        ]
    )
    killed.kill()
    killed.wait()
    assert guard.wait(30) == 0
    wait_until(lambda: service.poll() is not None, awaiting="the service's end", timeout_s=10)
    assert read_session_record(tmp_path / "up.json") == ()
