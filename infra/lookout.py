"""Looks at one topic, and at who the active controller is, a hundred times a second and more, over connections that are kept.

One broker is asked, and always the same while it answers: the active controller's own at first, for it knows soonest (see `infra.views`).
When it does not answer in time the next one is asked as well, and whoever answers first is believed.
Brokers are asked at the listener that they use among themselves: a fault that cuts clients off from theirs does not blind the watch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from infra import wire
from infra.cluster import ControllerView, NodeStatus, Sighting
from infra.link import Answer, Link, first_answer
from infra.views import elected, newest

ANSWER_TIMEOUT_S: Final = 0.05
"""After this another broker is asked as well."""
LAST_TIMEOUT_S: Final = 0.2
"""So long the answer of any of them is waited for, when all were asked."""


class LocalLookout:
    """Implements `infra.cluster.Lookout` for nodes on this machine; for one thread."""

    def __init__(self, nodes: Sequence[NodeStatus], topic: str) -> None:
        """Know whom to ask; nothing is connected yet."""
        self._topic = topic
        self._brokers = {node.node_id: Link(node.node_id, node.host, node.replication_port) for node in nodes if node.is_broker}
        self._quorum = any(node.is_controller for node in nodes)
        # Under ZooKeeper a broker is the controller; it is asked over a second connection, lest one answer be taken for another.
        asked = [(node, node.controller_port if self._quorum else node.replication_port) for node in nodes if node.is_controller or not self._quorum]
        self._controllers = {node.node_id: Link(node.node_id, node.host, port) for node, port in asked if node.role != "zookeeper"}
        self._asked: int | None = None
        self._active: int | None = None

    def partitions(self) -> Sighting | None:
        """The topic's partitions as one broker knows them; `None` when none that knows the topic answered in time.

        Raises:
            HarnessError: what came is not Kafka's answer.
        """
        request, asked = wire.metadata_request([self._topic]), list[Link]()
        for patience_s, link in self._in_turn():
            if link is not None:
                link.ask(request)
                asked.append(link)
            sighting = self._sighting(asked, time.monotonic() + patience_s)
            if sighting is not None:
                return sighting
        return None

    def controller(self) -> ControllerView | None:
        """The active controller, asked of all nodes at once; of several that take themselves for it, the newest.

        Raises:
            HarnessError: what came is not Kafka's answer.
        """
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        for link in self._controllers.values():
            link.ask(wire.quorum_request() if self._quorum else wire.metadata_request(()))
        answers = iter(lambda: first_answer([*self._controllers.values()], until_s), None)
        active = self._active_of(answers)
        self._follow(active.leader if active else None)
        return active

    def _active_of(self, answers: Iterator[Answer]) -> ControllerView | None:
        if self._quorum:
            return newest(wire.read_quorum(answer.frame) for answer in answers)
        return elected({answer.node_id: wire.read_metadata(answer.frame) for answer in answers})

    def close(self) -> None:
        """End all connections."""
        for link in (*self._brokers.values(), *self._controllers.values()):
            link.close()

    def _follow(self, active: int | None) -> None:
        """Ask a new active controller's broker first: the old one's may be cut off from it, and go on answering with what was."""
        if active != self._active:
            self._asked = None
        self._active = active

    def _in_turn(self) -> Iterator[tuple[float, Link | None]]:
        """Whom to ask, and how long to wait then: who answered last, who is the active controller, the others; at last nobody more."""
        first = [node_id for node_id in (self._asked, self._active) if node_id in self._brokers]
        for node_id in dict.fromkeys([*first, *self._brokers]):
            yield ANSWER_TIMEOUT_S, self._brokers[node_id]
        yield LAST_TIMEOUT_S, None

    def _sighting(self, asked: Sequence[Link], until_s: float) -> Sighting | None:
        """Return what the first of them says that knows the topic; a broker that has just started does not."""
        while (answer := first_answer(asked, until_s)) is not None:
            partitions = wire.read_metadata(answer.frame).partitions
            if partitions:
                self._asked = answer.node_id
                return Sighting(partitions, answer.asked_s)
        return None
