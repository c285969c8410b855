"""Polls a topic's metadata during a trial: changes of leader, ISR and active controller are events.

The resolution of an event is the time since the previous answer was requested: the change happened
within it, as far as the polled broker knew. If no broker answers, that is an event too, so a gap in
the observation is itself observed.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Final, Self

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.clock import epoch_ns, now_ns
from ackbench.experiments.trial.events.journal import BROKER_LEFT, EXITED, Event, Journal
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ControllerView, PartitionState

POLL_INTERVAL_S: Final = 0.008
"""Polling aims at every 10 ms; an answer takes the rest."""
CONTROLLER_POLL_EVERY: Final = 5
"""The controllers, each of which is asked, are polled once in this many polls of the topic."""
_JOIN_TIMEOUT_S: Final = 10.0
_LOG: Final = logging.getLogger(__name__)


class MetadataPoller:
    """A context manager around a thread that polls the cluster."""

    def __init__(
        self, cluster: Cluster, topic: str, journal: Journal, every_s: float = POLL_INTERVAL_S
    ) -> None:
        self._metadata = cluster.metadata_poller(topic)
        self._journal, self._changes = journal, MetadataChanges(journal)
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"metadata-poller-{topic}", daemon=True
        )
        self.cpu_s = 0.0
        """The CPU time that polling took, once it has ended."""

    def __enter__(self) -> Self:
        """Note the current state, then poll in the background."""
        self._poll_controller()
        self._poll_topic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop after the current poll."""
        self._ended.set()
        self._thread.join(_JOIN_TIMEOUT_S)
        self._metadata.close()

    def _run(self) -> None:
        """Poll until the end; an error ends it early, which disturbs the trial."""
        try:
            self._poll_until_ended()
        except Exception as error:  # noqa: BLE001 - the trial is void, whatever it was
            self._journal.note(EXITED, f"the metadata poller exited ({error!r})")
            _LOG.exception("the metadata poller has ended")

    def _poll_until_ended(self) -> None:
        polls, due_s = 0, time.monotonic()
        while not self._ended.wait(max(0.0, due_s - time.monotonic())):
            due_s = max(due_s + self._every_s, time.monotonic())
            polls += 1
            self._poll_topic()
            if polls % CONTROLLER_POLL_EVERY == 0:
                self._poll_controller()
        self.cpu_s = time.thread_time()

    def _poll_topic(self) -> None:
        try:
            snapshot = self._metadata.partitions()
        except HarnessError as error:
            self._changes.note_unavailable(str(error))
            return
        if snapshot is None:
            self._changes.note_unavailable("no broker that knows the topic answered in time")
            return
        self._changes.note_partitions(snapshot.partitions, epoch_ns(snapshot.requested_s))
        self._changes.note_gone(snapshot.gone)

    def _poll_controller(self) -> None:
        requested_ns = now_ns()
        try:
            controller = self._metadata.controller()
        except HarnessError as error:
            self._changes.note_unavailable(str(error))
            return
        if controller is not None:
            self._changes.note_controller(controller, requested_ns)


class MetadataChanges:
    """Compares each answer with the previous one and notes the differences as events."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._gone: frozenset[int] = frozenset()
        self._partitions: dict[int, PartitionState] = {}
        self._past_topic_ids: set[str | None] = set()
        self._controller: ControllerView | None = None
        self._partitions_requested_ns: int | None = None
        self._controller_requested_ns: int | None = None
        self._unavailable = False

    def note_partitions(self, states: tuple[PartitionState, ...], requested_ns: int) -> None:
        """Note how the partitions changed; the first answer is noted in full.

        An answer is ignored if it was requested before the previous one, or has an older leader
        epoch. A topic that was deleted and created again has a new id, and its epochs begin at 0.
        """
        if requested_ns < (self._partitions_requested_ns or 0):
            return
        time_ns = self._event_time(self._partitions_requested_ns)
        for state in states:
            before = self._partitions.get(state.partition)
            if before is None or self._is_newer(before, state):
                self._note_partition(time_ns, before, state)
                self._partitions[state.partition] = state
        if self._unavailable:
            self._note(time_ns, "metadata_available", "a broker that knows the topic answered")
        self._partitions_requested_ns, self._unavailable = requested_ns, False

    def _is_newer(self, before: PartitionState, state: PartitionState) -> bool:
        if state.topic_id == before.topic_id:
            return _leader_epoch(state) >= _leader_epoch(before)
        if state.topic_id in self._past_topic_ids:
            return False
        self._past_topic_ids.add(before.topic_id)
        return True

    def note_controller(self, view: ControllerView, requested_ns: int) -> None:
        """Note that another controller is active, or the same one in a new epoch."""
        if view != self._controller:
            self._note(
                self._event_time(self._controller_requested_ns),
                "controller",
                f"epoch {view.epoch}",
                node=view.leader,
            )
        self._controller, self._controller_requested_ns = view, requested_ns

    def note_gone(self, brokers: frozenset[int]) -> None:
        """Note which brokers certainly do not run any more, and did before."""
        for node in sorted(brokers - self._gone):
            detail = f"broker {node} left the cluster and refuses connections"
            self._note((now_ns(), None), BROKER_LEFT, detail, node=node)
        self._gone = brokers

    def note_unavailable(self, reason: str) -> None:
        """Note, once per gap, that no metadata was available."""
        if not self._unavailable:
            self._note((now_ns(), None), "metadata_unavailable", reason)
        self._unavailable = True

    def _note_partition(
        self, time_ns: tuple[int, int | None], before: PartitionState | None, state: PartitionState
    ) -> None:
        if before is None or (before.leader, before.leader_epoch) != (
            state.leader,
            state.leader_epoch,
        ):
            change = f"{_leader_name(before)} -> {_leader_name(state)}"
            self._note(time_ns, "leader", change, node=state.leader, state=state)
        if before is None or set(before.isr) != set(state.isr):
            self._note(time_ns, "isr", ",".join(map(str, sorted(state.isr))), state=state)

    @staticmethod
    def _event_time(previous_request_ns: int | None) -> tuple[int, int | None]:
        """Return the event's time and resolution.

        The first answer shows a state, not when it began: its resolution is unknown.
        """
        at_ns = now_ns()
        return at_ns, None if previous_request_ns is None else at_ns - previous_request_ns

    def _note(
        self,
        time_ns: tuple[int, int | None],
        kind: str,
        detail: str,
        *,
        node: int | None = None,
        state: PartitionState | None = None,
    ) -> None:
        partition, epoch = (state.partition, state.leader_epoch) if state else (None, None)
        at_ns, resolution_ns = time_ns
        self._journal.observe(
            Event(
                at_ns, kind, Source.METADATA, resolution_ns, node, partition, epoch, detail=detail
            )
        )


def _leader_epoch(state: PartitionState) -> int:
    return -1 if state.leader_epoch is None else state.leader_epoch


def _leader_name(state: PartitionState | None) -> str:
    if state is None:
        return "?"
    return "none" if state.leader is None else str(state.leader)
