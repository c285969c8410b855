"""A fork server for client processes.

Starting a client from scratch costs 1.7 s of CPU time (Numba, NumPy, compiled code). A trial
starts several clients, so that would be most of a short trial. The fork server pays this once per
run; a client is then forked in about 10 ms. Forking is safe because the server is single-threaded
and never creates a librdkafka client itself.

Clients of another version of librdkafka have a server of their own: a process loads one library.

The server exits when the thread that started it exits, and all clients exit with the server. The
next `spawn` starts another server. The server's own process is `fork_server_main`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.exits import describe_exit
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.start import module_command

MESSAGE_BYTES: Final = 1 << 16
"""The longest message on the socket between the run and the server."""
_SINGLE_THREADED: Final[Mapping[str, str]] = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_ANSWER_TIMEOUT_S: Final = 120.0
"""The first request also waits for the compilation, if this machine never did it; later ones are
answered at once."""
_EXIT_TIMEOUT_S: Final = 1.0
"""From the end of a process's socket to the end of the process."""


class SpawnRequest(Frozen):
    """What the fork server needs to start one client."""

    role: str
    """Which client: `producer`, `consumer` or `member` (of a group; copiers are members)."""
    job: Path
    """The client's job description, a JSON file."""
    server_environment: Mapping[str, str] = {}
    """Variables that the server itself needs: by them it loads the library of its clients."""
    environment: Mapping[str, str | None] = {}
    """Variables that have changed since the server was started; `None`: no longer set. A client
    reads passwords from them."""


class StatusRequest(Frozen):
    """Asks the fork server, the parent of all clients, how one of them has exited."""

    exited_pid: int


@dataclass(frozen=True)
class ForkedClient:
    """A client that was started, and the server that forked it."""

    pid: int
    pidfd: int
    """The owner of the client closes it."""
    server: ForkServer

    def describe_exit(self) -> str:
        """Return how the client has exited, which it has: `exited by SIGKILL`.

        Only a parent gets the status of a process. Where the fork server has exited, the client was
        killed with it.
        """
        return self.server.describe_exit(self.pid)


class ForkServer:
    """Handle to the fork server process. Thread-safe.

    Args:
        variables: set for the server and its clients, in addition to those of this process.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._owner_pid = os.getpid()
        self._environment = dict(os.environ)
        self._socket, server_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with server_socket:
            self._process = spawn_dying_with_parent(
                module_command("ackbench.experiments.trial.clients.fork_server_main"),
                stdin=server_socket,
                stdout=subprocess.DEVNULL,
                env={**self._environment, **_SINGLE_THREADED, **variables},
                start_new_session=True,
            )
        self._socket.settimeout(_ANSWER_TIMEOUT_S)

    def is_usable(self) -> bool:
        """Return whether the server runs and was started by this process.

        A forked run inherits the handle of its parent's server, which it must not use.
        """
        return self._owner_pid == os.getpid() and self._process.poll() is None

    def spawn(self, request: SpawnRequest, stdio: tuple[int, int, int]) -> ForkedClient:
        """Start a client process.

        Args:
            request: which client to start.
            stdio: file descriptors for its stdin, stdout and stderr.

        Raises:
            HarnessError: the server has exited, or did not answer within 120 s.
        """
        changed = changed_variables(self._environment, os.environ)
        answer, pidfds = self._ask(request.model_copy(update={"environment": changed}), stdio)
        if not pidfds:
            raise HarnessError(f"the clients' fork server {describe_exit(self._exit_status())}")
        return ForkedClient(int(answer), pidfds[0], self)

    def describe_exit(self, pid: int) -> str:
        """Return how a client of this server has exited; see `ForkedClient`."""
        answer = b""
        with suppress(HarnessError):
            answer, _ = self._ask(StatusRequest(exited_pid=pid), ())
        if answer:
            return describe_exit(json.loads(answer))
        server = describe_exit(self._exit_status())
        return f"exited with the clients' fork server, which {server}"

    def _ask(self, request: Frozen, descriptors: Sequence[int]) -> tuple[bytes, list[int]]:
        """Send a request; return the answer, which is empty if the server has exited."""
        with self._lock:
            try:
                socket.send_fds(self._socket, [request.model_dump_json().encode()], descriptors)
                answer, received, _, _ = socket.recv_fds(self._socket, MESSAGE_BYTES, 1)
            except OSError as error:
                raise HarnessError(f"no answer from the clients' fork server: {error}") from error
        return answer, received

    def _exit_status(self) -> int | None:
        """Return the status of the server, which has closed its socket; `None`: it still runs."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_EXIT_TIMEOUT_S)
        return None


def changed_variables(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that differ, with their values now; `None` for those no longer set."""
    names = before.keys() | now.keys()
    return {name: now.get(name) for name in names if before.get(name) != now.get(name)}


_servers: Final[dict[frozenset[tuple[str, str]], ForkServer]] = {}
"""By their own variables."""
_server_lock: Final = threading.Lock()


def open_fork_server(variables: Mapping[str, str] = MappingProxyType({})) -> ForkServer:
    """Return this process's fork server with these variables; start it if there is none.

    Call this early: the server compiles and loads the client code on its own, in the background.
    """
    own = frozenset(variables.items())
    server = _servers.get(own)
    if server is None or not server.is_usable():
        server = _servers[own] = ForkServer(variables)
    return server


def spawn(request: SpawnRequest, stdio: tuple[int, int, int]) -> ForkedClient:
    """Start a client process from this process's fork server for it. Thread-safe.

    See `ForkServer.spawn` for arguments, result and errors.
    """
    with _server_lock:
        server = open_fork_server(request.server_environment)
    return server.spawn(request, stdio)
