"""Processes of this machine: identities that stay unique, and signals that reach the right process.

A pid alone means nothing once its process has ended: the kernel reuses it. A pid together with
the start time (field 22 of /proc/<pid>/stat, proc(5)) is unique until the next boot, and a pidfd
(pidfd_open(2)) refers to one process only.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from ackbench.infra.errors import HarnessError
from ackbench.infra.process.waiting import wait_until

_PARENT_DEATH_SCRIPT: Final = Path(__file__).with_name("parent_death.py")
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_ENDED: Final = frozenset("ZX")
"""States in /proc/<pid>/stat of a process that no longer runs: zombie and dead."""
_STOPPED: Final = frozenset("TtZX")
_STOP_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class ProcessIdentity:
    """One process: its pid may be reused, this pair is not until the next boot."""

    pid: int
    start_ticks: int
    """Field 22 of /proc/<pid>/stat: clock ticks after boot."""

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of the process that has a pid now.

        Raises:
            HarnessError: no process has this pid.
        """
        stat = read_stat(Path("/proc", str(pid)))
        if stat is None:
            raise HarnessError(f"process {pid} has ended")
        return cls(pid, stat.start_ticks)

    @classmethod
    def own(cls) -> ProcessIdentity:
        """Return the identity of this process."""
        return cls.of(os.getpid())

    def is_alive(self) -> bool:
        """Whether the process runs or is stopped; a zombie is not alive."""
        return is_alive(self.pid, self.start_ticks)


class ProcessStat(NamedTuple):
    """The fields of /proc/<pid>/stat that this project needs."""

    state: str
    """Field 3, one letter: `R`, `S`, `T`, `Z`, ..."""
    session: int
    """Field 6: the pid of the process that leads or led its session."""
    major_faults: int
    """Field 12: how often it waited for memory that had to be read from a disk."""
    cpu_ticks: int
    """Fields 14 and 15: the CPU time that all its threads took, those that have ended too."""
    start_ticks: int
    """Field 22."""

    @property
    def has_ended(self) -> bool:
        """Whether it no longer runs: a zombie, or dead."""
        return self.state in _ENDED


def read_stat(folder: Path) -> ProcessStat | None:
    """Return the stat of a process (`/proc/<pid>`) or a thread (`/proc/<pid>/task/<tid>`).

    `None`: it has ended.
    """
    try:
        return parse_stat((folder / "stat").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return None


def parse_stat(content: bytes) -> ProcessStat:
    """Return the fields in the content of a `stat` file.

    The name in field 2 may hold any bytes, with spaces and brackets, so the other fields are
    counted from its last bracket.
    """
    fields = content[content.rindex(b")") + 2 :].split()
    return ProcessStat(
        state=fields[0].decode(),
        session=int(fields[3]),
        major_faults=int(fields[9]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        start_ticks=int(fields[19]),
    )


def is_alive(pid: int, start_ticks: int) -> bool:
    """Whether this process, not a later one with the same pid, runs or is stopped."""
    stat = read_stat(Path("/proc", str(pid)))
    return stat is not None and stat.start_ticks == start_ticks and not stat.has_ended


def is_stopped(pid: int) -> bool:
    """Whether every thread of the process is stopped: SIGSTOP reaches the threads one by one."""
    stats = [read_stat(thread) for thread in Path("/proc", str(pid), "task").glob("*")]
    return bool(stats) and all(stat is None or stat.state in _STOPPED for stat in stats)


def wait_until_stopped(pid: int, name: str) -> None:
    """Wait until SIGSTOP, which was sent, has stopped every thread of a process.

    Raises:
        WaitTimeout: a thread did not stop.
    """
    wait_until(
        lambda: is_stopped(pid),
        awaiting=f"{name} to be stopped by SIGSTOP",
        timeout_s=_STOP_TIMEOUT_S,
        every_s=0.001,
    )


def open_pidfd(process: ProcessIdentity) -> int | None:
    """Return a file descriptor of the process that becomes readable when the process ends.

    `None`: the process has ended already. The caller closes the descriptor.
    """
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if process.is_alive():
        return pidfd
    os.close(pidfd)
    return None


def send_signal(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to the process of this identity; return whether it was there to receive it."""
    pidfd = open_pidfd(process)
    if pidfd is None:
        return False
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def kill_and_wait(process: ProcessIdentity, timeout_s: float = 10.0) -> bool:
    """Send SIGKILL and wait for the end of the process; return whether it was running at all.

    Raises:
        WaitTimeout: the kernel did not end it, for example in an uninterruptible sleep.
    """
    was_there = send_signal(process, signal.SIGKILL)
    wait_until(
        lambda: not process.is_alive(),
        awaiting=f"the end of process {process.pid} after SIGKILL",
        timeout_s=timeout_s,
        every_s=0.005,
    )
    return was_there


def spawn_dying_with_parent(
    command: Sequence[str | os.PathLike[str]], **popen: Any
) -> subprocess.Popen[Any]:
    """Start a process that receives SIGKILL when this process ends, however it ends.

    The kernel sends it when the *thread* that started the process ends (PR_SET_PDEATHSIG,
    prctl(2)). So a thread that lives as long as this process starts it: a fault's thread ends with
    the fault.

    Args:
        command: a program, looked up on PATH when its name has no slash, and its arguments.
        popen: further arguments of `subprocess.Popen`.

    Raises:
        FileNotFoundError: there is no such program.
    """
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"program {os.fspath(command[0])} not found")
    argv = [
        sys.executable,
        "-I",
        "-S",
        str(_PARENT_DEATH_SCRIPT),
        str(os.getpid()),
        os.path.abspath(program),  # noqa: PTH100 - resolve() follows the links of a venv
        *(os.fspath(argument) for argument in command[1:]),
    ]
    if threading.current_thread() is threading.main_thread():
        return subprocess.Popen(argv, **popen)
    return _spawner(os.getpid()).submit(partial(subprocess.Popen, argv, **popen)).result()


@cache
def _spawner(_pid: int) -> ThreadPoolExecutor:
    """Return the thread of a process that starts others for its threads; a fork has none of it."""
    return ThreadPoolExecutor(1, "spawner")


def end_with_forking_parent() -> bool:
    """Have the kernel end this process (SIGKILL) when the process that has forked it ends.

    A process whose parent runs another program, as a shell does, was not forked by it, and is left
    as it is. As in `spawn_dying_with_parent`, it is the parent's forking thread that must live.

    Returns:
        Whether the process ends with its parent from now on.
    """
    parent = os.getppid()
    try:
        is_fork = Path("/proc/self/exe").readlink() == Path("/proc", str(parent), "exe").readlink()
    except OSError:  # the parent has ended, or belongs to another user or container
        return False
    if not is_fork:
        return False
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before prctl() took effect
        os.kill(os.getpid(), signal.SIGKILL)
    return True
