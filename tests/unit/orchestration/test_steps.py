"""What stands around the DAG: the request, the order of trials, the machine's lock, the environment, the services' refusals."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.fakes.surroundings import FakeSurroundings

from experiments.errors import ExperimentError, HealFailed
from experiments.orchestration import services, steps
from experiments.orchestration.environment import airflow_environment
from experiments.orchestration.machine_lock import LOCK, alone
from experiments.orchestration.request import SweepRequest
from infra.errors import InputError, MachineError, WaitTimeout
from infra.machine.files import sqlite_url
from infra.machine.home import Home
from infra.process.processes import ProcessIdentity
from infra.process.sessions import (
    end_sessions,
    read_session_record,
    session_members,
    write_session_record,
)
from infra.process.waiting import wait_until

HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "w"); fcntl.flock(lock, fcntl.LOCK_EX); lock.write("another-sweep"); lock.flush(); print("held", flush=True); sys.stdin.read()
"""


def test_fields_of_the_form_become_axes_of_the_right_types() -> None:
    """`"0"` is a number, `all` is a word, `false` a truth value; what is empty is left as the experiment has it."""
    request = SweepRequest.of(
        {
            "experiment": "quick",
            "acks": ["0", "all"],
            "idempotence": ["false"],
            "partitions": "1, 6",
            "duration_s": 5,
            "fault": [],
        }
    )
    assert request.axes() == {
        "acks": (0, "all"),
        "enable.idempotence": (False,),
        "partitions": (1, 6),
        "workload.duration_s": (5.0,),
    }


def test_the_form_chooses_the_client_and_its_defaults() -> None:
    """Two axes of the clients, under the names that a file has."""
    request = SweepRequest.of(
        {"experiment": "quick", "client": ["librdkafka", "java"], "client_defaults": ["true"]}
    )
    assert request.axes() == {"client": ("librdkafka", "java"), "client.defaults": (True,)}


def test_other_properties_are_axes_too() -> None:
    """One a line, as on the command line."""
    assert SweepRequest.of({"experiment": "quick", "set": ["linger.ms=0,50"]}).axes() == {
        "linger.ms": (0, 50)
    }


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ({}, None),
        ({"controls": "as the experiment has it"}, None),
        ({"controls": "off"}, False),
        ({"controls": "on"}, True),
    ],
)
def test_the_form_can_leave_the_controls_to_the_experiment(
    chosen: dict[str, str], wanted: bool | None
) -> None:
    """Or turn them on or off."""
    assert SweepRequest.of({"experiment": "quick", **chosen}).overrides().controls is wanted


def test_an_unknown_field_is_refused_with_the_nearest() -> None:
    """Airflow takes it in silence, and the run would be another one than was asked for."""
    with pytest.raises(ExperimentError, match="unknown key repaets; did you mean repeats"):
        SweepRequest.of({"experiment": "quick", "repaets": 5})


def test_an_axis_given_twice_is_refused() -> None:
    """Which one was meant?"""
    with pytest.raises(InputError, match="acks is given twice"):
        SweepRequest.of({"experiment": "quick", "acks": ["1"], "set": ["acks=all"]}).axes()


def test_the_next_trial_is_the_plans_and_failed_ones_come_last(tmp_path: Path) -> None:
    """The one that failed first comes first among them."""
    sweep = FakeSurroundings(Home(tmp_path)).sweep(4)
    for trial_id, failed_at_ns in (("000-abcdef", 2_000), ("002-abcdef", 1_000)):
        sweep.failed(trial_id).mkdir()
        os.utime(sweep.failed(trial_id), ns=(failed_at_ns, failed_at_ns))
    order = []
    while trial := steps.next_trial(sweep):
        order.append(trial.trial_id)
        sweep.trial(trial.trial_id).mkdir()
    assert order == ["001-abcdef", "003-abcdef", "002-abcdef", "000-abcdef"]


def test_a_fault_that_cannot_be_undone_ends_the_sweep_and_going_on_begins_it_again(
    world: FakeSurroundings,
) -> None:
    """Nothing after it could be believed; whoever goes on has looked at the machine."""
    sweep = world.sweep(3)
    world.unhealed_at = "001-abcdef"
    steps.take_turn(sweep.sweep_id, lambda _: None)
    with pytest.raises(HealFailed, match="rules of node 2"):
        steps.take_turn(sweep.sweep_id, lambda _: None)
    with pytest.raises(steps.Interrupted, match="rules of node 2"):
        steps.take_turn(sweep.sweep_id, lambda _: None)
    assert world.ran() == ["000-abcdef", "001-abcdef"]
    steps.plan_sweep({"experiment": "quick", "sweep_id": sweep.sweep_id})
    steps.take_turn(sweep.sweep_id, lambda _: None)
    assert world.ran()[-1] == "002-abcdef"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSurroundings:
    """A sweep's surroundings in memory, in the steps' own home."""
    made = FakeSurroundings(Home(tmp_path))
    made.take_the_place_of(monkeypatch.setattr)
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(steps, "RUN", steps.StepState())
    return made


def test_who_waits_for_the_machine_is_told_who_has_it(tmp_path: Path) -> None:
    """And gives up with that name in the message."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / LOCK)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    told: list[str] = []
    try:
        assert holder.stdout
        holder.stdout.readline()
        with (
            pytest.raises(WaitTimeout, match="another-sweep"),
            alone(Home(tmp_path), "mine", told.append, timeout_s=0.1),
        ):
            pytest.fail("two at once")
    finally:
        holder.communicate("")
    assert told == ["another-sweep"]


def test_a_process_that_has_the_machine_does_not_wait_for_itself(tmp_path: Path) -> None:
    """An embedded run takes it once for all of its steps."""
    told: list[str] = []
    with alone(Home(tmp_path), "mine", told.append), alone(Home(tmp_path), "mine", told.append):
        assert told == []


def test_airflow_writes_below_the_home_and_hears_nothing_of_another_airflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its home, its database, its logs; and whatever was set for another installation is gone."""
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


def test_a_sqlite_path_is_quoted_as_sqlalchemy_reads_it(tmp_path: Path) -> None:
    """Since 2.1 it unquotes the path."""
    from sqlalchemy import create_engine

    folder = tmp_path / "100%20 sure?"
    folder.mkdir()
    with create_engine(sqlite_url(folder / "a.db")).connect():
        assert (folder / "a.db").is_file()


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """In one line that names the port and the option."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(MachineError, match=f"port {port} .* name another with --airflow-port"):
            services.up(Home(tmp_path), airflow_port=port, say=lambda _: None)
    assert not (tmp_path / "airflow").exists()


def test_an_ended_session_leaves_nobody_not_even_who_ignores_sigterm() -> None:
    """A service's forks outlive it otherwise."""
    forks = "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(subprocess.Popen(['sleep', '600']).pid, flush=True); input()"
    leader = subprocess.Popen(
        [sys.executable, "-c", forks],
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


def test_the_guard_ends_the_sessions_of_a_killed_process(tmp_path: Path) -> None:
    """Whoever is killed cannot clean up; the guard does, and then ends."""
    service = subprocess.Popen(["sleep", "600"], start_new_session=True)
    killed = subprocess.Popen(["sleep", "600"])
    write_session_record(tmp_path / "up.json", [ProcessIdentity.of(service.pid)])
    who = ProcessIdentity.of(killed.pid)
    guard = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "infra.process.sessions",
            str(who.pid),
            str(who.start_ticks),
            str(tmp_path / "up.json"),
        ]
    )
    killed.kill()
    killed.wait()
    assert guard.wait(30) == 0
    wait_until(lambda: service.poll() is not None, awaiting="the service's end", timeout_s=10)
    assert read_session_record(tmp_path / "up.json") == ()
