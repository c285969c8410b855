"""The lease of a cluster: it lives while a process holds it, plus a grace period after the last."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from ackbench.infra.cluster.handle import LeaseHolder
from ackbench.infra.process.processes import open_pidfd


class Lease:
    """Watches the holders by pidfd, so that their end is noticed at once, whatever its cause."""

    def __init__(self, on_expired: Callable[[], None], on_change: Callable[[], None]) -> None:
        """Start without a holder; the lease cannot expire before it had one.

        Args:
            on_expired: called once, when no process holds the cluster and every grace has passed.
            on_change: called when a holder was added or has ended.
        """
        self._on_expired, self._on_change = on_expired, on_change
        self._holders: dict[int, LeaseHolder] = {}
        """By pidfd."""
        self._expires_s = 0.0
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def holders(self) -> tuple[LeaseHolder, ...]:
        """The processes that hold the cluster now."""
        return tuple(self._holders.values())

    @property
    def ends_s(self) -> float:
        """When every grace of the holders that have ended is over, seconds of CLOCK_MONOTONIC."""
        return self._expires_s

    def take(self, holder: LeaseHolder) -> None:
        """Add a holder, or change the grace of a present one.

        A process that has ended already only prolongs the lease by its grace.
        """
        known = next(
            (pidfd for pidfd, other in self._holders.items() if other.process == holder.process),
            None,
        )
        pidfd = known if known is not None else open_pidfd(holder.process)
        if pidfd is None:
            self._extend_by_grace(holder)
            return
        self._holders[pidfd] = holder
        asyncio.get_running_loop().add_reader(pidfd, self._on_holder_ended, pidfd)
        self._schedule_expiry()
        self._on_change()

    def close(self) -> None:
        """Stop watching; the lease does not expire any more."""
        if self._expiry:
            self._expiry.cancel()
        for pidfd in list(self._holders):
            self._remove(pidfd)

    def _on_holder_ended(self, pidfd: int) -> None:
        self._extend_by_grace(self._remove(pidfd))
        self._on_change()

    def _remove(self, pidfd: int) -> LeaseHolder:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        return self._holders.pop(pidfd)

    def _extend_by_grace(self, holder: LeaseHolder) -> None:
        expires_s = asyncio.get_running_loop().time() + holder.grace_s
        self._expires_s = max(self._expires_s, expires_s)
        self._schedule_expiry()

    def _schedule_expiry(self) -> None:
        if self._expiry:
            self._expiry.cancel()
            self._expiry = None
        if not self._holders:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_at(self._expires_s, self._on_expired)
