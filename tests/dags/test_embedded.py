"""The process that `ackbench run` starts: its exit code and the last line of its output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.modes import accessible_to_others

from ackbench.infra.airflow.environment import airflow_environment, embedded_database
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

FAKE_RUN = Path(__file__).parents[1] / "support" / "fakes" / "embedded_run.py"
LIMIT_S = 280
"""Less than pytest's own limit of a test: three trials took over two minutes on a busy machine."""


@contextmanager
def started(home: Path, mode: str, umask: int = 0o022) -> Iterator[subprocess.Popen[str]]:
    """Start a run of three trials; it is killed at the end if it runs still."""
    environment = {**os.environ, "ACKBENCH_HOME": str(home)}
    with subprocess.Popen(
        [sys.executable, str(FAKE_RUN), mode],
        env=environment,
        umask=umask,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            yield run
        finally:
            run.kill()  # no effect on one that has ended


@pytest.fixture
def home(airflow: Home, tmp_path: Path) -> Path:
    """Return a home with a copy of the session's empty database: creating one takes seconds."""
    (tmp_path / "airflow").mkdir()
    for empty in airflow.airflow.glob("empty-*.db"):
        (tmp_path / "airflow" / empty.name).write_bytes(empty.read_bytes())
    return tmp_path


def executed_steps(home: Path) -> list[str]:
    """Return the steps that the run executed, in order."""
    return (home / "steps").read_text().splitlines()


@pytest.mark.further
@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_a_successful_run_leaves_no_database_and_nothing_that_others_can_read(
    home: Path, umask: int
) -> None:
    """Whatever the umask. What is there already becomes private."""
    home.chmod(0o755)
    with started(home, "completes", umask) as run:
        output, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, output
    assert not (home / "airflow" / "embedded").exists()
    assert accessible_to_others(home) == {}


def test_the_logs_of_a_schedulers_tasks_are_private(tmp_path: Path) -> None:
    """Airflow sets the permissions of these folders and files itself, whatever the umask."""
    home = Home(tmp_path / "home")
    program = "from airflow.sdk.log import init_log_file; init_log_file('dag/run/task/1.log')"
    subprocess.run(
        [sys.executable, "-c", program], env=airflow_environment(home), umask=0o077, check=True
    )
    assert list(home.logs.rglob("1.log"))
    assert accessible_to_others(home.root) == {}


@pytest.mark.further
def test_a_failed_run_exits_with_1_and_prints_the_first_failure_last(home: Path) -> None:
    """The later failures followed from it."""
    with started(home, "fails") as run:
        output, _ = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 1
    assert output.splitlines()[-1] == "trial: trial 001-abcdef (acks=1 number=1): node 3 died"


@pytest.mark.further
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_the_trial_and_runs_only_the_teardown(
    home: Path, number: signal.Signals
) -> None:
    """Airflow swallows SIGTERM, and would start the next trial after SIGINT."""
    with started(home, "hangs") as run:
        wait_until((home / "under-way").exists, awaiting="the second trial", timeout_s=LIMIT_S)
        run.send_signal(number)
        output, _ = run.communicate(timeout=LIMIT_S)
    assert (run.returncode, output.splitlines()[-1]) == (1, "interrupted")
    assert [step for step in executed_steps(home) if step != "destroy"] == [
        "provision",
        "trial 000-abcdef",
        "trial 001-abcdef",
    ]
    assert executed_steps(home)[-1] == "destroy"
    assert output.count("starting task_id=trial") == len(["000-abcdef", "001-abcdef"])


def test_the_database_of_a_killed_run_is_deleted_by_the_next_run(home: Path) -> None:
    """It is neither kept nor reused."""
    remains = home / "airflow" / "embedded" / "airflow.db-wal"
    remains.parent.mkdir()
    remains.touch()
    with embedded_database(Home(home)) as database:
        assert database.is_file()
        assert not remains.exists()
