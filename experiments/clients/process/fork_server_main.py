"""The nursery's own process: loads all, and copies itself into a client on request until the run has gone."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

from experiments.clients.consumer import main as reader_main
from experiments.clients.group import member_main
from experiments.clients.process.fork_server import MESSAGE_BYTES, SpawnRequest
from experiments.clients.producer import main as producer_main
from infra.errors import AckbenchError

_PR_SET_PDEATHSIG: Final = 1
"""linux/prctl.h."""


def main() -> None:
    """Be the nursery: load all, then copy itself on request until the run has gone."""
    roles = {"producer": producer_main.main, "reader": reader_main.main, "member": member_main.main}
    run = socket.socket(fileno=os.dup(0))
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(run, MESSAGE_BYTES, 3)
        if not request:
            return
        _reap_children()
        _spawn(run, SpawnRequest.model_validate_json(request), roles, streams)


def _spawn(
    run: socket.socket,
    birth: SpawnRequest,
    roles: Mapping[str, Callable[[Path], None]],
    streams: list[int],
) -> None:
    nursery_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        run.close()
        _become_client(lambda: roles[birth.role](birth.job), streams, nursery_pid)
    pidfd = os.pidfd_open(pid)  # it is not buried yet, so this is it
    socket.send_fds(run, [str(pid).encode()], [pidfd])
    for descriptor in (*streams, pidfd):
        os.close(descriptor)


def _become_client(work: Callable[[], None], streams: list[int], nursery_pid: int) -> NoReturn:
    """Be a client, with its own standard streams, until its work is done; never return into the nursery."""
    try:
        for descriptor, stream in enumerate(streams):
            os.dup2(stream, descriptor)
            os.close(stream)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        code = 1
        if os.getppid() == nursery_pid:
            work()
            code = 0
    except AckbenchError as error:
        sys.stderr.write(f"{error}\n")
        code = error.exit_code
    except BaseException:  # noqa: BLE001 - whatever it is, it is said, and ends here
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _reap_children() -> None:
    """Collect the clients that have ended; until then their pids are given to nobody else."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            continue
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
