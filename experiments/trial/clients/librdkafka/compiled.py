"""The base of the compiled code: librdkafka's functions by symbol, the clock, memory by address.

Compiled code is cached on disk (see `code_cache`). Numba can cache code that uses
`ExternalFunction`, but not code that uses a ctypes pointer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm
import numba
import numpy as np
from numba import types as types  # noqa: PLC0414 - re-exported
from numba.core import cgutils
from numba.extending import intrinsic

from ackbench.experiments.trial.clients.librdkafka.code_cache import CACHE_VARIABLE, cache_folder
from ackbench.experiments.trial.clients.librdkafka.library import (
    LEADER_EPOCH,
    MESSAGE_BYTES,
    MESSAGE_FIELDS,
    library,
)
from ackbench.experiments.trial.clients.librdkafka.library_file import library_path

os.environ[CACHE_VARIABLE] = str(cache_folder())

_read_environment: Callable[[], None] = numba.core.config.reload_config
_read_environment()
library()
_load: Callable[[str], None] = llvm.load_library_permanently
_load(str(library_path()))


@numba.cfunc("int32(int64)")
def _unknown_leader_epoch(_message: Any) -> Any:
    """Take the place of a function that an older librdkafka lacks; -1 is its "unknown"."""
    return -1


if not hasattr(library(), LEADER_EPOCH):
    _add_symbol: Callable[[str, int | None], None] = llvm.add_symbol
    _add_symbol(LEADER_EPOCH, _unknown_leader_epoch.address)


MESSAGE = np.dtype(
    {
        "names": list(MESSAGE_FIELDS),
        "formats": [f"<i{size_bytes}" for _, size_bytes in MESSAGE_FIELDS.values()],
        "offsets": [offset for offset, _ in MESSAGE_FIELDS.values()],
        "itemsize": MESSAGE_BYTES,
    }
)
"""The parts of `rd_kafka_message_t` that compiled code reads."""
ADDRESS, INT, I64, SIZE = types.int64, types.int32, types.int64, types.int64
CLOCK_MONOTONIC = 1
_VOID_POINTER: Any = types.voidptr

produce: Any = types.ExternalFunction(
    "rd_kafka_produce", INT(ADDRESS, INT, INT, ADDRESS, SIZE, ADDRESS, SIZE, ADDRESS)
)
poll: Any = types.ExternalFunction("rd_kafka_poll", INT(ADDRESS, INT))
last_error: Any = types.ExternalFunction("rd_kafka_last_error", INT())
message_latency_us: Any = types.ExternalFunction("rd_kafka_message_latency", I64(ADDRESS))
message_status: Any = types.ExternalFunction("rd_kafka_message_status", INT(ADDRESS))
message_timestamp_ms: Any = types.ExternalFunction(
    "rd_kafka_message_timestamp", I64(ADDRESS, ADDRESS)
)
message_leader_epoch: Any = types.ExternalFunction(LEADER_EPOCH, INT(ADDRESS))
message_headers: Any = types.ExternalFunction("rd_kafka_message_headers", INT(ADDRESS, ADDRESS))
header_get_last: Any = types.ExternalFunction(
    "rd_kafka_header_get_last", INT(ADDRESS, ADDRESS, ADDRESS, ADDRESS)
)
message_destroy: Any = types.ExternalFunction("rd_kafka_message_destroy", types.void(ADDRESS))
consumer_poll: Any = types.ExternalFunction("rd_kafka_consumer_poll", ADDRESS(ADDRESS, INT))
consume_batch: Any = types.ExternalFunction(
    "rd_kafka_consume_batch_queue", I64(ADDRESS, INT, ADDRESS, SIZE)
)
memcpy: Any = types.ExternalFunction("memcpy", ADDRESS(ADDRESS, ADDRESS, SIZE))
_clock_gettime: Any = types.ExternalFunction("clock_gettime", INT(INT, ADDRESS))


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(signature: Any) -> Callable[[Function], Function]:
    """Compile a function for one signature; it releases the GIL and is cached on disk."""
    decorator: Any = numba.njit(signature, nogil=True, cache=True)
    return cast("Callable[[Function], Function]", decorator)


def compiled_callback(signature: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for C to call; its `address` is the C function pointer.

    It needs no GIL and is cached on disk.
    """
    decorator: Any = numba.cfunc(signature, cache=True)
    return cast("Callable[[Callable[..., Any]], Any]", decorator)


def records_of(layout: np.dtype[np.void]) -> Any:
    """Return the compiled type of an array of records with this layout."""
    return types.Array(numba.from_dtype(layout), 1, "C")


def _pointer(_typing_context: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return _VOID_POINTER(address), generate


pointer: Any = intrinsic(_pointer)
"""Converts an address to a pointer that `carray` takes."""
carray: Any = numba.carray  # type: ignore[attr-defined]
"""Views memory as an array."""


@compiled("int64(int64[::1])")
def monotonic_ns(timespec: Any) -> Any:
    """Return `time.monotonic_ns()`.

    Args:
        timespec: an array of two elements for the C structure.
    """
    _clock_gettime(CLOCK_MONOTONIC, timespec.ctypes.data)
    return timespec[0] * 1_000_000_000 + timespec[1]
