"""One of Kafka's programs is held until it is let go, and its settings lie on no disk; any program will do to show it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments.clients.java.program import JavaProgram
from infra.errors import HarnessError

TELLS = "import sys; print(open(sys.argv[2]).read(), flush=True); sys.stdin.read()"
STAYS = "import sys, signal; print(open(sys.argv[2]).read(), flush=True); signal.pause()"


def program(folder: Path, code: str) -> JavaProgram:
    """A program in Python that is told where its settings are as Kafka's are."""
    return JavaProgram(
        "producer 0",
        [sys.executable, "-c", code],
        "--command-config",
        {"acks": "all", "ssl.key.password": "se cret"},
        folder,
    )


def test_a_program_waits_for_its_settings_and_then_has_all_of_them(tmp_path: Path) -> None:
    """And nothing of them is left in the folder but what it wrote itself."""
    with program(tmp_path, TELLS) as held:
        held.wait_held()
        assert held.output.read_text() == ""
        held.let_go()
        held.wait_ended(30)
    assert held.output.read_text() == "acks=all\nssl.key.password=se cret\n\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["producer-0.log", "producer-0.out"]


def test_a_program_that_ends_before_it_asks_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """As with a command line that it does not take."""
    with (
        program(tmp_path, "import sys; sys.exit('unrecognized arguments')") as held,
        pytest.raises(HarnessError, match="unrecognized arguments"),
    ):
        held.wait_held()


def test_a_program_that_ends_with_an_error_is_one(tmp_path: Path) -> None:
    """After it was let go."""
    with program(
        tmp_path, "import sys; open(sys.argv[2]).read(); sys.exit('ConfigException: no')"
    ) as held:
        held.wait_held()
        held.let_go()
        with pytest.raises(
            HarnessError, match="producer 0 ended with code 1; its last words: ConfigException: no"
        ):
            held.wait_ended(30)


@pytest.mark.parametrize("let_go", [True, False])
def test_a_program_ends_with_its_context_for_certain(tmp_path: Path, *, let_go: bool) -> None:
    """Held or at work; its FIFO goes with it."""
    with program(tmp_path, STAYS) as running:
        running.wait_held()
        if let_go:
            running.let_go()
    assert running.has_ended()
    assert not running.has_ended_well()
    assert not (tmp_path / "producer-0.settings").exists()
