"""Watches a topic while a trial runs: each change of leader, ISR and active controller becomes an event.

An event's resolution is the time since the last answer before it was asked for: the change happened within it, as the broker
that was asked knew it. When nobody answers that is an event too, so a gap in what was seen is itself seen.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final, Self

from experiments.events.clock import epoch_ns, now_ns
from experiments.events.journal import Event, Journal
from experiments.ledger.schema import Source
from infra.cluster.interface import Cluster
from infra.errors import HarnessError
from infra.kafka.spec import ControllerView, PartitionState

EVERY_S: Final = 0.008
"""What is left of 10 ms is for the answer."""
CONTROLLER_EVERY: Final = 5
"""The controllers, each of which is asked, are looked at every so many looks at the topic."""
_END_TIMEOUT_S: Final = 10.0


class MetadataPoller:
    """A thread that looks at the cluster between entering and leaving the context."""

    def __init__(
        self, cluster: Cluster, topic: str, journal: Journal, every_s: float = EVERY_S
    ) -> None:
        self._lookout, self._changes, self._every_s = (
            cluster.metadata_poll(topic),
            MetadataChanges(journal),
            every_s,
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name=f"watch-{topic}", daemon=True)
        self.cpu_s = 0.0
        """What the watching cost, once it has ended."""

    def __enter__(self) -> Self:
        """Note the state now, then go on watching."""
        self._look_at_controller()
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, once the look under way has ended."""
        self._ended.set()
        self._thread.join(_END_TIMEOUT_S)
        self._lookout.close()

    def _poll(self) -> None:
        looks, due_s = 0, time.monotonic()
        while not self._ended.wait(max(0.0, due_s - time.monotonic())):
            due_s = max(due_s + self._every_s, time.monotonic())
            looks += 1
            self._look()
            if looks % CONTROLLER_EVERY == 0:
                self._look_at_controller()
        self.cpu_s = time.thread_time()

    def _look(self) -> None:
        try:
            sighting = self._lookout.partitions()
        except HarnessError as error:
            self._changes.note_blind(str(error))
            return
        if sighting is None:
            self._changes.note_blind("no broker that knows the topic answered in time")
        else:
            self._changes.note_partitions(sighting.partitions, epoch_ns(sighting.asked_s))

    def _look_at_controller(self) -> None:
        asked_ns = now_ns()
        try:
            controller = self._lookout.controller()
        except HarnessError as error:
            self._changes.note_blind(str(error))
            return
        if controller is not None:
            self._changes.note_controller(controller, asked_ns)


class MetadataChanges:
    """Tells what differs from the last answer; everything, where there is none."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._partitions: dict[int, PartitionState] = {}
        self._past_ids: set[str | None] = set()
        self._controller: ControllerView | None = None
        self._partitions_asked_ns: int | None = None
        self._controller_asked_ns: int | None = None
        self._blind = False

    def note_partitions(self, now: tuple[PartitionState, ...], asked_ns: int) -> None:
        """Note what changed of the partitions; an answer older than what is known already, by its request or its leader epoch, is no news.

        A topic that was made again under its name has another id, and its epochs begin anew.
        """
        if asked_ns < (self._partitions_asked_ns or 0):
            return
        seen = self._seen(self._partitions_asked_ns)
        for partition in now:
            before = self._partitions.get(partition.partition)
            if before is None or self._is_news(before, partition):
                self._note_partition(seen, before, partition)
                self._partitions[partition.partition] = partition
        if self._blind:
            self._note(seen, "metadata_available", "the topic is seen again")
        self._partitions_asked_ns, self._blind = asked_ns, False

    def _is_news(self, before: PartitionState, now: PartitionState) -> bool:
        if now.topic_id == before.topic_id:
            return _epoch(now) >= _epoch(before)
        if now.topic_id in self._past_ids:
            return False
        self._past_ids.add(before.topic_id)
        return True

    def note_controller(self, now: ControllerView, asked_ns: int) -> None:
        """Note that another controller is active, or the same one anew."""
        if now != self._controller:
            self._note(
                self._seen(self._controller_asked_ns),
                "controller",
                f"epoch {now.epoch}",
                node=now.leader,
            )
        self._controller, self._controller_asked_ns = now, asked_ns

    def note_blind(self, why: str) -> None:
        """Note, once a gap, that nothing could be seen."""
        if not self._blind:
            self._note((now_ns(), None), "metadata_unavailable", why)
        self._blind = True

    def _note_partition(
        self, seen: tuple[int, int | None], before: PartitionState | None, now: PartitionState
    ) -> None:
        if before is None or (before.leader, before.leader_epoch) != (now.leader, now.leader_epoch):
            self._note(seen, "leader", f"{_name(before)} -> {_name(now)}", node=now.leader, of=now)
        if before is None or set(before.isr) != set(now.isr):
            self._note(seen, "isr", ",".join(map(str, sorted(now.isr))), of=now)

    def _seen(self, asked_before_ns: int | None) -> tuple[int, int | None]:
        """When, and how much earlier at most; the first answer tells what is, not when it came to be."""
        at_ns = now_ns()
        return at_ns, None if asked_before_ns is None else at_ns - asked_before_ns

    def _note(
        self,
        seen: tuple[int, int | None],
        kind: str,
        detail: str,
        *,
        node: int | None = None,
        of: PartitionState | None = None,
    ) -> None:
        partition, epoch = (of.partition, of.leader_epoch) if of else (None, None)
        self._journal.keep(
            Event(seen[0], kind, Source.METADATA, seen[1], node, partition, epoch, detail=detail)
        )


def _epoch(partition: PartitionState) -> int:
    return -1 if partition.leader_epoch is None else partition.leader_epoch


def _name(partition: PartitionState | None) -> str:
    return (
        "?" if partition is None else "none" if partition.leader is None else str(partition.leader)
    )
