"""Verifiable producer and consumer with aiokafka; see docs/clients.md."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Collection, Mapping
from functools import partial
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from common import (
    InvalidSettingError,
    Options,
    SentRecord,
    Setting,
    StopRequest,
    assignors,
    boolean,
    due_in_s,
    effective_settings,
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

_POLL_MS = 100
_MAX_POLL_RECORDS = 500
_LAST_COMMIT_S = 10
_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
_log = logging.getLogger("adapter")


def _assignor_classes(value: str) -> list[type]:
    return [_ASSIGNORS[one_of(*_ASSIGNORS)(name)] for name in assignors(value)]


_PRODUCER = known_settings(
    "producer",
    snake_case,
    {
        "compression.type": ("compression_type", pure_python_codec),
        "batch.size": ("max_batch_size", int),
    },
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
        asyncio.run(produce(options, stop))
    else:
        asyncio.run(consume(options, stop))


def make_client(client: type, options: Options, known: Mapping[str, Setting], **more: Any) -> Any:
    """Return a producer or consumer with the settings of the options.

    Args:
        client: the class.
        options: with Kafka's properties.
        known: the library's names of the properties, and parsers of their values.
        more: further settings of the library; the properties are preferred.
    """
    settings = more | library_settings(options.properties, known)
    for name in settings:
        if name not in inspect.signature(client).parameters:
            raise InvalidSettingError(f"aiokafka {aiokafka.__version__} has no setting {name}")
    try:
        return client(bootstrap_servers=options.bootstrap_server.split(","), **settings)
    except ValueError as error:
        raise InvalidSettingError(error) from error


def emit_startup(options: Options) -> None:
    """Write `startup_complete`."""
    version = aiokafka.__version__
    settings = effective_settings(options, version)
    if settings.get("enable.idempotence") == "true" and "acks" not in options.properties:
        settings["acks"] = "all"  # aiokafka sets it.
    emit(line("startup_complete", client="aiokafka", version=version, settings=settings))


async def due_records(options: Options, stop: StopRequest) -> AsyncIterator[int]:
    """Yield each record's number when it is due."""
    start = time.monotonic()
    number = 0
    while number != options.max_messages:
        # sleep(0) lets the client's tasks work where records are late.
        await asyncio.sleep(0)
        while (left_s := due_in_s(options, start, number)) > 0 and not stop:  # noqa: ASYNC110
            await asyncio.sleep(left_s)
        if stop:
            return
        yield number
        number += 1


async def produce(options: Options, stop: StopRequest) -> None:
    """Produce the records when they are due; their futures report the outcomes."""
    producer = make_client(AIOKafkaProducer, options, _PRODUCER)
    await producer.start()
    emit_startup(options)
    async for number in due_records(options, stop):
        await send(producer, options, number)
    await producer.stop()  # Waits for the records in flight.
    emit(line("shutdown_complete"))


async def send(producer: AIOKafkaProducer, options: Options, number: int) -> None:
    """Give one record to the client; this waits while the partition's batch is full."""
    key, value = options.key(number), options.value(number)
    record = SentRecord(options.topic, key, value, time.time_ns())
    try:
        future = await producer.send(
            options.topic, value.encode(), None if key is None else key.encode()
        )
    except KafkaError as error:
        report_error(record, error, rejected=True)
        return
    future.add_done_callback(partial(report_delivery, record))


def report_delivery(record: SentRecord, future: asyncio.Future[Any]) -> None:
    """Report the outcome of a record."""
    if error := future.exception():
        report_error(record, error)
    elif metadata := future.result():
        record.acknowledged(metadata.partition, metadata.offset)
    else:  # With acks=0 the client names no partition.
        record.acknowledged(-1, -1)


def report_error(record: SentRecord, error: BaseException, *, rejected: bool = False) -> None:
    """Report that the client gave a record up, or did not take it."""
    code = getattr(error, "errno", None)
    record.failed(type(error).__name__, str(error), code, rejected=rejected)


async def consume(options: Options, stop: StopRequest) -> None:
    """Consume as a member of the group until a stop is requested."""
    autocommit = boolean(
        options.properties.get("enable.auto.commit", str(options.enable_autocommit))
    )
    consumer = make_client(
        AIOKafkaConsumer,
        options,
        _CONSUMER,
        group_id=options.group_id,
        enable_auto_commit=autocommit,
        max_poll_records=_MAX_POLL_RECORDS,
    )
    loop = ConsumerLoop(consumer, autocommit=autocommit)
    await consumer.start()
    emit_startup(options)
    consumer.subscribe([options.topic], listener=loop)
    await loop.run(stop)
    await consumer.stop()
    emit(line("shutdown_complete"))


class ConsumerLoop(ConsumerRebalanceListener):
    """Reports what the consumer receives, and commits what was reported.

    The client rebalances in a task of its own, and calls the listener's methods there.
    """

    def __init__(self, consumer: AIOKafkaConsumer, *, autocommit: bool) -> None:
        self._consumer = consumer
        self._autocommit = autocommit
        self._positions: dict[TopicPartition, int] = {}
        """Next offsets to read, as far as they are not known to be committed."""
        self._commit: asyncio.Task[None] | None = None
        """In flight."""

    async def run(self, stop: StopRequest) -> None:
        """Consume until a stop is requested."""
        while not stop:
            await self._poll()
            if self._commit is None or self._commit.done():
                self._commit = asyncio.create_task(self._commit_positions())
        try:
            await asyncio.wait_for(self._commit_all(), _LAST_COMMIT_S)
        except TimeoutError:
            _log.error("no answer to the last commit within %s s", _LAST_COMMIT_S)

    async def _poll(self) -> None:
        """Report the records of a poll."""
        try:
            batches = await self._consumer.getmany(timeout_ms=_POLL_MS)
        except KafkaError as error:
            if not error.retriable:
                raise
            _log.warning("getmany: %s", error)
            await asyncio.sleep(_POLL_MS / 1000)
            return
        # Nothing is awaited from here on: a revocation finds all received records reported.
        emit_records(
            [
                record_data(one.topic, one.partition, one.offset, one.key, one.value)
                for batch in batches.values()
                for one in batch
            ]
        )
        for partition, batch in batches.items():
            self._positions[partition] = batch[-1].offset + 1

    async def _commit_all(self) -> None:
        """Wait for the commit in flight, and commit what it left out."""
        if self._commit is not None:
            await self._commit
        await self._commit_positions()

    async def _commit_positions(self) -> None:
        """Commit and report the result; the client retries after retriable errors."""
        offsets = dict(self._positions)
        if not offsets or self._autocommit:
            return
        error = None
        try:
            await self._consumer.commit(offsets)
        except KafkaError as failure:
            error = failure
        emit_commit({(at.topic, at.partition): offset for at, offset in offsets.items()}, error)
        for at, offset in offsets.items():
            if error is None and self._positions.get(at) == offset:
                del self._positions[at]

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Commit what was reported, and report the partitions that the member gives up."""
        await self._commit_all()
        for partition in revoked:
            self._positions.pop(partition, None)
        emit_assignment("revoked", [(one.topic, one.partition) for one in revoked])

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Report the new assignment."""
        emit_assignment("assigned", [(one.topic, one.partition) for one in assigned])


if __name__ == "__main__":
    run(main)
