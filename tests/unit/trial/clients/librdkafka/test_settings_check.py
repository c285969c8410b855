"""librdkafka is asked about settings in a process that has nothing to lose."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ackbench.experiments.planning.clients.rules import librdkafka_rules
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.trial.clients.librdkafka import settings_check
from ackbench.experiments.trial.clients.librdkafka.library_file import library_path
from ackbench.experiments.trial.clients.librdkafka.settings_check import SettingsCheck, refusal

AskFirst = Callable[[SettingsCheck | None], None]
READ = "import os, socket; asking = socket.socket(fileno=0); asking.recv(1);"


def check(code: str, timeout_s: float = 20) -> SettingsCheck:
    """Return a check that asks a Python program instead of librdkafka."""
    return SettingsCheck([sys.executable, "-I", "-S", "-c", READ + code], timeout_s)


@pytest.fixture
def ask_first(monkeypatch: pytest.MonkeyPatch) -> Iterator[AskFirst]:
    """Return a function that sets which process is asked; the last one is ended."""
    checks = dict[Path, SettingsCheck]()
    monkeypatch.setattr(settings_check, "_checks", checks)
    yield partial(checks.__setitem__, library_path())
    if last := checks.get(library_path()):
        last.close()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.abort()", "librdkafka exited by SIGABRT"),
        ("os.kill(os.getpid(), 11)", "librdkafka exited by SIGSEGV"),
        ("os._exit(3)", "librdkafka exited with status 3"),
    ],
)
def test_a_crash_of_the_library_is_a_reason(code: str, reason: str) -> None:
    """It ends one process, not ackbench."""
    asked = check(code)
    assert asked.refusal({"linger.ms": "5"}) == reason
    assert not asked.is_usable()


def test_settings_that_the_library_never_returns_from_are_refused_after_a_while() -> None:
    """The process is killed."""
    asked = check("import time; time.sleep(600)", timeout_s=0.5)
    assert asked.refusal({"linger.ms": "5"}) == "librdkafka did not answer within 0.5 s"
    assert not asked.is_usable()


@pytest.mark.usefixtures("ask_first")
def test_librdkafka_itself_waits_forever_for_a_fifo_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens a certificate's file as soon as a client with TLS is created."""
    os.mkfifo(tmp_path / "ca.pem")
    monkeypatch.setattr(settings_check, "ANSWER_TIMEOUT_S", 3)
    settings = {"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "ca.pem")}
    assert refusal(settings) == "librdkafka did not answer within 3 s"
    monkeypatch.setattr(settings_check, "ANSWER_TIMEOUT_S", 30)
    assert refusal({"linger.ms": "5"}) is None


def test_after_a_crash_another_process_is_asked(ask_first: AskFirst) -> None:
    """One cell that crashes the library does not decide about the others."""
    ask_first(check("os.abort()"))
    assert refusal({"linger.ms": "5"}) == "librdkafka exited by SIGABRT"
    assert refusal({"linger.ms": "5"}) is None
    assert refusal({"linger.ms": "-3"}) is not None


def test_a_crash_makes_a_refused_cell(ask_first: AskFirst) -> None:
    """The reason is in the plan, as any other reason of the client."""
    rules = librdkafka_rules()
    data = {"name": "x", "title": "t", "question": "q", "axes": {"acks": [0, 1]}, "controls": False}
    ask_first(check("os.abort()"))
    planned = plan(parse_experiment(data, "x"), "x-1", rules)
    assert [cell.reason for cell in planned.refused] == ["librdkafka exited by SIGABRT"]
    assert len(planned.trials) == 1


def test_the_process_has_no_environment_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets a placeholder for each reference, and opens no key that a secret protects."""
    monkeypatch.setenv("ACKBENCH_TEST_SECRET", "correct horse")
    asked = check(
        "asking.recv(9000); names = ' '.join(sorted(os.environ)).encode();"
        "asking.sendall(b'\"' + names + b'\"\\n')"
    )
    assert set(str(asked.refusal({"linger.ms": "5"})).split()) <= {"PATH", "LC_ALL", "LC_CTYPE"}
    asked.close()
    sent: list[dict[str, str]] = []
    monkeypatch.setattr(SettingsCheck, "refusal", lambda _self, settings: sent.append(settings))
    refusal(
        {
            "security.protocol": "sasl_ssl",
            "sasl.password": "$ACKBENCH_TEST_SECRET",
            "ssl.key.password": "$ACKBENCH_TEST_SECRET",
            "ssl.key.location": "/no/key.pem",
            "bootstrap.servers": "example:9092",
        }
    )
    assert sent == [
        {
            "security.protocol": "sasl_plaintext",
            "sasl.password": "ackbench",
            "ssl.key.password": "ackbench",
            "ssl.key.location": "/no/key.pem",
        }
    ]
