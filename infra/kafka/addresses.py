"""The addresses of brokers in responses, replaced by those of relays in front of them. No I/O.

A client connects to the addresses that responses name, not to those that it was given. So a relay
in front of a cluster has to replace them: in Metadata, FindCoordinator and DescribeCluster, and in
Produce and Fetch, which name a new leader's address (`NodeEndpoints`, KIP-951). Layouts:
https://kafka.apache.org/protocol. A response that cannot be read is not passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.frames import SIZE_BYTES
from ackbench.infra.kafka.wire import ResponseReader, compact_string, varint

Address = tuple[str, int]
"""Host and port."""
RelayAddress = Callable[[int, Address], Address]
"""Returns the address of the relay in front of a node, given its id and its own address."""

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
API_VERSIONS: Final = 18
DESCRIBE_CLUSTER: Final = 60
NEWEST_READABLE: Final = {
    PRODUCE: 13,
    FETCH: 18,
    METADATA: 13,
    FIND_COORDINATOR: 6,
    DESCRIBE_CLUSTER: 2,
}
"""The newest version of each response with addresses whose layout is known here (Kafka 4.3).

Clients are not offered a newer one: the relay lowers the broker's ApiVersions response.
"""
_OTHERS_WITH_ADDRESSES: Final = {55: "DescribeQuorum", 78: "ShareFetch", 79: "ShareAcknowledge"}
"""Requests of other clients than those under test; a relay does not pass them on."""
_FIRST_WITH_ENDPOINTS: Final = {PRODUCE: 10, FETCH: 16}
_FIRST_FLEXIBLE: Final = {METADATA: 9, FIND_COORDINATOR: 3, DESCRIBE_CLUSTER: 0}
_FIRST_METADATA_WITH_THROTTLE_TIME: Final = 3
_FIRST_METADATA_WITH_RACK: Final = 1
_FIRST_COORDINATOR_WITH_THROTTLE_TIME: Final = 1
_FIRST_COORDINATORS: Final = 4
_FIRST_DESCRIBED_ENDPOINT_TYPE: Final = 1
_FIRST_DESCRIBED_FENCED: Final = 2
_FIRST_PRODUCE_WITH_TOPIC_IDS: Final = 13
_FIRST_COMPACT_API_VERSIONS: Final = 3
_UNSUPPORTED_VERSION: Final = 35
_ENDPOINTS_TAG: Final = 0
_INT16, _INT32, _INT64, _UUID = 2, 4, 8, 16


@dataclass(frozen=True)
class RequestHead:
    """What a request's header says about its response."""

    api_key: int
    version: int
    correlation_id: int


def read_head(frame: bytes) -> RequestHead:
    """Return the header of a request.

    Raises:
        HarnessError: the frame is too short.
    """
    reader = ResponseReader(frame[SIZE_BYTES : SIZE_BYTES + 2 * _INT16 + _INT32])
    return RequestHead(reader.number(">h"), reader.number(">h"), reader.number(">i"))


@dataclass
class AddressTranslator:
    """Replaces the addresses in the responses of one connection."""

    relay_address: RelayAddress
    _unanswered: dict[int, RequestHead] = field(default_factory=dict, init=False)
    """The requests whose responses are to be changed, by correlation id."""

    def saw_request(self, frame: bytes) -> None:
        """Remember a request that is forwarded.

        Raises:
            HarnessError: the response would name addresses that cannot be replaced.
        """
        head = read_head(frame)
        if head.api_key in _OTHERS_WITH_ADDRESSES:
            name = _OTHERS_WITH_ADDRESSES[head.api_key]
            raise HarnessError(f"a relay of an external cluster does not pass on {name}")
        if head.api_key != API_VERSIONS and head.version < _first_changed(head.api_key):
            return
        if head.api_key != PRODUCE or _is_acknowledged(frame):
            self._unanswered[head.correlation_id] = head

    def forget_request(self, correlation_id: int) -> None:
        """Forget a request that the node does not get."""
        self._unanswered.pop(correlation_id, None)

    def translate(self, frame: bytes) -> bytes:
        """Return a response with the relays' addresses.

        Raises:
            HarnessError: it cannot be read, so it may name a broker's own address.
        """
        correlation_id = ResponseReader(frame[SIZE_BYTES : SIZE_BYTES + _INT32]).number(">i")
        head = self._unanswered.pop(correlation_id, None)
        if head is None:
            return frame
        if head.api_key == API_VERSIONS:
            return lower_versions(frame, head.version)
        return replace_addresses(frame, head, self.relay_address)


def _first_changed(api_key: int) -> int:
    """Return the first version whose response is changed."""
    if api_key in _FIRST_FLEXIBLE:
        return 0
    return _FIRST_WITH_ENDPOINTS.get(api_key, 1 << 15)


def _is_acknowledged(frame: bytes) -> bool:
    """Return whether the broker answers a flexible Produce request; with acks=0 it does not."""
    reader = ResponseReader(frame[SIZE_BYTES:])
    reader.skip(2 * _INT16 + _INT32)
    reader.string()  # client id
    reader.tags()
    reader.compact_string()  # transactional id
    return reader.number(">h") != 0


def replace_addresses(frame: bytes, request: RequestHead, relay_address: RelayAddress) -> bytes:
    """Return a response with the address of each node replaced by that of its relay.

    Args:
        frame: the response, with its size.
        request: the header of its request.
        relay_address: returns the address of a node's relay.

    Raises:
        HarnessError: the response cannot be read.
    """
    newest = NEWEST_READABLE[request.api_key]
    if request.version > newest:
        raise HarnessError(
            f"a client sent request {request.api_key} in version {request.version}; a relay reads "
            f"up to {newest}"
        )
    body = frame[SIZE_BYTES:]
    edits = _Edits(body, ResponseReader(body), relay_address)
    edits.reader.skip(_INT32)  # correlation id
    _READERS[request.api_key](edits, request.version)
    changed = edits.result()
    return len(changed).to_bytes(SIZE_BYTES) + changed


@dataclass
class _Edits:
    """A response that is read from begin to end, and the parts of it to replace."""

    body: bytes
    reader: ResponseReader
    relay_address: RelayAddress
    parts: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Begin, end and new content, in order."""

    def address(self, node_id: int, *, flexible: bool) -> None:
        """Read a host and a port, and replace them; no host means that there is no node."""
        begin = self.reader.position
        host = self.reader.compact_string() if flexible else self.reader.string()
        port = self.reader.number(">i")
        if not host:
            return
        host, port = self.relay_address(node_id, (host, port))
        raw = host.encode()
        encoded = compact_string(host) if flexible else len(raw).to_bytes(_INT16) + raw
        self.parts.append((begin, self.reader.position, encoded + port.to_bytes(_INT32)))

    def result(self, begin: int = 0, end: int | None = None) -> bytes:
        """Return the response, or a part of it, with the replaced parts inside."""
        pieces, at = [], begin
        for from_, to, content in self.parts:
            if from_ >= begin:
                pieces += [self.body[at:from_], content]
                at = to
        return b"".join([*pieces, self.body[at:end]])

    def endpoints_tag(self) -> None:
        """Read the tagged fields at the end of a Produce or Fetch response.

        `NodeEndpoints` are replaced, with the size of their field.
        """
        for _ in range(self.reader.varint()):
            tag, size_at = self.reader.varint(), self.reader.position
            size_bytes = self.reader.varint()
            begin, outer = self.reader.position, len(self.parts)
            if tag != _ENDPOINTS_TAG:
                self.reader.skip(size_bytes)
                continue
            self.nodes(flexible=True, rack=True)
            content = self.result(begin, self.reader.position)
            self.parts[outer:] = [(size_at, self.reader.position, varint(len(content)) + content)]

    def nodes(self, *, flexible: bool, rack: bool, fenced: bool = False) -> None:
        """Read an array of nodes, and replace their addresses."""
        reader = self.reader
        for _ in range(reader.varint() - 1 if flexible else reader.number(">i")):
            self.address(reader.number(">i"), flexible=flexible)
            if rack:
                _ = reader.compact_string() if flexible else reader.string()
            if fenced:
                reader.skip(1)
            if flexible:
                reader.tags()


def _edit_metadata(edits: _Edits, version: int) -> None:
    flexible = version >= _FIRST_FLEXIBLE[METADATA]
    if flexible:
        edits.reader.tags()
    if version >= _FIRST_METADATA_WITH_THROTTLE_TIME:
        edits.reader.skip(_INT32)
    edits.nodes(flexible=flexible, rack=version >= _FIRST_METADATA_WITH_RACK)


def _edit_coordinators(edits: _Edits, version: int) -> None:
    reader, flexible = edits.reader, version >= _FIRST_FLEXIBLE[FIND_COORDINATOR]
    if flexible:
        reader.tags()
    if version >= _FIRST_COORDINATOR_WITH_THROTTLE_TIME:
        reader.skip(_INT32)
    if version >= _FIRST_COORDINATORS:
        for _ in range(reader.varint() - 1):
            reader.compact_string()  # the key
            edits.address(reader.number(">i"), flexible=True)
            reader.skip(_INT16)  # error code
            reader.compact_string()  # error message
            reader.tags()
        return
    reader.skip(_INT16)  # error code
    if version >= _FIRST_COORDINATOR_WITH_THROTTLE_TIME:
        _ = reader.compact_string() if flexible else reader.string()  # error message
    edits.address(reader.number(">i"), flexible=flexible)


def _edit_described_cluster(edits: _Edits, version: int) -> None:
    reader = edits.reader
    reader.tags()
    reader.skip(_INT32 + _INT16)  # throttle time, error code
    reader.compact_string()  # error message
    if version >= _FIRST_DESCRIBED_ENDPOINT_TYPE:
        reader.skip(1)
    reader.compact_string()  # cluster id
    reader.skip(_INT32)  # controller id
    edits.nodes(flexible=True, rack=True, fenced=version >= _FIRST_DESCRIBED_FENCED)


def _edit_produced(edits: _Edits, version: int) -> None:
    reader = edits.reader
    reader.tags()
    for _ in range(reader.varint() - 1):
        if version >= _FIRST_PRODUCE_WITH_TOPIC_IDS:
            reader.skip(_UUID)
        else:
            reader.compact_string()
        reader.compact_array(_skip_produced_partition)
        reader.tags()
    reader.skip(_INT32)  # throttle time
    edits.endpoints_tag()


def _skip_produced_partition(reader: ResponseReader) -> None:
    reader.skip(_INT32 + _INT16 + 3 * _INT64)  # number, error, base offset, append time, log start
    reader.compact_array(_skip_record_error)
    reader.compact_string()  # error message
    reader.tags()


def _skip_record_error(reader: ResponseReader) -> None:
    reader.skip(_INT32)
    reader.compact_string()
    reader.tags()


def _edit_fetched(edits: _Edits, version: int) -> None:
    del version  # all versions with endpoints have one layout
    reader = edits.reader
    reader.tags()
    reader.skip(_INT32 + _INT16 + _INT32)  # throttle time, error code, session id
    reader.compact_array(_skip_fetched_topic)
    edits.endpoints_tag()


def _skip_fetched_topic(reader: ResponseReader) -> None:
    reader.skip(_UUID)
    reader.compact_array(_skip_fetched_partition)
    reader.tags()


def _skip_fetched_partition(reader: ResponseReader) -> None:
    # Number, error, high watermark, last stable offset, log start offset
    reader.skip(_INT32 + _INT16 + 3 * _INT64)
    reader.compact_array(_skip_aborted_transaction)
    reader.skip(_INT32)  # preferred read replica
    reader.skip(max(0, reader.varint() - 1))  # records
    reader.tags()


def _skip_aborted_transaction(reader: ResponseReader) -> None:
    reader.skip(2 * _INT64)
    reader.tags()


_READERS: Final[dict[int, Callable[[_Edits, int], None]]] = {
    PRODUCE: _edit_produced,
    FETCH: _edit_fetched,
    METADATA: _edit_metadata,
    FIND_COORDINATOR: _edit_coordinators,
    DESCRIBE_CLUSTER: _edit_described_cluster,
}


def lower_versions(frame: bytes, version: int) -> bytes:
    """Return an ApiVersions response that offers no version whose addresses cannot be replaced.

    A broker that does not know the version of the request answers in version 0. The header has no
    tagged fields, whatever the version (KIP-511).

    Args:
        frame: the response, with its size.
        version: of the request.

    Raises:
        HarnessError: the response cannot be read.
    """
    changed, reader = bytearray(frame), ResponseReader(frame)
    reader.skip(SIZE_BYTES + _INT32)
    compact = reader.number(">h") != _UNSUPPORTED_VERSION and version >= _FIRST_COMPACT_API_VERSIONS
    for _ in range(reader.varint() - 1 if compact else reader.number(">i")):
        api_key, _lowest, at = reader.number(">h"), reader.number(">h"), reader.position
        newest = reader.number(">h")
        if newest > NEWEST_READABLE.get(api_key, newest):
            changed[at : at + _INT16] = NEWEST_READABLE[api_key].to_bytes(_INT16)
        if compact:
            reader.tags()
    return bytes(changed)
