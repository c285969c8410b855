"""Spark's JVM as a child process: an interrupt while it starts leaves none behind."""

import os
import signal
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ackbench.experiments.ledger.spark_settings import SparkSetupError
from ackbench.infra.process.waiting import wait_until
from ackbench.spark_jobs import rehearse, session
from ackbench.spark_jobs.configuration import ContextRequest
from ackbench.spark_jobs.limits import StepLimit
from ackbench.spark_jobs.session import spark_context


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
            timeout_s=60,
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


def test_a_jvm_that_does_not_exit_is_killed_and_is_one_line() -> None:
    """On a busy machine: a training JVM writes its cache at its exit."""
    with subprocess.Popen(["sleep", "1000"], stdin=subprocess.PIPE) as process:
        gateway: Any = SimpleNamespace(proc=process, shutdown=lambda: None)
        message = "^the exit of Spark's JVM was not done after 0 s, its limit"
        with pytest.raises(SparkSetupError, match=message) as raised:
            session._stop(gateway, None, StepLimit(0.1, "a test"))
        assert process.wait(20) == -signal.SIGKILL
    assert "\n" not in str(raised.value)


def test_the_reason_of_a_jvm_that_did_not_start_is_not_that_it_had_no_start_up_cache(
    tmp_path: Path,
) -> None:
    """It starts without one, and says so first."""
    log = tmp_path / "spark.log"
    log.write_text(
        "[0.1s][error  ][aot] An error has occurred while processing the AOT cache.\n"
        "Exception in thread main: Unexpected EOF in core-site.xml\n"
    )
    assert session._first_error(log, 0) == log.read_text().splitlines()[1]


def test_a_rehearsal_that_fails_in_spark_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Set-up shows it without a traceback."""

    def fail(*_: object) -> None:
        raise SparkSetupError("the machine is too busy")

    monkeypatch.setattr(rehearse, "measure", fail)
    assert rehearse.main([]) == 2
    assert capsys.readouterr().err == "spark: the machine is too busy\n"


def test_a_refusal_of_java_s_has_the_message_of_its_root() -> None:
    """That of Kubernetes' client alone is "An error has occurred."."""

    def java(text: str, cause: object = None) -> Any:
        return SimpleNamespace(
            getMessage=lambda: text, toString=lambda: f"java.X: {text}", getCause=lambda: cause
        )

    for error, message in (
        (
            java("An error has occurred.", java("refused\nmore")),
            "An error has occurred. (java.X: refused)",
        ),
        (java("too large\nmore"), "too large"),
        (java("cannot run: no x", java("no x")), "cannot run: no x"),
    ):
        raised = Exception("at a.b")
        raised.java_exception = error  # type: ignore[attr-defined]  # as py4j's has it
        assert session._message(raised) == message
    assert session._message(Exception("first\nsecond")) == "first"
