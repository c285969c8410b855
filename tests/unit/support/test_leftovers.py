"""A test that leaves something in its process fails by name, and the next one does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.leftovers import command_of

TESTS = """
import logging, os, signal, subprocess, sys, tempfile, threading
import pytest

KEPT = []

@pytest.fixture(scope="module")
def shared():
    child = subprocess.Popen(["sleep", "20"])
    yield
    child.kill()
    child.wait()

@pytest.fixture(scope="module")
def variable_of_the_file():
    os.environ["SHARED"] = "1"
    yield
    del os.environ["SHARED"]

def test_clean(shared, variable_of_the_file, tmp_path, monkeypatch):
    monkeypatch.setenv("CLEAN", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("closed")
    threading.Thread(target=int).start()

def test_variable(): os.environ["LEFT"] = "1"
def test_removed_variable(): del os.environ["PLANTED"]
def test_folder(tmp_path): os.chdir(tmp_path)
def test_mask(): os.umask(0o027)
def test_signal(): signal.signal(signal.SIGUSR1, signal.SIG_IGN)
def test_path(): sys.path.append("/left")
def test_logging(): logging.getLogger().setLevel(logging.DEBUG)
def test_thread(): threading.Thread(target=threading.Event().wait, daemon=True).start()
def test_child(): KEPT.append(subprocess.Popen(["sleep", "20"]))
def test_zombie(): KEPT.append(subprocess.Popen(["true"]))
def test_open_file(tmp_path): KEPT.append((tmp_path / "file").open("w"))
def test_temporary_file(): KEPT.append(tempfile.mkdtemp())
"""
OTHER_FILE = """
import os
import pytest

@pytest.fixture(scope="session")
def shared():
    os.environ["SHARED_BY_ALL"] = "1"

def test_fixture(shared): ...
"""
PYTEST = (sys.executable, "-m", "pytest", "-q")
LEFT = {
    "variable": "environment LEFT: 'absent' -> '1'",
    "fixture": "a fixture of the file does not leave what it found:\nenvironment SHARED_BY_ALL: ",
    "removed_variable": "environment PLANTED: 'yes' -> 'absent'",
    "folder": "working folder",
    "mask": "mask of new files",
    "signal": "handler of signal SIGUSR1",
    "path": "Python's path /left",
    "logging": "root logger level: 30 -> 10",
    "thread": "thread",
    "child": "child process",
    "zombie": "ended, and not waited for",
    "open_file": "open file",
    "temporary_file": "temporary file",
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run the tests, in a random order; return what pytest prints about errors."""
    folder = tmp_path_factory.mktemp("left")
    (folder / "test_it.py").write_text(TESTS)
    (folder / "test_other.py").write_text(OTHER_FILE)
    (folder / "temporary").mkdir()
    variables = {
        "PYTHONPATH": f"{Path(__file__).parents[2]}:{Path(__file__).parents[3]}",
        "PLANTED": "yes",
        "TMPDIR": str(folder / "temporary"),
    }
    done = subprocess.run(
        [*PYTEST, "-p", "support.leftovers", "-o", "leftovers_end_s=2", "."],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_is_named_with_the_test(output: str, name: str) -> None:
    """The message has the kind, and what was there before."""
    message = output.split(f"ERROR at teardown of test_{name} ")[1].split("ERROR at", maxsplit=1)[0]
    assert LEFT[name] in message


def test_a_test_that_cleans_up_and_one_after_another_pass(output: str) -> None:
    """A process of a module's fixture may stay; what another test left is not reported again."""
    failed = set(re.findall(r"ERROR test_\w+.py::test_(\w+)", output))
    assert failed == set(LEFT)
    assert f"{len(LEFT) + 1} passed" in output


def test_a_process_that_runs_another_program_has_not_ended(tmp_path: Path) -> None:
    """In the midst of execve(2) it has no command line; one in a hundred looks met that."""
    script = tmp_path / "again"
    script.write_text(f"exec /bin/sh {script}\n")
    with subprocess.Popen(["/bin/sh", script]) as process:
        try:
            seen = {command_of(Path("/proc", str(process.pid))) for _ in range(2_000)}
        finally:
            process.kill()
    assert "" not in seen
    assert any(str(script) in command for command in seen)
