"""A network namespace without a name: the kernel keeps it while somebody has it open or lives in it, and then removes all that is in it.

So nothing of it is left when its owner is killed: no file in /run/netns, no interface, no rule (network_namespaces(7)).
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.errors import MachineError, SupervisorError

_CLONE_NEWNET: Final = 0x40000000  # sched.h; os.unshare came with Python 3.12
_TIMEOUT_S: Final = 20.0


class Namespace:
    """Open until it is closed, or its owner has ended."""

    def __init__(self) -> None:
        """Make one.

        Raises:
            MachineError: the kernel refuses.
        """
        self._fd: int | None = _made()

    @property
    def path(self) -> str:
        """A path that any process may enter it by, for as long as this one has it open."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def inside(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return how a program is started in it; nsenter(1) becomes that program, so the pid and the signal at the parent's end stay."""
        return ("nsenter", f"--net={self.path}", "--", *command)

    def run(self, command: Sequence[str], script: str = "") -> str:
        """Run a program in it; see `run`."""
        return run(self.inside(command), script)

    def close(self) -> None:
        """Let the kernel remove it, once nobody lives in it; a second time does nothing."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None


def run(command: Sequence[str], script: str = "", timeout_s: float = _TIMEOUT_S) -> str:
    """Run a program and return what it says.

    Args:
        command: the program.
        script: what it reads.
        timeout_s: how long it may take.

    Raises:
        SupervisorError: it failed, with its words, or took too long.
    """
    try:
        ran = subprocess.run(command, input=script, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise SupervisorError(f"{' '.join(command)}: not done after {timeout_s:g} s") from error
    if ran.returncode != 0:
        raise SupervisorError(f"{' '.join(command)}: {(ran.stderr or ran.stdout).strip()}")
    return ran.stdout


def host_namespace() -> str:
    """Return a path to the namespace that this process is in."""
    return f"/proc/{os.getpid()}/ns/net"


def _made() -> int:
    """Let a thread go into a new namespace, keep it open, and let the thread end: namespaces are the threads' own."""
    made: list[int | OSError] = []
    thread = threading.Thread(target=lambda: made.append(_unshared()), name="namespace")
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise MachineError(f"no network namespace can be made here ({made[0].strerror}): run as root, with CAP_SYS_ADMIN")
    return made[0]


def _unshared() -> int | OSError:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        return OSError(error, os.strerror(error))
    return os.open(Path("/proc/thread-self/ns/net"), os.O_RDONLY | os.O_CLOEXEC)
