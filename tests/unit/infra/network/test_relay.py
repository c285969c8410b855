"""Tests of a relay between real sockets: it forwards, holds, drops, resets, and counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from support.golden_files import Says

from ackbench.infra.network.failures import LoopFailures
from ackbench.infra.network.impairment import RelayAction
from ackbench.infra.network.relay import Connection, Relay, RelayMechanism, RelayTarget
from ackbench.infra.network.reservations import reserve_ports
from ackbench.infra.network.treatment import Direction, RelayTreatment

TIMEOUT_S = 10.0


@dataclass
class EchoNode:
    """A node that records its requests and sends them back."""

    requests: bytearray = field(default_factory=bytearray)
    received: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until the other end closes it."""
        while data := await reader.read(1 << 16):
            self.requests += data
            self.received.set()
            writer.write(data)
        writer.close()


@dataclass
class ObservedMechanism(RelayMechanism):
    """Signals when bytes are affected."""

    counted: asyncio.Event = field(default_factory=asyncio.Event)

    def count_bytes(self, data: bytes) -> None:
        """Count the bytes, and signal."""
        super().count_bytes(data)
        self.counted.set()

    async def until_affected(self, size_bytes: int) -> None:
        """Return when this many bytes were affected."""
        while self.affected_bytes < size_bytes:
            self.counted.clear()
            await self.counted.wait()


@dataclass
class RelayedClient:
    """A client that is connected to a node through a relay."""

    relay: Relay
    node: EchoNode
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def impair(self, direction: Direction, treatment: RelayTreatment) -> ObservedMechanism:
        """Apply an impairment to the relay."""
        mechanism = ObservedMechanism(RelayAction(1, direction, treatment), self.relay)
        mechanism.apply()
        return mechanism

    async def request(self, data: bytes) -> None:
        """Send a request and wait until the node has received it."""
        self.node.received.clear()
        self.writer.write(data)
        await self.node.received.wait()


@asynccontextmanager
async def connected_client(*, node_is_up: bool = True) -> AsyncIterator[RelayedClient]:
    """Start a node and its relay, and connect a client."""
    reservation = reserve_ports(2)
    node, (relay_port, node_port) = EchoNode(), reservation.ports
    server = await asyncio.start_server(node.serve, "127.0.0.1", node_port) if node_is_up else None
    relay = Relay(1, ("127.0.0.1", relay_port), RelayTarget("127.0.0.1", node_port))
    await relay.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", relay_port)
    try:
        yield RelayedClient(relay, node, reader, writer)
    finally:
        writer.close()
        relay.close()
        if server:
            server.close()
        reservation.release()


def run_scenario(
    scenario: Callable[[RelayedClient], Awaitable[None]], *, node_is_up: bool = True
) -> None:
    """Run a scenario with a timeout."""

    async def run() -> None:
        async with connected_client(node_is_up=node_is_up) as client:
            await asyncio.wait_for(scenario(client), TIMEOUT_S)

    asyncio.run(run())


def test_relay_forwards_both_directions() -> None:
    """The response is complete, although it exceeds every buffer."""

    async def scenario(client: RelayedClient) -> None:
        sent = bytes(range(256)) * 40_000
        client.writer.write(sent)
        assert await client.reader.readexactly(len(sent)) == sent

    run_scenario(scenario)


@dataclass
class FailingMechanism(RelayMechanism):
    """Fails on the first bytes that it affects."""

    def count_bytes(self, data: bytes) -> None:
        """Fail."""
        raise ValueError(f"{len(data)} bytes")


def test_a_connection_of_a_relay_that_fails_is_noted_by_its_loop(says: Says) -> None:
    """The client only sees that its connection ends, as by a fault of the network."""
    failures = LoopFailures("a relay")

    async def scenario(client: RelayedClient) -> None:
        asyncio.get_running_loop().set_exception_handler(failures.note)
        FailingMechanism(RelayAction(1, "requests", "hold"), client.relay).apply()
        client.writer.write(b"request")
        with suppress(ConnectionError):
            assert await client.reader.read() == b""

    run_scenario(scenario)
    says([str(one) for one in failures.so_far])


class RecordingTransport(asyncio.Transport):
    """Records what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Record the data."""
        self.written += bytes(data)

    def close(self) -> None:
        """Record the close."""
        self.closed = True

    def is_closing(self) -> bool:
        """Return whether it was closed."""
        return self.closed

    def pause_reading(self) -> None:
        """Do nothing, as the asyncio of Python 3.11.2 when a connection has just been made."""

    def resume_reading(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("ends", [False, True])
def test_a_request_that_is_read_before_the_node_is_connected_is_not_lost(ends: bool) -> None:
    """The asyncio of Python 3.11.2 reads from a client although the relay has paused reading."""

    async def run() -> RecordingTransport:
        connection = Connection(Relay(1, ("127.0.0.1", 1), RelayTarget("127.0.0.1", 2)))
        connection.connect_to_node = lambda: None  # type: ignore[method-assign]
        to_client, to_node = RecordingTransport(), RecordingTransport()
        connection.client.connection_made(to_client)
        connection.client.data_received(b"one ")
        connection.client.data_received(b"two")
        if ends:
            connection.client.eof_received()
        connection.node.connection_made(to_node)
        return to_node

    to_node = asyncio.run(run())
    assert (to_node.written, to_node.closed) == (b"one two", ends)


def test_held_responses_are_delivered_in_order_at_the_end() -> None:
    """Nothing is lost, and no connection is reset."""

    async def scenario(client: RelayedClient) -> None:
        mechanism = client.impair("responses", "hold")
        await client.request(b"one")
        await client.request(b"two")
        await mechanism.until_affected(len(b"onetwo"))
        (counts,) = mechanism.remove()
        assert await client.reader.readexactly(6) == b"onetwo"
        assert (counts.bytes, counts.connections) == (6, 0)

    run_scenario(scenario)


def test_held_requests_are_delivered_after_their_client_has_closed() -> None:
    """The node receives them, as it would receive data from a kernel's send buffer."""

    async def scenario(client: RelayedClient) -> None:
        mechanism = client.impair("requests", "hold")
        client.writer.write(b"late")
        client.writer.close()
        await mechanism.until_affected(len(b"late"))
        assert client.node.requests == b""
        mechanism.remove()
        await client.node.received.wait()
        assert client.node.requests == b"late"

    run_scenario(scenario)


def test_dropped_responses_end_in_a_reset() -> None:
    """The node has the request; the client never receives a part of the response."""

    async def scenario(client: RelayedClient) -> None:
        mechanism = client.impair("responses", "drop")
        await client.request(b"stored")
        await mechanism.until_affected(len(b"stored"))
        (counts,) = mechanism.remove()
        with pytest.raises(ConnectionResetError):
            await client.reader.read(1)
        assert (bytes(client.node.requests), counts.bytes, counts.connections) == (b"stored", 6, 1)

    run_scenario(scenario)


def test_reset_happens_at_the_first_byte() -> None:
    """The node does not receive the request."""

    async def scenario(client: RelayedClient) -> None:
        mechanism = client.impair("requests", "reset")
        client.writer.write(b"never")
        with pytest.raises(ConnectionResetError):
            await client.reader.read(1)
        (counts,) = mechanism.remove()
        assert (bytes(client.node.requests), counts.bytes, counts.connections) == (b"", 5, 1)

    run_scenario(scenario)


def test_other_direction_is_not_affected() -> None:
    """Requests reach the node while responses are held."""

    async def scenario(client: RelayedClient) -> None:
        mechanism = client.impair("responses", "hold")
        await client.request(b"through")
        assert client.node.requests == b"through"
        mechanism.remove()

    run_scenario(scenario)


def test_relay_of_a_stopped_node_resets_the_connection() -> None:
    """The client learns at once that the node is down."""

    async def scenario(client: RelayedClient) -> None:
        with pytest.raises(ConnectionResetError):
            await client.reader.read(1)

    run_scenario(scenario, node_is_up=False)
