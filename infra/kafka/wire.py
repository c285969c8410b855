"""Three requests of Kafka's protocol, so that one certain node can be asked what it knows, and no client asks another instead. Pure.

A client library picks the broker that answers by itself and keeps trying others; here a paused node is a paused node. Layouts:
https://kafka.apache.org/protocol, Metadata version 12 (the first that asks by name and tells a topic's id), DescribeQuorum version 1, and
ListOffsets version 1.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from infra.errors import HarnessError
from infra.kafka.spec import ControllerView, PartitionState

# ---------- How Kafka's protocol lays out requests and answers, in both its forms: https://kafka.apache.org/protocol#protocol_types. Pure.
#
# The older form has arrays and texts of fixed-size lengths; the flexible one (KIP-482) has variable lengths, one more than they are, and tagged fields,
# of which we send none and skip those that come.


Item = TypeVar("Item")

NO_TAGS: Final = b"\x00"
_CLIENT_ID: Final = b"ackbench"
_CORRELATION_ID: Final = 1
_LAST_BYTE: Final = 0x80


def request(api: tuple[int, int], body: bytes, *, flexible: bool) -> bytes:
    """Return a whole request: its size, its header and its body.

    Args:
        api: the key and the version.
        body: as `api` lays it out.
        flexible: whether that version is of the flexible form.
    """
    header = (
        struct.pack(">hhih", *api, _CORRELATION_ID, len(_CLIENT_ID))
        + _CLIENT_ID
        + (NO_TAGS if flexible else b"")
    )
    return struct.pack(">i", len(header) + len(body)) + header + body


def varint(number: int) -> bytes:
    """Return an unsigned number in as few bytes as it needs."""
    low, high = number & 0x7F, number >> 7
    return bytes([low | _LAST_BYTE]) + varint(high) if high else bytes([low])


def compact_text(text: str | None) -> bytes:
    """Return a text of the flexible form; `None` is its null."""
    raw = b"" if text is None else text.encode()
    return varint(0 if text is None else len(raw) + 1) + raw


def compact_array(items: Iterable[bytes] | None) -> bytes:
    """Return an array of the flexible form; `None` is its null."""
    laid_out = None if items is None else list(items)
    return varint(0) if laid_out is None else varint(len(laid_out) + 1) + b"".join(laid_out)


class ResponseReader:
    """Takes an answer apart from its start to its end.

    Raises:
        HarnessError: from every method, when the answer ends too soon.
    """

    def __init__(self, answer: bytes) -> None:
        """Begin at the first byte."""
        self._answer, self._at = answer, 0

    def number(self, kind: str) -> int:
        """Return a number of a format of `struct`."""
        try:
            (number,) = struct.unpack_from(kind, self._answer, self._at)
        except struct.error as error:
            raise HarnessError(f"an answer of {len(self._answer)} bytes ended too soon") from error
        self._at += struct.calcsize(kind)
        return int(number)

    def skip(self, size_bytes: int) -> None:
        """Pass over some bytes."""
        self._at += size_bytes

    def text(self) -> str | None:
        """Return a text of the older form."""
        size_bytes = self.number(">h")
        return None if size_bytes < 0 else self._bytes(size_bytes).decode()

    def array(self, read: Callable[[ResponseReader], Item]) -> list[Item]:
        """Return an array of the older form; null is an empty one."""
        return [read(self) for _ in range(self.number(">i"))]

    def varint(self) -> int:
        """Return an unsigned number of variable size."""
        byte = self.number(">B")
        return byte if byte < _LAST_BYTE else (byte & ~_LAST_BYTE) | (self.varint() << 7)

    def compact_text(self) -> str | None:
        """Return a text of the flexible form."""
        size_bytes = self.varint() - 1
        return None if size_bytes < 0 else self._bytes(size_bytes).decode()

    def compact_array(self, read: Callable[[ResponseReader], Item]) -> list[Item]:
        """Return an array of the flexible form; null is an empty one."""
        return [read(self) for _ in range(self.varint() - 1)]

    def uuid(self) -> uuid.UUID:
        """Return an id of 16 bytes."""
        return uuid.UUID(bytes=self._bytes(16))

    def tags(self) -> None:
        """Pass over tagged fields, which nobody here asks for."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())

    def _bytes(self, size_bytes: int) -> bytes:
        begin = self._at
        self.skip(size_bytes)
        if self._at > len(self._answer):
            raise HarnessError(f"an answer of {len(self._answer)} bytes ended too soon")
        return self._answer[begin : self._at]


_METADATA: Final = (3, 12)
_DESCRIBE_QUORUM: Final = (55, 1)
_LIST_OFFSETS: Final = (2, 1)
_DEBUGGING_REPLICA: Final = -2
"""Who asks as nobody's replica and no consumer is told the log's end, and not the high watermark (`ReplicaManager.fetchOffset`)."""
_LATEST: Final = -1
_NO_ID: Final = bytes(16)
_METADATA_TOPIC: Final = b"__cluster_metadata"


@dataclass(frozen=True)
class BrokerView:
    """What one broker's own metadata says."""

    brokers: frozenset[int]
    """The registered ones that are not fenced."""
    partitions: tuple[PartitionState, ...]
    controller: int | None = None
    """The broker that it takes for the controller; with KRaft that is any live broker, and tells nothing."""


def metadata_request(topics: Sequence[str] | None) -> bytes:
    """Return the request for topics by name, or for all; it creates none."""
    asked = compact_array(
        None if topics is None else (_NO_ID + compact_text(topic) + NO_TAGS for topic in topics)
    )
    return request(
        _METADATA, asked + b"\x00\x00" + NO_TAGS, flexible=True
    )  # make none, and tell of no operations


def read_metadata(answer: bytes) -> BrokerView:
    """Return what the broker answered; topics that it does not know are left out.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = ResponseReader(answer)
    reader.skip(4)  # correlation id
    reader.tags()
    reader.skip(4)  # throttle time
    brokers = reader.compact_array(_read_broker)
    reader.compact_text()  # cluster id
    controller = reader.number(">i")
    topics = reader.compact_array(_read_topic)
    partitions = tuple(partition for topic in topics for partition in topic)
    return BrokerView(frozenset(brokers), partitions, None if controller < 0 else controller)


def quorum_request() -> bytes:
    """Return the request for the state of the metadata quorum."""
    partition = struct.pack(">i", 0) + b"\x00"
    topic = bytes([len(_METADATA_TOPIC) + 1]) + _METADATA_TOPIC + b"\x02" + partition + b"\x00"
    return request(_DESCRIBE_QUORUM, b"\x02" + topic + NO_TAGS, flexible=True)


def read_quorum(answer: bytes) -> ControllerView | None:
    """Return what a controller answered; `None` when it does not take itself for the active one.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = ResponseReader(answer)
    reader.skip(4 + 1)  # correlation id, no tagged fields
    if (
        reader.number(">h") != 0 or reader.number(">B") != 1 + 1
    ):  # NOT_LEADER_OR_FOLLOWER, or no topic
        return None
    reader.skip(reader.number(">B") - 1)
    reader.skip(1 + 4)  # one partition, its number
    failed, leader, epoch = reader.number(">h"), reader.number(">i"), reader.number(">i")
    return None if failed or leader < 0 else ControllerView(leader, epoch)


def list_offsets_request(topic: str, partitions: Sequence[int]) -> bytes:
    """Return the request for the ends of some partitions' logs; only their leader answers it."""
    name = topic.encode()
    asked = b"".join(struct.pack(">iq", partition, _LATEST) for partition in partitions)
    one_topic = (
        struct.pack(">iih", _DEBUGGING_REPLICA, 1, len(name))
        + name
        + struct.pack(">i", len(partitions))
    )
    return request(_LIST_OFFSETS, one_topic + asked, flexible=False)


def read_list_offsets(answer: bytes) -> dict[int, int]:
    """Return the log end offset by partition; those that the broker does not lead are left out.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = ResponseReader(answer)
    reader.skip(4)  # correlation id
    ends = [end for topic in reader.array(_read_ends_of_topic) for end in topic]
    return {partition: offset for partition, error, offset in ends if not error}


def _read_ends_of_topic(reader: ResponseReader) -> list[tuple[int, int, int]]:
    reader.text()
    return reader.array(_read_end)


def _read_end(reader: ResponseReader) -> tuple[int, int, int]:
    partition, error, _timestamp, offset = (
        reader.number(kind) for kind in (">i", ">h", ">q", ">q")
    )
    return partition, error, offset


def _read_broker(reader: ResponseReader) -> int:
    node_id = reader.number(">i")
    reader.compact_text()  # host
    reader.skip(4)  # port
    reader.compact_text()  # rack
    reader.tags()
    return node_id


def _read_topic(reader: ResponseReader) -> list[PartitionState]:
    reader.skip(2)  # an unknown topic has an error, and no partitions
    name, topic_id = reader.compact_text() or "", str(reader.uuid())
    reader.skip(1)  # whether it is internal
    partitions = reader.compact_array(lambda partition: _read_partition(partition, name, topic_id))
    reader.skip(4)  # what the asker may do
    reader.tags()
    return partitions


def _read_partition(reader: ResponseReader, topic: str, topic_id: str) -> PartitionState:
    reader.skip(2)  # an error such as LEADER_NOT_AVAILABLE: then the leader is -1
    number, leader, epoch = (reader.number(">i") for _ in range(3))
    replicas, isr, _offline = (tuple(reader.compact_array(_read_id)) for _ in range(3))
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


def _read_id(reader: ResponseReader) -> int:
    return reader.number(">i")


# ---------- Two more requests of Kafka's protocol: where a partition's replicas are to be, and who may lead it. Pure.
#
# Layouts: https://kafka.apache.org/protocol, AlterPartitionReassignments version 0 (KIP-455) and DescribeTopicPartitions version 0 (KIP-966).


NOT_CONTROLLER: Final = 41
_ALTER_REASSIGNMENTS: Final = (45, 0)
_DESCRIBE_PARTITIONS: Final = (75, 0)
_MOST_PARTITIONS: Final = 2000


@dataclass(frozen=True)
class ErrorResponse:
    """Kafka's own."""

    code: int
    """https://kafka.apache.org/protocol#protocol_error_codes."""
    text: str


@dataclass(frozen=True)
class LeaderCandidates:
    """Who may lead a partition beside its in-sync replicas, as the controller keeps it (KIP-966)."""

    partition: int
    leader: int | None
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    """Out of sync, and known to have all that is committed."""


def reassignment_request(
    topic: str, replicas: Mapping[int, Sequence[int]], timeout_s: float
) -> bytes:
    """Return the request that gives partitions their replicas, in this order; the first is the preferred leader.

    Args:
        topic: its name.
        replicas: node ids by partition.
        timeout_s: how long the controller may take to accept it; the move itself takes as long as it takes.
    """
    partitions = (
        struct.pack(">i", number) + _ids(nodes) + NO_TAGS for number, nodes in replicas.items()
    )
    one_topic = compact_text(topic) + compact_array(partitions) + NO_TAGS
    return request(
        _ALTER_REASSIGNMENTS,
        struct.pack(">i", round(timeout_s * 1000)) + compact_array([one_topic]) + NO_TAGS,
        flexible=True,
    )


def read_reassignment(answer: bytes) -> ErrorResponse | None:
    """Return why the controller, or the broker that was asked, refused; of several reasons the first.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = ResponseReader(answer)
    reader.skip(4)  # correlation id
    reader.tags()
    reader.skip(4)  # throttle time
    whole = _read_refusal(reader)
    partitions = [
        refusal for topic in reader.compact_array(_read_topic_refusals) for refusal in topic
    ]
    return next((refusal for refusal in (whole, *partitions) if refusal.code), None)


def describe_partitions_request(topic: str) -> bytes:
    """Return the request for a topic's partitions with their eligible leader replicas."""
    asked = compact_array([compact_text(topic) + NO_TAGS])
    return request(
        _DESCRIBE_PARTITIONS,
        asked + struct.pack(">ib", _MOST_PARTITIONS, -1) + NO_TAGS,
        flexible=True,
    )  # -1: from the first one on


def read_leader_candidates(answer: bytes) -> tuple[LeaderCandidates, ...]:
    """Return a topic's partitions; none, where the broker does not know it.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = ResponseReader(answer)
    reader.skip(4)  # correlation id
    reader.tags()
    reader.skip(4)  # throttle time
    return tuple(
        partition for topic in reader.compact_array(_read_topic_choice) for partition in topic
    )


def _ids(nodes: Iterable[int]) -> bytes:
    return compact_array(struct.pack(">i", node) for node in nodes)


def _read_refusal(reader: ResponseReader) -> ErrorResponse:
    code = reader.number(">h")
    return ErrorResponse(code, reader.compact_text() or f"error {code}")


def _read_topic_refusals(reader: ResponseReader) -> list[ErrorResponse]:
    reader.compact_text()
    refusals = reader.compact_array(_read_partition_refusal)
    reader.tags()
    return refusals


def _read_partition_refusal(reader: ResponseReader) -> ErrorResponse:
    reader.skip(4)  # its number
    refusal = _read_refusal(reader)
    reader.tags()
    return refusal


def _read_topic_choice(reader: ResponseReader) -> list[LeaderCandidates]:
    reader.skip(2)  # an unknown topic has an error, and no partitions
    reader.compact_text()
    reader.skip(16 + 1)  # its id, whether it is internal
    partitions = reader.compact_array(_read_partition_choice)
    reader.skip(4)  # what the asker may do
    reader.tags()
    return partitions


def _read_partition_choice(reader: ResponseReader) -> LeaderCandidates:
    reader.skip(2)  # an error such as LEADER_NOT_AVAILABLE: then the leader is -1
    number, leader, _epoch = (reader.number(">i") for _ in range(3))
    _replicas, isr, eligible, _last_known, _offline = (
        tuple(reader.compact_array(_read_id)) for _ in range(5)
    )
    reader.tags()
    return LeaderCandidates(number, None if leader < 0 else leader, isr, eligible)
