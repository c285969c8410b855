"""Which broker served a client's records, partition by partition: what librdkafka says of each message that was produced or fetched.

A cell a partition and broker: each of librdkafka's broker threads writes its own, so that none waits for another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from experiments.clients.mapping import attach
from experiments.ledger.schema import SERVED

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
    columns = {"side": pa.array([side] * filled.size, pa.string()), "node": pa.array((filled % NODES).astype(np.int32))}
    columns |= {"partition": pa.array((filled // NODES).astype(np.int32))}
    columns |= {name: pa.array(np.ascontiguousarray(cells[name][filled])) for name in ("records", "first_ns", "last_ns")}
    return pa.table([columns[name] for name in SERVED.names], schema=SERVED)
