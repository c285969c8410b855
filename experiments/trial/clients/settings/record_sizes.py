"""The largest records that clients and a topic can carry, and workloads whose records are larger.

A client compares an upper bound of a record's size with its own limit before it sends. A broker
compares a batch, of at least one record, with the topic's limit and with the size of a segment.
Sources: librdkafka's `rd_kafka_msg_max_wire_size` (rdkafka_msg.h) and `rd_kafka_msg_new0`; Kafka's
`DefaultRecord.recordSizeUpperBound`, `KafkaProducer.ensureValidRecordSize` and
`UnifiedLog.analyzeAndValidateRecords`. Fetches have no such limit: a first batch that is larger
than the fetch size is returned all the same (KIP-74). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.sweep.client_kinds import ClientKind, traits_of
from ackbench.experiments.sweep.plan import Workload
from ackbench.experiments.trial.clients.record.layout import (
    HEADER_BYTES,
    IDENTITY_BYTES,
    IDENTITY_HEADER,
)

LIBRDKAFKA_OVERHEAD_BYTES: Final = 36
"""`RD_KAFKAP_MESSAGE_V2_MAX_OVERHEAD`; headers are added after the check, by an interceptor."""
BATCH_OVERHEAD_BYTES: Final = 61
"""Of a batch of message format 2: `DefaultRecordBatch.RECORD_BATCH_OVERHEAD`."""
JAVA_OVERHEAD_BYTES: Final = BATCH_OVERHEAD_BYTES + 21
"""And `DefaultRecord.MAX_RECORD_OVERHEAD`."""
_KEY_BYTES: Final = 8
"""Of a number, as librdkafka's producers write it."""
_RECORD_HEADER_BYTES: Final = 28
"""Of one of ackbench's headers in a batch: its name has 10 bytes, its value 16."""
_IDENTITY_HEADER_BYTES: Final = 1 + len(IDENTITY_HEADER) + 2 + IDENTITY_BYTES
"""Of an identity's header in a batch, with the lengths of its name and its value."""
_ATTRIBUTES_BYTES: Final = 1
_FIRST_DELTAS_BYTES: Final = 2
"""Of the deltas of timestamp and offset in the first record of a batch, which are 0."""
_DEFAULT_LIMITS: Final[Mapping[str, str]] = {
    "max.message.bytes": "1048588",
    "segment.bytes": "1073741824",
}
"""Kafka's, of topics."""
_BROKER_NAMES: Final[Mapping[str, str]] = {
    "max.message.bytes": "message.max.bytes",
    "segment.bytes": "log.segment.bytes",
}
"""Brokers' names of the defaults of topics."""


@dataclass(frozen=True)
class _Limit:
    """What a setting allows."""

    name: str
    """As an experiment sets it."""
    bytes: int
    counted: Callable[[int], int]
    """Returns what is compared with the limit, from the size of a record's value."""

    def largest_value(self, at_most: int) -> int:
        """Return the size of the largest value within the limit, 0 or more."""
        size = at_most - max(0, self.counted(at_most) - self.bytes)
        while size > 0 and self.counted(size) > self.bytes:
            size -= 1  # the length of the value's own length may be a byte shorter
        while size < at_most and self.counted(size + 1) <= self.bytes:
            size += 1
        return max(size, 0)


def record_size_problem(
    client: ClientKind,
    workload: Workload,
    producer: Mapping[str, str],
    topic: Mapping[str, str],
    brokers: Mapping[str, str],
) -> str | None:
    """Return why records are too large, with the sizes that would do; `None`: they fit.

    Args:
        client: the kind of the producers.
        workload: has the size of a record's value.
        producer: the effective settings of the producers.
        topic: the topic's own settings.
        brokers: those of its brokers.
    """
    size, record = workload.record_size_bytes, _Record.of(client, workload)
    limits = [*_client_limits(record, producer), *_topic_limits(record, producer, topic, brokers)]
    exceeded = [limit for limit in limits if limit.counted(size) > limit.bytes]
    if not exceeded:
        return None
    largest = min(limit.largest_value(size) for limit in limits)
    names = " and ".join(
        f"{limit.name} from {limit.bytes} to {limit.counted(size)}" for limit in exceeded
    )
    if record.is_java:
        return f"a record has up to {size} bytes, and at most {largest} are allowed: raise {names}"
    return f"workload.record_size_bytes is {size}; allowed: at most {largest}, or raise {names}"


@dataclass(frozen=True)
class _Record:
    """What a record has besides its value."""

    is_java: bool
    key_bytes: int | None
    """Of the largest key; `None`: records have none."""
    headers: int
    header_bytes: int = _RECORD_HEADER_BYTES
    """Of each header in a batch."""

    @classmethod
    def of(cls, client: ClientKind, workload: Workload) -> _Record:
        """Return what a workload's records have."""
        is_java = traits_of(client).reports_in_text
        if workload.identity == "header":
            key_bytes = _KEY_BYTES if workload.keys.count else None
            return cls(is_java, key_bytes, 1, _IDENTITY_HEADER_BYTES)
        if workload.identity == "key":
            return cls(is_java, IDENTITY_BYTES, workload.headers)
        key_bytes = len(str(workload.keys.count - 1)) if is_java else _KEY_BYTES
        return cls(is_java, key_bytes if workload.keys.count else None, workload.headers)

    def client_bytes(self, size: int) -> int:
        """Return what a producer compares with its limit, for a value of this size."""
        if self.is_java:
            return JAVA_OVERHEAD_BYTES + self._fields_bytes(size, headers=0)
        return LIBRDKAFKA_OVERHEAD_BYTES + (self.key_bytes or 0) + size

    def batch_bytes(self, size: int) -> int:
        """Return the size of a batch of one record with a value of this size."""
        body = _ATTRIBUTES_BYTES + _FIRST_DELTAS_BYTES + self._fields_bytes(size, self.headers)
        return BATCH_OVERHEAD_BYTES + _varint_bytes(body) + body

    def _fields_bytes(self, size: int, headers: int) -> int:
        """Return the size of key, value and headers in message format 2."""
        key = 1 if self.key_bytes is None else _varint_bytes(self.key_bytes) + self.key_bytes
        value = _varint_bytes(size) + size
        return key + value + _varint_bytes(headers) + headers * self.header_bytes


def _client_limits(record: _Record, producer: Mapping[str, str]) -> Iterator[_Limit]:
    """Yield the limits that a producer compares with a bound of a record's size."""
    names = ("max.request.size", "buffer.memory") if record.is_java else ("message.max.bytes",)
    for name in names:
        if name in producer:
            yield _Limit(f"producer.{name}", int(producer[name]), record.client_bytes)


def _topic_limits(
    record: _Record,
    producer: Mapping[str, str],
    topic: Mapping[str, str],
    brokers: Mapping[str, str],
) -> Iterator[_Limit]:
    """Yield the limits of the leader of a partition, for a batch of one record.

    What a batch has when it is compressed is known for librdkafka's filler only: as much as before.
    """
    compressed = producer.get("compression.type", "none") != "none"
    if compressed and record.is_java:
        return
    counted = _filler_bytes if compressed else record.batch_bytes
    for name, default in _DEFAULT_LIMITS.items():
        value = topic.get(name) or brokers.get(_BROKER_NAMES[name]) or default
        yield _Limit(f"topic.{name}", int(value), counted)


def _filler_bytes(size: int) -> int:
    return size - HEADER_BYTES


def _varint_bytes(number: int) -> int:
    """Return the size of a number that is not negative, in zigzag encoding."""
    return max(1, -(-(number.bit_length() + 1) // 7))
