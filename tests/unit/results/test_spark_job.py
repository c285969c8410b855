"""The measuring job as a process: who interrupts it leaves nothing of it behind."""

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from experiments.results import spark_job
from infra.errors import WaitTimeout
from infra.machine.home import Home
from infra.process.waiting import wait_until


@pytest.fixture
def job_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the job's words go; the stand-in for it is found."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return Home(tmp_path).logs / "setup" / "job.log"


def test_an_interrupted_measuring_asks_the_job_to_end(tmp_path: Path, job_log: Path) -> None:
    """It alone can end its JVM, so it is not killed before it did."""
    with _interrupted_once_it_runs(job_log), pytest.raises(KeyboardInterrupt):
        spark_job._run("support.fakes.measuring_job", [], Home(tmp_path), "setup/job", [])
    assert job_log.read_text().splitlines()[1:] == ["asked to end"]


def test_a_job_that_does_not_listen_is_killed(
    tmp_path: Path, job_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever interrupts waits for it only so long."""
    monkeypatch.setattr(spark_job, "_END_S", 0.0)
    with _interrupted_once_it_runs(job_log), pytest.raises(KeyboardInterrupt):
        spark_job._run("support.fakes.measuring_job", ["deaf"], Home(tmp_path), "setup/job", [])
    (told,) = job_log.read_text().splitlines()
    assert not Path("/proc", told.removeprefix("pid ")).exists()


@contextmanager
def _interrupted_once_it_runs(job_log: Path) -> Iterator[None]:
    """Send SIGINT to this thread, as Ctrl-C would, once the job tells that it runs and this thread waits for it: the one may come before the other."""
    this = threading.get_ident()

    def is_awaited() -> bool:
        here = sys._current_frames()[this]
        return any(frame.f_code.co_name == "wait" for frame, _ in traceback.walk_stack(here))

    def interrupt() -> None:
        with suppress(WaitTimeout):  # then the job's words are missed
            wait_until(
                lambda: job_log.exists() and job_log.read_text().endswith("\n") and is_awaited(),
                awaiting="the job",
                timeout_s=60,
                every_s=0.01,
            )
        signal.pthread_kill(this, signal.SIGINT)

    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # where the tests run in the background, it is ignored
    beside = threading.Thread(target=interrupt)
    beside.start()
    try:
        yield
    finally:
        beside.join()
        signal.signal(signal.SIGINT, before)
