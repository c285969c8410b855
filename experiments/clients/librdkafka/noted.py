"""What a record's fields were when its producer handed it over, so that what is read can be held against it: a digest of its key, its value and its headers.

A digest is FNV-1a of 64 bits (https://datatracker.ietf.org/doc/html/draft-eastlake-fnv): any change within one byte is seen for certain, any other but once
in 2**64. The digest of headers is that of, for each header in order, its name, the length of its value in 8 bytes (little-endian) and its value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from experiments.clients.process.mapped_file import attach
from experiments.ledger.schema import SENT, SERVED

FNV_BASIS: Final = 0xCBF2_9CE4_8422_2325
FNV_PRIME: Final = 0x0000_0100_0000_01B3
ABSENT: Final = 0
"""In the place of the digest of a key that there is not."""

SentRecord = np.dtype(
    [
        ("timestamp_ms", "<i8"),
        ("key_digest", "<i8"),
        ("value_digest", "<i8"),
        ("headers_digest", "<i8"),
        ("noted", "<i8"),  # 1: it was handed over
    ]
)
"""One record of the schedule, as librdkafka was given it."""


def sent_table(path: Path, producer: int) -> pa.Table:
    """Return what a producer handed over; schema `SENT`.

    Raises:
        HarnessError: it left nothing.
    """
    rows = attach(path, SentRecord)
    seqs = np.flatnonzero(rows["noted"])
    rows = rows[seqs]
    columns = {"producer": np.full(seqs.size, producer, np.int32), "seq": seqs.astype(np.int64)}
    columns |= {
        name: np.ascontiguousarray(rows[name])
        for name in ("timestamp_ms", "key_digest", "value_digest", "headers_digest")
    }
    return pa.table([pa.array(columns[name]) for name in SENT.names], schema=SENT)


# ---------- Which broker served a client's records, partition by partition: what librdkafka says of each message that was produced or fetched.
#
# A cell a partition and broker: each of librdkafka's broker threads writes its own, so that none waits for another.
#


NODES: Final = 64
"""Brokers with a number below this are told."""
PARTITIONS: Final = 1024
CELLS: Final = NODES * PARTITIONS

Served = np.dtype([("records", "<i8"), ("first_ns", "<i8"), ("last_ns", "<i8")])
"""What one broker served of one partition; times by the trial's clock."""

Telling = np.dtype([("cells", "<i8"), ("anchor_ns", "<i8")])
"""What the interceptors are told: where the mapping lies, and epoch = anchor + monotonic clock."""


def served_table(path: Path, side: str) -> pa.Table:
    """Return who served a client; schema `SERVED`.

    Args:
        path: the mapping.
        side: `producer` or `consumer`.

    Raises:
        HarnessError: it left nothing.
    """
    cells = attach(path, Served)
    filled = np.flatnonzero(cells["records"])
    columns = {
        "side": pa.array([side] * filled.size, pa.string()),
        "node": pa.array((filled % NODES).astype(np.int32)),
    }
    columns |= {"partition": pa.array((filled // NODES).astype(np.int32))}
    columns |= {
        name: pa.array(np.ascontiguousarray(cells[name][filled]))
        for name in ("records", "first_ns", "last_ns")
    }
    return pa.table([columns[name] for name in SERVED.names], schema=SERVED)
