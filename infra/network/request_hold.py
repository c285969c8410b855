"""Holds one request of a transactional producer until its next transaction has a stored record.

A request that waits in a network, or in the buffers of a paused node, can arrive after its client
has given it up, has sent it again on another connection, and has gone on (KAFKA-17754, KIP-890).
The relays see all requests and responses of a producer, so this works with every client.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ackbench.infra.kafka.frames import (
    TransactionalRequest,
    read_correlation_id,
    read_error,
    read_transactional_request,
)
from ackbench.infra.network.impairment import HeldRequest, ImpairmentCounts, RequestHold
from ackbench.infra.network.next_transaction import NextTransaction
from ackbench.infra.network.relay import Connection, Relay, watch_all
from ackbench.infra.network.treatment import FrameTreatment


@dataclass
class RequestHoldMechanism:
    """Implements `ImpairmentMechanism` for `RequestHold`, on the relays of all nodes."""

    action: RequestHold
    relays: tuple[Relay, ...]
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    held: HeldRequest | None = field(default=None, init=False)
    """What is reported about the request that is, or was, held; `None`: none was yet."""
    _connection: Connection | None = field(default=None, init=False)
    """The connection on which it is, or was, held."""
    _request: TransactionalRequest | None = field(default=None, init=False)
    _next: NextTransaction = field(default_factory=NextTransaction, init=False)
    """Follows the producer from the hold on."""

    def apply(self) -> None:
        """Begin to watch the frames of all relays.

        Raises:
            ImpairmentConflict: another fault acts on a relay; none is watched then.
        """
        watch_all(self.relays, self)

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return the request that was held, if there was one."""
        if self.held is None:
            return ()
        return (ImpairmentCounts(self.held.node_id, "requests held", request=self.held),)

    def remove(self) -> tuple[ImpairmentCounts, ...]:
        """Deliver the request if it is still held, and forward bytes as they come."""
        self._release(in_next_transaction=False)
        for relay in self.relays:
            relay.end_watching()
        if self._connection is not None:
            self._connection.close_if_client_has()
        return self.counts()

    def treat_request(self, connection: Connection, frame: bytes) -> FrameTreatment:
        """Hold the request that is to be held, and what follows it on its connection."""
        request = read_transactional_request(frame)
        if request is None or request.transactional_id != self.action.transactional_id:
            return FrameTreatment(frame)
        if self.held is None and request.api == self.action.request:
            self.held = HeldRequest(
                connection.relay.node_id, request.api, request.version, self.monotonic_ns()
            )
            self._connection, self._request = connection, request
            return FrameTreatment(frame, "hold")
        if self.held is not None:
            self._next.saw_request(connection, frame)
        return FrameTreatment(frame)

    def treat_response(self, connection: Connection, frame: bytes) -> FrameTreatment:
        """Forward the response; follow the producer's transactions by it."""
        self._note_response(connection, frame)
        return FrameTreatment(frame)

    def _note_response(self, connection: Connection, frame: bytes) -> None:
        """Follow the producer's transactions; note the answer to the request that was held."""
        correlation_id = read_correlation_id(frame)
        if correlation_id is None or self.held is None or self._request is None:
            return
        if connection is self._connection and correlation_id == self._request.correlation_id:
            self.held = replace(self.held, error_code=read_error(self._request, frame))
            connection.close_if_client_has()
            return
        self._next.saw_response(connection, frame)
        if self._next.has_record:
            self._release(in_next_transaction=True)

    def _release(self, *, in_next_transaction: bool) -> None:
        if self.held is None or self.held.released_ns is not None or self._connection is None:
            return
        if self._connection.deliver_request():
            self.held = replace(
                self.held, released_ns=self.monotonic_ns(), in_next_transaction=in_next_transaction
            )
