"""The requests of Kafka's protocol that ackbench sends to one particular node. No I/O.

A client library chooses the node that answers and retries with others. To observe one node, for
example a paused one, ackbench encodes the request itself and sends it to that node only.

Layouts: https://kafka.apache.org/protocol. Versions: Metadata 12 (the first that queries topics by
name and returns their ids), DescribeQuorum 1, ListOffsets 1, AlterPartitionReassignments 0
(KIP-455), DescribeTopicPartitions 0 (KIP-966).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ControllerView, PartitionState

Item = TypeVar("Item")

NOT_CONTROLLER: Final = 41
"""Error code of a node that is not the active controller."""
NO_TAGS: Final = b"\x00"
_METADATA: Final = (3, 12)
_DESCRIBE_QUORUM: Final = (55, 1)
_LIST_OFFSETS: Final = (2, 1)
_ALTER_REASSIGNMENTS: Final = (45, 0)
_DESCRIBE_PARTITIONS: Final = (75, 0)
_CLIENT_ID: Final = b"ackbench"
_CORRELATION_ID: Final = 1
_CORRELATION_ID_BYTES: Final = 4
_THROTTLE_TIME_BYTES: Final = 4
_CONTINUATION_BIT: Final = 0x80
_MOST_VARINT_BYTES: Final = 5
"""An UNSIGNED_VARINT has at most 32 bits."""
_NO_TOPIC_ID: Final = bytes(16)
_METADATA_TOPIC: Final = b"__cluster_metadata"
_DEBUGGING_REPLICA: Final = -2
"""With this replica id the leader returns the log end offset, not the high watermark
(`ReplicaManager.fetchOffset`)."""
_LATEST_TIMESTAMP: Final = -1
_MAX_PARTITIONS: Final = 2000


# Primitive types: https://kafka.apache.org/protocol#protocol_types
#
# Older versions of a request have fixed-size lengths. Flexible versions (KIP-482) have variable
# lengths, which are stored plus one, and tagged fields. ackbench sends no tagged field and skips
# those of a response.


def encode_request(api: tuple[int, int], body: bytes, *, flexible: bool) -> bytes:
    """Return a complete request: its size, header and body.

    Args:
        api: the API key and version.
        body: the encoded body.
        flexible: whether this version is a flexible one (KIP-482).
    """
    header = (
        struct.pack(">hhih", *api, _CORRELATION_ID, len(_CLIENT_ID))
        + _CLIENT_ID
        + (NO_TAGS if flexible else b"")
    )
    return struct.pack(">i", len(header) + len(body)) + header + body


def varint(number: int) -> bytes:
    """Return an UNSIGNED_VARINT."""
    low, high = number & 0x7F, number >> 7
    return bytes([low | _CONTINUATION_BIT]) + varint(high) if high else bytes([low])


def compact_string(text: str | None) -> bytes:
    """Return a COMPACT_NULLABLE_STRING."""
    raw = b"" if text is None else text.encode()
    return varint(0 if text is None else len(raw) + 1) + raw


def compact_array(items: Iterable[bytes] | None) -> bytes:
    """Return a COMPACT_ARRAY of encoded items; `None` is the null array."""
    if items is None:
        return varint(0)
    encoded = list(items)
    return varint(len(encoded) + 1) + b"".join(encoded)


class ResponseReader:
    """Decodes a response from its start to its end; nothing is read or skipped beyond it.

    Any program may have sent it. Each item of an array has a byte at least, so that decoding takes
    time and memory in proportion to the response, whatever number of items it states.

    Raises:
        HarnessError: from every method, when the response is too short or not Kafka's.
    """

    def __init__(self, response: bytes) -> None:
        """Begin at the first byte."""
        self._response, self._at = response, 0

    @property
    def position(self) -> int:
        """How many bytes have been read."""
        return self._at

    def numbers(self, struct_format: str) -> tuple[int, ...]:
        """Return the numbers in a format of `struct`."""
        try:
            numbers: tuple[int, ...] = struct.unpack_from(struct_format, self._response, self._at)
        except struct.error as error:
            raise self._too_short() from error
        self._at += struct.calcsize(struct_format)
        return numbers

    def number(self, struct_format: str) -> int:
        """Return a number in a format of `struct`."""
        return self.numbers(struct_format)[0]

    def skip(self, size_bytes: int) -> None:
        """Skip some bytes."""
        if not 0 <= size_bytes <= len(self._response) - self._at:
            raise self._too_short()
        self._at += size_bytes

    def string(self) -> str | None:
        """Return a NULLABLE_STRING."""
        return self._text(self.number(">h"))

    def array(self, read: Callable[[ResponseReader], Item]) -> list[Item]:
        """Return an ARRAY; the null array is empty."""
        return [read(self) for _ in range(self.number(">i"))]

    def varint(self) -> int:
        """Return an UNSIGNED_VARINT."""
        if self._at < len(self._response) and self._response[self._at] < _CONTINUATION_BIT:
            self._at += 1  # nearly all of them are this short
            return self._response[self._at - 1]
        value = 0
        for place in range(_MOST_VARINT_BYTES):
            byte = self.number(">B")
            value |= (byte & ~_CONTINUATION_BIT) << 7 * place
            if byte < _CONTINUATION_BIT:
                return value
        raise HarnessError(f"a Kafka response has a number of more than {_MOST_VARINT_BYTES} bytes")

    def compact_string(self) -> str | None:
        """Return a COMPACT_NULLABLE_STRING."""
        return self._text(self.varint() - 1)

    def compact_array(self, read: Callable[[ResponseReader], Item]) -> list[Item]:
        """Return a COMPACT_ARRAY; the null array is empty."""
        return [read(self) for _ in range(self.varint() - 1)]

    def uuid(self) -> uuid.UUID:
        """Return a UUID of 16 bytes."""
        return uuid.UUID(bytes=self._bytes(16))

    def tags(self) -> None:
        """Skip the tagged fields."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())

    def _text(self, size_bytes: int) -> str | None:
        if size_bytes < 0:
            return None
        try:
            return self._bytes(size_bytes).decode()
        except UnicodeDecodeError as error:
            raise HarnessError("a Kafka response has a text that is not UTF-8") from error

    def _bytes(self, size_bytes: int) -> bytes:
        begin = self._at
        self.skip(size_bytes)
        return self._response[begin : self._at]

    def _too_short(self) -> HarnessError:
        return HarnessError(f"a Kafka response of {len(self._response)} bytes is too short")


def _read_ids(reader: ResponseReader) -> tuple[int, ...]:
    return reader.numbers(f">{max(reader.varint() - 1, 0)}i")


def _skip_flexible_head(reader: ResponseReader) -> None:
    """Skip a flexible response's correlation id, tagged fields and throttle time."""
    reader.skip(_CORRELATION_ID_BYTES)
    reader.tags()
    reader.skip(_THROTTLE_TIME_BYTES)


# Metadata: the brokers and partitions as one broker sees them


@dataclass(frozen=True)
class BrokerView:
    """The metadata of one broker."""

    brokers: frozenset[int]
    """The registered brokers that are not fenced."""
    partitions: tuple[PartitionState, ...]
    controller: int | None = None
    """The controller under ZooKeeper. Under KRaft this is any live broker, and has no meaning."""


def metadata_request(topics: Sequence[str] | None) -> bytes:
    """Return the request for the metadata of topics, or of all; it creates no topic.

    Args:
        topics: names; `None` requests all topics.
    """
    encoded = compact_array(
        None
        if topics is None
        else (_NO_TOPIC_ID + compact_string(topic) + NO_TAGS for topic in topics)
    )
    # Two false flags: allow_auto_topic_creation and include_topic_authorized_operations.
    return encode_request(_METADATA, encoded + b"\x00\x00" + NO_TAGS, flexible=True)


def read_metadata(response: bytes) -> BrokerView:
    """Return the metadata that a broker returned, without topics that it does not know.

    Raises:
        HarnessError: the response is too short.
    """
    reader = ResponseReader(response)
    _skip_flexible_head(reader)
    brokers = reader.compact_array(_read_broker)
    reader.compact_string()  # cluster id
    controller = reader.number(">i")
    topics = reader.compact_array(_read_topic)
    partitions = tuple(partition for topic in topics for partition in topic)
    return BrokerView(frozenset(brokers), partitions, None if controller < 0 else controller)


def _read_broker(reader: ResponseReader) -> int:
    node_id = reader.number(">i")
    reader.compact_string()  # host
    reader.skip(4)  # port
    reader.compact_string()  # rack
    reader.tags()
    return node_id


def _read_topic(reader: ResponseReader) -> list[PartitionState]:
    reader.skip(2)  # an unknown topic has an error code and no partitions
    name, topic_id = reader.compact_string() or "", str(reader.uuid())
    reader.skip(1)  # is_internal
    partitions = reader.compact_array(lambda partition: _read_partition(partition, name, topic_id))
    reader.skip(4)  # topic_authorized_operations
    reader.tags()
    return partitions


def _read_partition(reader: ResponseReader, topic: str, topic_id: str) -> PartitionState:
    # After an error code such as LEADER_NOT_AVAILABLE the leader is -1.
    _error, number, leader, epoch = reader.numbers(">hiii")
    replicas, isr, _offline = (_read_ids(reader) for _ in range(3))
    reader.tags()
    return PartitionState(
        topic,
        number,
        None if leader < 0 else leader,
        replicas,
        isr,
        None if epoch < 0 else epoch,
        topic_id,
    )


# DescribeQuorum: whether a controller is the active one


def quorum_request() -> bytes:
    """Return the request for the state of the metadata quorum."""
    partition = struct.pack(">i", 0) + b"\x00"
    topic = bytes([len(_METADATA_TOPIC) + 1]) + _METADATA_TOPIC + b"\x02" + partition + b"\x00"
    return encode_request(_DESCRIBE_QUORUM, b"\x02" + topic + NO_TAGS, flexible=True)


def read_quorum(response: bytes) -> ControllerView | None:
    """Return what the active controller returned; `None` from a controller that is not active.

    Raises:
        HarnessError: the response is too short.
    """
    reader = ResponseReader(response)
    reader.skip(_CORRELATION_ID_BYTES + 1)  # 1: no tagged fields
    if reader.number(">h") != 0 or reader.number(">B") != 1 + 1:
        return None  # NOT_LEADER_OR_FOLLOWER, or no topic
    reader.compact_string()  # the topic's name
    reader.skip(1 + 4)  # one partition, and its number
    error, leader, epoch = reader.number(">h"), reader.number(">i"), reader.number(">i")
    return None if error or leader < 0 else ControllerView(leader, epoch)


# ListOffsets: log end offsets


def list_offsets_request(topic: str, partitions: Sequence[int]) -> bytes:
    """Return the request for the log end offsets of partitions. Only their leader answers it."""
    name = topic.encode()
    encoded = b"".join(struct.pack(">iq", partition, _LATEST_TIMESTAMP) for partition in partitions)
    one_topic = (
        struct.pack(">iih", _DEBUGGING_REPLICA, 1, len(name))
        + name
        + struct.pack(">i", len(partitions))
    )
    return encode_request(_LIST_OFFSETS, one_topic + encoded, flexible=False)


def read_list_offsets(response: bytes) -> dict[int, int]:
    """Return the log end offset by partition, without partitions that the broker does not lead.

    Raises:
        HarnessError: the response is too short.
    """
    reader = ResponseReader(response)
    reader.skip(_CORRELATION_ID_BYTES)
    offsets = [offset for topic in reader.array(_read_topic_offsets) for offset in topic]
    return {partition: offset for partition, error, offset in offsets if not error}


def _read_topic_offsets(reader: ResponseReader) -> list[tuple[int, int, int]]:
    reader.string()
    return reader.array(_read_partition_offset)


def _read_partition_offset(reader: ResponseReader) -> tuple[int, int, int]:
    partition, error, _timestamp, offset = (
        reader.number(struct_format) for struct_format in (">i", ">h", ">q", ">q")
    )
    return partition, error, offset


# AlterPartitionReassignments: move partitions to other brokers


@dataclass(frozen=True)
class ErrorResponse:
    """Why Kafka refused a request."""

    code: int
    """https://kafka.apache.org/protocol#protocol_error_codes."""
    text: str


def reassignment_request(
    topic: str, replicas: Mapping[int, Sequence[int]], timeout_s: float
) -> bytes:
    """Return the request that assigns replicas to partitions.

    Args:
        topic: the topic's name.
        replicas: node ids by partition, in this order; the first is the preferred leader.
        timeout_s: how long the controller may take to accept it. The move itself has no timeout.
    """
    partitions = (
        struct.pack(">i", number)
        + compact_array(struct.pack(">i", node) for node in nodes)
        + NO_TAGS
        for number, nodes in replicas.items()
    )
    one_topic = compact_string(topic) + compact_array(partitions) + NO_TAGS
    return encode_request(
        _ALTER_REASSIGNMENTS,
        struct.pack(">i", round(timeout_s * 1000)) + compact_array([one_topic]) + NO_TAGS,
        flexible=True,
    )


def read_reassignment(response: bytes) -> ErrorResponse | None:
    """Return the first error of a reassignment; `None`: the controller accepted it.

    Raises:
        HarnessError: the response is too short.
    """
    reader = ResponseReader(response)
    _skip_flexible_head(reader)
    request_error = _read_error(reader)
    partition_errors = [
        error for topic in reader.compact_array(_read_topic_errors) for error in topic
    ]
    return next((error for error in (request_error, *partition_errors) if error.code), None)


def _read_error(reader: ResponseReader) -> ErrorResponse:
    code = reader.number(">h")
    return ErrorResponse(code, reader.compact_string() or f"error {code}")


def _read_topic_errors(reader: ResponseReader) -> list[ErrorResponse]:
    reader.compact_string()
    errors = reader.compact_array(_read_partition_error)
    reader.tags()
    return errors


def _read_partition_error(reader: ResponseReader) -> ErrorResponse:
    reader.skip(4)  # the partition's number
    error = _read_error(reader)
    reader.tags()
    return error


# DescribeTopicPartitions: eligible leader replicas


@dataclass(frozen=True)
class LeaderCandidates:
    """The replicas that may become leader of a partition (KIP-966)."""

    partition: int
    leader: int | None
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    """The eligible leader replicas: not in the ISR, and known to have all committed records."""


def describe_partitions_request(topic: str) -> bytes:
    """Return the request for a topic's partitions with their eligible leader replicas."""
    topics = compact_array([compact_string(topic) + NO_TAGS])
    no_cursor = -1  # from the first partition on
    return encode_request(
        _DESCRIBE_PARTITIONS,
        topics + struct.pack(">ib", _MAX_PARTITIONS, no_cursor) + NO_TAGS,
        flexible=True,
    )


def read_leader_candidates(response: bytes) -> tuple[LeaderCandidates, ...]:
    """Return a topic's partitions; none, where the broker does not know the topic.

    Raises:
        HarnessError: the response is too short.
    """
    reader = ResponseReader(response)
    _skip_flexible_head(reader)
    topics = reader.compact_array(_read_topic_candidates)
    return tuple(partition for topic in topics for partition in topic)


def _read_topic_candidates(reader: ResponseReader) -> list[LeaderCandidates]:
    reader.skip(2)  # an unknown topic has an error code and no partitions
    reader.compact_string()
    reader.skip(16 + 1)  # topic id and is_internal
    partitions = reader.compact_array(_read_partition_candidates)
    reader.skip(4)  # topic_authorized_operations
    reader.tags()
    return partitions


def _read_partition_candidates(reader: ResponseReader) -> LeaderCandidates:
    reader.skip(2)  # an error code such as LEADER_NOT_AVAILABLE; the leader is -1 then
    number, leader, _epoch = (reader.number(">i") for _ in range(3))
    _replicas, isr, eligible, _last_known, _offline = (_read_ids(reader) for _ in range(5))
    reader.tags()
    return LeaderCandidates(number, None if leader < 0 else leader, isr, eligible)
