"""The machine lock: one load at a time on this machine, whichever home and user starts it.

A load is a trial, a Spark job or the training of a start-up cache. Two at a time would measure each
other.

The lock has two parts, always taken in this order. The lock file of the home (flock(2)) excludes
the other containers that share the home. An abstract Unix socket (unix(7)) excludes all other homes
of the machine: the kernel gives a name to one process in the network namespace, and frees it when
that process ends, however it ends. It has no file, so no permissions, links or leftovers matter
between users. Who may use the machine can hold the lock for ever, and is then named.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Final, TypeVar

from ackbench.infra.machine.files import try_lock
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.waiting import wait_until

LOCK_FILE: Final = "machine.lock"
NAME_VARIABLE: Final = "ACKBENCH_MACHINE_LOCK"
"""Names another lock than that of the machine, so that tests do not wait for its load."""
MAX_WAIT_S: Final = 12 * 3600.0
"""A night of sweeps, one after the other."""
COMMAND_MAX_WAIT_S: Final = 1200.0
"""How long a command waits, whose user sees the message."""
POLL_INTERVAL_S: Final = 0.5
_NAME: Final = "ackbench-load"
_NAME_BYTES: Final = 107
"""The longest abstract name (unix(7)): `sun_path` has 108 bytes, the first of them is 0."""
_SOCKETS: Final = Path("/proc/net/unix")
Part = TypeVar("Part", bound=IO[str] | socket.socket)
_LOG: Final = logging.getLogger(__name__)

_held: set[str] = set()
"""Locks that this process holds. An embedded run takes its lock once, for all its steps."""


@contextmanager
def hold_machine_lock(
    home: Home, holder: str, on_wait: Callable[[str], None], timeout_s: float = MAX_WAIT_S
) -> Iterator[None]:
    """Hold the machine lock. The kernel releases it when this process ends.

    Reentrant within a process.

    Args:
        home: the home of the load.
        holder: the name of this load, for those that wait.
        on_wait: called once with the name of the current holder if the lock is taken.
        timeout_s: the longest time to wait.

    Raises:
        MachineError: the home cannot be written.
        WaitTimeout: another load held the lock all the time; the message names it.
    """
    name = os.environ.get(NAME_VARIABLE, _NAME)
    if name in _held:
        yield
        return
    home.ensure_writable()
    path, named = home.root / LOCK_FILE, _described(holder, home)
    deadline_s = time.monotonic() + timeout_s
    with ExitStack() as held:
        file = held.enter_context(
            _acquire(lambda: try_lock(path), lambda: _file_holder(path), on_wait, deadline_s)
        )
        file.truncate(0)
        file.write(f"{named}\n{json.dumps(asdict(MachineIdentity.own()))}\n")
        file.flush()
        held.enter_context(
            _acquire(lambda: _bind(name), lambda: _socket_holder(name), on_wait, deadline_s)
        )
        held.enter_context(_bind(_within(f"{name}/{named}")) or ExitStack())
        _held.add(name)
        held.callback(_held.discard, name)
        yield


def _described(holder: str, home: Home) -> str:
    """Return the name of a load, and what tells those that wait for it where it is."""
    since = f"process {os.getpid()}, started {time.strftime('%H:%M')}"
    return f"{holder} ({since}, home {home.root})"


def hold_machine_lock_for_command(
    home: Home, holder: str, say: Callable[[str], object]
) -> AbstractContextManager[None]:
    """Hold the machine lock for a command, which says for whom it waits."""

    def on_wait(current: str) -> None:
        say(f"waiting for the machine lock, held by {current}")

    return hold_machine_lock(home, holder, on_wait, COMMAND_MAX_WAIT_S)


def _acquire(
    acquire: Callable[[], Part | None],
    holder: Callable[[], str],
    on_wait: Callable[[str], None],
    deadline_s: float,
) -> Part:
    """Take one part of the lock, waiting for it until the deadline of the monotonic clock."""
    part = acquire()
    if part:
        return part

    def named() -> str:
        return holder() or "an unnamed load"

    on_wait(named())
    return wait_until(
        acquire,
        awaiting="this machine to be free for trials",
        timeout_s=deadline_s - time.monotonic(),
        every_s=POLL_INTERVAL_S,
        seen=lambda: f"held by {named()}",
    )


def _file_holder(path: Path) -> str:
    """Return the name of the holder of a home's lock, and where it runs if that is elsewhere."""
    named, _, machine = path.read_text().partition("\n")
    try:
        where = MachineIdentity(**json.loads(machine))
    except (ValueError, TypeError):  # of an earlier version, or not written yet
        return named
    return named if where.is_own else f"{named} {where.describe()}"


def _within(announced: str) -> str:
    """Return the name of a holder without its home if it is longer than the name of a socket."""
    fits = len(announced.encode()) <= _NAME_BYTES
    return announced if fits else f"{announced.rpartition(', home ')[0]})"


def _bind(name: str) -> socket.socket | None:
    """Return a socket that has an abstract name; `None`: another process has the name."""
    part = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        part.bind(f"\0{name}".encode()[: _NAME_BYTES + 1])
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            part.close()
            return None
        _LOG.warning(
            "the machine lock is not available (%s): only loads of this home wait for each other",
            error.strerror,
        )
    return part


def _socket_holder(name: str) -> str:
    """Return the name that the holder of a socket has announced by the name of another one."""
    announced = f"@{name}/"
    for line in _SOCKETS.read_bytes().decode(errors="replace").splitlines():
        if announced in line:
            return line.partition(announced)[2]
    return ""
