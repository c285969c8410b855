"""The metadata poller: its kept connections, and which node's metadata it returns."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from ackbench.infra.cluster.metadata_poller import LocalMetadataPoller, NodeConnection, first_reply
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka import wire
from ackbench.infra.kafka.spec import ControllerView, MemberRole, NodeStatus, PartitionState
from ackbench.infra.kafka.wire import BrokerView

SOON_S = 60.0
"""A bound that no test waits for."""
TOPIC = "polled"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listener that accepts connections and answers when the test does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SOON_S)
        yield listening


@pytest.fixture
def connection(listener: socket.socket) -> Iterator[NodeConnection]:
    """A connection to the listener."""
    made = NodeConnection(1, *listener.getsockname())
    yield made
    made.close()


def frame(content: bytes) -> bytes:
    """Return a response with its size, as Kafka sends it."""
    return struct.pack(">i", len(content)) + content


def reply(connection: NodeConnection) -> bytes | None:
    """Wait for the response and return it; `None`: there is none to wait for."""
    until_s = time.monotonic() + SOON_S
    received = first_reply([connection], until_s)
    assert time.monotonic() < until_s
    return received.frame if received else None


def reply_now(connection: NodeConnection) -> bytes | None:
    """Return the response if it has arrived completely."""
    received = first_reply([connection], time.monotonic())
    return received.frame if received else None


def test_a_connection_is_kept(connection: NodeConnection, listener: socket.socket) -> None:
    """Two requests use one connection and get one response each."""
    connection.send(b"first")
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"one"))
        assert reply(connection) == b"one"
        connection.send(b"second")
        served.sendall(frame(b"two"))
        assert reply(connection) == b"two"


def test_a_response_that_arrives_in_parts_is_assembled(
    connection: NodeConnection, listener: socket.socket
) -> None:
    """TCP has no message boundaries."""
    connection.send(b"?")
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"whole")[:6])
        assert reply_now(connection) is None
        served.sendall(frame(b"whole")[6:])
        assert reply(connection) == b"whole"


def test_no_request_is_sent_while_one_is_pending(
    connection: NodeConnection, listener: socket.socket
) -> None:
    """A paused broker would collect hundreds of requests, and answer all of them afterwards."""
    connection.send(b"first")
    served, _ = listener.accept()
    with served:
        connection.send(b"second")
        assert served.recv(100) == b"first"
        served.sendall(frame(b"one"))
        assert reply(connection) == b"one"
        connection.send(b"third")
        assert served.recv(100) == b"third"


def test_a_reply_has_the_time_of_its_request(
    connection: NodeConnection, listener: socket.socket
) -> None:
    """The reported state is of then or later, however late the response arrives."""
    before_s = time.monotonic()
    connection.send(b"?")
    after_s = time.monotonic()
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"one"))
        received = first_reply([connection], time.monotonic() + SOON_S)
        assert received is not None
        assert before_s <= received.requested_s <= after_s


def test_a_stale_response_is_discarded(
    connection: NodeConnection, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reports what was before the pause; the next request gets its own response."""
    connection.send(b"?")
    served, _ = listener.accept()
    with served:
        monkeypatch.setattr("ackbench.infra.cluster.metadata_poller.STALE_AFTER_S", 0)
        served.sendall(frame(b"old"))
        assert reply(connection) is None
        monkeypatch.undo()
        connection.send(b"again")
        served.sendall(frame(b"new"))
        assert reply(connection) == b"new"


def test_a_closed_connection_is_opened_again(
    connection: NodeConnection, listener: socket.socket
) -> None:
    """The broker crashed and has restarted: the pending response will never arrive."""
    connection.send(b"?")
    listener.accept()[0].close()
    assert reply(connection) is None
    connection.send(b"again")
    served, _ = listener.accept()
    with served:
        served.sendall(frame(b"one"))
        assert reply(connection) == b"one"


def test_a_refused_connection_leaves_nothing_pending(
    connection: NodeConnection, listener: socket.socket
) -> None:
    """It returns at once and without an error."""
    listener.close()
    connection.send(b"?")
    assert not connection.is_pending
    assert reply(connection) is None


def test_the_first_response_is_returned(
    connection: NodeConnection, listener: socket.socket
) -> None:
    """A paused node does not delay the response of another one."""
    other = NodeConnection(2, *listener.getsockname())
    for each in (connection, other):
        each.send(b"?")
    (silent, _), (served, _) = listener.accept(), listener.accept()
    with silent, served:
        served.sendall(frame(b"here"))
        received = first_reply([connection, other], time.monotonic() + SOON_S)
        assert received is not None
        assert (received.frame, connection.is_pending, other.is_pending) == (b"here", True, False)
    other.close()


class NamedServer(socketserver.ThreadingTCPServer):
    """A listener that answers every request with its own name."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, name: str) -> None:
        self.name = name.encode()
        super().__init__(("127.0.0.1", 0), _NameHandler)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])


class _NameHandler(socketserver.StreamRequestHandler):
    server: NamedServer

    def handle(self) -> None:
        while head := self.rfile.read(4):
            self.rfile.read(struct.unpack(">i", head)[0])
            self.wfile.write(struct.pack(">i", len(self.server.name)) + self.server.name)


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each listener's response decodes to, by its name; the test changes it meanwhile."""
    decoded: dict[str, Any] = {}
    monkeypatch.setattr(wire, "read_metadata", lambda frame: decoded[frame.decode()])
    monkeypatch.setattr(wire, "read_quorum", lambda frame: decoded[frame.decode()])
    return decoded


@contextmanager
def polling(roles: dict[int, MemberRole]) -> Iterator[LocalMetadataPoller]:
    """Yield a poller of such nodes; node 1's listeners are named `broker 1` and `controller 1`."""
    with ExitStack() as stack:

        def listen(name: str) -> int:
            server = stack.enter_context(NamedServer(name))
            threading.Thread(
                target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
            ).start()
            stack.callback(server.shutdown)
            return server.port

        nodes = [
            NodeStatus(
                n,
                "running",
                None,
                None,
                1,
                listen(f"broker {n}"),
                listen(f"controller {n}"),
                role=role,
            )
            for n, role in roles.items()
        ]
        yield stack.enter_context(closing(LocalMetadataPoller(nodes, TOPIC)))


def view(leader: int, *brokers: int) -> BrokerView:
    """Return a view with this leader and these unfenced brokers."""
    return BrokerView(frozenset(brokers), (PartitionState(TOPIC, 0, leader, (1, 2, 3), brokers),))


def eventually(poller: LocalMetadataPoller, condition: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within the next few polls."""
    return any(condition() for _ in range(20) if (poller.controller(), True))


def leader(poller: LocalMetadataPoller) -> int | None:
    """Return the leader that the poller reports."""
    snapshot = poller.partitions()
    return snapshot.partitions[0].leader if snapshot else None


def test_the_poller_follows_the_active_controller_when_its_predecessor_is_cut_off(
    responses: dict[str, Any],
) -> None:
    """The old one keeps answering, and reports itself as active in an older epoch."""
    for node in (1, 2, 3):
        responses |= {f"broker {node}": view(1, 1, 2, 3), f"controller {node}": None}
    responses["controller 1"] = ControllerView(1, 5)
    with polling({1: "combined", 2: "combined", 3: "combined"}) as poller:
        assert eventually(poller, lambda: leader(poller) == 1)
        responses |= {
            "controller 2": ControllerView(2, 6),
            "broker 2": view(3, 2, 3),
            "broker 3": view(3, 2, 3),
        }
        assert eventually(poller, lambda: leader(poller) == 3)
        responses["controller 2"] = None  # as when it is slow: only the old one answers
        assert poller.controller() is None
        assert leader(poller) == 3


def test_with_dedicated_controllers_a_fenced_broker_is_not_believed(
    responses: dict[str, Any],
) -> None:
    """It is cut off and answers as before; no broker has the newest metadata there."""
    for node in (1, 2, 3):
        responses[f"broker {node}"] = view(1, 1, 2, 3)
    responses["controller 4"] = ControllerView(4, 5)
    with polling({1: "broker", 2: "broker", 3: "broker", 4: "controller"}) as poller:
        assert eventually(poller, lambda: leader(poller) == 1)
        responses |= {"broker 2": view(2, 2, 3), "broker 3": view(2, 2, 3)}
        assert eventually(poller, lambda: leader(poller) == 2)


@pytest.mark.parametrize("size_bytes", [-5, 0, (1 << 31) - 1])
def test_a_size_that_is_not_kafkas_closes_the_connection(
    connection: NodeConnection, listener: socket.socket, size_bytes: int
) -> None:
    """So much would be kept until it is complete; of a negative size it never was."""
    connection.send(b"?")
    served, _ = listener.accept()
    with served:
        served.sendall(struct.pack(">i", size_bytes))
        with pytest.raises(HarnessError, match="is not Kafka's"):
            reply(connection)
        assert not connection.is_pending
