"""A replay: a topic read once more, from an offset or from a timestamp on, with a digest of each field of each record.

It reads with confluent-kafka's own consumer, in Python: not with the compiled reader, so that one is a witness of the other.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from experiments.clients.record.layout import MAGIC
from experiments.clients.settings.librdkafka import consumer_settings
from experiments.clients.settings.security import connecting
from experiments.ledger.schema import REPLAYS
from infra.errors import HarnessError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

TIMEOUT_S: Final = 60.0
_ASK_S: Final = 10.0
_BATCH: Final = 1000
_SLICE_S: Final = 0.2
_MARK: Final = struct.Struct("<IHHqqQ")
"""The head of `value`: magic, version, producer, seq, intended time, token."""


def first_offsets_after(
    servers: str, topic: str, partitions: Sequence[int], at_ms: int
) -> dict[int, int]:
    """Return the first offset of each partition whose record has this timestamp or a later one (ListOffsets); a partition without such a record is left out.

    Raises:
        HarnessError: a leader did not answer.
    """
    from confluent_kafka import KafkaException, TopicPartition

    with closing(_consumer(servers, {})) as consumer:
        try:
            told = consumer.offsets_for_times(
                [TopicPartition(topic, number, at_ms) for number in partitions], timeout=_ASK_S
            )
        except KafkaException as error:
            raise HarnessError(
                f"asked for the first offsets of {topic} from {at_ms} ms on for {_ASK_S:g} s: {error}"
            ) from error
    return {place.partition: place.offset for place in told if place.offset >= 0}


def replay(
    servers: str,
    topic: str,
    number: int,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    token: int,
    settings: Mapping[str, str],
) -> pa.Table:
    """Read each partition from an offset to before another; schema `REPLAYS`.

    Args:
        servers: the addresses.
        topic: its name.
        number: which replay of the trial.
        begins: where to begin; a partition that is not named is not read.
        ends: where to end.
        token: whose records are ours.
        settings: what was asked for of the consumer.

    Raises:
        HarnessError: a partition could not be read to its end.
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

    wanted = {
        **consumer_settings(settings),
        "debug": "",
        "auto.offset.reset": "error",
        "enable.partition.eof": "true",
        "check.crcs": "true",
    }
    return Consumer({name: value for name, value in wanted.items() if value} | connecting(servers))


def _messages(consumer: Consumer, left: dict[int, int]) -> Iterator[Message]:
    """Yield the records below the ends; a partition is done when its end, or the last record before it, has come."""
    from confluent_kafka import KafkaError

    until_s = time.monotonic() + TIMEOUT_S
    while left:
        if time.monotonic() > until_s:
            raise HarnessError(
                f"replayed for {TIMEOUT_S:g} s, and the ends of partitions {sorted(left)} did not come"
            )
        for message in consumer.consume(_BATCH, _SLICE_S):
            partition, offset, error = (
                int(message.partition() or 0),
                int(message.offset() or 0),
                message.error(),
            )
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's name of it
                raise HarnessError(f"partition {partition} could not be replayed: {error}")
            if error is None and partition in left and offset < left[partition]:
                yield message
            if partition in left and offset + (error is None) >= left[partition]:
                del left[partition]


def _row(number: int, message: Message, token: int) -> dict[str, Any]:
    from experiments.clients.librdkafka.interceptors import digest_of

    told: Sequence[tuple[str, bytes | None]] = message.headers() or ()  # type: ignore[assignment]  # the stubs allow for a mapping, which only producing takes
    headers = [(name.encode(), value or b"") for name, value in told]
    producer, seq = _whose(_bytes(message.value()) or b"", token)
    return {
        "replay": number,
        "partition": message.partition(),
        "offset": message.offset(),
        "producer": producer,
        "seq": seq,
        "timestamp_ms": message.timestamp()[1],
        "key_digest": digest_of(_bytes(message.key())),
        "value_digest": digest_of(_bytes(message.value())),
        "headers_digest": digest_of(
            b"".join(name + len(value).to_bytes(8, "little") + value for name, value in headers)
        ),
    }


def _bytes(content: str | bytes | None) -> bytes | None:
    """Without deserializers a consumer gives bytes."""
    return content.encode() if isinstance(content, str) else content


def _whose(value: bytes, token: int) -> tuple[int | None, int | None]:
    """Return producer and seq, as the value says; nothing, where it is none of this trial's."""
    if len(value) < _MARK.size:
        return None, None
    magic, _, producer, seq, _, told = _MARK.unpack_from(value)
    return (producer, seq) if (magic, told) == (MAGIC, token) else (None, None)
