"""Two processes and one sweep, or one machine: a run, a task of a scheduler, `measure`, `clean`.

One of each pair is a real process, which ends by Ctrl-C or `kill -9`; it does no work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.command_line import ackbench
from support.fakes.infrastructure import FakeInfrastructure
from support.golden_files import Says
from support.tiers import pairs

from ackbench.experiments.orchestration import services, step_context, steps, trials
from ackbench.experiments.results import spark_job
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import (
    SCHEDULER_VARIABLE,
    SweepInUse,
    SweepLock,
    TaskLock,
    read_run_record,
    record_path,
)
from ackbench.infra.machine.home import Home
from ackbench.infra.process import load_lock
from ackbench.infra.process.processes import ProcessIdentity

pytestmark = pytest.mark.usefixtures("own_process")  # tasks expect one
RUNNER = Path(__file__).parents[2] / "support" / "fakes" / "sweep_runner.py"
KINDS = ("command", "task", "measure")
ENDINGS = (signal.SIGINT, signal.SIGKILL)
Runner = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return the home of the commands."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(load_lock, "COMMAND_MAX_WAIT_S", 0.2)
    return Home(tmp_path)


@pytest.fixture
def sweep(home: Home) -> SweepFolder:
    """Return a sweep with a partial trial."""
    sweep = FakeInfrastructure(home).sweep(2)
    sweep.partial("001-abcdef").mkdir()
    return sweep


@pytest.fixture
def run(sweep: SweepFolder) -> Iterator[Runner]:
    """Return a function that starts a process of a kind for the sweep; kill it at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(kind: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(RUNNER), kind, sweep.sweep_id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **variables},
            text=True,
        )
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """End a process by a signal."""
    process.send_signal(number)
    process.wait(30)


def is_locked(home: Home, sweep: SweepFolder) -> bool:
    """Return whether a command is refused the sweep."""
    try:
        with SweepLock(home, sweep):
            return False
    except SweepInUse:
        return True


@pytest.mark.parametrize(("kind", "number"), pairs(["command", "measure"], ENDINGS))
def test_a_second_run_is_refused_by_name_until_the_first_has_ended(
    home: Home,
    sweep: SweepFolder,
    run: Runner,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    number: signal.Signals,
) -> None:
    """At once, and whichever of the two is a scheduler's."""
    process = run(kind)
    refused = ackbench("run", "--resume", sweep.sweep_id)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"ackbench: sweep {sweep.sweep_id} is being run by process {process.pid}: "
        "wait until it ends or stop it\n"
    )
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "dag")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "one")
    monkeypatch.setattr(step_context, "end_with_forking_parent", lambda: False)
    with pytest.raises(SweepInUse, match=f"by process {process.pid}"):
        steps.plan_sweep({"experiment": "quick", "sweep_id": sweep.sweep_id})
    with pytest.raises(SweepInUse, match=f"by process {process.pid}"):
        trials.run_next_trial(sweep.sweep_id, print)
    assert sweep.activity() is None
    end(process, number)
    assert not is_locked(home, sweep)


def test_a_run_is_refused_while_a_scheduler_runs_the_sweep(
    home: Home, sweep: SweepFolder, run: Runner
) -> None:
    """During a task and between two tasks; the tasks of the same DAG run share it."""
    process = run("task")
    for other in (SweepLock(home, sweep), TaskLock(home, sweep, "dag/two", 1)):
        with (
            pytest.raises(SweepInUse, match=rf"Airflow's run dag/one \(process {process.pid}\)"),
            other,
        ):
            pytest.fail("two runners of a sweep")
    with TaskLock(home, sweep, "dag/one", step_context.TASK_START_GRACE_S):
        end(process, signal.SIGINT)
    refused = ackbench("run", "--resume", sweep.sweep_id)
    assert "is being run by Airflow's run dag/one (between two tasks)" in refused.stderr
    with TaskLock(home, sweep, "dag/one", grace_s=0):
        assert is_locked(home, sweep)
    assert not is_locked(home, sweep)


def test_the_lock_of_a_killed_task_is_free(home: Home, sweep: SweepFolder, run: Runner) -> None:
    """Nobody writes to the sweep; its cluster is kept as long as its grace lasts."""
    end(run("task"), signal.SIGKILL)
    assert not is_locked(home, sweep)


@pytest.mark.further(number=[signal.SIGINT])
@pytest.mark.parametrize("number", ENDINGS)
def test_a_lock_between_two_tasks_ends_with_the_services(
    home: Home, sweep: SweepFolder, run: Runner, number: signal.Signals
) -> None:
    """Whether `ackbench up` is stopped or killed: no scheduler starts the next task."""
    with subprocess.Popen(["sleep", "600"]) as up:
        identity = ProcessIdentity.of(up.pid)
        ticks = f"{identity.pid} {identity.start_ticks}"
        end(run("task", **{SCHEDULER_VARIABLE: ticks}), signal.SIGINT)
        assert is_locked(home, sweep)
        up.send_signal(number)
    assert not is_locked(home, sweep)


def test_the_services_end_the_locks_of_their_own_tasks(
    home: Home, sweep: SweepFolder, run: Runner
) -> None:
    """And no lock of another scheduler that uses the home."""
    end(run("task"), signal.SIGINT)
    services._end_runs(home)
    assert is_locked(home, sweep)
    own = ProcessIdentity.own()
    record = read_run_record(record_path(home, sweep.sweep_id))
    assert record
    record_path(home, sweep.sweep_id).write_text(
        record.model_copy(update={"scheduler": own}).model_dump_json()
    )
    services._end_runs(home)
    assert not is_locked(home, sweep)


@pytest.mark.further("task")
@pytest.mark.parametrize("kind", KINDS)
def test_clean_skips_a_sweep_that_a_process_holds(
    sweep: SweepFolder, run: Runner, kind: str
) -> None:
    """It names the process; after `kill -9` of that process it removes what is left."""
    process = run(kind)
    kept = ackbench("clean")
    assert kept.exit_code == 0
    assert kept.stdout.startswith(f"kept: the run of {sweep.sweep_id} (")
    assert f"process {process.pid}" in kept.stdout
    assert sweep.partial("001-abcdef").is_dir()
    refused = ackbench("clean", "--sweep", sweep.sweep_id)
    assert (refused.exit_code, f"process {process.pid}" in refused.stderr) == (2, True)
    end(process, signal.SIGKILL)
    assert f"removed unfinished trial 001-abcdef of {sweep.sweep_id}" in ackbench("clean").stdout
    assert not sweep.partial("001-abcdef").exists()
    assert ackbench("clean").stdout == "nothing to clean\n"


def test_clean_skips_a_sweep_between_two_tasks(
    says: Says, home: Home, sweep: SweepFolder, run: Runner
) -> None:
    """With `--force` it ends the run: the next task starts no trial."""
    end(run("task"), signal.SIGINT)
    assert "(Airflow's run dag/one (between two tasks)) is in progress" in ackbench("clean").stdout
    assert sweep.partial("001-abcdef").is_dir()
    assert "removed unfinished trial" in ackbench("clean", "--force").stdout
    says(sweep.stop_reason.read_text())
    assert not is_locked(home, sweep)


@pytest.mark.further("task")
@pytest.mark.parametrize("kind", KINDS)
def test_clean_with_force_ends_a_run(sweep: SweepFolder, run: Runner, kind: str) -> None:
    """Its process is killed before anything of it is removed."""
    process = run(kind)
    cleaned = ackbench("clean", "--force")
    assert process.wait(30) == -signal.SIGKILL
    assert "removed unfinished trial 001-abcdef" in cleaned.stdout
    assert not sweep.partial("001-abcdef").exists()


@pytest.mark.parametrize(("kind", "number"), pairs(KINDS, ENDINGS))
def test_measuring_another_sweep_waits_for_a_run_and_names_it(
    home: Home, run: Runner, monkeypatch: pytest.MonkeyPatch, kind: str, number: signal.Signals
) -> None:
    """Spark would take the cores of the trial; the same sweep is refused, as above."""
    measured: list[str] = []
    monkeypatch.setattr(
        spark_job, "measure", lambda sweep, _home, **_options: measured.append(sweep.sweep_id)
    )
    other = FakeInfrastructure(home).sweep(1, "planted-20260102T000000-abcd")
    process = run(kind)
    waited = ackbench("measure", other.sweep_id)
    assert waited.exit_code == 1
    assert waited.stderr.startswith("waiting for the machine lock, held by ")
    assert f"(process {process.pid}, started " in waited.stderr
    assert measured == []
    end(process, number)
    monkeypatch.setattr(load_lock, "COMMAND_MAX_WAIT_S", 20)
    ackbench("measure", other.sweep_id)
    assert measured == [other.sweep_id]


@pytest.mark.further("task")
@pytest.mark.parametrize("kind", KINDS)
def test_measuring_a_sweep_that_runs_is_refused(sweep: SweepFolder, run: Runner, kind: str) -> None:
    """Its run measures it at its end, and both would write the same results."""
    process = run(kind)
    refused = ackbench("measure", sweep.sweep_id)
    assert (refused.exit_code, f"process {process.pid}" in refused.stderr) == (2, True)
