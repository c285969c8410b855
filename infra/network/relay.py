"""A TCP relay in front of a node's client listener: carries bytes both ways, and can hold, drop or reset either way. Needs no root.

It ends each connection and makes a second one to the node, so it acknowledges to TCP what it has taken, as a proxy or a load balancer does.
All of it happens on the event loop of the supervisor that it belongs to, and ends with it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.errors import Busy, SupervisorError
from infra.kafka.kraft import ListenAddress
from infra.network.impairment import (
    Direction,
    ImpairedNetwork,
    Impairment,
    ImpairmentCounts,
    ImpairmentHandle,
    Relaying,
)
from infra.network.loopback import LoopbackNetwork

MOST_HELD_BYTES: Final = 64 << 20
"""Of one connection and direction; what comes on top stays with its sender."""
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of no seconds: closing sends RST (socket(7))."""
_LISTENING: Final = 1024


class Relay:
    """One node's."""

    def __init__(self, node_id: int, host: str, port: int, target_port: int) -> None:
        """Know where to listen and where to go on to; nothing is open yet."""
        self.node_id = node_id
        self._listens, self._target = (host, port), (host, target_port)
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._treatments: dict[Direction, RelayImpairment] = {}

    async def open(self) -> None:
        """Begin to carry."""
        self._server = await asyncio.get_running_loop().create_server(
            self._accepted, *self._listens, backlog=_LISTENING
        )

    def close(self) -> None:
        """Carry no more."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.reset()

    def treatment_of(self, direction: Direction) -> RelayImpairment | None:
        """Return what is done now to the bytes of that direction; `None`: they are carried."""
        return self._treatments.get(direction)

    def begin(self, placed: RelayImpairment) -> None:
        """Treat a direction so from now on.

        Raises:
            Busy: something is done to it already.
        """
        direction = placed.relaying.direction
        if direction in self._treatments:
            raise Busy(
                f"the {direction} of node {self.node_id} are under {self._treatments[direction].relaying} already"
            )
        self._treatments[direction] = placed

    def end(self, placed: RelayImpairment) -> None:
        """Carry that direction again: what was held is delivered, and connections that lack bytes are reset."""
        del self._treatments[placed.relaying.direction]
        for connection in tuple(self._connections):
            connection.deliver(placed)

    def connections(self) -> Sequence[Connection]:
        """Return those that are open."""
        return tuple(self._connections)

    def forget(self, connection: Connection) -> None:
        """Leave out a connection that has ended."""
        self._connections.discard(connection)

    def _accepted(self) -> RelayDirection:
        connection = Connection(self, self._target)
        self._connections.add(connection)
        return connection.client


class Connection:
    """A client's connection and the one to the node that it is continued by."""

    def __init__(self, relay: Relay, target: tuple[str, int]) -> None:
        """Know both ends; neither is open yet."""
        self.relay, self._target = relay, target
        self.client, self.node = RelayDirection(self, "requests"), RelayDirection(self, "responses")
        self._going_on: asyncio.Task[None] | None = None

    def go_on(self) -> None:
        """Connect to the node, now that the client has come."""
        self._going_on = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.node, *self._target)
        except OSError:
            self.reset()  # the node is down, and would have refused
        else:
            self.client.go_on()

    def other(self, half: RelayDirection) -> RelayDirection:
        """Return the end that a half's bytes go on to."""
        return self.node if half is self.client else self.client

    def deliver(self, placed: RelayImpairment) -> None:
        """Hand over what was kept; with bytes missing, reset."""
        half = self.client if placed.relaying.direction == "requests" else self.node
        if half.dropped:
            placed.note_reset()
            self.reset()
        else:
            half.deliver()

    def reset(self) -> None:
        """End both with RST."""
        for half in (self.client, self.node):
            half.reset()
        self.relay.forget(self)


class RelayDirection(asyncio.Protocol):
    """One end of a connection, and the bytes that come in there."""

    def __init__(self, connection: Connection, direction: Direction) -> None:
        """Know which way its bytes go."""
        self._connection, self._direction = connection, direction
        self._transport: asyncio.Transport | None = None
        self._held: list[bytes] = []
        self._held_bytes, self._over = 0, False
        self.dropped = False
        """Bytes of this way are missing at the other end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read nothing from a client before the node is there."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what asyncio makes for TCP
        self._transport = transport
        if self is self._connection.client:
            transport.pause_reading()
            self._connection.go_on()

    def go_on(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Carry the bytes on, or do to them what is to be done."""
        placed = self._connection.relay.treatment_of(self._direction)
        if placed is None:
            self._connection.other(self).write(data)
            return
        placed.count(data)
        match placed.relaying.treatment:
            case "hold":
                self._hold(data)
            case "drop":
                self.dropped = True
            case "reset":
                placed.note_reset()
                self._connection.reset()

    def eof_received(self) -> bool:
        """End the other end as well, once it has all that it is to get; return whether this one stays open so long."""
        self._over = True
        if not self._held:
            self._connection.other(self).close()
        return bool(self._held)

    def connection_lost(self, error: Exception | None) -> None:
        """As its end; what is held is delivered all the same."""
        del error
        self._over = True
        if not self._held:
            self._connection.other(self).close()
            self._connection.relay.forget(self._connection)

    def pause_writing(self) -> None:
        """The other end reads slowly: read no faster."""
        self._connection.other(self)._stop_reading()  # noqa: SLF001 - of its own kind

    def resume_writing(self) -> None:
        """The other end has caught up."""
        self._connection.other(self).go_on()

    def write(self, data: bytes) -> None:
        """Send what came in at the other end."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def deliver(self) -> None:
        """Send on what was held, in its order, and the end that came behind it."""
        held, self._held, self._held_bytes = b"".join(self._held), [], 0
        self._connection.other(self).write(held)
        if self._over:
            self._connection.other(self).close()
            self._connection.relay.forget(self._connection)
        else:
            self.go_on()

    def close(self) -> None:
        """End in good order: what is on its way out is sent."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """End with RST."""
        self._held = []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET
            )
            self._transport.abort()

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= MOST_HELD_BYTES:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()


@dataclass
class RelayImpairment:
    """Implements `infra.network.impairment.ImpairmentHandle`: what is done to one direction of a relay, and how much it met with."""

    relaying: Relaying
    relay: Relay
    met_bytes: int = 0
    resets: int = 0

    def begin(self) -> None:
        """Hold, drop or reset."""
        self.relay.begin(self)

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return what came by so far."""
        what = {"hold": "held", "drop": "dropped", "reset": "dropped"}[self.relaying.treatment]
        return (
            ImpairmentCounts(
                self.relaying.node_id,
                f"{self.relaying.direction} {what}",
                bytes=self.met_bytes,
                connections=self.resets,
            ),
        )

    def end(self) -> tuple[ImpairmentCounts, ...]:
        """Carry again; return what came by in all, and who had to be reset for it."""
        self.relay.end(self)
        return self.counts()

    def count(self, data: bytes) -> None:
        """Count bytes that came."""
        self.met_bytes += len(data)

    def note_reset(self) -> None:
        """Count a connection that was reset."""
        self.resets += 1


# ---------- Every node on 127.0.0.1 with a relay in front of its client listener, where clients are told to come: their connections can be cut without root.
#
# What nodes say to each other, and the harness to them, goes to the nodes' own listeners.


class RelayedNetwork(ImpairedNetwork):
    """Implements `infra.network.loopback.Network`."""

    def __init__(self, nodes: int, listeners: int) -> None:
        """Reserve the ports.

        Raises:
            MachineError: there are not that many.
        """
        self._ports = LoopbackNetwork(nodes, listeners + 1)
        self._places = tuple(
            ListenAddress(place.host, place.ports[:-1], place.ports[-1])
            for place in self._ports.places()
        )
        self._relays = {
            number: Relay(number, place.host, place.ports[-1], place.ports[0])
            for number, place in enumerate(self._ports.places(), start=1)
        }
        super().__init__(self._placed)

    def places(self) -> tuple[ListenAddress, ...]:
        """Where each node is to listen, and where its clients are told to come."""
        return self._places

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command as it is."""
        return self._ports.command(number, command)

    async def open(self) -> None:
        """Let the relays listen; a node that is down refuses through its relay."""
        for relay in self._relays.values():
            await relay.open()

    def end(self) -> None:
        """Close the relays and let others have the ports."""
        for relay in self._relays.values():
            relay.close()
        self._ports.end()

    def _placed(self, impairment: Impairment) -> ImpairmentHandle:
        relay = self._relays.get(impairment.node_id)
        if relay is None:
            raise SupervisorError(
                f"there is no node {impairment.node_id}: there are {sorted(self._relays)}"
            )
        if not isinstance(impairment, Relaying):
            raise SupervisorError(
                f"relays cut nodes off from nobody, {impairment} needs namespaces"
            )
        return RelayImpairment(impairment, relay)
