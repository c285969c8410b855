"""Processes of this machine: who they are, whether they live, and signals that cannot hit a stranger.

A pid alone means nothing once its process ended, for the kernel gives it to another. A pid and its start time
(field 22 of /proc/<pid>/stat, proc(5)) are unique until the next boot, and a pidfd (pidfd_open(2)) stays with its process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.errors import HarnessError
from infra.process.waiting import wait_until

_DYING: Final = Path(__file__).with_name("dying.py")
_ENDED: Final = frozenset("ZX")
"""States of /proc/<pid>/stat that no longer run: zombie and dead."""
_STOPPED: Final = frozenset("TtZX")


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, for good: its pid is given again, this pair is not."""

    pid: int
    start_ticks: int
    """Field 22 of /proc/<pid>/stat: clock ticks after boot."""

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return who has that pid now.

        Raises:
            HarnessError: nobody has.
        """
        stat = _stat(Path("/proc", str(pid)))
        if stat is None:
            raise HarnessError(f"process {pid} has ended")
        return cls(pid, stat[1])

    @classmethod
    def own(cls) -> ProcessIdentity:
        """Return this process."""
        return cls.of(os.getpid())

    def is_alive(self) -> bool:
        """Whether it runs or is stopped; a zombie is not alive."""
        return is_alive(self.pid, self.start_ticks)


def is_alive(pid: int, start_ticks: int) -> bool:
    """Whether that very process, and not a later one of the same pid, runs or is stopped."""
    stat = _stat(Path("/proc", str(pid)))
    return stat is not None and stat[1] == start_ticks and stat[0] not in _ENDED


def is_stopped(pid: int) -> bool:
    """Whether every thread of the process is stopped: SIGSTOP reaches each one on its own."""
    stats = [_stat(thread) for thread in Path("/proc", str(pid), "task").glob("*")]
    return bool(stats) and all(stat is None or stat[0] in _STOPPED for stat in stats)


def open_pidfd(process: ProcessIdentity) -> int | None:
    """Return a file descriptor that stays with the process, readable once it ended; `None` when it has ended already."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if process.is_alive():
        return pidfd
    os.close(pidfd)
    return None


def send_signal(process: ProcessIdentity, number: signal.Signals) -> bool:
    """Send a signal to that very process; return whether it was there to get it."""
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
    """SIGKILL, and return once it is gone, whether it was there at all.

    Raises:
        WaitTimeout: the kernel did not end it, as in an uninterruptible sleep.
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
    """Start a process that gets SIGKILL when this one ends, however it ends.

    The kernel sends it when the *thread* that started it ends (PR_SET_PDEATHSIG, prctl(2)): call this from a thread
    that lives as long as the child shall.

    Args:
        command: a program, found on PATH when it has no slash, and its arguments.
        popen: what `subprocess.Popen` takes beside the command.

    Raises:
        FileNotFoundError: there is no such program.
    """
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"no program {os.fspath(command[0])}")
    argv = [
        sys.executable,
        "-I",
        "-S",
        str(_DYING),
        str(os.getpid()),
        os.path.abspath(program),  # noqa: PTH100 - resolve() would follow a virtual environment's link
        *(os.fspath(argument) for argument in command[1:]),
    ]
    return subprocess.Popen(argv, **popen)


def _stat(folder: Path) -> tuple[str, int] | None:
    """State and start ticks of a process or thread; `None` when it is gone. The command's name may hold spaces and brackets."""
    try:
        text = (folder / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])
