"""A TCP relay in front of a node's client listener, which can hold, drop or reset either direction.

Needs no root. The relay accepts each client connection and opens a second one to the node. So it
acknowledges at the TCP level what it has received, as a proxy or a load balancer does. Relays run
on the event loop of the cluster's supervisor, and end with it; those of an external cluster on a
thread of the trial (`infra.network.external_relays`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ackbench.infra.errors import HarnessError, ImpairmentConflict
from ackbench.infra.kafka.addresses import AddressTranslator, read_head
from ackbench.infra.kafka.frames import (
    SIZE_BYTES,
    FrameSplitter,
    placeholder_request,
    read_correlation_id,
)
from ackbench.infra.network.impairment import ImpairmentCounts, RelayAction
from ackbench.infra.network.treatment import Direction, FrameTreatment

MAX_HELD_BYTES: Final = 64 << 20
"""Per connection and direction. When it is reached, the relay stops reading from the sender."""
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 seconds: closing the socket sends RST (socket(7))."""
_BACKLOG: Final = 1024
_SLOW_WINDOW_BYTES: Final = 4096
_WINDOW_BYTES: Final = 1 << 20
"""The bytes that a peer may send before the relay has read them (TCP_WINDOW_CLAMP, tcp(7))."""
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())


class FrameWatcher(Protocol):
    """Watches the frames of all connections, and decides how each is treated."""

    def treat_request(self, connection: Connection, frame: bytes) -> FrameTreatment:
        """Return the treatment of a request."""

    def treat_response(self, connection: Connection, frame: bytes) -> FrameTreatment:
        """Return the treatment of a response."""


@dataclass(frozen=True)
class RelayTarget:
    """The listener of a node to which a relay connects."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    """`None`: plain text. Clients connect to the relay in plain text, whatever the node has."""


class Relay:
    """The relay of one node."""

    def __init__(
        self,
        node_id: int,
        listen_address: tuple[str, int],
        target: RelayTarget,
        translator: Callable[[], AddressTranslator] | None = None,
        admits: Callable[[tuple[str, int]], bool] = lambda _peer: True,
    ) -> None:
        """Create a relay that does not listen yet.

        Args:
            node_id: the node.
            listen_address: the relay's host and port.
            target: the node's client listener.
            translator: makes what replaces addresses in the responses of one connection. `None`:
                the node advertises the relay's address itself.
            admits: returns whether a client may connect, given its host and port.
        """
        self.node_id, self.target, self.admits = node_id, target, admits
        self.listen_address, self.translator = listen_address, translator
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._repeating: set[asyncio.Task[None]] = set()
        self._mechanisms: dict[Direction, RelayMechanism] = {}
        self.watcher: FrameWatcher | None = None
        """`None`: nobody needs frames, and bytes are forwarded as they come."""

    async def start(self, listening: socket.socket | None = None) -> None:
        """Listen for clients.

        Args:
            listening: a socket that has the relay's address already.
        """
        loop = asyncio.get_running_loop()
        if listening is None:
            self._server = await loop.create_server(
                self._accept, *self.listen_address, backlog=_BACKLOG
            )
        else:
            self._server = await loop.create_server(self._accept, sock=listening, backlog=_BACKLOG)

    def close(self) -> None:
        """Stop listening and reset all connections."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.reset()
        for repeated in self._repeating:
            repeated.cancel()

    def mechanism(self, direction: Direction) -> RelayMechanism | None:
        """Return what acts on a direction's bytes; `None`: they are forwarded."""
        return self._mechanisms.get(direction)

    def begin(self, mechanism: RelayMechanism) -> None:
        """Let a mechanism act on its direction.

        Raises:
            ImpairmentConflict: another one acts on this direction.
        """
        direction = mechanism.action.direction
        if self.watcher is not None:
            raise ImpairmentConflict(f"the relay of node {self.node_id} watches requests already")
        if direction in self._mechanisms:
            raise ImpairmentConflict(f"{self._mechanisms[direction].action} already")
        self._mechanisms[direction] = mechanism

    def end(self, mechanism: RelayMechanism) -> None:
        """Forward bytes again; deliver held ones, and reset connections with dropped ones."""
        del self._mechanisms[mechanism.action.direction]
        for connection in tuple(self._connections):
            connection.release(mechanism)

    def begin_watching(self, watcher: FrameWatcher) -> None:
        """Forward frame by frame, and let a watcher see each.

        Raises:
            ImpairmentConflict: another mechanism acts on the relay.
        """
        if self.watcher is not None or self._mechanisms:
            raise ImpairmentConflict(f"another fault acts on the relay of node {self.node_id}")
        self.watcher = watcher

    def end_watching(self) -> int:
        """Forward bytes as they come, beginning with those of incomplete frames.

        Held frames are delivered, connections with dropped ones reset; nothing is repeated later.

        Returns:
            The number of connections that this resets.
        """
        self.watcher, resets = None, 0
        for repeated in self._repeating:
            repeated.cancel()
        for connection in tuple(self._connections):
            ends = (connection.client, connection.node)
            if any(end.has_dropped for end in ends):
                connection.reset()
                resets += 1
                continue
            for end in ends:
                end.limit(None)
                end.forward_kept()
                if end.holds:
                    end.deliver()
        return resets

    def repeat(self, frame: bytes, after_s: float, on_answer: Callable[[], None]) -> None:
        """Deliver a request once more, on a connection of its own.

        Args:
            frame: the request.
            after_s: when, from now on.
            on_answer: called when the node has answered.
        """
        repeated = asyncio.get_running_loop().create_task(self._repeat(frame, after_s, on_answer))
        self._repeating.add(repeated)
        repeated.add_done_callback(self._repeating.discard)

    async def _repeat(self, frame: bytes, after_s: float, on_answer: Callable[[], None]) -> None:
        await asyncio.sleep(after_s)
        target = self.target
        try:
            reader, writer = await asyncio.open_connection(
                target.host,
                target.port,
                ssl=target.tls,
                server_hostname=target.host if target.tls else None,
            )
            try:
                writer.write(frame)
                await reader.readexactly(SIZE_BYTES)
                on_answer()
            finally:
                writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError) as error:
            _LOG.info("node %s did not answer what was repeated: %s", self.node_id, error)

    def forget(self, connection: Connection) -> None:
        """Remove a connection that has ended."""
        self._connections.discard(connection)

    def _accept(self) -> ConnectionEnd:
        connection = Connection(self)
        self._connections.add(connection)
        return connection.client


def watch_all(relays: Sequence[Relay], watcher: FrameWatcher) -> None:
    """Let a watcher see the frames of all relays.

    Raises:
        ImpairmentConflict: another fault acts on a relay; none is watched then.
    """
    watched: list[Relay] = []
    try:
        for relay in relays:
            relay.begin_watching(watcher)
            watched.append(relay)
    except Exception:
        for relay in watched:
            relay.end_watching()
        raise


class Connection:
    """A client's connection to the relay, with the relay's connection to the node."""

    def __init__(self, relay: Relay) -> None:
        """Create both ends; neither is open yet."""
        self.relay = relay
        self.translator = relay.translator() if relay.translator else None
        self.client = ConnectionEnd(self, "requests")
        self.node = ConnectionEnd(self, "responses")
        self.answers: dict[int, bytes] = {}
        """The responses of the relay to requests that the node never gets, by correlation id. Each
        takes the place of the node's response to a placeholder."""
        self._connecting: asyncio.Task[None] | None = None

    def connect_to_node(self) -> None:
        """Open the connection to the node, now that the client has connected."""
        self._connecting = asyncio.get_running_loop().create_task(self._connect_to_node())

    async def _connect_to_node(self) -> None:
        target, loop = self.relay.target, asyncio.get_running_loop()
        try:
            await loop.create_connection(
                lambda: self.node,
                target.host,
                target.port,
                ssl=target.tls,
                server_hostname=target.host if target.tls else None,
            )
        except (OSError, ValueError, OverflowError) as error:  # refused, or no address at all
            _LOG.info("no connection to node %s: %s", self.relay.node_id, error)
            self.reset()  # the node is down, and would have refused the client
        else:
            self.client.resume_reading()

    def answer(self, request: bytes, response: bytes) -> None:
        """Answer a request, after the node has answered what precedes it on the connection."""
        placeholder = placeholder_request(request)
        correlation_id = read_head(request).correlation_id
        self.answers[correlation_id] = response
        if self.translator is not None:
            self.translator.forget_request(correlation_id)
        self.node.write(placeholder)

    def other(self, end: ConnectionEnd) -> ConnectionEnd:
        """Return the opposite end."""
        return self.node if end is self.client else self.client

    def release(self, mechanism: RelayMechanism) -> None:
        """Deliver the bytes that were held; reset the connection if bytes were dropped."""
        end = self.client if mechanism.action.direction == "requests" else self.node
        if end.has_dropped:
            mechanism.count_reset()
            self.reset()
        else:
            end.deliver()

    def deliver_request(self) -> bool:
        """Deliver the request that was held, and what followed it; return whether the node is up.

        The connection to the node stays open for the response, even if the client has closed.
        """
        if not self.node.is_open:
            return False
        self.client.deliver(then_close=False)
        return True

    def close_if_client_has(self) -> None:
        """Close the connection to the node, if the client has closed its own."""
        if self.client.has_ended:
            self.node.close()
            self.relay.forget(self)

    def reset(self) -> None:
        """Reset both ends."""
        for end in (self.client, self.node):
            end.reset()
        self.relay.forget(self)


class ConnectionEnd(asyncio.Protocol):
    """One end of a connection: reads bytes, and writes those from the other end."""

    def __init__(self, connection: Connection, direction: Direction) -> None:
        """Create an end that is not open yet; `direction` is that of the bytes read here."""
        self._connection, self._direction = connection, direction
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """What was written before this end was open."""
        self._held: list[bytes] = []
        self._held_bytes, self._at_eof = 0, False
        self._frames = FrameSplitter()
        self._bytes_per_s: int | None = None
        self.has_dropped = False
        """Whether bytes read here were dropped, so the other end lacks them."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Do not read from a client before the node is connected.

        The asyncio of Python 3.11.2 reads nevertheless (that of 3.11.7 does not): what it read is
        sent to the node now.
        """
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what asyncio makes for TCP
        self._transport = transport
        if self is self._connection.client:
            transport.pause_reading()
            if self._connection.relay.admits(transport.get_extra_info("peername")):
                self._connection.connect_to_node()
            else:
                _LOG.warning("a client of another user is refused")
                self._connection.reset()
            return
        early, self._early = b"".join(self._early), []
        self.write(early)
        if self._connection.client.has_ended and not self._connection.client.holds:
            self.close()

    def data_received(self, data: bytes) -> None:
        """Forward the bytes, or hold, drop or reset."""
        relay = self._connection.relay
        if self._connection.translator is not None:
            self._forward_translated(data, self._connection.translator)
        elif relay.watcher is not None or self._has_answers:
            self._forward_frames(data, relay.watcher)
        else:
            self._forward(self._frames.track(data))
        self._pause_for(data)

    def _forward(self, data: bytes) -> None:
        """Forward bytes, or hold, drop or reset."""
        mechanism = self._connection.relay.mechanism(self._direction)
        if mechanism is None:
            self._connection.other(self).write(data)
            return
        mechanism.count_bytes(data)
        match mechanism.action.treatment:
            case "hold":
                self._hold(data)
            case "drop":
                self.has_dropped = True
            case "reset":
                mechanism.count_reset()
                self._connection.reset()

    def eof_received(self) -> bool:
        """Close the other end, unless bytes for it are held.

        Returns:
            Whether to keep this end open until the held bytes are delivered.
        """
        self._at_eof = True
        if not self._held:
            self._connection.other(self).close()
        return bool(self._held)

    def connection_lost(self, error: Exception | None) -> None:
        """Handle as an end of file: bytes that are held are still delivered later."""
        del error
        self._at_eof = True
        if not self._held:
            self._connection.other(self).close()
            self._connection.relay.forget(self._connection)

    def pause_writing(self) -> None:
        """Stop reading at the other end while this peer reads slowly."""
        self._connection.other(self)._stop_reading()  # noqa: SLF001 - the same class

    def resume_writing(self) -> None:
        """Resume reading at the other end."""
        self._connection.other(self).resume_reading()

    def limit(self, bytes_per_s: int | None) -> None:
        """Read so much from this peer from now on; `None`: all that it sends.

        The kernel announces a small window, so that the rest stays in the peer.
        """
        if bytes_per_s == self._bytes_per_s:
            return
        self._bytes_per_s = bytes_per_s
        if self.is_open and self._transport is not None:
            window = _SLOW_WINDOW_BYTES if bytes_per_s else _WINDOW_BYTES
            self._transport.get_extra_info("socket").setsockopt(
                socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, window
            )
            if not bytes_per_s:
                self.resume_reading()

    def _pause_for(self, data: bytes) -> None:
        if self._bytes_per_s:
            self._stop_reading()
            pause_s = len(data) / self._bytes_per_s
            asyncio.get_running_loop().call_later(pause_s, self.resume_reading)

    def resume_reading(self) -> None:
        """Resume reading, if the connection is still open."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send bytes that were read at the other end, as soon as this end is open."""
        if self._transport is None:
            self._early.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    @property
    def is_open(self) -> bool:
        """Whether bytes can be sent to this peer."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def _has_answers(self) -> bool:
        """`True`: a response that is to be read here is replaced by one of the relay's."""
        return self._direction == "responses" and bool(self._connection.answers)

    @property
    def holds(self) -> bool:
        """Whether bytes read here are held."""
        return bool(self._held)

    @property
    def has_ended(self) -> bool:
        """Whether this peer has closed the connection."""
        return self._at_eof

    def forward_kept(self) -> None:
        """Forward the begin of an incomplete frame, unless only complete ones can be replaced."""
        if self._connection.translator is not None:
            return
        if self._has_answers:
            return
        kept = self._frames.track(b"")
        if self._held:
            self._hold(kept)
        elif kept:
            self._connection.other(self).write(kept)

    def deliver(self, *, then_close: bool = True) -> None:
        """Send the held bytes in order, then the end of file if one followed.

        Args:
            then_close: whether to send the end of file; else the other end stays open.
        """
        held, self._held, self._held_bytes = b"".join(self._held), [], 0
        self._connection.other(self).write(held)
        if self._at_eof and not then_close:
            return
        if self._at_eof:
            self._connection.other(self).close()
            self._connection.relay.forget(self._connection)
        else:
            self.resume_reading()

    def close(self) -> None:
        """Close after sending what is buffered."""
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Discard held bytes and close with RST."""
        self._held = []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
            )
            self._transport.abort()

    def _forward_translated(self, data: bytes, translator: AddressTranslator) -> None:
        """Forward complete frames, with the relays' addresses in responses.

        A connection with anything else is reset: it might show its client a broker's own address.
        """
        watcher = self._connection.relay.watcher
        for piece in self._frames.split(data):
            try:
                if not piece.is_frame:
                    raise HarnessError("bytes that are not Kafka's")  # noqa: TRY301 - one way out
                if self._direction == "requests":
                    translator.saw_request(piece.data)
                    frame = piece.data
                else:
                    frame = translator.translate(piece.data)
            except HarnessError as error:
                _LOG.warning(
                    "a connection to node %s is reset: %s", self._connection.relay.node_id, error
                )
                self._connection.reset()
                return
            self._forward_frame(frame, watcher, is_frame=True)
            if not self.is_open:
                return  # it was reset

    def _forward_frames(self, data: bytes, watcher: FrameWatcher | None) -> None:
        """Forward complete frames; hold the one that the watcher selects, and all after it."""
        for piece in self._frames.split(data):
            self._forward_frame(piece.data, watcher, is_frame=piece.is_frame)

    def _forward_frame(self, data: bytes, watcher: FrameWatcher | None, *, is_frame: bool) -> None:
        if is_frame and self._has_answers:
            correlation_id = read_correlation_id(data)
            if correlation_id is not None:
                data = self._connection.answers.pop(correlation_id, data)
        if watcher is None:
            self._forward(data)
        elif self.has_dropped:
            return
        elif self._held:
            self._hold(data)
        elif not is_frame:
            self._connection.other(self).write(data)
        elif self._direction == "responses":
            self._treat(data, watcher.treat_response(self._connection, data))
        else:
            self._treat(data, watcher.treat_request(self._connection, data))

    def _treat(self, frame: bytes, treated: FrameTreatment) -> None:
        match treated.treatment:
            case None:
                self._connection.other(self).write(treated.frame)
            case "hold":
                self._hold(treated.frame)
                if treated.for_s is not None:
                    asyncio.get_running_loop().call_later(treated.for_s, self._deliver_delayed)
            case "drop":
                self.has_dropped = True
            case "reset":
                self._connection.reset()
            case "answer":
                self._connection.answer(frame, treated.frame)

    def _deliver_delayed(self) -> None:
        if self._held:
            self.deliver()

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes >= MAX_HELD_BYTES:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()


@dataclass
class RelayMechanism:
    """Implements `ImpairmentMechanism` for `RelayAction`."""

    action: RelayAction
    relay: Relay
    affected_bytes: int = 0
    resets: int = 0

    def apply(self) -> None:
        """Begin to hold, drop or reset."""
        self.relay.begin(self)

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return the bytes affected and the connections reset so far."""
        past = {"hold": "held", "drop": "dropped", "reset": "dropped"}[self.action.treatment]
        return (
            ImpairmentCounts(
                self.action.node_id,
                f"{self.action.direction} {past}",
                bytes=self.affected_bytes,
                connections=self.resets,
            ),
        )

    def remove(self) -> tuple[ImpairmentCounts, ...]:
        """Forward bytes again; the counts include the connections that this resets."""
        self.relay.end(self)
        return self.counts()

    def count_bytes(self, data: bytes) -> None:
        """Count bytes that were affected."""
        self.affected_bytes += len(data)

    def count_reset(self) -> None:
        """Count a connection that was reset."""
        self.resets += 1
