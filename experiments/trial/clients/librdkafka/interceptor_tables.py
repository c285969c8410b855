"""The mapped files that the interceptors write, and the ledger's tables `sent` and `served`.

`sent` has digests of each record's key, value and headers as the producer sent them, to compare
with what consumers read. A digest is FNV-1a of 64 bits
(https://datatracker.ietf.org/doc/html/draft-eastlake-fnv): it detects any change within one byte,
and misses any other once in 2**64. The digest of the headers covers, for each header in order, its
name, the length of its value in 8 bytes (little-endian) and its value.

`served` counts the messages that each broker served of each partition: those it acknowledged for a
producer, or those fetched from it by a consumer.

The parent process reads these files. It does not need the compiled `interceptors`, which therefore
are a module of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.schema import SENT, SERVED
from ackbench.experiments.trial.clients.process.mapped_file import attach

FNV_BASIS: Final = 0xCBF2_9CE4_8422_2325
FNV_PRIME: Final = 0x0000_0100_0000_01B3
ABSENT: Final = 0
"""The digest of a record's key if the record has none."""

SentRecord = np.dtype(
    [
        ("timestamp_ms", "<i8"),
        ("key_digest", "<i8"),
        ("value_digest", "<i8"),
        ("headers_digest", "<i8"),
        ("recorded", "<i8"),  # 1: the record was sent
    ]
)
"""One record of the schedule, as it was passed to librdkafka."""

MAX_NODES: Final = 64
"""Brokers with a node id below this are counted."""
MAX_PARTITIONS: Final = 1024
CELLS: Final = MAX_NODES * MAX_PARTITIONS
"""One cell per partition and broker. Each of librdkafka's broker threads writes only the cells of
its own broker, so that no thread waits for another."""

ServedCell = np.dtype([("records", "<i8"), ("first_ns", "<i8"), ("last_ns", "<i8")])
"""How many records one broker served of one partition, and when, by the trial's clock."""

ServingOpaque = np.dtype([("cells", "<i8"), ("anchor_ns", "<i8")])
"""The opaque of the counting interceptors: the address of the cells, and the trial's clock (epoch =
anchor + monotonic clock)."""


def sent_table(path: Path, producer: int) -> pa.Table:
    """Return the records that a producer sent; schema `SENT`.

    Args:
        path: the mapped file of `SentRecord`.
        producer: the producer's number.

    Raises:
        HarnessError: there is no such file.
    """
    rows = attach(path, SentRecord)
    seqs = np.flatnonzero(rows["recorded"])
    rows = rows[seqs]
    columns = {"producer": np.full(seqs.size, producer, np.int32), "seq": seqs.astype(np.int64)}
    columns |= {
        name: np.ascontiguousarray(rows[name])
        for name in ("timestamp_ms", "key_digest", "value_digest", "headers_digest")
    }
    return pa.table([pa.array(columns[name]) for name in SENT.names], schema=SENT)


def served_table(path: Path, side: str) -> pa.Table:
    """Return which brokers served a client, per partition; schema `SERVED`.

    Args:
        path: the mapped file of `ServedCell`.
        side: `producer` or `consumer`.

    Raises:
        HarnessError: there is no such file.
    """
    cells = attach(path, ServedCell)
    used = np.flatnonzero(cells["records"])
    columns = {
        "side": pa.array([side] * used.size, pa.string()),
        "node": pa.array((used % MAX_NODES).astype(np.int32)),
        "partition": pa.array((used // MAX_NODES).astype(np.int32)),
    }
    columns |= {
        name: pa.array(np.ascontiguousarray(cells[name][used]))
        for name in ("records", "first_ns", "last_ns")
    }
    return pa.table([columns[name] for name in SERVED.names], schema=SERVED)
