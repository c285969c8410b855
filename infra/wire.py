"""Three requests of Kafka's protocol, so that one certain node can be asked what it knows, and no client asks another instead. Pure.

A client library picks the broker that answers by itself and keeps trying others; here a paused node is a paused node. Layouts:
https://kafka.apache.org/protocol, Metadata version 7 (the last without flexible fields but one), DescribeQuorum version 1, and ListOffsets version 1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from infra.cluster import ControllerView, PartitionState
from infra.errors import HarnessError

Item = TypeVar("Item")

_METADATA: Final = (3, 7)
_DESCRIBE_QUORUM: Final = (55, 1)
_LIST_OFFSETS: Final = (2, 1)
_DEBUGGING_REPLICA: Final = -2
"""Who asks as nobody's replica and no consumer is told the log's end, and not the high watermark (`ReplicaManager.fetchOffset`)."""
_LATEST: Final = -1
_CLIENT_ID: Final = b"ackbench"
_CORRELATION_ID: Final = 1
_METADATA_TOPIC: Final = b"__cluster_metadata"


@dataclass(frozen=True)
class BrokerView:
    """What one broker's own metadata says."""

    brokers: frozenset[int]
    """The registered ones that are not fenced."""
    partitions: tuple[PartitionState, ...]


def metadata_request(topics: Sequence[str] | None) -> bytes:
    """Return the request for topics by name, or for all; it creates none."""
    names = b"".join(struct.pack(">h", len(name)) + name for name in (topic.encode() for topic in topics or ()))
    return _request(_METADATA, b"", struct.pack(">i", -1 if topics is None else len(topics)) + names + b"\x00")


def read_metadata(answer: bytes) -> BrokerView:
    """Return what the broker answered; topics that it does not know are left out.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = _Reader(answer)
    reader.skip(4 + 4)  # correlation id, throttle time
    brokers = reader.array(_read_broker)
    reader.text()  # cluster id
    reader.skip(4)  # "controller": with KRaft any live broker
    topics = reader.array(_read_topic)
    return BrokerView(frozenset(brokers), tuple(partition for topic in topics for partition in topic))


def quorum_request() -> bytes:
    """Return the request for the state of the metadata quorum."""
    partition = struct.pack(">i", 0) + b"\x00"
    topic = bytes([len(_METADATA_TOPIC) + 1]) + _METADATA_TOPIC + b"\x02" + partition + b"\x00"
    return _request(_DESCRIBE_QUORUM, b"\x00", b"\x02" + topic + b"\x00")


def read_quorum(answer: bytes) -> ControllerView | None:
    """Return what a controller answered; `None` when it does not take itself for the active one.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = _Reader(answer)
    reader.skip(4 + 1)  # correlation id, no tagged fields
    if reader.number(">h") != 0 or reader.number(">B") != 1 + 1:  # NOT_LEADER_OR_FOLLOWER, or no topic
        return None
    reader.skip(reader.number(">B") - 1)
    reader.skip(1 + 4)  # one partition, its number
    failed, leader, epoch = reader.number(">h"), reader.number(">i"), reader.number(">i")
    return None if failed or leader < 0 else ControllerView(leader, epoch)


def log_ends_request(topic: str, partitions: Sequence[int]) -> bytes:
    """Return the request for the ends of some partitions' logs; only their leader answers it."""
    name = topic.encode()
    asked = b"".join(struct.pack(">iq", partition, _LATEST) for partition in partitions)
    one_topic = struct.pack(">iih", _DEBUGGING_REPLICA, 1, len(name)) + name + struct.pack(">i", len(partitions))
    return _request(_LIST_OFFSETS, b"", one_topic + asked)


def read_log_ends(answer: bytes) -> dict[int, int]:
    """Return the log end offset by partition; those that the broker does not lead are left out.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = _Reader(answer)
    reader.skip(4)  # correlation id
    ends = [end for topic in reader.array(_read_ends_of_topic) for end in topic]
    return {partition: offset for partition, error, offset in ends if not error}


def _request(api: tuple[int, int], header_end: bytes, body: bytes) -> bytes:
    header = struct.pack(">hhih", *api, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID + header_end
    return struct.pack(">i", len(header) + len(body)) + header + body


class _Reader:
    """Takes an answer apart from its start to its end."""

    def __init__(self, answer: bytes) -> None:
        self._answer, self._at = answer, 0

    def number(self, kind: str) -> int:
        try:
            (number,) = struct.unpack_from(kind, self._answer, self._at)
        except struct.error as error:
            raise HarnessError(f"an answer of {len(self._answer)} bytes ended too soon") from error
        self._at += struct.calcsize(kind)
        return int(number)

    def skip(self, size_bytes: int) -> None:
        self._at += size_bytes

    def text(self) -> str | None:
        size_bytes = self.number(">h")
        if size_bytes < 0:
            return None
        begin = self._at
        self.skip(size_bytes)
        return self._answer[begin : self._at].decode()

    def array(self, read: Callable[[_Reader], Item]) -> list[Item]:
        return [read(self) for _ in range(self.number(">i"))]


def _read_ends_of_topic(reader: _Reader) -> list[tuple[int, int, int]]:
    reader.text()
    return reader.array(_read_end)


def _read_end(reader: _Reader) -> tuple[int, int, int]:
    partition, error, _timestamp, offset = (reader.number(kind) for kind in (">i", ">h", ">q", ">q"))
    return partition, error, offset


def _read_broker(reader: _Reader) -> int:
    node_id = reader.number(">i")
    reader.text()  # host
    reader.skip(4)  # port
    reader.text()  # rack
    return node_id


def _read_topic(reader: _Reader) -> list[PartitionState]:
    reader.skip(2)  # an unknown topic has an error, and no partitions
    name = reader.text() or ""
    reader.skip(1)  # whether it is internal
    return reader.array(lambda partition: _read_partition(partition, name))


def _read_partition(reader: _Reader, topic: str) -> PartitionState:
    reader.skip(2)  # an error such as LEADER_NOT_AVAILABLE: then the leader is -1
    number, leader, epoch = (reader.number(">i") for _ in range(3))
    replicas, isr, _offline = (tuple(reader.array(_read_id)) for _ in range(3))
    return PartitionState(topic, number, None if leader < 0 else leader, replicas, isr, None if epoch < 0 else epoch)


def _read_id(reader: _Reader) -> int:
    return reader.number(">i")
