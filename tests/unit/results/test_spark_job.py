"""The Spark job as a process: an interrupt leaves no process behind."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from support.builders.sweep_folders import plant_sweep
from support.command_line import ackbench

from ackbench.experiments.results import spark_job
from ackbench.experiments.sweep.spark_master import (
    MASTER_VARIABLE,
    SETTINGS_VARIABLE,
    spark_arguments,
)
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial


@pytest.fixture
def job_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the job's log, and make the fake job importable."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return Home(tmp_path).logs / "setup" / "job.log"


def test_an_interrupt_sends_sigint_to_the_job(tmp_path: Path, job_log: Path) -> None:
    """Only the job can end its JVM, so it is not killed before it has."""
    with _interrupt_when_running(job_log), pytest.raises(KeyboardInterrupt):
        spark_job._run(
            spark_job._job("support.fakes.measuring_job", [], Home(tmp_path), "setup/job", [])
        )
    assert job_log.read_text().splitlines()[1:] == ["received SIGINT"]


def test_a_job_that_ignores_sigint_is_killed_with_the_processes_below_it(
    tmp_path: Path, job_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for its exit has a limit, and its JVM may not exit by itself."""
    monkeypatch.setattr(spark_job, "_END_S", 0.0)
    with _interrupt_when_running(job_log), pytest.raises(KeyboardInterrupt):
        spark_job._run(
            spark_job._job(
                "support.fakes.measuring_job", ["ignore-sigint"], Home(tmp_path), "setup/job", []
            )
        )
    (line,) = job_log.read_text().splitlines()
    pids = [int(pid) for pid in line.removeprefix("pids ").split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_running, pids)), awaiting="their end", timeout_s=30)


def is_running(pid: int) -> bool:
    """Return whether a process runs: it has not ended, and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def _interrupt_when_running(job_log: Path) -> Iterator[None]:
    """Send SIGINT to this thread, as Ctrl-C does, once the job runs and this thread waits for it.

    Either can be the first.
    """
    this = threading.get_ident()

    def is_awaited() -> bool:
        here = sys._current_frames()[this]
        return any(frame.f_code.co_name == "wait" for frame, _ in traceback.walk_stack(here))

    def interrupt() -> None:
        with suppress(WaitTimeout):  # then the assertions on the log fail
            wait_until(
                lambda: job_log.exists() and job_log.read_text().endswith("\n") and is_awaited(),
                awaiting="the job",
                timeout_s=60,
                every_s=0.01,
            )
        signal.pthread_kill(this, signal.SIGINT)

    # SIGINT is ignored if the tests run in the background.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        signal.signal(signal.SIGINT, handler)


def test_master_and_settings_of_the_command_line_reach_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's own line is the command's error: one line, exit code 2, no results."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    for variable in (MASTER_VARIABLE, SETTINGS_VARIABLE):
        monkeypatch.setenv(variable, "")  # restored after the test
    sweep = plant_sweep(Home(tmp_path), PlantedTrial("000-planted", [PlantedAttempt(0, 0)]))
    command = ("measure", sweep.sweep_id, "--master", "mesos://host", "--conf", "spark.a=1")
    refused = ackbench(*command)
    assert refused.exit_code == 2
    assert refused.output.startswith("ackbench: master mesos://host: Spark has no such master")
    assert len(refused.output.splitlines()) == 1
    assert not sweep.results.exists()
    assert os.environ[MASTER_VARIABLE] == "mesos://host"  # as a DAG's tasks inherit it
    assert spark_arguments() == ["--master=mesos://host", "--conf=spark.a=1"]


@pytest.mark.parametrize("setting", ["spark.a", "executor.memory=2g"])
@pytest.mark.parametrize("command", [("run", "quick"), ("measure", "quick")])
def test_a_setting_of_another_form_is_refused_before_anything_starts(
    command: tuple[str, str], setting: str
) -> None:
    """The message has the setting and an example."""
    refused = ackbench(*command, "--conf", setting)
    assert refused.exit_code == 2
    assert refused.output.startswith(
        f"ackbench: --conf {setting}: give Spark's settings as key=value"
    )
