"""The compiled part of `serving`: interceptors that note which broker a message was produced to, or fetched from."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.clients.compiled import carray, compiled, compiled_callback, monotonic_ns, pointer, types
from experiments.clients.librdkafka import MESSAGE, NO_ERROR
from experiments.clients.serving import CELLS, NODES, PARTITIONS, Served, Telling

message_broker_id: Any = types.ExternalFunction("rd_kafka_message_broker_id", types.int32(types.int64))


@compiled("void(int64, int64)")
def note(message_address: Any, telling: Any) -> None:
    """Count a message for its broker and partition; one in error was served by nobody."""
    message = carray(pointer(message_address), (1,), MESSAGE)
    node, partition = message_broker_id(message_address), message[0].partition
    if message[0].error == NO_ERROR and 0 <= node < NODES and 0 <= partition < PARTITIONS:
        told = carray(pointer(telling), (1,), Telling)
        cells = carray(pointer(told[0].cells), (CELLS,), Served)
        at, now_ns = partition * NODES + node, told[0].anchor_ns + monotonic_ns(np.zeros(2, np.int64))
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
