"""Finds when the transaction after the current one has a stored record, by frames of producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ackbench.infra.kafka.frames import (
    TransactionalRequest,
    read_correlation_id,
    read_error,
    read_transactional_request,
)

if TYPE_CHECKING:
    from ackbench.infra.network.relay import Connection

_NO_ERROR: Final = 0


class NextTransaction:
    """Follows the transactional producers behind some relays, from its creation on."""

    def __init__(self) -> None:
        """Begin without a transaction that has ended."""
        self.has_record = False
        """`True`: a producer that has ended a transaction has a stored record in the next one."""
        self._unanswered: dict[tuple[Connection, int], TransactionalRequest] = {}
        self._ended: set[str | None] = set()

    def saw_request(self, connection: Connection, frame: bytes) -> None:
        """Remember a request that ends a transaction, or adds a record to a later one."""
        request = read_transactional_request(frame)
        if request is None or request.transactional_id is None:
            return
        # A record that was sent before the transaction ended is not one of the next transaction.
        if request.api == "EndTxn" or request.transactional_id in self._ended:
            self._unanswered[connection, request.correlation_id] = request

    def saw_response(self, connection: Connection, frame: bytes) -> None:
        """Note the end of a transaction, or the record of a later one."""
        correlation_id = read_correlation_id(frame)
        request = self._unanswered.pop((connection, correlation_id or 0), None)
        if request is None or read_error(request, frame) != _NO_ERROR:
            return
        if request.api == "EndTxn":
            self._ended.add(request.transactional_id)
        elif request.api == "Produce":
            self.has_record = True
