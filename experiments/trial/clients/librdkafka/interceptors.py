"""The interceptors, compiled: they add and digest a record's headers, and count per serving broker.

librdkafka calls `on_send_digest` inside produce(), before the partitioner, in the send loop's own
thread (`rd_kafka_interceptor_add_on_send`). The counting interceptors run in broker threads
(`on_acknowledgement`) or in the consumer's poll (`on_consume`). What they write is read by
`interceptor_tables`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ackbench.experiments.trial.clients.librdkafka.compiled import (
    MESSAGE,
    carray,
    compiled,
    compiled_callback,
    message_timestamp_ms,
    monotonic_ns,
    pointer,
    types,
)
from ackbench.experiments.trial.clients.librdkafka.interceptor_tables import (
    ABSENT,
    CELLS,
    FNV_BASIS,
    FNV_PRIME,
    MAX_NODES,
    MAX_PARTITIONS,
    SentRecord,
    ServedCell,
    ServingOpaque,
)
from ackbench.experiments.trial.clients.librdkafka.library import NO_ERROR
from ackbench.experiments.trial.clients.record.layout import IDENTITY_BYTES, IDENTITY_HEADER

HEADER_NAME_PREFIX: Final = b"ackbench-"
"""A header's name is this and the header's number, one digit."""
HEADER_VALUE_BYTES: Final = 16
_NAME_BYTES: Final = len(HEADER_NAME_PREFIX) + 1
_FIRST_DIGIT: Final = ord("0")
_BASIS, _PRIME, _ABSENT = np.uint64(FNV_BASIS), np.uint64(FNV_PRIME), np.int64(ABSENT)
_BIT_SPREAD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_PREFIX_LETTERS: Final = tuple(HEADER_NAME_PREFIX)
_ID_HEADER_LETTERS: Final = tuple(IDENTITY_HEADER)
_ID_HEADER_BYTES: Final = len(IDENTITY_HEADER)

SendOpaque = np.dtype(
    [
        ("rows", "<i8"),  # the address of the mapped rows of `SentRecord`
        ("records", "<i8"),  # how many rows
        ("headers", "<i8"),  # how many headers each record gets
    ]
)
"""The opaque of `on_send_digest`."""

headers_new: Any = types.ExternalFunction("rd_kafka_headers_new", types.int64(types.int64))
header_add: Any = types.ExternalFunction(
    "rd_kafka_header_add",
    types.int32(types.int64, types.int64, types.int64, types.int64, types.int64),
)
set_headers: Any = types.ExternalFunction(
    "rd_kafka_message_set_headers", types.void(types.int64, types.int64)
)
message_broker_id: Any = types.ExternalFunction(
    "rd_kafka_message_broker_id", types.int32(types.int64)
)


@compiled("uint64(int64, int64, uint64)")
def extend_digest(address: Any, size_bytes: Any, state: Any) -> Any:
    """Return the digest `state`, extended over the memory at an address."""
    content = carray(pointer(address), (size_bytes,), np.uint8)
    for index in range(size_bytes):
        state = (state ^ np.uint64(content[index])) * _PRIME
    return state


@compiled("int64(int64, int64)")
def digest_memory(address: Any, size_bytes: Any) -> Any:
    """Return the digest of the memory at an address; `ABSENT` for address 0 (a missing key)."""
    return _ABSENT if address == 0 else np.int64(extend_digest(address, size_bytes, _BASIS))


def digest_bytes(content: bytes | None) -> int:
    """Return the digest of bytes, as a signed number of 64 bits; `ABSENT` for `None`."""
    if content is None:
        return ABSENT
    octets = np.array(bytearray(content), np.uint8)
    return int(digest_memory(octets.ctypes.data, octets.size))


@compiled("int64(int64, int64, int64)")
def add_headers(message_address: Any, count: Any, seq: Any) -> Any:
    """Add a record's headers; return their digest.

    A header's value is the record's seq, and seq and the header's number spread over 64 bits.
    """
    headers, state = headers_new(count), _BASIS
    name = np.zeros(_NAME_BYTES, np.uint8)
    value = np.zeros(HEADER_VALUE_BYTES // 8, np.uint64)
    length = np.zeros(1, np.int64)
    length[0] = HEADER_VALUE_BYTES
    for index in range(_NAME_BYTES - 1):
        name[index] = _PREFIX_LETTERS[index]
    for number in range(count):
        name[_NAME_BYTES - 1] = _FIRST_DIGIT + number
        value[0], value[1] = np.uint64(seq), (np.uint64(seq) + np.uint64(number)) * _BIT_SPREAD
        header_add(
            headers,
            np.int64(name.ctypes.data),
            _NAME_BYTES,
            np.int64(value.ctypes.data),
            HEADER_VALUE_BYTES,
        )
        state = extend_digest(np.int64(name.ctypes.data), np.int64(_NAME_BYTES), state)
        state = extend_digest(np.int64(length.ctypes.data), np.int64(8), state)
        state = extend_digest(np.int64(value.ctypes.data), np.int64(HEADER_VALUE_BYTES), state)
    set_headers(message_address, headers)
    return np.int64(state)


@compiled_callback("int32(int64, int64, int64)")
def on_send_digest(_client: Any, message_address: Any, opaque_address: Any) -> Any:
    """Add the headers of a record and note its digests (`on_send`).

    A record that is sent again has the same seq and overwrites its row with the same digests.
    """
    message = carray(pointer(message_address), (1,), MESSAGE)
    opaque = carray(pointer(opaque_address), (1,), SendOpaque)
    seq = message[0].opaque - 1
    if 0 <= seq < opaque[0].records:
        rows = carray(pointer(opaque[0].rows), (opaque[0].records,), SentRecord)
        rows[seq].headers_digest = add_headers(message_address, opaque[0].headers, seq)
        rows[seq].timestamp_ms = message_timestamp_ms(message_address, 0)
        rows[seq].key_digest = digest_memory(message[0].key, message[0].key_bytes)
        rows[seq].value_digest = digest_memory(message[0].payload, message[0].payload_bytes)
        rows[seq].recorded = 1
    return 0


@compiled_callback("int32(int64, int64, int64)")
def on_send_identity(_client: Any, message_address: Any, text_address: Any) -> Any:
    """Add the identity of a record as a header (`on_send`); not of a warm-up record.

    The opaque is the address of the identity's text, which the send loop has just written.
    """
    message = carray(pointer(message_address), (1,), MESSAGE)
    if message[0].opaque > 0:
        name = np.zeros(_ID_HEADER_BYTES, np.uint8)
        for index in range(_ID_HEADER_BYTES):
            name[index] = _ID_HEADER_LETTERS[index]
        headers = headers_new(1)
        header_add(
            headers, np.int64(name.ctypes.data), _ID_HEADER_BYTES, text_address, IDENTITY_BYTES
        )
        set_headers(message_address, headers)
    return 0


@compiled("void(int64, int64)")
def count_message(message_address: Any, opaque_address: Any) -> None:
    """Count a message for its broker and partition, unless it has an error."""
    message = carray(pointer(message_address), (1,), MESSAGE)
    node, partition = message_broker_id(message_address), message[0].partition
    is_counted = 0 <= node < MAX_NODES and 0 <= partition < MAX_PARTITIONS
    if message[0].error == NO_ERROR and is_counted:
        opaque = carray(pointer(opaque_address), (1,), ServingOpaque)
        cells = carray(pointer(opaque[0].cells), (CELLS,), ServedCell)
        at = partition * MAX_NODES + node
        now_ns = opaque[0].anchor_ns + monotonic_ns(np.zeros(2, np.int64))
        cells[at].first_ns = cells[at].first_ns if cells[at].records > 0 else now_ns
        cells[at].last_ns = now_ns
        cells[at].records += 1


@compiled_callback("int32(int64, int64, int64)")
def on_acknowledgement_count(_client: Any, message_address: Any, opaque_address: Any) -> Any:
    """Count a record that a producer sent (`on_acknowledgement`); not a warm-up record.

    Broker threads call it, each for its own broker's records.
    """
    message = carray(pointer(message_address), (1,), MESSAGE)
    if message[0].opaque > 0:
        count_message(message_address, opaque_address)
    return 0


@compiled_callback("int32(int64, int64, int64)")
def on_consume_count(_client: Any, message_address: Any, opaque_address: Any) -> Any:
    """Count a record that a consumer receives (`on_consume`)."""
    count_message(message_address, opaque_address)
    return 0
