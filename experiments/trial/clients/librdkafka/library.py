"""The librdkafka of this process: its path, its version, and its C functions by ctypes.

It is the one that the installed confluent-kafka ships or, in the processes of clients under test
of another version, the one that `LIBRARY_VARIABLE` names (`versions`).

Compiled code needs the layout of `rd_kafka_message_t`, which the header declares but the library
does not expose. Therefore only versions are accepted whose header was read, or whose layout was
tried out (`version_probe`), and the layout that compiled code uses is compared with the C
declaration.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from ackbench.experiments.messages.errors import ClientLibraryError
from ackbench.experiments.trial.clients.librdkafka.library_file import (
    LIBRARY_VARIABLE,
    library_path,
)

VERIFIED_SERIES: Final = "2.16"
"""The versions whose `rd_kafka_message_t` (rdkafka.h) is the one below."""

PRODUCER: Final = 0
CONSUMER: Final = 1
"""`rd_kafka_type_t`."""

COPY_PAYLOAD: Final = 2
"""RD_KAFKA_MSG_F_COPY: librdkafka copies value and key before produce() returns."""

ANY_PARTITION: Final = -1
"""RD_KAFKA_PARTITION_UA: the partitioner chooses."""

NO_ERROR: Final = 0
QUEUE_FULL: Final = -184
PARTITION_EOF: Final = -191
FATAL: Final = -150
BAD_MSG: Final = -199
AUTHORIZATION_ERRORS: Final = frozenset({29, 30, 31, 53})
"""TOPIC, GROUP, CLUSTER and TRANSACTIONAL_ID_AUTHORIZATION_FAILED: a permission is missing."""
AUTO_OFFSET_RESET: Final = -140
LOG_TRUNCATION: Final = -139
ASSIGN_PARTITIONS: Final = -175
"""`rd_kafka_resp_err_t`. A test compares them with the library's own names."""

_TEXT_BYTES: Final = 512
_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "rd_kafka_version_str": (c_char_p, ()),
    "rd_kafka_err2str": (c_char_p, (c_int,)),
    "rd_kafka_err2name": (c_char_p, (c_int,)),
    "rd_kafka_last_error": (c_int, ()),
    "rd_kafka_fatal_error": (c_int, (c_void_p, c_char_p, c_size_t)),
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_properties_show": (None, (c_void_p,)),
    "rd_kafka_conf_set_log_cb": (None, (c_void_p, c_void_p)),
    "rd_kafka_conf_set_opaque": (None, (c_void_p, c_void_p)),
    "rd_kafka_conf_set_dr_msg_cb": (None, (c_void_p, c_void_p)),
    "rd_kafka_conf_interceptor_add_on_new": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "rd_kafka_interceptor_add_on_acknowledgement": (
        c_int,
        (c_void_p, c_char_p, c_void_p, c_void_p),
    ),
    "rd_kafka_interceptor_add_on_consume": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "rd_kafka_interceptor_add_on_send": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "rd_kafka_conf": (c_void_p, (c_void_p,)),
    "rd_kafka_conf_dump": (POINTER(c_char_p), (c_void_p, POINTER(c_size_t))),
    "rd_kafka_conf_dump_free": (None, (POINTER(c_char_p), c_size_t)),
    "rd_kafka_default_topic_conf_dup": (c_void_p, (c_void_p,)),
    "rd_kafka_topic_conf_dump": (POINTER(c_char_p), (c_void_p, POINTER(c_size_t))),
    "rd_kafka_topic_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_destroy": (None, (c_void_p,)),
    "rd_kafka_oauthbearer_set_token": (
        c_int,
        (c_void_p, c_char_p, c_int64, c_char_p, c_void_p, c_size_t, c_char_p, c_size_t),
    ),
    "rd_kafka_oauthbearer_set_token_failure": (c_int, (c_void_p, c_char_p)),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_topic_destroy": (None, (c_void_p,)),
    "rd_kafka_produce": (
        c_int,
        (c_void_p, c_int32, c_int, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p),
    ),
    "rd_kafka_poll": (c_int, (c_void_p, c_int)),
    "rd_kafka_flush": (c_int, (c_void_p, c_int)),
    "rd_kafka_outq_len": (c_int, (c_void_p,)),
    "rd_kafka_metadata": (c_int, (c_void_p, c_int, c_void_p, POINTER(c_void_p), c_int)),
    "rd_kafka_metadata_destroy": (None, (c_void_p,)),
    "rd_kafka_topic_partition_list_new": (c_void_p, (c_int,)),
    "rd_kafka_topic_partition_list_add": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "rd_kafka_topic_partition_list_set_offset": (c_int, (c_void_p, c_char_p, c_int32, c_int64)),
    "rd_kafka_topic_partition_list_destroy": (None, (c_void_p,)),
    "rd_kafka_assign": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_incremental_assign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_incremental_unassign": (c_void_p, (c_void_p, c_void_p)),
    "rd_kafka_conf_set_rebalance_cb": (None, (c_void_p, c_void_p)),
    "rd_kafka_conf_set_offset_commit_cb": (None, (c_void_p, c_void_p)),
    "rd_kafka_rebalance_protocol": (c_char_p, (c_void_p,)),
    "rd_kafka_assignment_lost": (c_int, (c_void_p,)),
    "rd_kafka_subscribe": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_commit": (c_int, (c_void_p, c_void_p, c_int)),
    "rd_kafka_offsets_store": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_seek_partitions": (c_void_p, (c_void_p, c_void_p, c_int)),
    "rd_kafka_pause_partitions": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_resume_partitions": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_queue_get_consumer": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_consumer_close": (c_int, (c_void_p,)),
    "rd_kafka_init_transactions": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_begin_transaction": (c_void_p, (c_void_p,)),
    "rd_kafka_commit_transaction": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_abort_transaction": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_send_offsets_to_transaction": (c_void_p, (c_void_p, c_void_p, c_void_p, c_int)),
    "rd_kafka_committed": (c_int, (c_void_p, c_void_p, c_int)),
    "rd_kafka_consumer_group_metadata": (c_void_p, (c_void_p,)),
    "rd_kafka_consumer_group_metadata_generation_id": (c_int32, (c_void_p,)),
    "rd_kafka_consumer_group_metadata_member_id": (c_char_p, (c_void_p,)),
    "rd_kafka_consumer_group_metadata_destroy": (None, (c_void_p,)),
    "rd_kafka_error_code": (c_int, (c_void_p,)),
    "rd_kafka_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_error_is_fatal": (c_int, (c_void_p,)),
    "rd_kafka_error_is_retriable": (c_int, (c_void_p,)),
    "rd_kafka_error_txn_requires_abort": (c_int, (c_void_p,)),
    "rd_kafka_error_destroy": (None, (c_void_p,)),
}


COMPILED_FUNCTIONS: Final = (
    "rd_kafka_message_latency",
    "rd_kafka_message_status",
    "rd_kafka_message_timestamp",
    "rd_kafka_message_leader_epoch",
    "rd_kafka_message_destroy",
    "rd_kafka_message_headers",
    "rd_kafka_header_get_last",
    "rd_kafka_consumer_poll",
    "rd_kafka_consume_batch_queue",
)
"""What only compiled code calls (`compiled`)."""
MEMBERS_NEED: Final = frozenset({"rd_kafka_incremental_assign", "rd_kafka_seek_partitions"})
"""What only members of consumer groups, and copiers, call."""
GENERATION: Final = "rd_kafka_consumer_group_metadata_generation_id"
TRANSACTIONAL_COPIERS_NEED: Final = MEMBERS_NEED | {
    GENERATION,
    "rd_kafka_consumer_group_metadata_member_id",
}
"""What copiers that commit in transactions call."""
LEADER_EPOCH: Final = "rd_kafka_message_leader_epoch"
"""Since librdkafka 2.1. Without it a read's leader epoch is unknown."""


class Message(ctypes.Structure):
    """`rd_kafka_message_t`, as rdkafka.h declares it."""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    )


MESSAGE_BYTES: Final = 72
MESSAGE_FIELDS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "error": (0, 4),
        "partition": (16, 4),
        "payload": (24, 8),
        "payload_bytes": (32, 8),
        "key": (40, 8),
        "key_bytes": (48, 8),
        "offset": (56, 8),
        "opaque": (64, 8),
    }
)
"""The parts of `rd_kafka_message_t` that compiled code reads: offset and size, bytes."""


class PartitionMetadata(ctypes.Structure):
    """`rd_kafka_metadata_partition_t`."""

    _fields_ = (
        ("id", c_int32),
        ("err", c_int),
        ("leader", c_int32),
        ("replica_cnt", c_int),
        ("replicas", POINTER(c_int32)),
        ("isr_cnt", c_int),
        ("isrs", POINTER(c_int32)),
    )


class ListedPartition(ctypes.Structure):
    """`rd_kafka_topic_partition_t`."""

    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("_private", c_void_p),
    )


class PartitionList(ctypes.Structure):
    """`rd_kafka_topic_partition_list_t`."""

    _fields_ = (("cnt", c_int), ("size", c_int), ("elems", POINTER(ListedPartition)))


class TopicMetadata(ctypes.Structure):
    """`rd_kafka_metadata_topic_t`."""

    _fields_ = (
        ("topic", c_char_p),
        ("partition_cnt", c_int),
        ("partitions", POINTER(PartitionMetadata)),
        ("err", c_int),
    )


class Metadata(ctypes.Structure):
    """`rd_kafka_metadata_t`."""

    _fields_ = (
        ("broker_cnt", c_int),
        ("brokers", c_void_p),
        ("topic_cnt", c_int),
        ("topics", POINTER(TopicMetadata)),
        ("orig_broker_id", c_int32),
        ("orig_broker_name", c_char_p),
    )


@cache
def has_function(name: str) -> bool:
    """Return whether the library of this process has a function."""
    return name not in lacking_functions(library())


@cache
def library() -> ctypes.CDLL:
    """Return the verified library with the types of its functions; loaded once per process.

    A function that an older version does not have raises when it is called.

    Raises:
        ClientLibraryError: librdkafka was not found, or its version is not verified.
    """
    loaded = ctypes.CDLL(str(library_path()))
    for name, (result, arguments) in _SIGNATURES.items():
        if hasattr(loaded, name):
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, list(arguments)
        else:
            setattr(loaded, name, _lacking(name))
    if LIBRARY_VARIABLE not in os.environ:
        require_verified(loaded.rd_kafka_version_str().decode())
    require_layout(MESSAGE_FIELDS)
    return loaded


def _lacking(name: str) -> Callable[..., Any]:
    def refuse(*_: object) -> Any:
        raise ClientLibraryError(f"librdkafka {version()} has no {name}")

    return refuse


def lacking_functions(loaded: ctypes.CDLL) -> tuple[str, ...]:
    """Return the functions used here, or by compiled code, that a library does not have."""
    names = (*_SIGNATURES, *COMPILED_FUNCTIONS)
    fresh = ctypes.CDLL(loaded._name)  # noqa: SLF001 - its path
    return tuple(name for name in names if not hasattr(fresh, name))


def version() -> str:
    """Return librdkafka's own version string, such as `2.16.0`."""
    text: bytes = library().rd_kafka_version_str()
    return text.decode()


def require_verified(found: str) -> None:
    """Check that the structures of a librdkafka version were compared with the ones here.

    Raises:
        ClientLibraryError: they were not.
    """
    if not f"{found}.".startswith(f"{VERIFIED_SERIES}."):
        raise ClientLibraryError(
            f"librdkafka {found} is not supported: its message layout is verified for "
            f"{VERIFIED_SERIES} only; install confluent-kafka {VERIFIED_SERIES}"
        )


def require_layout(compiled: Mapping[str, tuple[int, int]]) -> None:
    """Compare the layout that compiled code reads with the C declaration on this platform.

    Raises:
        ClientLibraryError: they differ; the message names the fields.
    """
    declared = {
        "error": Message.err,
        "partition": Message.partition,
        "payload": Message.payload,
        "payload_bytes": Message.len,
        "key": Message.key,
        "key_bytes": Message.key_len,
        "offset": Message.offset,
        "opaque": Message._private,  # noqa: SLF001 - rdkafka.h's name
    }
    wrong = [
        name for name, field in declared.items() if compiled[name] != (field.offset, field.size)
    ]
    if wrong or ctypes.sizeof(Message) != MESSAGE_BYTES:
        raise ClientLibraryError(
            "rd_kafka_message_t has another layout on this platform: "
            f"{', '.join(wrong) or 'its size'}"
        )


def error_text(code: int) -> str:
    """Return an error's name and text: `_TRANSPORT (Local: Broker transport failure)`."""
    name, text = library().rd_kafka_err2name(code), library().rd_kafka_err2str(code)
    return f"{name.decode()} ({text.decode()})"


def error_buffer() -> ctypes.Array[ctypes.c_char]:
    """Return a buffer that librdkafka can write an error text into."""
    return ctypes.create_string_buffer(_TEXT_BYTES)
