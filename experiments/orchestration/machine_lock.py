"""The machine lock: one trial or one Spark job at a time on this machine.

Trials of two sweeps that run in parallel, or a trial together with Spark, would measure each other.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Final

from infra.machine.home import Home
from infra.process.waiting import wait_until

LOCK_FILE: Final = "machine.lock"
MAX_WAIT_S: Final = 12 * 3600.0
"""A night of sweeps, one after the other."""
POLL_INTERVAL_S: Final = 0.5

_held: set[str] = set()
"""Locks that this process holds. An embedded run takes its lock once, for all its steps."""


@contextmanager
def hold_machine_lock(
    home: Home, holder: str, on_wait: Callable[[str], None], timeout_s: float = MAX_WAIT_S
) -> Iterator[None]:
    """Hold the machine lock. The kernel releases it when this process ends (flock(2)).

    Reentrant within a process.

    Args:
        home: runs of one home wait for each other.
        holder: the name of this run, for the runs that wait.
        on_wait: called once with the name of the current holder if the lock is taken.
        timeout_s: the longest time to wait.

    Raises:
        WaitTimeout: another run held the lock all the time; the message names it.
    """
    path = home.root / LOCK_FILE
    if str(path) in _held:
        yield
        return
    with path.open("a+") as lock:
        _acquire(lock, on_wait, timeout_s)
        _write_holder(lock, holder)
        _held.add(str(path))
        try:
            yield
        finally:
            _held.discard(str(path))


def _acquire(lock: IO[str], on_wait: Callable[[str], None], timeout_s: float) -> None:
    if _try_acquire(lock):
        return
    on_wait(_read_holder(lock))
    wait_until(
        lambda: _try_acquire(lock),
        awaiting="this machine to be free for trials",
        timeout_s=timeout_s,
        every_s=POLL_INTERVAL_S,
        seen=lambda: f"held by {_read_holder(lock)}",
    )


def _try_acquire(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_holder(lock: IO[str], holder: str) -> None:
    lock.truncate(0)
    lock.write(holder)
    lock.flush()


def _read_holder(lock: IO[str]) -> str:
    lock.seek(0)
    return lock.read().strip() or "an unnamed run"
