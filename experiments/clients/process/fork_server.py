"""One process that has compiled and loaded everything, and of which each client is a copy.

A client's process costs 1.7 s of processor time before its first line of work: Numba, NumPy, compiled code. A trial starts
several, so that would be most of a short trial. The nursery pays it once a run, and a client is ready in hundredths of a second.

It is safe to copy because it runs one thread and has never made a client. The clients die with it, and it dies with the
thread of the run that started it; then the next client starts another.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from experiments.ledger.record import Frozen
from infra.errors import HarnessError
from infra.process.processes import spawn_dying_with_parent

MESSAGE_BYTES: Final = 1 << 16
_ONE_THREAD: Final[Mapping[str, str]] = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_START_TIMEOUT_S: Final = 120.0
"""The first client waits until all is compiled, on a machine that never did; later ones are copied at once."""


class SpawnRequest(Frozen):
    """Which client to become, and what it is to do."""

    role: str
    job: Path


class ForkServer:
    """The run's side: asks for clients."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            environment = {**os.environ, **_ONE_THREAD}
            command = [sys.executable, "-m", "experiments.clients.process.fork_server_main"]
            self._process = spawn_dying_with_parent(
                command,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        self._socket.settimeout(_START_TIMEOUT_S)

    def is_usable(self) -> bool:
        """Whether it lives, and is this process's own: a forked run has inherited one that is not."""
        return self._owner == os.getpid() and self._process.poll() is None

    def spawn(self, birth: SpawnRequest, streams: tuple[int, int, int]) -> tuple[int, int]:
        """Start a client with its standard streams; return its pid and a pidfd, the caller's to close.

        Raises:
            HarnessError: the nursery has ended, or did not answer in time.
        """
        try:
            socket.send_fds(self._socket, [birth.model_dump_json().encode()], streams)
            answer, pidfds, _, _ = socket.recv_fds(self._socket, MESSAGE_BYTES, 1)
        except OSError as error:
            raise HarnessError(
                f"the process that clients are copied from did not answer: {error}"
            ) from error
        if not pidfds:
            raise HarnessError("the process that clients are copied from has ended")
        return int(answer), pidfds[0]


_server: ForkServer | None = None
_server_lock: Final = threading.Lock()


def open_fork_server() -> ForkServer:
    """Return this process's nursery; start it when there is none. It gets ready by itself, so call this early."""
    global _server  # noqa: PLW0603 - one server for each process
    if _server is None or not _server.is_usable():
        _server = ForkServer()
    return _server


def spawn(birth: SpawnRequest, streams: tuple[int, int, int]) -> tuple[int, int]:
    """Start a client; see `Nursery.bear`. Safe to call from several threads."""
    with _server_lock:
        return open_fork_server().spawn(birth, streams)
