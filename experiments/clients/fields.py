"""What a record's fields were when its producer handed it over, so that what is read can be held against it: a digest of its key, its value and its headers.

A digest is FNV-1a of 64 bits (https://datatracker.ietf.org/doc/html/draft-eastlake-fnv): any change within one byte is seen for certain, any other but once
in 2**64. The digest of headers is that of, for each header in order, its name, the length of its value in 8 bytes (little-endian) and its value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from experiments.clients.mapping import attach
from experiments.ledger.schema import SENT

FNV_BASIS: Final = 0xCBF2_9CE4_8422_2325
FNV_PRIME: Final = 0x0000_0100_0000_01B3
ABSENT: Final = 0
"""In the place of the digest of a key that there is not."""

Handed = np.dtype(
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
    rows = attach(path, Handed)
    seqs = np.flatnonzero(rows["noted"])
    rows = rows[seqs]
    columns = {"producer": np.full(seqs.size, producer, np.int32), "seq": seqs.astype(np.int64)}
    columns |= {name: np.ascontiguousarray(rows[name]) for name in ("timestamp_ms", "key_digest", "value_digest", "headers_digest")}
    return pa.table([pa.array(columns[name]) for name in SENT.names], schema=SENT)
