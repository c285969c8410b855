"""The compiled read loop of a consumer.

It takes records from librdkafka's queue, identifies those of the trial, and stores one row per
record. It runs without the GIL.
"""

from __future__ import annotations

from typing import Any, Final, get_args

import numpy as np

from ackbench.experiments.sweep.workload import Identity
from ackbench.experiments.trial.clients.consumer.reads import ReadRow
from ackbench.experiments.trial.clients.librdkafka.compiled import (
    MESSAGE,
    carray,
    compiled,
    consume_batch,
    consumer_poll,
    header_get_last,
    memcpy,
    message_destroy,
    message_headers,
    message_leader_epoch,
    message_timestamp_ms,
    monotonic_ns,
    pointer,
    records_of,
    types,
)
from ackbench.experiments.trial.clients.librdkafka.library import BAD_MSG, NO_ERROR, PARTITION_EOF
from ackbench.experiments.trial.clients.librdkafka.value import (
    TRIAL,
    WARM_UP,
    decode_text_value,
    find_identity,
    origin,
    producer_number,
)
from ackbench.experiments.trial.clients.record.layout import (
    HEADER_BYTES,
    IDENTITY_HEADER,
    INTENDED_WORD,
    MAGIC_WORD,
    SEQ_WORD,
    WORD_BYTES,
)

BATCH_RECORDS: Final = 4096
"""How many records are taken from the queue at once, at most."""

NO_END: Final = np.iinfo(np.int64).max
IDENTITIES: Final[tuple[Identity, ...]] = get_args(Identity)
"""Where records have their identity, by the number that the loop knows it by."""
_IN_VALUE, _IN_HEADER, _IS_KEY = map(IDENTITIES.index, ("value", "header", "key"))
_HEADER_NAME: Final = (*IDENTITY_HEADER, 0)
_IDENTITY_WORDS: Final = HEADER_BYTES // WORD_BYTES

ReaderState = np.dtype(
    [
        ("client", "<i8"),  # rd_kafka_t*
        ("queue", "<i8"),  # rd_kafka_queue_t*
        ("token", "<u8"),  # identifies the trial's records
        ("anchor_ns", "<i8"),  # time since the epoch = anchor + monotonic clock
        ("until_ns", "<i8"),  # when to return, by the monotonic clock
        ("filled", "<i8"),  # rows filled so far
        # The last librdkafka error, other than the end of a partition.
        ("error", "<i8"),
        ("tag", "<i8"),  # of text values, see `record.layout`; 0: values are binary
        ("warm_up_records", "<i8"),  # of text values
        ("identity", "<i8"),  # the index in `IDENTITIES`
    ]
)
"""Input and output of the loop, one element."""

PartitionProgress = np.dtype(
    [
        ("end_offset", "<i8"),  # exclusive
        # Goes back if the log was truncated, or the topic deleted and created again.
        ("next_offset", "<i8"),
        ("seen", "<i8"),  # 1: a broker has answered a fetch of this partition
        ("went_back", "<i8"),  # how many records were received below next_offset
        ("error", "<i8"),  # the last librdkafka error of this partition
        # Batches whose CRC does not match; librdkafka skips them.
        ("crc_failures", "<i8"),
        ("first_crc_failure_offset", "<i8"),
    ]
)
"""How far a partition has been read; the index in the array is the partition's number."""

READER_STATE = records_of(ReaderState)
PARTITIONS = records_of(PartitionProgress)
READS = records_of(ReadRow)
WORDS, MESSAGES, CLOCK = types.uint64[::1], types.int64[::1], types.int64[::1]


@compiled(types.boolean(PARTITIONS))
def all_read(partitions: Any) -> Any:
    """Return whether every partition has been read to its end."""
    for number in range(partitions.size):
        if partitions[number].next_offset < partitions[number].end_offset:
            return False
    return True


@compiled(types.void(READS, types.int64, WORDS))
def store_identity(rows: Any, at: Any, words: Any) -> None:
    """Store the producer, seq and intended time of a value; -1 if it is not of the trial."""
    is_of_trial = rows[at].origin == TRIAL
    rows[at].producer = producer_number(words[MAGIC_WORD]) if is_of_trial else -1
    rows[at].seq = np.int64(words[SEQ_WORD]) if is_of_trial else -1
    rows[at].intended_ns = np.int64(words[INTENDED_WORD]) if is_of_trial else -1


@compiled(types.void(READER_STATE, types.int64, types.int64, READS, types.int64, WORDS))
def store_value(
    state: Any, payload: Any, size_bytes: Any, rows: Any, at: Any, scratch: Any
) -> None:
    """Store what a record's value contains: its origin, producer, seq and intended time.

    Args:
        state: of dtype `ReaderState`.
        payload: the value's address.
        size_bytes: the value's size.
        rows: of dtype `ReadRow`.
        at: the row to fill.
        scratch: a buffer for values of usual size.
    """
    count = (size_bytes + 7) // 8
    words = scratch if count <= scratch.size else np.zeros(count, np.uint64)
    if count > 0:
        words[count - 1] = 0
        memcpy(np.int64(words.ctypes.data), payload, size_bytes)
    if state[0].tag > 0:
        rows[at].origin, rows[at].producer, rows[at].seq = decode_text_value(
            words.view(np.uint8), size_bytes, state[0].tag, state[0].warm_up_records
        )
        rows[at].intended_ns = -1
        return
    rows[at].origin = origin(words, size_bytes, state[0].token)
    store_identity(rows, at, words)


@compiled(types.void(READER_STATE, types.int64, READS, types.int64))
def store_text_identity(state: Any, address: Any, rows: Any, at: Any) -> None:
    """Store what the identity of a message contains that is a text in its header, key or value."""
    message = carray(pointer(address), (1,), MESSAGE)
    begin, size_bytes = message[0].payload, message[0].payload_bytes
    if state[0].identity == _IS_KEY:
        begin, size_bytes = message[0].key, message[0].key_bytes
    elif state[0].identity == _IN_HEADER:
        name, found = np.zeros(len(_HEADER_NAME), np.uint8), np.zeros(3, np.int64)
        for index in range(len(_HEADER_NAME)):
            name[index] = _HEADER_NAME[index]
        results = np.int64(found.ctypes.data)
        if message_headers(address, results) == NO_ERROR:
            header_get_last(found[0], np.int64(name.ctypes.data), results + 8, results + 16)
        begin, size_bytes = found[1], found[2]
    text, words = np.zeros(size_bytes, np.uint8), np.zeros(_IDENTITY_WORDS, np.uint64)
    if size_bytes > 0:
        memcpy(np.int64(text.ctypes.data), begin, size_bytes)
    rows[at].origin = find_identity(text, size_bytes, words, state[0].token)
    store_identity(rows, at, words)


@compiled(types.void(READER_STATE, PARTITIONS, types.int64))
def handle_event(state: Any, partitions: Any, address: Any) -> None:
    """Handle a message that is no record: the end of a partition, or an error."""
    message = carray(pointer(address), (1,), MESSAGE)
    error, number = message[0].error, message[0].partition
    if not 0 <= number < partitions.size:
        state[0].error = error
    elif error == PARTITION_EOF:
        partitions[number].seen = 1
        partitions[number].next_offset = message[0].offset
    else:
        partitions[number].error = state[0].error = error
    if error == BAD_MSG and 0 <= number < partitions.size:
        partitions[number].first_crc_failure_offset = (
            partitions[number].first_crc_failure_offset
            if partitions[number].crc_failures > 0
            else message[0].offset
        )
        partitions[number].crc_failures += 1


@compiled(types.void(READER_STATE, PARTITIONS, READS, types.int64, types.int64, WORDS))
def store_record(
    state: Any, partitions: Any, rows: Any, address: Any, received_ns: Any, scratch: Any
) -> None:
    """Store one record, unless its offset is past the partition's end."""
    message, at = carray(pointer(address), (1,), MESSAGE), state[0].filled
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
        if state[0].identity == _IN_VALUE:
            store_value(state, message[0].payload, message[0].payload_bytes, rows, at, scratch)
        else:
            store_text_identity(state, address, rows, at)
        state[0].filled = at + (rows[at].origin != WARM_UP)


@compiled(types.boolean(READER_STATE, PARTITIONS, types.int32))
def poll_event(state: Any, partitions: Any, wait_ms: Any) -> Any:
    """Poll once and handle what is no record; return false if it was a record."""
    address = consumer_poll(state[0].client, wait_ms)
    if address == 0:
        return True
    is_event = carray(pointer(address), (1,), MESSAGE)[0].error != NO_ERROR
    if is_event:
        handle_event(state, partitions, address)
    message_destroy(address)
    return is_event


@compiled(types.int64(READER_STATE, MESSAGES, types.int32))
def poll_batch(state: Any, messages: Any, wait_ms: Any) -> Any:
    """Wait for one message, take it with those already queued, and return how many were taken.

    `rd_kafka_consume_batch_queue` alone waits until its batch is full or its time is up, so the
    first message of a batch would get its receive time too late.
    """
    first = consumer_poll(state[0].client, wait_ms)
    if first == 0:
        return 0
    messages[0] = first
    return 1 + max(
        0, consume_batch(state[0].queue, 0, np.int64(messages.ctypes.data) + 8, messages.size - 1)
    )


@compiled(types.void(READER_STATE, PARTITIONS, READS, MESSAGES, WORDS))
def read_records(state: Any, partitions: Any, rows: Any, messages: Any, scratch: Any) -> None:
    """Read until the rows are full, every partition is at its end, or the time is up."""
    clock = np.zeros(2, np.int64)
    while state[0].filled + messages.size <= rows.size and not all_read(partitions):
        left_ms = (state[0].until_ns - monotonic_ns(clock)) // 1_000_000
        if left_ms <= 0:
            return
        count = poll_batch(state, messages, left_ms)
        received_ns = state[0].anchor_ns + monotonic_ns(clock)
        for index in range(count):
            message = carray(pointer(messages[index]), (1,), MESSAGE)
            if message[0].error == NO_ERROR and 0 <= message[0].partition < partitions.size:
                store_record(state, partitions, rows, messages[index], received_ns + index, scratch)
            else:
                handle_event(state, partitions, messages[index])
            message_destroy(messages[index])
