"""Watches a topic while a trial runs: each change of leader, ISR and active controller becomes an event.

The resolution is the polling interval, plus what a broker takes to learn of the change and to answer; a poll that
fails (every broker it asked was dead) is an event too, so a gap in what was seen is itself seen.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Final, Self

from experiments.journal import Journal
from infra.cluster import Cluster, ClusterState, PartitionState
from infra.errors import HarnessError

EVERY_S: Final = 0.05
DESCRIBE_TIMEOUT_S: Final = 2.0


class Watch:
    """A thread that polls the cluster between entering and leaving the context."""

    def __init__(self, cluster: Cluster, topic: str, journal: Journal, every_s: float = EVERY_S) -> None:
        self._cluster, self._topic, self._journal, self._every_s = cluster, topic, journal, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name=f"watch-{topic}", daemon=True)
        self._last: ClusterState | None = None
        self._blind = False

    def __enter__(self) -> Self:
        """Note the state now, then go on watching."""
        self._look()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop, once the poll under way has ended."""
        self._ended.set()
        self._thread.join(DESCRIBE_TIMEOUT_S + 5)

    def _poll(self) -> None:
        while not self._ended.wait(self._every_s):
            self._look()

    def _look(self) -> None:
        try:
            state = self._cluster.describe([self._topic], timeout_s=DESCRIBE_TIMEOUT_S)
        except HarnessError as error:
            self._note_blind(str(error))
            return
        self._blind = False
        note_changes(self._journal, self._topic, self._last, state)
        self._last = state

    def _note_blind(self, why: str) -> None:
        if not self._blind:
            self._journal.note("watch_blind", why)
        self._blind = True


def note_changes(journal: Journal, topic: str, before: ClusterState | None, now: ClusterState) -> None:
    """Note what differs between two states; everything, where there is no earlier one."""
    if now.controller is not None and (before is None or (before.controller, before.controller_epoch) != (now.controller, now.controller_epoch)):
        journal.note("controller", f"epoch {now.controller_epoch}", node=now.controller)
    earlier = {p.partition: p for p in before.of(topic)} if before else {}
    for partition in now.of(topic):
        _note_partition(journal, earlier.get(partition.partition), partition)


def _note_partition(journal: Journal, before: PartitionState | None, now: PartitionState) -> None:
    if before is None or before.leader != now.leader:
        journal.note("leader", f"{_name(before)} -> {_name(now)}", node=now.leader, partition=now.partition)
    if before is None or set(before.isr) != set(now.isr):
        journal.note("isr", ",".join(map(str, sorted(now.isr))), partition=now.partition)


def _name(partition: PartitionState | None) -> str:
    return "?" if partition is None else "none" if partition.leader is None else str(partition.leader)
