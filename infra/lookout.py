"""Looks at one topic, and at who the active controller is, a hundred times a second and more, over connections that are kept.

One broker is asked, and always the same while it answers: the active controller's own at first, for it knows soonest (see `infra.views`).
A broker that does not answer in time is passed over, and asked again when it has sent what it owes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from infra import wire
from infra.cluster import ControllerView, NodeStatus, PartitionState
from infra.link import Link

ANSWER_TIMEOUT_S: Final = 0.05


class LocalLookout:
    """Implements `infra.cluster.Lookout` for nodes on this machine; for one thread."""

    def __init__(self, nodes: Sequence[NodeStatus], topic: str) -> None:
        """Know whom to ask; nothing is connected yet."""
        self._topic = topic
        self._brokers = {node.node_id: Link(node.client_port) for node in nodes}
        self._controllers = {node.node_id: Link(node.controller_port) for node in nodes}
        self._asked: int | None = None
        self._active: int | None = None

    def partitions(self) -> tuple[PartitionState, ...] | None:
        """The topic's partitions as one broker knows them; `None` when none that knows the topic answered in time.

        Raises:
            HarnessError: what came is not Kafka's answer.
        """
        request = wire.metadata_request([self._topic])
        for node_id in self._in_order():
            link = self._brokers[node_id]
            answer = link.answer(time.monotonic() + ANSWER_TIMEOUT_S) if link.ask(request) else None
            partitions = wire.read_metadata(answer).partitions if answer is not None else ()
            if partitions:
                self._asked = node_id
                return partitions
        return None

    def controller(self) -> ControllerView | None:
        """The active controller, asked of all nodes at once; of several that take themselves for it, the newest.

        Raises:
            HarnessError: what came is not Kafka's answer.
        """
        asked = [link for link in self._controllers.values() if link.ask(wire.quorum_request())]
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        answers = [answer for link in asked if (answer := link.answer(until_s)) is not None]
        views = [view for view in map(wire.read_quorum, answers) if view is not None]
        active = max(views, key=lambda view: view.epoch, default=None)
        self._active = active.leader if active else None
        return active

    def close(self) -> None:
        """End all connections."""
        for link in (*self._brokers.values(), *self._controllers.values()):
            link.close()

    def _in_order(self) -> Iterator[int]:
        """Whom to ask first: who answered last, then who is the active controller, then the others."""
        first = [node_id for node_id in (self._asked, self._active) if node_id is not None]
        return iter(dict.fromkeys([*first, *self._brokers]))
