"""Three requests of Kafka's protocol, so that one certain node can be asked what it knows, and no client asks another instead. Pure.

A client library picks the broker that answers by itself and keeps trying others; here a paused node is a paused node. Layouts:
https://kafka.apache.org/protocol, Metadata version 12 (the first that asks by name and tells a topic's id), DescribeQuorum version 1, and
ListOffsets version 1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.cluster_spec import ControllerView, PartitionState
from infra.wire_format import NO_TAGS, Reader, compact_array, compact_text, request

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
    asked = compact_array(None if topics is None else (_NO_ID + compact_text(topic) + NO_TAGS for topic in topics))
    return request(_METADATA, asked + b"\x00\x00" + NO_TAGS, flexible=True)  # make none, and tell of no operations


def read_metadata(answer: bytes) -> BrokerView:
    """Return what the broker answered; topics that it does not know are left out.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = Reader(answer)
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
    reader = Reader(answer)
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
    return request(_LIST_OFFSETS, one_topic + asked, flexible=False)


def read_log_ends(answer: bytes) -> dict[int, int]:
    """Return the log end offset by partition; those that the broker does not lead are left out.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = Reader(answer)
    reader.skip(4)  # correlation id
    ends = [end for topic in reader.array(_read_ends_of_topic) for end in topic]
    return {partition: offset for partition, error, offset in ends if not error}


def _read_ends_of_topic(reader: Reader) -> list[tuple[int, int, int]]:
    reader.text()
    return reader.array(_read_end)


def _read_end(reader: Reader) -> tuple[int, int, int]:
    partition, error, _timestamp, offset = (reader.number(kind) for kind in (">i", ">h", ">q", ">q"))
    return partition, error, offset


def _read_broker(reader: Reader) -> int:
    node_id = reader.number(">i")
    reader.compact_text()  # host
    reader.skip(4)  # port
    reader.compact_text()  # rack
    reader.tags()
    return node_id


def _read_topic(reader: Reader) -> list[PartitionState]:
    reader.skip(2)  # an unknown topic has an error, and no partitions
    name, topic_id = reader.compact_text() or "", str(reader.uuid())
    reader.skip(1)  # whether it is internal
    partitions = reader.compact_array(lambda partition: _read_partition(partition, name, topic_id))
    reader.skip(4)  # what the asker may do
    reader.tags()
    return partitions


def _read_partition(reader: Reader, topic: str, topic_id: str) -> PartitionState:
    reader.skip(2)  # an error such as LEADER_NOT_AVAILABLE: then the leader is -1
    number, leader, epoch = (reader.number(">i") for _ in range(3))
    replicas, isr, _offline = (tuple(reader.compact_array(_read_id)) for _ in range(3))
    reader.tags()
    return PartitionState(topic, number, None if leader < 0 else leader, replicas, isr, None if epoch < 0 else epoch, topic_id)


def _read_id(reader: Reader) -> int:
    return reader.number(">i")
