"""The fork server's own process: load all client code, then fork a client per request.

It serves one `ForkServer` over its stdin, a socket, and exits when the other end is closed.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

from pydantic import TypeAdapter

from ackbench.experiments.trial.clients.consumer import main as consumer_main
from ackbench.experiments.trial.clients.group import member_main
from ackbench.experiments.trial.clients.process.client_process import write_stack_on_signal
from ackbench.experiments.trial.clients.process.fork_server import (
    MESSAGE_BYTES,
    SpawnRequest,
    StatusRequest,
)
from ackbench.experiments.trial.clients.producer import main as producer_main
from ackbench.infra.errors import AckbenchError

_PR_SET_PDEATHSIG: Final = 1
"""linux/prctl.h."""
_CLIENT_MAINS: Final[Mapping[str, Callable[[Path], None]]] = {
    "producer": producer_main.main,
    "consumer": consumer_main.main,
    "member": member_main.main,
}
"""By role; each takes the path of its job description."""
_REQUEST: Final[TypeAdapter[SpawnRequest | StatusRequest]] = TypeAdapter(
    SpawnRequest | StatusRequest
)


def main() -> None:
    """Serve spawn requests until the run closes the socket."""
    run_socket = socket.socket(fileno=os.dup(0))
    statuses: dict[int, int] = {}
    gc.freeze()
    while True:
        message, stdio, _, _ = socket.recv_fds(run_socket, MESSAGE_BYTES, 3)
        if not message:
            return
        request = _REQUEST.validate_json(message)
        statuses.update(reap_children())
        if isinstance(request, StatusRequest):
            run_socket.send(json.dumps(statuses.get(request.exited_pid)).encode())
        else:
            spawn_client(run_socket, request, stdio)


def spawn_client(run_socket: socket.socket, request: SpawnRequest, stdio: list[int]) -> None:
    """Fork one client and send its pid and pidfd to the run."""
    server_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        run_socket.close()
        _become_client(request, stdio, server_pid)
    pidfd = os.pidfd_open(pid)  # the child is not reaped yet, so the pid is still its own
    socket.send_fds(run_socket, [str(pid).encode()], [pidfd])
    for descriptor in (*stdio, pidfd):
        os.close(descriptor)


def reap_children() -> Iterator[tuple[int, int]]:
    """Yield pid and exit status, as of `subprocess`, of each client that has exited meanwhile.

    Until then the kernel does not reuse its pid.
    """
    try:
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            yield ended[0], os.waitstatus_to_exitcode(ended[1])
    except ChildProcessError:
        return


def _become_client(request: SpawnRequest, stdio: list[int], server_pid: int) -> NoReturn:
    """Run the client in the forked process, then exit; never return into the server's loop."""
    try:
        for descriptor, source in enumerate(stdio):
            os.dup2(source, descriptor)
            os.close(source)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        code = 1
        if os.getppid() == server_pid:  # else the server died before prctl() took effect
            _change_environment(request.environment)
            write_stack_on_signal()
            _CLIENT_MAINS[request.role](request.job)
            code = 0
    except AckbenchError as error:
        sys.stderr.write(f"{error}\n")
        code = error.exit_code
    except BaseException:  # noqa: BLE001 - any error is reported on stderr and ends this process
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _change_environment(changed: Mapping[str, str | None]) -> None:
    for name, value in changed.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


if __name__ == "__main__":
    main()
