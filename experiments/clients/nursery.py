"""One process that has compiled and loaded everything, and of which each client is a copy.

A client's process costs 1.7 s of processor time before its first line of work: Numba, NumPy, compiled code. A trial starts
several, so that would be most of a short trial. The nursery pays it once a run, and a client is ready in hundredths of a second.

It is safe to copy because it runs one thread and has never made a client. The clients die with it, and it dies with the
thread of the run that started it; then the next client starts another.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

from experiments.ledger.record import Frozen
from infra.errors import HarnessError
from infra.process import spawn_dying_with_parent

_MESSAGE_BYTES: Final = 1 << 16
_PR_SET_PDEATHSIG: Final = 1
"""linux/prctl.h."""
_ONE_THREAD: Final[Mapping[str, str]] = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_START_TIMEOUT_S: Final = 120.0
"""The first client waits until all is compiled, on a machine that never did; later ones are copied at once."""


class Birth(Frozen):
    """Which client to become, and what it is to do."""

    role: str
    job: Path


class Nursery:
    """The run's side: asks for clients."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            environment = {**os.environ, **_ONE_THREAD}
            command = [sys.executable, "-m", "experiments.clients.nursery"]
            self._process = spawn_dying_with_parent(command, stdin=theirs, stdout=subprocess.DEVNULL, env=environment, start_new_session=True)
        self._socket.settimeout(_START_TIMEOUT_S)

    def is_usable(self) -> bool:
        """Whether it lives, and is this process's own: a forked run has inherited one that is not."""
        return self._owner == os.getpid() and self._process.poll() is None

    def bear(self, birth: Birth, streams: tuple[int, int, int]) -> tuple[int, int]:
        """Start a client with its standard streams; return its pid and a pidfd, the caller's to close.

        Raises:
            HarnessError: the nursery has ended, or did not answer in time.
        """
        try:
            socket.send_fds(self._socket, [birth.model_dump_json().encode()], streams)
            answer, pidfds, _, _ = socket.recv_fds(self._socket, _MESSAGE_BYTES, 1)
        except OSError as error:
            raise HarnessError(f"the process that clients are copied from did not answer: {error}") from error
        if not pidfds:
            raise HarnessError("the process that clients are copied from has ended")
        return int(answer), pidfds[0]


_nursery: Nursery | None = None
_asking: Final = threading.Lock()


def open_nursery() -> Nursery:
    """Return this process's nursery; start it when there is none. It gets ready by itself, so call this early."""
    global _nursery  # noqa: PLW0603 - one a process
    if _nursery is None or not _nursery.is_usable():
        _nursery = Nursery()
    return _nursery


def bear(birth: Birth, streams: tuple[int, int, int]) -> tuple[int, int]:
    """Start a client; see `Nursery.bear`. Safe to call from several threads."""
    with _asking:
        return open_nursery().bear(birth, streams)


def main() -> None:
    """Be the nursery: load all, then copy itself on request until the run has gone."""
    from experiments.clients import producer_main, reader_main

    roles = {"producer": producer_main.main, "reader": reader_main.main}
    run = socket.socket(fileno=os.dup(0))
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(run, _MESSAGE_BYTES, 3)
        if not request:
            return
        _bury_the_dead()
        _bear(run, Birth.model_validate_json(request), roles, streams)


def _bear(run: socket.socket, birth: Birth, roles: Mapping[str, Callable[[Path], int]], streams: list[int]) -> None:
    nursery_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        run.close()
        _live(lambda: roles[birth.role](birth.job), streams, nursery_pid)
    pidfd = os.pidfd_open(pid)  # it is not buried yet, so this is it
    socket.send_fds(run, [str(pid).encode()], [pidfd])
    for descriptor in (*streams, pidfd):
        os.close(descriptor)


def _live(work: Callable[[], int], streams: list[int], nursery_pid: int) -> NoReturn:
    """Be a client, with its own standard streams, until its work is done; never return into the nursery."""
    try:
        for descriptor, stream in enumerate(streams):
            os.dup2(stream, descriptor)
            os.close(stream)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        code = work() if os.getppid() == nursery_pid else 1
    except BaseException:  # noqa: BLE001 - whatever it is, it is said, and ends here
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _bury_the_dead() -> None:
    """Collect the clients that have ended; until then their pids are given to nobody else."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            continue
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
