"""A program may be a script that starts the client: what it starts ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ackbench.experiments.trial.clients.process.session_process import SessionProcess
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.processes import is_alive, read_stat
from ackbench.infra.process.waiting import wait_until

SCRIPT = 'sleep 600 & echo $! > "$0"; {}'
"""A shell that has a child; then it does something else."""
OWNER = """
import os, pathlib, signal, sys
from ackbench.experiments.trial.clients.process.session_process import SessionProcess
folder = pathlib.Path(sys.argv[1])
command = ["sh", "-c", sys.argv[2], str(folder / "child")]
SessionProcess("owned", command, os.environ, folder / "log")
print("started", flush=True)
signal.pause()
"""


def started(folder: Path, then: str = "wait") -> SessionProcess:
    """Return a shell that has started a child and written its pid."""
    command = ["sh", "-c", SCRIPT.format(then), str(folder / "child")]
    return SessionProcess("script", command, os.environ, folder / "log")


def wait_for_child(folder: Path) -> int:
    """Wait until a shell has written the pid of its child, and return it."""
    path = folder / "child"
    wait_until(
        lambda: path.exists() and path.read_text().strip(),
        awaiting="the pid of the child",
        timeout_s=20,
    )
    return int(path.read_text())


def wait_until_gone(pid: int) -> None:
    """Wait until a child has ended."""
    stat = read_stat(Path("/proc", str(pid)))
    if stat is not None:
        wait_until(lambda: not is_alive(pid, stat.start_ticks), awaiting="its end", timeout_s=20)


@pytest.mark.parametrize("then", ["wait", "exit 0"], ids=["running", "exited"])
def test_what_a_program_has_forked_is_killed_with_it(tmp_path: Path, then: str) -> None:
    """Also when the program itself has exited before."""
    program = started(tmp_path, then)
    if then != "wait":
        assert program.wait(20)
    child = wait_for_child(tmp_path)
    program.kill()
    wait_until_gone(child)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["child", "log"]


def test_what_a_program_has_forked_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    """The kernel kills the program only; its session is guarded."""
    owner = subprocess.Popen(
        [sys.executable, "-P", "-c", OWNER, str(tmp_path), SCRIPT.format("wait")],
        stdout=subprocess.PIPE,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"started\n"
    child = wait_for_child(tmp_path)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    wait_until_gone(child)


def test_a_program_that_has_exited_is_no_program_to_pause(tmp_path: Path) -> None:
    """With the end of its log."""
    program = started(tmp_path, "echo no memory >&2; exit 3")
    assert program.wait(20)
    with pytest.raises(HarnessError, match=r"script exited with status 3; .*no memory"):
        program.pause()
    program.kill()
    assert program.exit_code() == 3
    assert not program.was_ended
