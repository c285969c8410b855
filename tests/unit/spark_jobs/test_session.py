"""Spark's JVM as a child process: an interrupt while it starts leaves none behind."""

import os
import signal
import threading
from pathlib import Path

import psutil
import pytest

from infra.process.waiting import wait_until
from spark_jobs.configuration import ContextRequest
from spark_jobs.session import spark_context


def test_an_interrupt_while_the_jvm_starts_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark itself would leave the process that it waits for."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\nexec sleep 1000\n")
    submit.chmod(0o700)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    before, started = psutil.Process().children(), list[psutil.Process]()

    def interrupt() -> None:
        wait_until(
            lambda: [p for p in psutil.Process().children() if p.name() == "sleep"],
            awaiting="Spark's script to run",
            timeout_s=20,
        )
        started.extend(p for p in psutil.Process().children() if p not in before)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    request = ContextRequest(tmp_path / "work", tmp_path / "spark.log", "local[1]")
    with pytest.raises(KeyboardInterrupt), spark_context(request):
        pass
    thread.join()
    assert started
    assert not any(process.is_running() for process in started)
