"""The compiled part of `fields`: digests of memory, and the interceptor that gives records their headers and notes what is sent.

librdkafka calls it inside produce(), before the partitioner, in the loop's own thread (`rd_kafka_interceptor_add_on_send`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from experiments.clients.librdkafka.compiled import (
    carray,
    compiled,
    compiled_callback,
    message_timestamp_ms,
    monotonic_ns,
    pointer,
    types,
)
from experiments.clients.librdkafka.library import MESSAGE, NO_ERROR
from experiments.clients.librdkafka.noted import (
    ABSENT,
    CELLS,
    FNV_BASIS,
    FNV_PRIME,
    NODES,
    PARTITIONS,
    SentRecord,
    Served,
    Telling,
)

MOST_HEADERS: Final = 9
NAME: Final = b"ackbench-"
"""A header's name: this and its place, one digit."""
VALUE_BYTES: Final = 16
_NAME_BYTES: Final = len(NAME) + 1
_FIRST_DIGIT: Final = ord("0")
_BASIS, _PRIME, _ABSENT = np.uint64(FNV_BASIS), np.uint64(FNV_PRIME), np.int64(ABSENT)
_SPREAD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_LETTERS: Final = tuple(NAME)

KEYED: Final = np.dtype(
    {
        "names": [*(MESSAGE.names or ()), "key", "key_bytes"],
        "formats": ["<i4", "<i4", "<i8", "<i8", "<i8", "<i8", "<i8", "<i8"],
        "offsets": [0, 16, 24, 32, 56, 64, 40, 48],
        "itemsize": MESSAGE.itemsize,
    }
)
"""`rd_kafka_message_t` with its key (rdkafka.h)."""

HeaderState = np.dtype(
    [
        ("rows", "<i8"),  # where the mapping lies
        ("records", "<i8"),
        ("headers", "<i8"),  # that each record gets
    ]
)
"""What the interceptor is told."""

headers_new: Any = types.ExternalFunction("rd_kafka_headers_new", types.int64(types.int64))
header_add: Any = types.ExternalFunction(
    "rd_kafka_header_add",
    types.int32(types.int64, types.int64, types.int64, types.int64, types.int64),
)
set_headers: Any = types.ExternalFunction(
    "rd_kafka_message_set_headers", types.void(types.int64, types.int64)
)


@compiled("uint64(int64, int64, uint64)")
def digest_on(address: Any, size_bytes: Any, state: Any) -> Any:
    """Go on with a digest over memory."""
    content = carray(pointer(address), (size_bytes,), np.uint8)
    for index in range(size_bytes):
        state = (state ^ np.uint64(content[index])) * _PRIME
    return state


@compiled("int64(int64, int64)")
def digest_at(address: Any, size_bytes: Any) -> Any:
    """Return the digest of memory; of none, as of a key that there is not, `ABSENT`."""
    return _ABSENT if address == 0 else np.int64(digest_on(address, size_bytes, _BASIS))


def digest_of(content: bytes | None) -> int:
    """Return the digest of bytes; see `fields.digest`."""
    if content is None:
        return ABSENT
    octets = np.array(bytearray(content), np.uint8)
    return int(digest_at(octets.ctypes.data, octets.size))


@compiled("int64(int64, int64, int64)")
def give_headers(message_address: Any, count: Any, seq: Any) -> Any:
    """Give a record its headers; return their digest. A value is the record's number, and that number spread over all bits."""
    headers, state = headers_new(count), _BASIS
    name, value, length = (
        np.zeros(_NAME_BYTES, np.uint8),
        np.zeros(VALUE_BYTES // 8, np.uint64),
        np.zeros(1, np.int64),
    )
    length[0] = VALUE_BYTES
    for index in range(_NAME_BYTES - 1):
        name[index] = _LETTERS[index]
    for place in range(count):
        name[_NAME_BYTES - 1] = _FIRST_DIGIT + place
        value[0], value[1] = np.uint64(seq), (np.uint64(seq) + np.uint64(place)) * _SPREAD
        header_add(
            headers,
            np.int64(name.ctypes.data),
            _NAME_BYTES,
            np.int64(value.ctypes.data),
            VALUE_BYTES,
        )
        state = digest_on(np.int64(name.ctypes.data), np.int64(_NAME_BYTES), state)
        state = digest_on(np.int64(length.ctypes.data), np.int64(8), state)
        state = digest_on(np.int64(value.ctypes.data), np.int64(VALUE_BYTES), state)
    set_headers(message_address, headers)
    return np.int64(state)


@compiled_callback("int32(int64, int64, int64)")
def handed(_client: Any, message_address: Any, noting: Any) -> Any:
    """Note what a record is made of, with its headers (`on_send`); a record that is sent again is the same one."""
    message = carray(pointer(message_address), (1,), KEYED)
    told = carray(pointer(noting), (1,), HeaderState)
    seq = message[0].opaque - 1
    if 0 <= seq < told[0].records:
        rows = carray(pointer(told[0].rows), (told[0].records,), SentRecord)
        rows[seq].headers_digest = give_headers(message_address, told[0].headers, seq)
        rows[seq].timestamp_ms = message_timestamp_ms(message_address, 0)
        rows[seq].key_digest = digest_at(message[0].key, message[0].key_bytes)
        rows[seq].value_digest = digest_at(message[0].payload, message[0].payload_bytes)
        rows[seq].noted = 1
    return 0


# ---------- The compiled part of `serving`: interceptors that note which broker a message was produced to, or fetched from.


message_broker_id: Any = types.ExternalFunction(
    "rd_kafka_message_broker_id", types.int32(types.int64)
)


@compiled("void(int64, int64)")
def note(message_address: Any, telling: Any) -> None:
    """Count a message for its broker and partition; one in error was served by nobody."""
    message = carray(pointer(message_address), (1,), MESSAGE)
    node, partition = message_broker_id(message_address), message[0].partition
    if message[0].error == NO_ERROR and 0 <= node < NODES and 0 <= partition < PARTITIONS:
        told = carray(pointer(telling), (1,), Telling)
        cells = carray(pointer(told[0].cells), (CELLS,), Served)
        at, now_ns = (
            partition * NODES + node,
            told[0].anchor_ns + monotonic_ns(np.zeros(2, np.int64)),
        )
        cells[at].first_ns = cells[at].first_ns if cells[at].records > 0 else now_ns
        cells[at].last_ns = now_ns
        cells[at].records += 1


@compiled_callback("int32(int64, int64, int64)")
def settled_by(_client: Any, message_address: Any, telling: Any) -> Any:
    """Note a record that a producer sent (`on_acknowledgement`); called by brokers' threads, each for its own records. A warm-up record is none."""
    message = carray(pointer(message_address), (1,), MESSAGE)
    if message[0].opaque > 0:
        note(message_address, telling)
    return 0


@compiled_callback("int32(int64, int64, int64)")
def fetched_from(_client: Any, message_address: Any, telling: Any) -> Any:
    """Note a record that a consumer is given (`on_consume`)."""
    note(message_address, telling)
    return 0
