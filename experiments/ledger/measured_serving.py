"""Who served the clients' records: a table of `results/`, of trials that ask it. `docs/metrics.md` has every column's formula."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

BROKERS: Final = pa.schema(
    [
        pa.field("trial_id", pa.string(), nullable=False),
        pa.field("node", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),  # of the broker's own counter: BytesInPerSec, BytesOutPerSec, MessagesInPerSec
        pa.field("count", pa.int64(), nullable=False),  # since its process began
    ]
)
"""What brokers counted of the topic themselves, at the end, before it was read to check."""

SERVING: Final = pa.schema(
    [
        pa.field("trial_id", pa.string(), nullable=False),
        pa.field("side", pa.string(), nullable=False),  # producer or consumer
        pa.field("node", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("records", "first_ns", "last_ns")),
        pa.field("outside_ns", pa.int64(), nullable=False),  # of the time from the first to the last of them, how much it was not the partition's leader
    ]
)
