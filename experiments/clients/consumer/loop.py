"""The reader's compiled part: takes records from librdkafka's queue, tells whose they are, and notes them as rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from experiments.clients.consumer.reads import Read
from experiments.clients.librdkafka.compiled import (
    carray,
    compiled,
    consume_batch,
    consumer_poll,
    memcpy,
    message_destroy,
    message_leader_epoch,
    message_timestamp_ms,
    monotonic_ns,
    pointer,
    records_of,
    types,
)
from experiments.clients.librdkafka.library import BAD_MSG, MESSAGE, NO_ERROR, PARTITION_EOF
from experiments.clients.record.layout import INTENDED_WORD, MARK_WORD, SEQ_WORD
from experiments.clients.record.value import OURS, RUN_IN, decode, origin, producer_of

BATCH_RECORDS: Final = 4096
"""How many records are taken from the queue at once, at most."""

NO_END: Final = np.iinfo(np.int64).max

Reading = np.dtype(
    [
        ("client", "<i8"),  # rd_kafka_t*
        ("queue", "<i8"),  # rd_kafka_queue_t*
        ("token", "<u8"),
        ("anchor_ns", "<i8"),  # epoch = anchor + monotonic clock
        ("until_ns", "<i8"),  # of the monotonic clock
        ("filled", "<i8"),  # rows
        ("error", "<i8"),  # the last one that named no partition, or was not an end
        ("tag", "<i8"),  # of values that are text, see `java_value`; 0: values are `value`'s
        ("run_in_records", "<i8"),  # of them
    ]
)
"""What the loop is told, and what it tells."""

Partition = np.dtype(
    [
        ("end_offset", "<i8"),  # to be read up to here
        (
            "next_offset",
            "<i8",
        ),  # read up to here; where the log was cut, or made anew, that goes back
        ("seen", "<i8"),  # 1: a broker answered a fetch of it
        ("went_back", "<i8"),  # records below next_offset
        ("error", "<i8"),  # the last one
        ("refused", "<i8"),  # batches whose CRC does not hold: librdkafka passes over them
        ("refused_offset", "<i8"),  # where the first of them begins
    ]
)
"""How far a partition is read; the place in the array is its number."""

READING, PARTITIONS, READS = records_of(Reading), records_of(Partition), records_of(Read)
WORDS, MESSAGES, CLOCK = types.uint64[::1], types.int64[::1], types.int64[::1]


@compiled(types.boolean(PARTITIONS))
def all_read(partitions: Any) -> Any:
    """Tell whether every partition is read to its end."""
    for number in range(partitions.size):
        if partitions[number].next_offset < partitions[number].end_offset:
            return False
    return True


@compiled(types.void(READING, types.int64, types.int64, READS, types.int64, WORDS))
def note_value(
    reading: Any, payload: Any, size_bytes: Any, rows: Any, at: Any, scratch: Any
) -> None:
    """Tell whose a value is, and note what it says. `scratch` is room for the values of usual size."""
    count = (size_bytes + 7) // 8
    words = scratch if count <= scratch.size else np.zeros(count, np.uint64)
    if count > 0:
        words[count - 1] = 0
        memcpy(np.int64(words.ctypes.data), payload, size_bytes)
    if reading[0].tag > 0:
        rows[at].origin, rows[at].producer, rows[at].seq = decode(
            words.view(np.uint8), size_bytes, reading[0].tag, reading[0].run_in_records
        )
        rows[at].intended_ns = -1
        return
    rows[at].origin = origin(words, size_bytes, reading[0].token)
    ours = rows[at].origin == OURS
    rows[at].producer = producer_of(words[MARK_WORD]) if ours else -1
    rows[at].seq = np.int64(words[SEQ_WORD]) if ours else -1
    rows[at].intended_ns = np.int64(words[INTENDED_WORD]) if ours else -1


@compiled(types.void(READING, PARTITIONS, types.int64))
def note_event(reading: Any, partitions: Any, address: Any) -> None:
    """Note the end of a partition, or an error: what librdkafka sends in the place of a record."""
    message = carray(pointer(address), (1,), MESSAGE)
    error, number = message[0].error, message[0].partition
    if not 0 <= number < partitions.size:
        reading[0].error = error
    elif error == PARTITION_EOF:
        partitions[number].seen = 1
        partitions[number].next_offset = message[0].offset
    else:
        partitions[number].error = reading[0].error = error
    if error == BAD_MSG and 0 <= number < partitions.size:
        partitions[number].refused_offset = (
            partitions[number].refused_offset
            if partitions[number].refused > 0
            else message[0].offset
        )
        partitions[number].refused += 1


@compiled(types.void(READING, PARTITIONS, READS, types.int64, types.int64, WORDS))
def note_record(
    reading: Any, partitions: Any, rows: Any, address: Any, received_ns: Any, scratch: Any
) -> None:
    """Note one record, unless it lies past its partition's end."""
    message, at = carray(pointer(address), (1,), MESSAGE), reading[0].filled
    number, offset = message[0].partition, message[0].offset
    partitions[number].seen = 1
    partitions[number].went_back += offset < partitions[number].next_offset
    partitions[number].next_offset = offset + 1
    if offset < partitions[number].end_offset:
        rows[at].partition, rows[at].offset, rows[at].received_ns = number, offset, received_ns
        rows[at].timestamp_ms, rows[at].leader_epoch = (
            message_timestamp_ms(address, 0),
            message_leader_epoch(address),
        )
        note_value(reading, message[0].payload, message[0].payload_bytes, rows, at, scratch)
        reading[0].filled = at + (rows[at].origin != RUN_IN)


@compiled(types.int64(READING, MESSAGES, types.int32))
def take(reading: Any, messages: Any, wait_ms: Any) -> Any:
    """Wait for one message, and take with it those that are there already; return how many.

    `rd_kafka_consume_batch_queue` alone waits until its batch is full or its time is up, so what arrives first would be seen late.
    """
    first = consumer_poll(reading[0].client, wait_ms)
    if first == 0:
        return 0
    messages[0] = first
    return 1 + max(
        0, consume_batch(reading[0].queue, 0, np.int64(messages.ctypes.data) + 8, messages.size - 1)
    )


@compiled(types.void(READING, PARTITIONS, READS, MESSAGES, WORDS))
def read_some(reading: Any, partitions: Any, rows: Any, messages: Any, scratch: Any) -> None:
    """Read until the rows are full, every partition is read to its end, or the time is up."""
    clock = np.zeros(2, np.int64)
    while reading[0].filled + messages.size <= rows.size and not all_read(partitions):
        left_ms = (reading[0].until_ns - monotonic_ns(clock)) // 1_000_000
        if left_ms <= 0:
            return
        count = take(reading, messages, left_ms)
        received_ns = reading[0].anchor_ns + monotonic_ns(clock)
        for index in range(count):
            message = carray(pointer(messages[index]), (1,), MESSAGE)
            if message[0].error == NO_ERROR and 0 <= message[0].partition < partitions.size:
                note_record(
                    reading, partitions, rows, messages[index], received_ns + index, scratch
                )
            else:
                note_event(reading, partitions, messages[index])
            message_destroy(messages[index])
