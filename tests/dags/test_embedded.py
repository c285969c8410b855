"""The process that `ackbench run` starts: how it ends, and what it says last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.orchestration.environment import embedded_database
from infra.machine.home import Home
from infra.process.waiting import wait_until

STAND_IN = Path(__file__).parents[1] / "support" / "fakes" / "embedded_run.py"


def start(home: Path, mode: str) -> subprocess.Popen[str]:
    """Start a run of three trials, in a home whose database is there already."""
    environment = {**os.environ, "ACKBENCH_HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, str(STAND_IN), mode],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def home(airflow: Home, tmp_path: Path) -> Path:
    """A home that another one's empty database was copied to: making it takes seconds."""
    (tmp_path / "airflow").mkdir()
    for empty in airflow.airflow.glob("empty-*.db"):
        (tmp_path / "airflow" / empty.name).write_bytes(empty.read_bytes())
    return tmp_path


def did(home: Path) -> list[str]:
    """Return what was done in the run's world, in order."""
    return (home / "did").read_text().splitlines()


def test_a_run_that_succeeds_ends_with_0_and_leaves_no_database(home: Path) -> None:
    """A database that stays would be somebody's to clean."""
    run = start(home, "ends")
    run.communicate(timeout=120)
    assert run.returncode == 0
    assert not (home / "airflow" / "embedded").exists()


def test_a_run_that_fails_ends_with_1_and_says_last_what_failed_first(home: Path) -> None:
    """What failed later followed from it."""
    run = start(home, "fails")
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 1
    assert said.splitlines()[-1] == "trial: trial 001-abcdef (acks=1 number=1): node 3 died"


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_trial_under_way_begins_nothing_and_tears_down(
    home: Path, asked: signal.Signals
) -> None:
    """Airflow swallows SIGTERM, and would begin the next trial after SIGINT."""
    run = start(home, "hangs")
    wait_until((home / "under-way").exists, awaiting="the second trial", timeout_s=120)
    run.send_signal(asked)
    said, _ = run.communicate(timeout=120)
    assert (run.returncode, said.splitlines()[-1]) == (1, "interrupted")
    assert [step for step in did(home) if step != "destroy"] == [
        "provision",
        "trial 000-abcdef",
        "trial 001-abcdef",
    ]
    assert did(home)[-1] == "destroy"


def test_what_a_killed_run_left_is_gone_at_the_next(home: Path) -> None:
    """A killed run's database does not stay, and is not gone on with."""
    left = home / "airflow" / "embedded" / "airflow.db-wal"
    left.parent.mkdir()
    left.touch()
    with embedded_database(Home(home)) as database:
        assert database.is_file()
        assert not left.exists()
