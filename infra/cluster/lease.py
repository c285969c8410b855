"""How long a cluster lives: as long as a process holds it, and a grace after the last one ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from infra.cluster.handle import LeaseHolder
from infra.process.processes import open_pidfd


class Lease:
    """Watches the holders by pidfd, so that the end of one is noticed at once, whatever ended it."""

    def __init__(self, on_expired: Callable[[], None], on_change: Callable[[], None]) -> None:
        """Begin with nobody; nothing expires before there was a holder.

        Args:
            on_expired: called once, when nobody holds the cluster any more and every grace is over.
            on_change: called when a holder came or went.
        """
        self._on_expired, self._on_change = on_expired, on_change
        self._watched: dict[int, LeaseHolder] = {}
        self._until_s = 0.0
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def holders(self) -> tuple[LeaseHolder, ...]:
        """The processes that hold the cluster now."""
        return tuple(self._watched.values())

    def take(self, holder: LeaseHolder) -> None:
        """Let one more process hold the cluster; one that holds it already only changes its grace."""
        known = next(
            (pidfd for pidfd, other in self._watched.items() if other.process == holder.process),
            None,
        )
        pidfd = known if known is not None else open_pidfd(holder.process)
        if pidfd is None:
            self._count_grace(holder)
            return
        self._watched[pidfd] = holder
        asyncio.get_running_loop().add_reader(pidfd, self._ended, pidfd)
        self._plan_expiry()
        self._on_change()

    def close(self) -> None:
        """Watch no longer."""
        if self._expiry:
            self._expiry.cancel()
        for pidfd in list(self._watched):
            self._forget(pidfd)

    def _ended(self, pidfd: int) -> None:
        self._count_grace(self._forget(pidfd))
        self._on_change()

    def _forget(self, pidfd: int) -> LeaseHolder:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        return self._watched.pop(pidfd)

    def _count_grace(self, holder: LeaseHolder) -> None:
        self._until_s = max(self._until_s, asyncio.get_running_loop().time() + holder.grace_s)
        self._plan_expiry()

    def _plan_expiry(self) -> None:
        if self._expiry:
            self._expiry.cancel()
        self._expiry = (
            None
            if self._watched
            else asyncio.get_running_loop().call_at(self._until_s, self._on_expired)
        )
