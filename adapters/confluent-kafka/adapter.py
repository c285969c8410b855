"""Verifiable producer and consumer with confluent-kafka (librdkafka); see docs/clients.md."""

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import confluent_kafka
from common import (
    InvalidSettingError,
    Line,
    Options,
    SentRecord,
    Setting,
    StopRequest,
    assignors,
    due_records,
    effective_settings,
    emit,
    emit_assignment,
    emit_commit,
    emit_records,
    known_settings,
    library_settings,
    line,
    one_of,
    read_options,
    record_data,
    run,
)
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

_POLL_S = 0.1
_MAX_POLL_RECORDS = 500

_BUFFERS: dict[str, Setting] = {
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", int),
    "send.buffer.bytes": ("socket.send.buffer.bytes", int),
}
_PRODUCER = known_settings(
    "producer",
    str,  # the names are Kafka's
    _BUFFERS
    | {
        "compression.type": ("compression.type", one_of("none", "gzip", "snappy", "lz4", "zstd")),
        "linger.ms": ("linger.ms", float),
        "max.request.size": ("message.max.bytes", int),
        "request.timeout.ms": ("socket.timeout.ms", int),  # how long a response may take
    },
)
_CONSUMER = known_settings(
    "consumer",
    str,
    _BUFFERS
    | {
        "auto.offset.reset": ("auto.offset.reset", one_of("earliest", "latest")),
        "fetch.max.wait.ms": ("fetch.wait.max.ms", int),
        "group.protocol": ("group.protocol", one_of("classic", "consumer")),
        "group.remote.assignor": ("group.remote.assignor", str),
        "partition.assignment.strategy": (
            "partition.assignment.strategy",
            lambda value: ",".join(assignors(value)),
        ),
    },
)


def main() -> None:
    """Run the role of the command line."""
    options = read_options()
    stop = StopRequest()
    if options.role == "producer":
        produce(options, stop)
    else:
        ConsumerLoop(options).run(stop)


def produce(options: Options, stop: StopRequest) -> None:
    """Produce the records when they are due; serve delivery reports while waiting."""
    settings = library_settings(options.properties, _PRODUCER)
    try:
        producer = Producer({"bootstrap.servers": options.bootstrap_server, **settings})
    except KafkaException as error:
        raise InvalidSettingError(error) from error
    emit_startup(options)
    for number in due_records(options, stop, wait=producer.poll):
        send(producer, options, number, stop)
        producer.poll(0)
    producer.flush()
    emit(line("shutdown_complete"))


def send(producer: Producer, options: Options, number: int, stop: StopRequest) -> None:
    """Give one record to the client; while its queue is full, serve delivery reports."""
    key, value = options.key(number), options.value(number)
    while True:
        record = SentRecord(options.topic, key, value, time.time_ns())
        report = partial(report_delivery, record)
        try:
            producer.produce(options.topic, value, key, on_delivery=report)
        except BufferError as error:
            if stop:
                record.failed("BufferError", str(error), rejected=True)
                return
            producer.poll(_POLL_S)
        except KafkaException as error:
            reason = error.args[0]
            record.failed(reason.name(), reason.str(), reason.code(), rejected=True)
            return
        else:
            return


def report_delivery(record: SentRecord, error: KafkaError | None, message: Any) -> None:
    """Report the outcome of a record."""
    if error is None:
        record.acknowledged(message.partition(), message.offset())
    else:
        record.failed(error.name(), error.str(), error.code())


class ConsumerLoop:
    """Reads the topic as a member of the group, and commits what it has reported."""

    def __init__(self, options: Options) -> None:
        self._options = options
        settings = {
            "enable.auto.commit": options.enable_autocommit,
            **library_settings(options.properties, _CONSUMER),
        }
        self._autocommit = settings["enable.auto.commit"]
        self._records: list[Line] = []
        """Received and not yet reported."""
        self._positions: dict[tuple[str, int], TopicPartition] = {}
        """Next offsets to read, as far as they are not known to be committed."""
        self._commit_in_flight = False
        try:
            self._consumer = Consumer(
                {
                    "bootstrap.servers": options.bootstrap_server,
                    "group.id": options.group_id,
                    "on_commit": self._on_commit,
                    **settings,
                }
            )
        except KafkaException as error:
            raise InvalidSettingError(error) from error

    def run(self, stop: StopRequest) -> None:
        """Consume until a stop is requested."""
        emit_startup(self._options)
        self._consumer.subscribe(
            [self._options.topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        while not stop:
            self._poll()
            self._report()
            if self._positions and not self._autocommit and not self._commit_in_flight:
                self._consumer.commit(offsets=list(self._positions.values()), asynchronous=True)
                self._commit_in_flight = True
        self._commit_synchronously()
        self._consumer.close()
        emit(line("shutdown_complete"))

    def _poll(self) -> None:
        """Wait for a record, and take those that have arrived with it.

        Assignments, revocations and the results of commits are reported within.
        """
        timeout_s = _POLL_S
        while len(self._records) < _MAX_POLL_RECORDS:
            message: Any = self._consumer.poll(timeout_s)
            if message is None:
                return
            timeout_s = 0
            if error := message.error():
                if error.fatal():
                    raise KafkaException(error)
                sys.stderr.write(f"poll: {error}\n")
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            self._records.append(
                record_data(topic, partition, offset, message.key(), message.value())
            )
            self._positions[topic, partition] = TopicPartition(
                topic, partition, offset + 1, leader_epoch=message.leader_epoch()
            )

    def _report(self) -> None:
        emit_records(self._records)
        self._records.clear()

    def _commit_synchronously(self) -> None:
        if not self._positions or self._autocommit:
            return
        offsets = list(self._positions.values())
        try:
            self._report_commit(None, self._consumer.commit(offsets=offsets, asynchronous=False))
        except KafkaException as error:
            self._report_commit(error.args[0], offsets)

    def _on_commit(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        self._commit_in_flight = False
        self._report_commit(error, offsets)

    def _report_commit(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        committed = {(one.topic, one.partition): one.offset for one in offsets if one.offset >= 0}
        error = error or next((one.error for one in offsets if one.error), None)
        if committed:
            emit_commit(committed, error)
        for place, offset in committed.items():
            position = self._positions.get(place)
            if error is None and position is not None and position.offset == offset:
                del self._positions[place]

    def _on_assign(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        emit_assignment("assigned", _places(partitions))

    def _on_revoke(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._report()
        self._commit_synchronously()
        self._give_up(partitions)

    def _on_lost(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Give partitions up that another member may own already: a commit would fail."""
        self._report()
        self._give_up(partitions)

    def _give_up(self, partitions: Sequence[TopicPartition]) -> None:
        for place in _places(partitions):
            self._positions.pop(place, None)
        emit_assignment("revoked", _places(partitions))


def emit_startup(options: Options) -> None:
    """Write `startup_complete`."""
    version = str(confluent_kafka.__version__)
    settings = effective_settings(options, version)
    settings["librdkafka.version"] = confluent_kafka.libversion()[0]
    in_flight = "max.in.flight.requests.per.connection"
    if settings.get("enable.idempotence") == "true" and in_flight not in options.properties:
        settings[in_flight] = "5"  # librdkafka lowers it.
    emit(line("startup_complete", client="confluent-kafka", version=version, settings=settings))


def _places(partitions: Sequence[TopicPartition]) -> list[tuple[str, int]]:
    return [(one.topic, one.partition) for one in partitions]


if __name__ == "__main__":
    run(main)
