"""The producer's compiled send loop, its callbacks, and how a restarted producer resumes.

librdkafka calls back into compiled code that needs no GIL and writes into the mapped file of
attempts. Two callbacks share the work:

- `on_acknowledgement_latency` is an interceptor. A broker thread calls it when the record settles,
  so the latency does not include the wait for the next poll().
- `on_delivery_report` runs inside poll(), in the loop's thread, and writes all other columns. It
  does not read the latency: `rd_kafka_message_latency` counts until the call (rdkafka_msg.c) and
  would include that wait.

A producer restarted after a crash is a new session to the brokers. Idempotence does not extend
across sessions (KIP-98): a record that was stored but not acknowledged is stored again if resent.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ackbench.experiments.trial.clients.librdkafka.compiled import (
    MESSAGE,
    carray,
    compiled,
    compiled_callback,
    last_error,
    message_latency_us,
    message_status,
    monotonic_ns,
    pointer,
    poll,
    produce,
    records_of,
    types,
)
from ackbench.experiments.trial.clients.librdkafka.library import (
    ANY_PARTITION,
    COPY_PAYLOAD,
    FATAL,
    QUEUE_FULL,
)
from ackbench.experiments.trial.clients.librdkafka.value import encode, write_identity
from ackbench.experiments.trial.clients.process.mapped_file import Column
from ackbench.experiments.trial.clients.producer.attempts import (
    COUNTERS_BYTES,
    DUE,
    NOT_DUE,
    REFUSED,
    SENT,
    SETTLED,
    Attempt,
    AttemptsFile,
    Counters,
)
from ackbench.experiments.trial.clients.record.layout import HEADER_BYTES, IDENTITY_BYTES

WARM_UP_OPAQUE: Final = 0
"""A record's opaque is its seq + 1; that of a warm-up record is 0."""

KEY_BYTES: Final = 8
ROW_BYTES: Final = Attempt.itemsize
POLL_EVERY_RECORDS: Final = 64
"""How often to serve delivery reports during a burst of records."""

Schedule = np.dtype(
    [
        ("client", "<i8"),  # rd_kafka_t*
        ("topic", "<i8"),  # rd_kafka_topic_t*
        ("size_bytes", "<i8"),
        ("value", "<i8"),  # address of each record's value; as of `words`: it is encoded there
        ("identity", "<i8"),  # address of its identity as text; 0: the value is its identity
        ("identity_words", "<i8"),  # address of the binary value that the text stands for
        ("keys", "<i8"),
        ("pair_apart_records", "<i8"),  # 0: no pairs
        ("common_key", "<i8"),  # 1: both records of a pair have the same key
        ("hot_key_share", "<f8"),
        ("round_robin_partitions", "<i8"),  # 0: the partitioner decides
        ("key", "<i8"),  # address of the key's bytes; 0: no key
        ("key_bytes", "<i8"),
        ("rate_records_per_s", "<f8"),  # 0: as fast as possible
        ("start_ns", "<i8"),  # the first record's intended time
        ("anchor_ns", "<i8"),  # epoch = anchor + monotonic clock
        ("give_up_ns", "<i8"),  # from then on a record that finds the queue full is refused
    ]
)
"""The schedule that the loop follows, and the handles that it needs; one row."""

SCHEDULE, HEADER, ROWS = records_of(Schedule), records_of(Counters), records_of(Attempt)
WORDS, KEY, CLOCK = types.uint64[::1], types.uint8[::1], types.int64[::1]
"""Numba types of the arguments of the functions below."""


@compiled_callback("int32(int64, int64, int64)")
def on_acknowledgement_latency(_client: Any, message_address: Any, ledger: Any) -> Any:
    """Record the latency of a record (`on_acknowledgement`).

    Called by broker threads, each for its own records.
    """
    message = carray(pointer(message_address), (1,), MESSAGE)
    header = carray(pointer(ledger), (1,), Counters)
    seq = message[0].opaque - 1
    if 0 <= seq < header[0].records:
        rows_bytes = header[0].records * ROW_BYTES
        latencies = carray(
            pointer(ledger + COUNTERS_BYTES + rows_bytes), (header[0].records,), np.int64
        )
        latencies[seq] = message_latency_us(message_address)
    return 0


@compiled_callback("void(int64, int64, int64)")
def on_delivery_report(_client: Any, message_address: Any, ledger: Any) -> None:
    """Record the result of a record (`dr_msg_cb`); called inside poll().

    librdkafka counts a batch's offsets up from its base offset, even if that is -1001 ("none"):
    record 1,001 of a batch without an offset would get offset 0 (`rd_kafka_msgq_set_metadata`).
    The reports of a batch arrive consecutively, so a sequence that began below zero is recognized.
    """
    message = carray(pointer(message_address), (1,), MESSAGE)
    header = carray(pointer(ledger), (1,), Counters)
    seq, offset = message[0].opaque - 1, message[0].offset
    header[0].without_offset = offset < 0 or (
        header[0].without_offset == 1 and offset == header[0].last_offset + 1
    )
    header[0].last_offset = offset
    if seq < 0:
        header[0].warm_up_settled += 1
        header[0].warm_up_error = (
            message[0].error if message[0].error != 0 else header[0].warm_up_error
        )
    elif seq < header[0].records:
        rows = carray(pointer(ledger + COUNTERS_BYTES), (header[0].records,), Attempt)
        rows[seq].error, rows[seq].partition, rows[seq].status = (
            message[0].error,
            message[0].partition,
            message_status(message_address),
        )
        rows[seq].offset = -1 if header[0].without_offset == 1 else offset
        rows[seq].state = SETTLED
        header[0].settled += 1
        header[0].acked += message[0].error == 0


@compiled("int64(int64, float64, int64)")
def due_ns(start_ns: Any, rate_records_per_s: Any, seq: Any) -> Any:
    """Return a record's intended time."""
    return start_ns + np.int64(seq * 1e9 / rate_records_per_s)


@compiled("void(uint8[::1], int64)")
def write_key(key: Any, number: Any) -> None:
    """Write a key as Kafka's LongSerializer does: 8 bytes, big-endian."""
    for index in range(KEY_BYTES):
        key[index] = (number >> (8 * (KEY_BYTES - 1 - index))) & 0xFF


@compiled(types.int64(SCHEDULE, types.int64))
def key_of(schedule: Any, seq: Any) -> Any:
    """Return the number of a record's key, as `record.keys.record_keys` does."""
    keys, apart, share = schedule[0].keys, schedule[0].pair_apart_records, schedule[0].hot_key_share
    if share > 0:
        hot_before = np.int64(np.floor(seq * share))
        return (
            0
            if np.int64(np.floor((seq + 1) * share)) > hot_before
            else 1 + (seq - hot_before) % (keys - 1)
        )
    if apart == 0:
        return seq % keys
    within = seq % (2 * apart)
    pair = seq // (2 * apart) * apart + within % apart
    return (pair if schedule[0].common_key > 0 else 2 * pair + within // apart) % keys


@compiled(types.int32(SCHEDULE, types.int64))
def partition_of(schedule: Any, seq: Any) -> Any:
    """Return the partition by round robin, or -1: librdkafka's partitioner chooses."""
    partitions = schedule[0].round_robin_partitions
    return seq % partitions if partitions > 0 else ANY_PARTITION


@compiled(types.void(SCHEDULE, ROWS, types.int64, WORDS, KEY))
def write_record(schedule: Any, rows: Any, seq: Any, words: Any, key: Any) -> None:
    """Write a record's value, its identity and its key where librdkafka copies them from."""
    intended_ns = rows[seq].intended_ns
    if schedule[0].value == words.ctypes.data:
        encode(words, schedule[0].size_bytes, seq, intended_ns)
    if schedule[0].identity != 0:
        identity = carray(pointer(schedule[0].identity_words), (HEADER_BYTES // 8,), np.uint64)
        encode(identity, HEADER_BYTES, seq, intended_ns)
        write_identity(identity, carray(pointer(schedule[0].identity), (IDENTITY_BYTES,), np.uint8))
    if schedule[0].keys > 0:
        write_key(key, key_of(schedule, seq))
        schedule[0].key, schedule[0].key_bytes = key.ctypes.data, KEY_BYTES


@compiled(types.int32(SCHEDULE, ROWS, types.int64, CLOCK))
def produce_record(schedule: Any, rows: Any, seq: Any, clock: Any) -> Any:
    """Pass a record to librdkafka, repeatedly while its queue is full; return the error, or 0."""
    client, topic, value, size_bytes, key, key_bytes = (
        schedule[0].client,
        schedule[0].topic,
        schedule[0].value,
        schedule[0].size_bytes,
        schedule[0].key,
        schedule[0].key_bytes,
    )
    partition = partition_of(schedule, seq)
    rows[seq].state = DUE
    while True:
        if produce(topic, partition, COPY_PAYLOAD, value, size_bytes, key, key_bytes, seq + 1) == 0:
            rows[seq].state = SENT
            return 0
        error = last_error()
        if error != QUEUE_FULL or rows[seq].sent_ns > schedule[0].give_up_ns:
            rows[seq].error, rows[seq].state = error, REFUSED
            return error
        poll(client, 1)
        rows[seq].sent_ns = schedule[0].anchor_ns + monotonic_ns(clock)


@compiled(types.void(SCHEDULE, ROWS, types.int64, CLOCK))
def wait_until_due(schedule: Any, rows: Any, seq: Any, clock: Any) -> None:
    """Serve delivery reports until the record is due; write its intended and its sent time.

    Waiting with poll(1 ms) and then sending all due records in a burst leaves the brokers more CPU
    time than a busy wait, and so keeps closer to the schedule.
    """
    now_ns = schedule[0].anchor_ns + monotonic_ns(clock)
    intended_ns = (
        due_ns(schedule[0].start_ns, schedule[0].rate_records_per_s, seq)
        if schedule[0].rate_records_per_s > 0
        else now_ns
    )
    while now_ns < intended_ns:
        poll(schedule[0].client, 1)
        now_ns = schedule[0].anchor_ns + monotonic_ns(clock)
    rows[seq].intended_ns, rows[seq].sent_ns = intended_ns, now_ns


@compiled(types.void(SCHEDULE, ROWS, types.int64, types.int32))
def refuse_remaining(schedule: Any, rows: Any, begin: Any, error: Any) -> None:
    """Mark all records from `begin` on as refused by a client that accepts no more."""
    for seq in range(begin, rows.size):
        rows[seq].intended_ns = rows[begin - 1].intended_ns
        if schedule[0].rate_records_per_s > 0:
            rows[seq].intended_ns = due_ns(
                schedule[0].start_ns, schedule[0].rate_records_per_s, seq
            )
        rows[seq].error, rows[seq].state = error, REFUSED


@compiled(types.void(SCHEDULE, HEADER, ROWS, WORDS, types.int64, types.int64))
def follow_schedule(
    schedule: Any, header: Any, rows: Any, words: Any, begin: Any, end: Any
) -> None:
    """Send the records `begin` to `end` (exclusive), or up to a fatal error of the client."""
    clock, key = np.zeros(2, np.int64), np.zeros(KEY_BYTES, np.uint8)
    for seq in range(begin, end):
        wait_until_due(schedule, rows, seq, clock)
        write_record(schedule, rows, seq, words, key)
        error = produce_record(schedule, rows, seq, clock)
        header[0].accepted += 1 if error == 0 else 0
        header[0].next_seq = seq + 1
        if error == FATAL:
            header[0].fatal_error = error
            refuse_remaining(schedule, rows, seq + 1, error)
            return
        if seq % POLL_EVERY_RECORDS == 0:
            poll(schedule[0].client, 0)


SEQS: Final = types.int64[::1]


@compiled(types.void(SCHEDULE, HEADER, ROWS, WORDS, SEQS))
def resend_records(schedule: Any, header: Any, rows: Any, words: Any, seqs: Any) -> None:
    """Send records again with their own id and intended time, so that duplicates are recognized."""
    clock, key = np.zeros(2, np.int64), np.zeros(KEY_BYTES, np.uint8)
    for index in range(seqs.size):
        seq = seqs[index]
        rows[seq].sent_ns = schedule[0].anchor_ns + monotonic_ns(clock)
        write_record(schedule, rows, seq, words, key)
        header[0].accepted += 1 if produce_record(schedule, rows, seq, clock) == 0 else 0
        if index % POLL_EVERY_RECORDS == 0:
            poll(schedule[0].client, 0)


def next_seq(ledger: AttemptsFile) -> int:
    """Return the first record that no generation of the producer has attempted."""
    return int(np.count_nonzero(ledger.rows["state"] != NOT_DUE))


def unsettled_seqs(ledger: AttemptsFile) -> Column:
    """Return the attempted records without a delivery report, in the schedule's order."""
    return np.flatnonzero(np.isin(ledger.rows["state"], (DUE, SENT)))


def recount(ledger: AttemptsFile) -> None:
    """Recompute the counters of a crashed producer.

    It may have crashed between any two writes, and its records in flight get no reports any more.
    """
    header, settled = ledger.header[0], ledger.rows["state"] == SETTLED
    header["next_seq"] = next_seq(ledger)
    header["accepted"] = header["settled"] = np.count_nonzero(settled)
    header["acked"] = np.count_nonzero(settled & (ledger.rows["error"] == 0))
    for counter in (
        "warm_up_settled",
        "warm_up_error",
        "last_offset",
        "without_offset",
        "fatal_error",
    ):
        header[counter] = 0
