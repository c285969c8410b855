"""Looks at one topic, and at who the active controller is, a hundred times a second and more, over connections that are kept.

One broker is asked, and always the same while it answers: the active controller's own, for it knows soonest (see `infra.cluster.health`), or where controllers
are nodes of their own, one that no other broker calls fenced.
When it does not answer in time the next one is asked as well, and whoever answers first is believed.
Brokers are asked at the listener that they use among themselves: a fault that cuts clients off from theirs does not blind the watch.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from infra.cluster.health import zookeeper_controller, newest_controller
from infra.cluster.interface import MetadataSnapshot
from infra.kafka import wire
from infra.kafka.spec import ControllerView, NodeStatus

# ---------- Connections to listeners that are kept, for small requests asked again and again; a node that owes an answer is not asked a second time.


CONNECT_TIMEOUT_S: Final = 0.02
RECONNECT_AFTER_S: Final = 0.1
"""A dead node refuses at once; asking it a hundred times a second would cost more than asking the living."""
STALE_AFTER_S: Final = 1.0
"""An answer that took longer is thrown away: its node stood still, and may say what was before."""
_SIZE_BYTES: Final = 4
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class ConnectionReply:
    """What a node answered, and when it had been asked, seconds of the monotonic clock."""

    node_id: int
    frame: bytes
    requested_s: float


class NodeConnection:
    """One request at a time."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
        """Know where; nothing is connected yet."""
        self.node_id = node_id
        self._at = (host, port)
        self._socket: socket.socket | None = None
        self._received = b""
        self._asked_s: float | None = None
        self._not_before_s = 0.0

    @property
    def owes(self) -> bool:
        """Whether a request was sent that is not answered yet."""
        return self._asked_s is not None

    def ask(self, request: bytes) -> None:
        """Send a request, unless the answer to the last one is still owed, or nobody listens."""
        if self.owes or not self._connected():
            return
        try:
            self._open.sendall(request)
        except OSError:
            self.close()
        else:
            self._asked_s = time.monotonic()

    def take(self) -> ConnectionReply | None:
        """Return the answer if it is whole with what has come by now; a stale one is thrown away."""
        if self._asked_s is None:
            return None
        if select.select([self._open], [], [], 0)[0]:
            self._receive()
        frame, requested_s = self._frame(), self._asked_s
        if frame is None or requested_s is None:
            return None
        self._asked_s = None
        return (
            ConnectionReply(self.node_id, frame, requested_s)
            if time.monotonic() - requested_s < STALE_AFTER_S
            else None
        )

    def fileno(self) -> int:
        """For select(2)."""
        return self._open.fileno()

    def close(self) -> None:
        """End the connection; the next request makes a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._received, self._asked_s = None, b"", None

    @property
    def _open(self) -> socket.socket:
        if self._socket is None:  # every caller has connected
            raise AssertionError(self._at)
        return self._socket

    def _connected(self) -> bool:
        if self._socket is None and time.monotonic() >= self._not_before_s:
            try:
                self._socket = socket.create_connection(self._at, timeout=CONNECT_TIMEOUT_S)
            except OSError:
                self._not_before_s = time.monotonic() + RECONNECT_AFTER_S
        return self._socket is not None

    def _receive(self) -> None:
        try:
            received = self._open.recv(_READ_BYTES)
        except OSError:
            received = b""
        self._received += received
        if not received:
            self.close()

    def _frame(self) -> bytes | None:
        """A size in four bytes, and so many bytes."""
        if len(self._received) < _SIZE_BYTES:
            return None
        (size_bytes,) = struct.unpack_from(">i", self._received)
        if len(self._received) < _SIZE_BYTES + size_bytes:
            return None
        frame, self._received = (
            self._received[_SIZE_BYTES : _SIZE_BYTES + size_bytes],
            self._received[_SIZE_BYTES + size_bytes :],
        )
        return frame


def first_reply(links: Sequence[NodeConnection], until_s: float) -> ConnectionReply | None:
    """Return the answer that is whole first, of those that are owed; `None` when none is by that moment of the monotonic clock."""
    while owing := [link for link in links if link.owes]:
        answer = next((answer for link in owing if (answer := link.take()) is not None), None)
        left_s = until_s - time.monotonic()
        if answer is not None or left_s <= 0:
            return answer
        select.select([link for link in owing if link.owes], [], [], left_s)
    return None


REPLY_TIMEOUT_S: Final = 0.05
"""After this another broker is asked as well."""
FINAL_REPLY_TIMEOUT_S: Final = 0.2
"""So long the answer of any of them is waited for, when all were asked."""


class LocalMetadataPoller:
    """Implements `infra.cluster.interface.TopicMetadataPoller` for nodes on this machine; for one thread."""

    def __init__(self, nodes: Sequence[NodeStatus], topic: str) -> None:
        """Know whom to ask; nothing is connected yet."""
        self._topic = topic
        self._brokers = {
            node.node_id: NodeConnection(node.node_id, node.host, node.replication_port)
            for node in nodes
            if node.is_broker
        }
        self._quorum = any(node.is_controller for node in nodes)
        # Under ZooKeeper a broker is the controller; it is asked over a second connection, lest one answer be taken for another.
        asked = [
            (node, node.controller_port if self._quorum else node.replication_port)
            for node in nodes
            if node.is_controller or not self._quorum
        ]
        self._controllers = {
            node.node_id: NodeConnection(node.node_id, node.host, port)
            for node, port in asked
            if node.role != "zookeeper"
        }
        self._asked: int | None = None
        self._active: int | None = None
        self._epoch = -1
        self._turn = 0

    def partitions(self) -> MetadataSnapshot | None:
        """The topic's partitions as one broker knows them; `None` when none that knows the topic answered in time.

        Raises:
            HarnessError: what came is not Kafka's answer.
        """
        request, asked = wire.metadata_request([self._topic]), list[NodeConnection]()
        for patience_s, link in self._in_turn():
            until_s = time.monotonic() + (
                0 if link is not None and link.owes else patience_s
            )  # what it owes was waited for when it was asked
            if link is not None:
                link.ask(request)
                asked.append(link)
            sighting = self._sighting(asked, until_s)
            if sighting is not None:
                return sighting
        return None

    def controller(self) -> ControllerView | None:
        """The active controller, asked of all nodes at once; of several that take themselves for it, the newest.

        Raises:
            HarnessError: what came is not Kafka's answer.
        """
        until_s = time.monotonic() + REPLY_TIMEOUT_S
        for link in self._controllers.values():
            link.ask(wire.quorum_request() if self._quorum else wire.metadata_request(()))
        answers = iter(lambda: first_reply([*self._controllers.values()], until_s), None)
        active = self._active_of(answers)
        self._active = active.leader if active else self._active
        if self._active not in self._brokers:
            self._hear_another(until_s)
        return active

    def _active_of(self, answers: Iterator[ConnectionReply]) -> ControllerView | None:
        """Believe nobody whose epoch is over: a controller that is cut off takes itself for the active one until it hears of the next."""
        if not self._quorum:
            return zookeeper_controller(
                {answer.node_id: wire.read_metadata(answer.frame) for answer in answers}
            )
        view = newest_controller(wire.read_quorum(answer.frame) for answer in answers)
        if view is None or view.epoch is None or view.epoch < self._epoch:
            return None
        self._epoch = view.epoch
        return view

    def _hear_another(self, until_s: float) -> None:
        """Ask a broker that was not asked last: one that is cut off goes on answering with what was, and the others know that it is fenced."""
        others = [link for node_id, link in self._brokers.items() if node_id != self._asked]
        self._turn += 1
        link = others[self._turn % len(others)] if others else self._brokers[min(self._brokers)]
        link.ask(wire.metadata_request(()))
        answer = first_reply([link], until_s)
        alive = wire.read_metadata(answer.frame).brokers if answer else frozenset[int]()
        if answer and answer.node_id in alive and self._asked not in alive:
            self._asked = answer.node_id

    def close(self) -> None:
        """End all connections."""
        for link in (*self._brokers.values(), *self._controllers.values()):
            link.close()

    def _in_turn(self) -> Iterator[tuple[float, NodeConnection | None]]:
        """Whom to ask, and how long to wait then: who is the active controller, who answered last, the others; at last nobody more."""
        first = [node_id for node_id in (self._active, self._asked) if node_id in self._brokers]
        for node_id in dict.fromkeys([*first, *self._brokers]):
            yield REPLY_TIMEOUT_S, self._brokers[node_id]
        yield FINAL_REPLY_TIMEOUT_S, None

    def _sighting(self, asked: Sequence[NodeConnection], until_s: float) -> MetadataSnapshot | None:
        """Return what the first of them says that knows the topic; a broker that has just started does not."""
        while (answer := first_reply(asked, until_s)) is not None:
            partitions = wire.read_metadata(answer.frame).partitions
            if partitions:
                self._asked = answer.node_id
                return MetadataSnapshot(partitions, answer.requested_s)
        return None
