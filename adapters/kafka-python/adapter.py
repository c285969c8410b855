"""Verifiable producer and consumer with kafka-python; see docs/clients.md."""

import importlib
import logging
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from common import (
    InvalidSettingError,
    Options,
    SentRecord,
    Setting,
    StopRequest,
    assignors,
    due_records,
    emit,
    emit_assignment,
    emit_commit,
    emit_records,
    known_settings,
    library_settings,
    line,
    one_of,
    pure_python_codec,
    read_options,
    record_data,
    run,
    snake_case,
)
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaConfigurationError, KafkaError
from kafka.structs import OffsetAndMetadata
from kafka.version import __version__

_POLL_MS = 100
_LAST_COMMIT_MS = 10_000
_MAX_COMMITS_IN_FLIGHT = 3
"""The connection to a coordinator that does not answer takes a few requests only."""
_ASSIGNORS = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
    "cooperative-sticky": ("cooperative_sticky", "CooperativeStickyAssignor"),
}
_log = logging.getLogger("adapter")


def _assignor_classes(value: str) -> list[type]:
    """Parse a list of assignors; older releases have no cooperative one."""
    classes = []
    for name in assignors(value):
        module, of_class = _ASSIGNORS[one_of(*_ASSIGNORS)(name)]
        try:
            found = importlib.import_module(f"kafka.coordinator.assignors.{module}")
        except ImportError as error:
            raise ValueError(f"kafka-python {__version__} has no {name}") from error
        classes.append(getattr(found, of_class))
    return classes


_PRODUCER = known_settings(
    "producer", snake_case, {"compression.type": ("compression_type", pure_python_codec)}
)
_CONSUMER = known_settings(
    "consumer",
    snake_case,
    {"partition.assignment.strategy": ("partition_assignment_strategy", _assignor_classes)},
)


def main() -> None:
    """Run the role of the command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    options = read_options()
    stop = StopRequest()
    if options.role == "producer":
        produce(options, stop)
    else:
        ConsumerLoop(options).run(stop)


def make_client(client: Any, options: Options, known: Mapping[str, Setting], **more: Any) -> Any:
    """Return a producer or consumer with the settings of the options.

    Args:
        client: the class.
        options: with Kafka's properties.
        known: the library's names of the properties, and parsers of their values.
        more: further settings of the library; the properties are preferred.
    """
    settings = more | library_settings(options.properties, known)
    for name in settings:
        if name not in client.DEFAULT_CONFIG:
            raise InvalidSettingError(f"kafka-python {__version__} has no setting {name}")
    servers = options.bootstrap_server.split(",")
    try:
        return client(bootstrap_servers=servers, **settings)
    except (KafkaConfigurationError, AssertionError, ValueError) as error:
        raise InvalidSettingError(error) from error


def emit_startup(config: Mapping[str, Any], known: Mapping[str, Setting]) -> None:
    """Write `startup_complete` with the settings that the client has after it was made."""
    texts = {name: _text(config[key]) for name, (key, _) in known.items() if key in config}
    settings = {name: text for name, text in texts.items() if text}
    if config.get("compression_type", "") is None:
        settings["compression.type"] = "none"
    if settings.get("acks") == "-1":
        settings["acks"] = "all"
    emit(line("startup_complete", client="kafka-python", version=__version__, settings=settings))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(assignor.name for assignor in value)
    if value == float("inf"):
        return "2147483647"
    return "" if value is None else str(value)


def produce(options: Options, stop: StopRequest) -> None:
    """Produce the records when they are due; the client's thread reports their outcomes."""
    producer = make_client(KafkaProducer, options, _PRODUCER)
    emit_startup(producer.config, _PRODUCER)
    for number in due_records(options, stop):
        send(producer, options, number)
    producer.flush()
    producer.close()
    emit(line("shutdown_complete"))


def send(producer: KafkaProducer, options: Options, number: int) -> None:
    """Give one record to the client; this blocks while it has no metadata or no memory."""
    key, value = options.key(number), options.value(number)
    record = SentRecord(options.topic, key, value, time.time_ns())
    try:
        future = producer.send(options.topic, value.encode(), None if key is None else key.encode())
    except KafkaError as error:
        report_error(record, error, rejected=True)
        return
    # With acks=0 the client counts offsets of its own.
    unknown_offset = producer.config["acks"] == 0
    future.add_callback(
        lambda metadata: record.acknowledged(
            metadata.partition, None if unknown_offset else metadata.offset
        )
    )
    future.add_errback(partial(report_error, record))


def report_error(record: SentRecord, error: Exception, *, rejected: bool = False) -> None:
    """Report that the client gave a record up, or did not take it."""
    code = getattr(error, "errno", None)
    record.failed(type(error).__name__, str(error), code, rejected=rejected)


class ConsumerLoop(ConsumerRebalanceListener):
    """Reads the topic as a member of the group, and commits what it has reported.

    The client revokes partitions within poll(). All records of earlier polls were reported and
    their commit sent by then, so a revocation need not commit; since release 3 it must not wait
    for a commit, as it is called by the client's input/output thread.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._consumer = make_client(
            KafkaConsumer,
            options,
            _CONSUMER,
            group_id=options.group_id,
            enable_auto_commit=options.enable_autocommit,
            default_offset_commit_callback=self._on_commit,
        )
        self._autocommit = self._consumer.config["enable_auto_commit"]
        self._positions: dict[TopicPartition, OffsetAndMetadata] = {}
        """Next offsets to read, as far as they are not known to be committed."""
        self._commits_in_flight = 0
        self._commit_due = False

    def run(self, stop: StopRequest) -> None:
        """Consume until a stop is requested."""
        emit_startup(self._consumer.config, _CONSUMER)
        self._consumer.subscribe([self._options.topic], listener=self)
        while not stop:
            self._poll()
            if self._commit_due and self._commits_in_flight < _MAX_COMMITS_IN_FLIGHT:
                self._commit_due = False
                self._commits_in_flight += 1
                self._consumer.commit_async(dict(self._positions), callback=self._on_async_commit)
        self._commit_last()
        self._consumer.close()
        emit(line("shutdown_complete"))

    def _poll(self) -> None:
        """Report the records of a poll."""
        try:
            batches = self._consumer.poll(timeout_ms=_POLL_MS)
        except KafkaError as error:
            if not error.retriable:
                raise
            _log.warning("poll: %s", error)
            time.sleep(_POLL_MS / 1000)
            return
        emit_records(
            [
                record_data(one.topic, one.partition, one.offset, one.key, one.value)
                for batch in batches.values()
                for one in batch
            ]
        )
        for partition, batch in batches.items():
            last = batch[-1]
            epoch = -1 if last.leader_epoch is None else last.leader_epoch
            self._positions[partition] = OffsetAndMetadata(last.offset + 1, "", epoch)
        if batches and not self._autocommit:
            self._commit_due = True

    def _commit_last(self) -> None:
        if not self._positions or self._autocommit:
            return
        offsets = dict(self._positions)
        try:
            self._consumer.commit(offsets, timeout_ms=_LAST_COMMIT_MS)
        except KafkaError as error:
            self._on_commit(offsets, error)
        else:
            self._on_commit(offsets, None)

    def _on_async_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], result: Any
    ) -> None:
        self._commits_in_flight -= 1
        self._on_commit(offsets, result)
        if self._positions and isinstance(result, Exception):
            self._commit_due = True

    def _on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], result: Any) -> None:
        """Report a commit; the result is an exception or the broker's response."""
        error = result if isinstance(result, Exception) else None
        emit_commit({(at.topic, at.partition): one.offset for at, one in offsets.items()}, error)
        for at, one in offsets.items():
            if error is None and self._positions.get(at) == one:
                del self._positions[at]

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Report the new assignment."""
        emit_assignment("assigned", [(one.topic, one.partition) for one in assigned])

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Report the partitions that the member gives up."""
        for partition in revoked:
            self._positions.pop(partition, None)
        emit_assignment("revoked", [(one.topic, one.partition) for one in revoked])


if __name__ == "__main__":
    run(main)
