"""Kafka's requests and responses as a relay sees them: frames, headers and errors. No I/O.

A frame is a size of four bytes and that many bytes (https://kafka.apache.org/protocol#protocol_common).
A relay reads of a request what identifies it and its transaction, and of a response its first
error. Read are EndTxn, AddPartitionsToTxn and Produce, in all versions that a client may send.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Literal

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.wire import ResponseReader

TransactionalApi = Literal["EndTxn", "AddPartitionsToTxn", "Produce"]
"""The requests of a transactional producer that a relay can hold."""
API_KEYS: Final[dict[TransactionalApi, int]] = {
    "Produce": 0,
    "AddPartitionsToTxn": 24,
    "EndTxn": 26,
}
_NAMES: Final = {key: name for name, key in API_KEYS.items()}
_FIRST_FLEXIBLE: Final[dict[TransactionalApi, int]] = {
    "Produce": 9,
    "AddPartitionsToTxn": 3,
    "EndTxn": 3,
}
"""From these versions on, header and body have compact strings and tagged fields (KIP-482)."""
_LAST_CLIENT_VERSION: Final[dict[TransactionalApi, int]] = {"AddPartitionsToTxn": 3}
"""Later versions are batches of several transactions, which only brokers send (KIP-890)."""
_FIRST_TRANSACTIONAL_PRODUCE: Final = 3
_FIRST_PRODUCE_WITH_TOPIC_IDS: Final = 13
SIZE_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 128 << 20
"""A larger size is no frame of Kafka's (`socket.request.max.bytes` is 100 MiB by default)."""
_UUID_BYTES: Final = 16
_INT16_BYTES: Final = 2
_API_VERSIONS: Final = 18


@dataclass(frozen=True)
class StreamPiece:
    """A part of a stream."""

    data: bytes
    is_frame: bool
    """Whether it is exactly one complete frame; `False`: the rest of one, or unframed bytes."""


class FrameSplitter:
    """Cuts one direction of a connection into frames, from its first byte on.

    The stream may arrive in any pieces. While nobody needs frames, `track` only follows their
    boundaries. A stream that is not Kafka's is passed on as it comes.
    """

    def __init__(self) -> None:
        """Begin at the boundary of a frame."""
        self._kept = bytearray()
        """The begin of a frame that is not complete, none of which was returned."""
        self._size = b""
        """The bytes of an incomplete size that were returned."""
        self._left_bytes = 0
        """The bytes of the current frame that are still to come, if its begin was returned."""
        self._is_unframed = False

    def track(self, data: bytes) -> bytes:
        """Return all bytes that were kept and these, and follow the boundaries of frames."""
        data, self._kept = bytes(self._kept) + data, bytearray()
        at = 0
        while at < len(data) and not self._is_unframed:
            if self._left_bytes:
                taken = min(self._left_bytes, len(data) - at)
                self._left_bytes -= taken
                at += taken
                continue
            missing = data[at : at + SIZE_BYTES - len(self._size)]
            self._size += missing
            at += len(missing)
            if len(self._size) == SIZE_BYTES:
                self._left_bytes, self._size = self._checked_size(self._size), b""
        return data

    def split(self, data: bytes) -> list[StreamPiece]:
        """Return the complete frames so far, and keep the begin of an incomplete one.

        The first piece is the rest of a frame, if its begin was returned by `track`.
        """
        if self._is_unframed:
            return [StreamPiece(data, is_frame=False)]
        pieces = []
        rest = self._rest_of_begun_frame(data)
        if rest:
            pieces.append(StreamPiece(rest, is_frame=False))
        stream, at = self._kept, 0
        stream += data[len(rest) :]
        while (end := self._frame_end(stream, at)) is not None:
            pieces.append(StreamPiece(bytes(stream[at:end]), is_frame=True))
            at = end
        if self._is_unframed:
            pieces.append(StreamPiece(bytes(stream[at:]), is_frame=False))
            at = len(stream)
        del stream[:at]  # what is left is not copied for each further piece of a large frame
        return pieces

    def _rest_of_begun_frame(self, data: bytes) -> bytes:
        """Return the bytes that belong to a frame whose begin was returned."""
        at = 0
        while at < len(data) and not self._is_unframed and (self._left_bytes or self._size):
            end = at + (self._left_bytes or SIZE_BYTES - len(self._size))
            self.track(data[at:end])
            at = min(end, len(data))
        return data[:at]

    def _frame_end(self, stream: bytearray, begin: int) -> int | None:
        """Return where the frame that begins there ends; `None`: it is incomplete."""
        if len(stream) < begin + SIZE_BYTES or self._is_unframed:
            return None
        size_bytes = self._checked_size(bytes(stream[begin : begin + SIZE_BYTES]))
        end = begin + SIZE_BYTES + size_bytes
        return None if self._is_unframed or len(stream) < end else end

    def _checked_size(self, encoded: bytes) -> int:
        size_bytes = int.from_bytes(encoded, signed=True)
        if 0 <= size_bytes <= MAX_FRAME_BYTES:
            return size_bytes
        self._is_unframed = True
        return 0


@dataclass(frozen=True)
class TransactionalRequest:
    """What identifies a request of a transactional producer."""

    api: TransactionalApi
    version: int
    correlation_id: int
    """Unique among the unanswered requests of a connection; its response has it too."""
    transactional_id: str | None


def read_transactional_request(frame: bytes) -> TransactionalRequest | None:
    """Return the request in a frame; `None`: it is of another kind, or not readable."""
    reader = ResponseReader(frame[SIZE_BYTES:])
    try:
        api = _NAMES.get(reader.number(">h"))
        if api is None:
            return None
        version, correlation_id = reader.number(">h"), reader.number(">i")
        reader.string()  # client id
        return TransactionalRequest(
            api, version, correlation_id, _read_transactional_id(reader, api, version)
        )
    except HarnessError:
        return None


def _read_transactional_id(
    reader: ResponseReader, api: TransactionalApi, version: int
) -> str | None:
    """Return the id with which the body of these requests begins."""
    if version > _LAST_CLIENT_VERSION.get(api, version):
        return None
    if api == "Produce" and version < _FIRST_TRANSACTIONAL_PRODUCE:
        return None
    if version < _FIRST_FLEXIBLE[api]:
        return reader.string()
    reader.tags()
    return reader.compact_string()


def placeholder_request(frame: bytes) -> bytes:
    """Return ApiVersions 0 with the correlation id and client id of a request.

    A relay that answers a request sends it to the node instead: the node answers the requests of a
    connection in their order, and with its response it is the turn of the relay's answer.

    Raises:
        HarnessError: the request's header cannot be read.
    """
    reader = ResponseReader(frame[SIZE_BYTES:])
    reader.skip(2 * _INT16_BYTES)
    correlation_id = reader.number(">i")
    client_id = (reader.string() or "").encode()
    body = struct.pack(">hhih", _API_VERSIONS, 0, correlation_id, len(client_id)) + client_id
    return len(body).to_bytes(SIZE_BYTES) + body


def read_correlation_id(frame: bytes) -> int | None:
    """Return the correlation id of a response; `None`: it is too short."""
    try:
        return ResponseReader(frame[SIZE_BYTES:]).number(">i")
    except HarnessError:
        return None


def read_error(request: TransactionalRequest, frame: bytes) -> int | None:
    """Return the error code in a request's response, 0 for none; `None`: not readable.

    EndTxn has one error. The others have one per partition, and that of the first partition is
    returned: a transactional producer of ackbench has one topic, and a batch per request and
    partition (https://kafka.apache.org/protocol#protocol_error_codes).
    """
    reader = ResponseReader(frame[SIZE_BYTES:])
    is_flexible = request.version >= _FIRST_FLEXIBLE[request.api]
    try:
        reader.number(">i")  # correlation id
        if is_flexible:
            reader.tags()
        if request.api != "Produce":
            reader.number(">i")  # throttle time
        if request.api == "EndTxn":
            return reader.number(">h")
        return _first_partition_error(reader, request, is_flexible=is_flexible)
    except HarnessError:
        return None


def _first_partition_error(
    reader: ResponseReader, request: TransactionalRequest, *, is_flexible: bool
) -> int | None:
    """Return the error of the response's first partition; `None`: it has none."""
    if (reader.varint() - 1 if is_flexible else reader.number(">i")) < 1:
        return None
    if request.api == "Produce" and request.version >= _FIRST_PRODUCE_WITH_TOPIC_IDS:
        reader.skip(_UUID_BYTES)
    elif is_flexible:
        reader.compact_string()
    else:
        reader.string()
    if (reader.varint() - 1 if is_flexible else reader.number(">i")) < 1:
        return None
    reader.number(">i")  # the partition's number
    return reader.number(">h")
