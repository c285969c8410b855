"""Two more requests of Kafka's protocol: where a partition's replicas are to be, and who may lead it. Pure.

Layouts: https://kafka.apache.org/protocol, AlterPartitionReassignments version 0 (KIP-455) and DescribeTopicPartitions version 0 (KIP-966).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.wire_format import NO_TAGS, Reader, compact_array, compact_text, request

NOT_CONTROLLER: Final = 41
_ALTER_REASSIGNMENTS: Final = (45, 0)
_DESCRIBE_PARTITIONS: Final = (75, 0)
_MOST_PARTITIONS: Final = 2000


@dataclass(frozen=True)
class Refusal:
    """Kafka's own."""

    code: int
    """https://kafka.apache.org/protocol#protocol_error_codes."""
    text: str


@dataclass(frozen=True)
class LeaderChoice:
    """Who may lead a partition beside its in-sync replicas, as the controller keeps it (KIP-966)."""

    partition: int
    leader: int | None
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    """Out of sync, and known to have all that is committed."""


def reassignment_request(topic: str, replicas: Mapping[int, Sequence[int]], timeout_s: float) -> bytes:
    """Return the request that gives partitions their replicas, in this order; the first is the preferred leader.

    Args:
        topic: its name.
        replicas: node ids by partition.
        timeout_s: how long the controller may take to accept it; the move itself takes as long as it takes.
    """
    partitions = (struct.pack(">i", number) + _ids(nodes) + NO_TAGS for number, nodes in replicas.items())
    one_topic = compact_text(topic) + compact_array(partitions) + NO_TAGS
    return request(_ALTER_REASSIGNMENTS, struct.pack(">i", round(timeout_s * 1000)) + compact_array([one_topic]) + NO_TAGS, flexible=True)


def read_reassignment(answer: bytes) -> Refusal | None:
    """Return why the controller, or the broker that was asked, refused; of several reasons the first.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = Reader(answer)
    reader.skip(4)  # correlation id
    reader.tags()
    reader.skip(4)  # throttle time
    whole = _read_refusal(reader)
    partitions = [refusal for topic in reader.compact_array(_read_topic_refusals) for refusal in topic]
    return next((refusal for refusal in (whole, *partitions) if refusal.code), None)


def leader_choice_request(topic: str) -> bytes:
    """Return the request for a topic's partitions with their eligible leader replicas."""
    asked = compact_array([compact_text(topic) + NO_TAGS])
    return request(_DESCRIBE_PARTITIONS, asked + struct.pack(">ib", _MOST_PARTITIONS, -1) + NO_TAGS, flexible=True)  # -1: from the first one on


def read_leader_choice(answer: bytes) -> tuple[LeaderChoice, ...]:
    """Return a topic's partitions; none, where the broker does not know it.

    Raises:
        HarnessError: that is not such an answer.
    """
    reader = Reader(answer)
    reader.skip(4)  # correlation id
    reader.tags()
    reader.skip(4)  # throttle time
    return tuple(partition for topic in reader.compact_array(_read_topic_choice) for partition in topic)


def _ids(nodes: Iterable[int]) -> bytes:
    return compact_array(struct.pack(">i", node) for node in nodes)


def _read_refusal(reader: Reader) -> Refusal:
    code = reader.number(">h")
    return Refusal(code, reader.compact_text() or f"error {code}")


def _read_topic_refusals(reader: Reader) -> list[Refusal]:
    reader.compact_text()
    refusals = reader.compact_array(_read_partition_refusal)
    reader.tags()
    return refusals


def _read_partition_refusal(reader: Reader) -> Refusal:
    reader.skip(4)  # its number
    refusal = _read_refusal(reader)
    reader.tags()
    return refusal


def _read_topic_choice(reader: Reader) -> list[LeaderChoice]:
    reader.skip(2)  # an unknown topic has an error, and no partitions
    reader.compact_text()
    reader.skip(16 + 1)  # its id, whether it is internal
    partitions = reader.compact_array(_read_partition_choice)
    reader.skip(4)  # what the asker may do
    reader.tags()
    return partitions


def _read_partition_choice(reader: Reader) -> LeaderChoice:
    reader.skip(2)  # an error such as LEADER_NOT_AVAILABLE: then the leader is -1
    number, leader, _epoch = (reader.number(">i") for _ in range(3))
    _replicas, isr, eligible, _last_known, _offline = (tuple(reader.compact_array(_read_id)) for _ in range(5))
    reader.tags()
    return LeaderChoice(number, None if leader < 0 else leader, isr, eligible)


def _read_id(reader: Reader) -> int:
    return reader.number(">i")
