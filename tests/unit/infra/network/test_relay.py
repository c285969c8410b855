"""A relay between real sockets: carries, holds, drops, resets, and counts what it met with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from infra.network.impairment import Direction, Relaying, Treatment
from infra.network.ports import reserve_ports
from infra.network.relay import Relay, RelayImpairment

PATIENCE_S = 10.0


@dataclass
class Echo:
    """A node that answers what it is asked, and keeps it."""

    asked: bytearray = field(default_factory=bytearray)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the other end has had enough."""
        while data := await reader.read(1 << 16):
            self.asked += data
            self.heard.set()
            writer.write(data)
        writer.close()


@dataclass
class Watched(RelayImpairment):
    """Tells when bytes come by."""

    came: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, data: bytes) -> None:
        """Count them, and tell."""
        super().count(data)
        self.came.set()

    async def until_met(self, size_bytes: int) -> None:
        """Return once so many came by."""
        while self.met_bytes < size_bytes:
            self.came.clear()
            await self.came.wait()


@dataclass
class Way:
    """A client's connection through a relay to a node."""

    relay: Relay
    node: Echo
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def treat(self, direction: Direction, treatment: Treatment) -> Watched:
        """Begin to treat a direction so."""
        placed = Watched(Relaying(1, direction, treatment), self.relay)
        placed.begin()
        return placed

    async def ask(self, data: bytes) -> None:
        """Send and wait until the node has it."""
        self.node.heard.clear()
        self.writer.write(data)
        await self.node.heard.wait()


@asynccontextmanager
async def way(*, up: bool = True) -> AsyncIterator[Way]:
    """A relay in front of a node, and a client that came through."""
    reservation = reserve_ports(2)
    node, (front, back) = Echo(), reservation.ports
    server = await asyncio.start_server(node.serve, "127.0.0.1", back) if up else None
    relay = Relay(1, "127.0.0.1", front, back)
    await relay.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", front)
    try:
        yield Way(relay, node, reader, writer)
    finally:
        writer.close()
        relay.close()
        if server:
            server.close()
        reservation.release()


def play(scene: Callable[[Way], Awaitable[None]], *, up: bool = True) -> None:
    """Play a scene, in time."""

    async def played() -> None:
        async with way(up=up) as its:
            await asyncio.wait_for(scene(its), PATIENCE_S)

    asyncio.run(played())


def test_it_carries_both_ways() -> None:
    """More than any buffer holds comes back as it was sent."""

    async def scene(its: Way) -> None:
        sent = bytes(range(256)) * 40_000
        its.writer.write(sent)
        assert await its.reader.readexactly(len(sent)) == sent

    play(scene)


def test_held_responses_come_at_the_end_and_in_order() -> None:
    """The node has answered long ago; nothing is lost."""

    async def scene(its: Way) -> None:
        placed = its.treat("responses", "hold")
        await its.ask(b"one")
        await its.ask(b"two")
        await placed.until_met(len(b"onetwo"))
        (caught,) = placed.end()
        assert await its.reader.readexactly(6) == b"onetwo"
        assert (caught.bytes, caught.connections) == (6, 0)

    play(scene)


def test_held_requests_arrive_though_their_client_is_gone() -> None:
    """It gave up and closed; the node gets what was on its way all the same, as from a kernel's buffers."""

    async def scene(its: Way) -> None:
        placed = its.treat("requests", "hold")
        its.writer.write(b"late")
        its.writer.close()
        await placed.until_met(len(b"late"))
        assert its.node.asked == b""
        placed.end()
        await its.node.heard.wait()
        assert its.node.asked == b"late"

    play(scene)


def test_dropped_responses_end_in_a_reset() -> None:
    """The node has the request; the client gets nothing, and no half of an answer later."""

    async def scene(its: Way) -> None:
        placed = its.treat("responses", "drop")
        await its.ask(b"stored")
        await placed.until_met(len(b"stored"))
        (caught,) = placed.end()
        with pytest.raises(ConnectionResetError):
            await its.reader.read(1)
        assert (bytes(its.node.asked), caught.bytes, caught.connections) == (b"stored", 6, 1)

    play(scene)


def test_a_reset_comes_with_the_first_byte() -> None:
    """Of requests: the node never hears of it."""

    async def scene(its: Way) -> None:
        placed = its.treat("requests", "reset")
        its.writer.write(b"never")
        with pytest.raises(ConnectionResetError):
            await its.reader.read(1)
        (caught,) = placed.end()
        assert (bytes(its.node.asked), caught.bytes, caught.connections) == (b"", 5, 1)

    play(scene)


def test_the_other_way_is_left_alone() -> None:
    """Requests come through while responses are held."""

    async def scene(its: Way) -> None:
        placed = its.treat("responses", "hold")
        await its.ask(b"through")
        assert its.node.asked == b"through"
        placed.end()

    play(scene)


def test_a_node_that_is_down_refuses_through_its_relay() -> None:
    """The client learns of it at once."""

    async def scene(its: Way) -> None:
        with pytest.raises(ConnectionResetError):
            await its.reader.read(1)

    play(scene, up=False)
