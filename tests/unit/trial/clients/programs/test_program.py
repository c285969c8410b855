"""A client's program blocks until it gets its settings, which are on no disk; shown with Python."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.dying import kill_child

from ackbench.experiments.trial.clients.programs.command import CommandDialect
from ackbench.experiments.trial.clients.programs.program import VerifiableProgram
from ackbench.infra.errors import HarnessError

PRINTS = "import sys; print(open(sys.argv[-1]).read(), flush=True); sys.stdin.read()"
WAITS = "import sys, signal; print(open(sys.argv[-1]).read(), flush=True); signal.pause()"


def program(folder: Path, code: str) -> VerifiableProgram:
    """Return a Python program that gets the name of its properties file as Kafka's programs do."""
    return VerifiableProgram(
        "producer 0",
        CommandDialect("ours", [sys.executable, "-c", code]),
        "producer",
        [],
        {"acks": "all"},
        {"ssl.key.password": "se cret"},
        folder,
    )


def test_a_program_blocks_until_it_gets_all_its_settings(tmp_path: Path) -> None:
    """The folder contains nothing of the settings except what the program wrote."""
    with program(tmp_path, PRINTS) as started:
        started.wait_started()
        assert started.output.read_text() == ""
        started.send_settings()
        started.wait_for_exit(30)
    assert started.output.read_text() == "acks=all\nssl.key.password=se cret\n\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["producer-0.log", "producer-0.out"]


def test_a_program_gets_the_values_of_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read from the environment when the program starts, and are on no disk."""
    monkeypatch.setenv("ACKBENCH_TEST_SECRET", "correct horse")
    settings = {"ssl.key.password": "$ACKBENCH_TEST_SECRET", "client.rack": "$HOME"}
    with VerifiableProgram(
        "producer 0",
        CommandDialect("ours", [sys.executable, "-c", PRINTS]),
        "producer",
        [],
        settings,
        {},
        tmp_path,
    ) as started:
        started.wait_started()
        started.send_settings()
        started.wait_for_exit(30)
    assert started.output.read_text() == "ssl.key.password=correct horse\nclient.rack=$HOME\n\n"


def test_an_exit_before_the_settings_is_an_error_with_the_end_of_the_log(tmp_path: Path) -> None:
    """For example, with an invalid command line."""
    with (
        program(tmp_path, "import sys; sys.exit('unrecognized arguments')") as started,
        pytest.raises(HarnessError, match="unrecognized arguments"),
    ):
        started.wait_started()


def test_an_exit_with_an_error_code_is_an_error(tmp_path: Path) -> None:
    """After it got its settings."""
    with program(
        tmp_path, "import sys; open(sys.argv[-1]).read(); sys.exit('ConfigException: no')"
    ) as started:
        started.wait_started()
        started.send_settings()
        with pytest.raises(
            HarnessError,
            match="producer 0 exited with status 1; its log ends with: ConfigException: no",
        ):
            started.wait_for_exit(30)


@pytest.mark.parametrize("send_settings", [True, False])
def test_a_program_is_killed_when_its_context_ends(tmp_path: Path, *, send_settings: bool) -> None:
    """Blocked or running; its FIFO is deleted."""
    with program(tmp_path, WAITS) as running:
        running.wait_started()
        if send_settings:
            running.send_settings()
    assert running.has_exited()
    assert not running.has_succeeded()
    assert not (tmp_path / "producer-0.settings").exists()


def test_a_program_that_was_killed_by_another_one_has_exited_unexpectedly(tmp_path: Path) -> None:
    """With the signal; one that `kill` has ended has not."""
    with program(tmp_path, WAITS) as running:
        running.wait_started()
        assert running.unexpected_exit() is None
        kill_child(str(running.output.with_suffix(".settings")))
        with pytest.raises(HarnessError, match="producer 0 exited by SIGKILL; it wrote nothing"):
            running.wait_for_exit(10)
        assert running.unexpected_exit() == "producer 0 exited by SIGKILL"
    with program(tmp_path, WAITS) as ended:
        ended.wait_started()
        ended.kill()
        assert ended.unexpected_exit() is None


def test_a_program_that_has_exited_with_code_0_has_not_exited_unexpectedly(tmp_path: Path) -> None:
    """Kafka's VerifiableConsumer does so after an error of its client, which it logs."""
    with program(tmp_path, "import sys; open(sys.argv[-1]).read()") as started:
        started.wait_started()
        started.send_settings()
        started.wait_for_exit(30)
        assert started.unexpected_exit() is None
        started.require_not_died()
