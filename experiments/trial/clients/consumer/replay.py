"""A replay: one more read of a topic, from offsets or a timestamp, with a digest of each field.

It uses confluent-kafka's own consumer, in Python, and not the compiled reader. So each of the two
readers is an independent check of the other.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ackbench.experiments.ledger.schema import REPLAYS
from ackbench.experiments.trial.clients.record.layout import MAGIC
from ackbench.experiments.trial.clients.settings.librdkafka import consumer_settings
from ackbench.experiments.trial.clients.settings.security import connection_settings
from ackbench.experiments.trial.clients.settings.tokens import confluent_settings
from ackbench.infra.errors import HarnessError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

TIMEOUT_S: Final = 60.0
_LIST_OFFSETS_TIMEOUT_S: Final = 10.0
_BATCH: Final = 1000
_SLICE_S: Final = 0.2
_VALUE_HEADER: Final = struct.Struct("<IHHqqQ")
"""The start of a record's value: magic, version, producer, seq, intended time, token."""


def first_offsets_after(
    servers: str, topic: str, partitions: Sequence[int], at_ms: int
) -> dict[int, int]:
    """Return each partition's first offset with this timestamp or a later one (ListOffsets).

    A partition without such a record is left out.

    Raises:
        HarnessError: a leader did not answer.
    """
    from confluent_kafka import KafkaException, TopicPartition

    with closing(_consumer(servers, {})) as consumer:
        try:
            found = consumer.offsets_for_times(
                [TopicPartition(topic, number, at_ms) for number in partitions],
                timeout=_LIST_OFFSETS_TIMEOUT_S,
            )
        except KafkaException as error:
            raise HarnessError(
                f"no answer to ListOffsets for {topic} at timestamp {at_ms} ms"
                f" within {_LIST_OFFSETS_TIMEOUT_S:g} s: {error}"
            ) from error
    return {position.partition: position.offset for position in found if position.offset >= 0}


def replay(
    servers: str,
    topic: str,
    number: int,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    token: int,
    settings: Mapping[str, str],
) -> pa.Table:
    """Read each partition from one offset to another; schema `REPLAYS`.

    Args:
        servers: the brokers' addresses.
        topic: the topic's name.
        number: the replay's number in the trial.
        begins: where to begin; partitions without an offset are not read.
        ends: where to end, exclusive.
        token: identifies the trial's records.
        settings: the consumer settings of the trial.

    Raises:
        HarnessError: a partition was not read to its end.
    """
    from confluent_kafka import TopicPartition

    left = {
        partition: ends[partition] for partition, begin in begins.items() if begin < ends[partition]
    }
    with closing(_consumer(servers, settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, begins[partition]) for partition in left])
        rows = [_row(number, message, token) for message in _messages(consumer, left)]
    return pa.Table.from_pylist(rows, schema=REPLAYS)


def _consumer(servers: str, settings: Mapping[str, str]) -> Consumer:
    from confluent_kafka import Consumer

    merged = {
        **consumer_settings(settings),
        "debug": "",
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
        "check.crcs": "true",
    }
    given = {name: value for name, value in merged.items() if value}
    return Consumer(confluent_settings(given | connection_settings(servers)))


def _messages(consumer: Consumer, left: dict[int, int]) -> Iterator[Message]:
    """Yield the records below the end offsets in `left`; remove each partition at its end."""
    from confluent_kafka import KafkaError

    until_s = time.monotonic() + TIMEOUT_S
    while left:
        if time.monotonic() > until_s:
            raise HarnessError(
                f"the replay did not reach the end of partitions {sorted(left)}"
                f" within {TIMEOUT_S:g} s"
            )
        for message in consumer.consume(_BATCH, _SLICE_S):
            partition, offset, error = (
                int(message.partition() or 0),
                int(message.offset() or 0),
                message.error(),
            )
            end = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's name
            if error is not None and error.code() != end:
                raise HarnessError(f"the replay of partition {partition} failed: {error}")
            if error is None and partition in left and offset < left[partition]:
                yield message
            if partition in left and offset + (error is None) >= left[partition]:
                del left[partition]


def _row(number: int, message: Message, token: int) -> dict[str, Any]:
    from ackbench.experiments.trial.clients.librdkafka.interceptors import digest_bytes

    # The stubs allow for a mapping, which only produce() takes.
    pairs: Sequence[tuple[str, bytes | None]] = message.headers() or ()  # type: ignore[assignment]
    headers = [(name.encode(), value or b"") for name, value in pairs]
    producer, seq = _identity(_to_bytes(message.value()) or b"", token)
    return {
        "replay": number,
        "partition": message.partition(),
        "offset": message.offset(),
        "producer": producer,
        "seq": seq,
        "timestamp_ms": message.timestamp()[1],
        "key_digest": digest_bytes(_to_bytes(message.key())),
        "value_digest": digest_bytes(_to_bytes(message.value())),
        "headers_digest": digest_bytes(
            b"".join(name + len(value).to_bytes(8, "little") + value for name, value in headers)
        ),
    }


def _to_bytes(content: str | bytes | None) -> bytes | None:
    """Return keys and values as bytes, which they are without a deserializer; for the stubs."""
    return content.encode() if isinstance(content, str) else content


def _identity(value: bytes, token: int) -> tuple[int | None, int | None]:
    """Return a record's producer and seq; both `None` if it is not of this trial."""
    if len(value) < _VALUE_HEADER.size:
        return None, None
    magic, _, producer, seq, _, record_token = _VALUE_HEADER.unpack_from(value)
    return (producer, seq) if (magic, record_token) == (MAGIC, token) else (None, None)
