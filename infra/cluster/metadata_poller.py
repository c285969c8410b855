"""Polls the metadata of one topic, and the active controller, a hundred times per second and more.

The connections are kept. The poller queries one broker, the same one while it answers: the active
controller's own, because its metadata are the newest (see `infra.cluster.health`); with dedicated
controllers, a broker that no other broker reports as fenced. When it does not answer in time the
poller queries the next broker as well, and the first reply counts.

Queries go to the replication listener: a fault that cuts clients off from the client listener does
not affect the poller.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.infra.cluster.health import newest_controller, zookeeper_controller
from ackbench.infra.cluster.interface import MetadataSnapshot
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka import wire
from ackbench.infra.kafka.spec import ControllerView, NodeStatus
from ackbench.infra.network.timed_connection import MOST_RESPONSE_BYTES

CONNECT_TIMEOUT_S: Final = 0.02
RECONNECT_AFTER_S: Final = 0.1
"""A crashed node refuses connections at once; frequent attempts would delay the other requests."""
STALE_AFTER_S: Final = 1.0
"""A later reply is discarded: its node was paused, and may report what was before the pause."""
REPLY_TIMEOUT_S: Final = 0.05
"""After this time the next broker is queried as well."""
FINAL_REPLY_TIMEOUT_S: Final = 0.2
"""How long to wait for a reply of any broker once all were queried."""
_SIZE_BYTES: Final = 4
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class ConnectionReply:
    """A node's response."""

    node_id: int
    frame: bytes
    """The response without its size."""
    requested_s: float
    """When its request was sent, seconds of the monotonic clock."""


class NodeConnection:
    """A kept connection to one listener, for one request at a time.

    While a response is outstanding no further request is sent: a paused broker would collect
    hundreds of them and answer all of them after the pause.
    """

    def __init__(self, node_id: int, host: str, port: int) -> None:
        """Store the address; the first request connects."""
        self.node_id = node_id
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._received = b""
        self._requested_s: float | None = None
        self._reconnect_s = 0.0

    @property
    def is_pending(self) -> bool:
        """Whether a request has been sent and not been answered yet."""
        return self._requested_s is not None

    def send(self, request: bytes) -> None:
        """Send a request; do nothing while one is pending, or when the node refuses connections."""
        if self.is_pending or not self._connect():
            return
        try:
            self._connected.sendall(request)
        except OSError:
            self.close()
        else:
            self._requested_s = time.monotonic()

    def receive(self) -> ConnectionReply | None:
        """Return the response if it has arrived completely; discard a stale one.

        Raises:
            HarnessError: what arrives is not Kafka's; the connection is closed.
        """
        if self._requested_s is None:
            return None
        if select.select([self._connected], [], [], 0)[0]:
            self._read()
        frame, requested_s = self._take_frame(), self._requested_s
        if frame is None or requested_s is None:
            return None
        self._requested_s = None
        is_stale = time.monotonic() - requested_s >= STALE_AFTER_S
        return None if is_stale else ConnectionReply(self.node_id, frame, requested_s)

    def fileno(self) -> int:
        """Return the socket's file descriptor, for select(2)."""
        return self._connected.fileno()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._received, self._requested_s = None, b"", None

    @property
    def _connected(self) -> socket.socket:
        if self._socket is None:  # every caller has connected
            raise AssertionError(self._address)
        return self._socket

    def _connect(self) -> bool:
        if self._socket is None and time.monotonic() >= self._reconnect_s:
            try:
                self._socket = socket.create_connection(self._address, timeout=CONNECT_TIMEOUT_S)
            except OSError:
                self._reconnect_s = time.monotonic() + RECONNECT_AFTER_S
        return self._socket is not None

    def _read(self) -> None:
        try:
            received = self._connected.recv(_READ_BYTES)
        except OSError:
            received = b""
        self._received += received
        if not received:
            self.close()

    def _take_frame(self) -> bytes | None:
        """Return one complete response without its size, and keep what follows it.

        Raises:
            HarnessError: its size is not one of Kafka's.
        """
        if len(self._received) < _SIZE_BYTES:
            return None
        (size_bytes,) = struct.unpack_from(">i", self._received)
        if not 0 < size_bytes <= MOST_RESPONSE_BYTES:
            self.close()
            raise HarnessError(f"a response of {size_bytes} bytes is not Kafka's")
        end = _SIZE_BYTES + size_bytes
        if len(self._received) < end:
            return None
        frame, self._received = self._received[_SIZE_BYTES:end], self._received[end:]
        return frame


def first_reply(connections: Sequence[NodeConnection], until_s: float) -> ConnectionReply | None:
    """Return the first response that arrives completely.

    `None`: no request is pending any more, or the time is up.

    Args:
        connections: those with a pending request are waited for.
        until_s: how long, a moment of the monotonic clock.
    """
    while pending := [connection for connection in connections if connection.is_pending]:
        replies = (connection.receive() for connection in pending)
        reply = next((reply for reply in replies if reply is not None), None)
        left_s = until_s - time.monotonic()
        if reply is not None or left_s <= 0:
            return reply
        # A connection that was closed, or whose response is stale, is pending no more.
        if waited_for := [connection for connection in pending if connection.is_pending]:
            select.select(waited_for, [], [], left_s)
    return None


class LocalMetadataPoller:
    """A poller for nodes on this machine; not thread-safe.

    Implements `infra.cluster.interface.TopicMetadataPoller`.
    """

    def __init__(self, nodes: Sequence[NodeStatus], topic: str) -> None:
        """Store the addresses; the first poll connects."""
        self._topic = topic
        self._brokers = {
            node.node_id: NodeConnection(node.node_id, node.host, node.replication_port)
            for node in nodes
            if node.is_broker
        }
        self._is_kraft = any(node.is_controller for node in nodes)
        # Under ZooKeeper the controller is a broker. It gets a second connection, so that the
        # response to one query is not taken for the response to the other.
        self._controllers = {
            node.node_id: NodeConnection(
                node.node_id,
                node.host,
                node.controller_port if self._is_kraft else node.replication_port,
            )
            for node in nodes
            if (node.is_controller or not self._is_kraft) and node.role != "zookeeper"
        }
        self._preferred: int | None = None
        """The broker that answered last."""
        self._active: int | None = None
        """The active controller, as it was last reported."""
        self._epoch = -1
        self._turn = 0

    def partitions(self) -> MetadataSnapshot | None:
        """Return the topic's partitions; `None` when no broker that knows it answered in time.

        Raises:
            HarnessError: a response is not Kafka's.
        """
        request, queried = wire.metadata_request([self._topic]), list[NodeConnection]()
        for timeout_s, connection in self._order():
            # A pending response was waited for when its request was sent.
            is_pending = connection is not None and connection.is_pending
            until_s = time.monotonic() + (0 if is_pending else timeout_s)
            if connection is not None:
                connection.send(request)
                queried.append(connection)
            snapshot = self._snapshot(queried, until_s)
            if snapshot is not None:
                return snapshot
        return None

    def controller(self) -> ControllerView | None:
        """Return the active controller, querying all nodes at once; of several, the newest one.

        Raises:
            HarnessError: a response is not Kafka's.
        """
        until_s = time.monotonic() + REPLY_TIMEOUT_S
        for connection in self._controllers.values():
            connection.send(wire.quorum_request() if self._is_kraft else wire.metadata_request(()))
        replies = iter(lambda: first_reply([*self._controllers.values()], until_s), None)
        active = self._active_of(replies)
        self._active = active.leader if active else self._active
        if self._active not in self._brokers:
            self._check_preferred(until_s)
        return active

    def _active_of(self, replies: Iterator[ConnectionReply]) -> ControllerView | None:
        """Return the active controller, unless its epoch is older than one that was seen.

        A controller that is cut off reports itself as active until it learns of its successor.
        """
        if not self._is_kraft:
            return zookeeper_controller(
                {reply.node_id: wire.read_metadata(reply.frame) for reply in replies}
            )
        view = newest_controller(wire.read_quorum(reply.frame) for reply in replies)
        if view is None or view.epoch is None or view.epoch < self._epoch:
            return None
        self._epoch = view.epoch
        return view

    def _check_preferred(self, until_s: float) -> None:
        """Query another broker whether the preferred one is fenced; if so, prefer the other one.

        A broker that is cut off keeps answering from its old metadata.
        """
        others = [one for node_id, one in self._brokers.items() if node_id != self._preferred]
        self._turn += 1
        other = others[self._turn % len(others)] if others else self._brokers[min(self._brokers)]
        other.send(wire.metadata_request(()))
        reply = first_reply([other], until_s)
        unfenced = wire.read_metadata(reply.frame).brokers if reply else frozenset[int]()
        if reply and reply.node_id in unfenced and self._preferred not in unfenced:
            self._preferred = reply.node_id

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._brokers.values(), *self._controllers.values()):
            connection.close()

    def _order(self) -> Iterator[tuple[float, NodeConnection | None]]:
        """Yield which broker to query next, and how long to wait then.

        First the active controller, then the broker that answered last, then the others. The last
        item has no broker: it is the final wait for any of them.
        """
        first = [node_id for node_id in (self._active, self._preferred) if node_id in self._brokers]
        for node_id in dict.fromkeys([*first, *self._brokers]):
            yield REPLY_TIMEOUT_S, self._brokers[node_id]
        yield FINAL_REPLY_TIMEOUT_S, None

    def _snapshot(
        self, queried: Sequence[NodeConnection], until_s: float
    ) -> MetadataSnapshot | None:
        """Return the first reply that knows the topic; a broker that just started does not."""
        while (reply := first_reply(queried, until_s)) is not None:
            partitions = wire.read_metadata(reply.frame).partitions
            if partitions:
                self._preferred = reply.node_id
                return MetadataSnapshot(partitions, reply.requested_s)
        return None
