"""Which nodes may exit by themselves because of a fault, and when.

A fault that asks the supervisor to end a node needs no entry here. One whose effect ends it does: a
broker whose only log directory fails shuts down (KIP-112). Any other node that exits meanwhile
died of something else, and the trial is evidence of nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from ackbench.experiments.trial.events.clock import now_ns

MayExit = Literal["none", "targets", "brokers"]
"""Which nodes a fault lets exit by themselves: its targets, while it lasts; or any broker, from its
begin on, as for a command whose effect is not known."""


@dataclass
class _Allowance:
    nodes: frozenset[int] | None
    """`None`: any node."""
    since_ns: int
    until_ns: int | None = None
    """`None`: it lasts."""

    def covers(self, node: int, at_ns: int) -> bool:
        in_time = self.since_ns <= at_ns and (self.until_ns is None or at_ns <= self.until_ns)
        return in_time and (self.nodes is None or node in self.nodes)


class ExpectedExits:
    """The exits that the faults of a trial allow. Thread-safe."""

    def __init__(self) -> None:
        self._allowances: list[_Allowance] = []
        self._lock = threading.Lock()

    @contextmanager
    def allowed(self, may_exit: MayExit, targets: Sequence[int]) -> Iterator[None]:
        """Allow the exits of a fault with these targets, which lasts as long as the context."""
        nodes = None if may_exit == "brokers" else frozenset(targets)
        allowance = _Allowance(nodes, now_ns())
        if may_exit != "none":
            with self._lock:
                self._allowances.append(allowance)
        try:
            yield
        finally:
            if may_exit == "targets":
                allowance.until_ns = now_ns()

    def covers(self, node: int, at_ns: int) -> bool:
        """Return whether a fault allows this node to exit at this time."""
        with self._lock:
            return any(one.covers(node, at_ns) for one in self._allowances)
