"""One heavy thing at a time on this machine: a trial beside another sweep's trial, or beside Spark, would measure both."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Final

from infra.machine.home import Home
from infra.process.waiting import wait_until

LOCK: Final = "machine.lock"
LONGEST_WAIT_S: Final = 12 * 3600.0
"""A night's sweeps, one after the other."""
LOOK_EVERY_S: Final = 0.5

_held: set[str] = set()
"""Locks that this process holds: an embedded run takes its own once, and its steps find it taken."""


@contextmanager
def alone(
    home: Home, who: str, waiting: Callable[[str], None], timeout_s: float = LONGEST_WAIT_S
) -> Iterator[None]:
    """Hold the machine; the kernel frees it when this process ends, whatever ends it (flock(2)).

    Args:
        home: runs of one home wait for each other.
        who: who holds it, for those who wait.
        waiting: told once, when somebody else holds it, who that is.
        timeout_s: how long to wait at most.

    Raises:
        WaitTimeout: somebody else held it all the time; says who.
    """
    path = home.root / LOCK
    if str(path) in _held:
        yield
        return
    with path.open("a+") as lock:
        _wait_for(lock, waiting, timeout_s)
        _sign(lock, who)
        _held.add(str(path))
        try:
            yield
        finally:
            _held.discard(str(path))


def _wait_for(lock: IO[str], waiting: Callable[[str], None], timeout_s: float) -> None:
    if _taken(lock):
        return
    waiting(_holder(lock))
    wait_until(
        lambda: _taken(lock),
        awaiting="this machine to be free for trials",
        timeout_s=timeout_s,
        every_s=LOOK_EVERY_S,
        seen=lambda: _holder(lock),
    )


def _taken(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(lock: IO[str], who: str) -> None:
    lock.truncate(0)
    lock.write(who)
    lock.flush()


def _holder(lock: IO[str]) -> str:
    lock.seek(0)
    return lock.read().strip() or "an unnamed run"
