"""Process identities stay unique, signals reach the right process, children die with parents."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbench.infra.errors import HarnessError
from ackbench.infra.process.processes import (
    ProcessIdentity,
    is_alive,
    is_stopped,
    kill_and_wait,
    send_signal,
    spawn_dying_with_parent,
)
from ackbench.infra.process.sessions import session_members
from ackbench.infra.process.waiting import wait_until

SLEEP = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
PARENT = (
    "import subprocess, sys; from ackbench.infra.process.processes import spawn_dying_with_parent\n"
    "command = [sys.executable, '-c', 'import sys; sys.stdin.read()']\n"
    "child = spawn_dying_with_parent(command, stdin=subprocess.PIPE)\n"
    "print(child.pid, flush=True); sys.stdin.read()"
)

SUPERVISOR = (
    "import os, sys; from ackbench.infra.process.processes import end_with_forking_parent\n"
    "child = os.fork()\n"
    "if child == 0:\n"
    "    os.setpgid(0, 0); print(os.getpid(), end_with_forking_parent(), flush=True)\n"
    "sys.stdin.read()"
)
"""Forks a process with a process group of its own, as Airflow does for a task."""


def _sleeper() -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = spawn_dying_with_parent(
        SLEEP, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.readline() == b"up\n"
    return process


def test_a_process_is_identified_by_pid_and_start_time() -> None:
    """The same pid with another start time is another process, and gets no signal."""
    with _sleeper() as process:
        known = ProcessIdentity.of(process.pid)
        other = ProcessIdentity(known.pid, known.start_ticks + 1)
        assert (known.is_alive(), other.is_alive()) == (True, False)
        assert send_signal(other, signal.SIGKILL) is False
        assert process.poll() is None
        process.kill()


def test_a_process_whose_name_is_not_utf_8_has_an_identity() -> None:
    """Any program may name itself so (PR_SET_NAME), and `ackbench up` looks at all processes."""
    program = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'caf\\xe9) S 1', 0, 0, 0)\n"
        "print('up', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as named:
        assert named.stdout
        assert named.stdout.readline() == b"up\n"
        assert b"caf\xe9" in Path(f"/proc/{named.pid}/stat").read_bytes()
        identity = ProcessIdentity.of(named.pid)
        assert session_members(identity) == (identity,)


def test_a_zombie_is_not_alive() -> None:
    """A child that ended and was not reaped is still in the process table."""
    with _sleeper() as process:
        known = ProcessIdentity.of(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        wait_until(
            lambda: not is_alive(known.pid, known.start_ticks),
            awaiting="the end",
            timeout_s=60,
            every_s=0.01,
        )
        assert Path(f"/proc/{process.pid}").exists()


def test_killing_a_process_that_has_ended_returns_false() -> None:
    """A second clean-up is no error."""
    with _sleeper() as process:
        known = ProcessIdentity.of(process.pid)
        assert kill_and_wait(known) is True
    assert kill_and_wait(known) is False
    with pytest.raises(HarnessError, match="has ended"):
        ProcessIdentity.of(known.pid)


def test_a_stopped_process_is_recognized() -> None:
    """After SIGSTOP each thread is stopped, after SIGCONT none."""
    with _sleeper() as process:
        process.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: is_stopped(process.pid), awaiting="the stop", timeout_s=60, every_s=0.001
        )
        process.send_signal(signal.SIGCONT)
        wait_until(
            lambda: not is_stopped(process.pid),
            awaiting="the process to continue",
            timeout_s=60,
            every_s=0.001,
        )
        process.kill()


def test_a_child_dies_with_its_killed_parent() -> None:
    """SIGKILL gives the parent no chance to end the child: the kernel does."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = ProcessIdentity.of(int(parent.stdout.readline()))
        parent.kill()
        wait_until(
            lambda: not child.is_alive(), awaiting="the child's end", timeout_s=60, every_s=0.01
        )


def test_a_child_lives_on_when_the_thread_that_asked_for_it_has_ended() -> None:
    """A member that a fault starts again outlives the fault, which may have a thread of its own."""
    with ThreadPoolExecutor(1) as threads:
        process = threads.submit(_sleeper).result()
    with process:
        process.send_signal(0)
        assert process.stdin
        assert process.communicate(timeout=30)[0] == b""
        assert process.returncode == 0


def test_a_program_that_does_not_exist_is_an_error_of_the_caller() -> None:
    """As with `subprocess`, and not a child that exits."""
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        spawn_dying_with_parent(["no-such-program"])


def test_a_program_in_a_folder_with_spaces_gets_its_arguments_unchanged(tmp_path: Path) -> None:
    """No shell interprets them."""
    program = tmp_path / "a folder" / "say it"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    program.chmod(0o755)
    process = spawn_dying_with_parent([program, "one two", "*", ""], stdout=subprocess.PIPE)
    assert process.communicate()[0] == b"one two|*||"


def test_a_forked_process_ends_with_its_killed_parent() -> None:
    """A task of Airflow whose worker is killed would run on, as it has its own process group."""
    parent = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert parent.stdout
    pid, ends = parent.stdout.readline().split()
    child = ProcessIdentity.of(int(pid))
    assert ends == b"True"
    os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not child.is_alive(), awaiting="the child's end", timeout_s=60)


def test_a_process_that_another_program_has_started_does_not_end_with_it() -> None:
    """`nohup airflow dags test ... &` outlives its shell."""
    code = (
        "from ackbench.infra.process.processes import end_with_forking_parent\n"
        "print(end_with_forking_parent())"
    )
    started = subprocess.run(
        ["sh", "-c", '"$0" -c "$1"; true', sys.executable, code],
        capture_output=True,
        check=True,
        text=True,
    )
    assert started.stdout == "False\n"
