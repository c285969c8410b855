"""Which broker served a client's records, partition by partition: what librdkafka says of each message that was produced or fetched.

A cell a partition and broker: each of librdkafka's broker threads writes its own, so that none waits for another.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from experiments.clients.attempts import Records
from experiments.ledger.schema import SERVED
from infra.errors import HarnessError

NODES: Final = 64
"""Brokers with a number below this are told."""
PARTITIONS: Final = 1024

Served = np.dtype([("records", "<i8"), ("first_ns", "<i8"), ("last_ns", "<i8")])
"""What one broker served of one partition; times by the trial's clock."""

Telling = np.dtype([("cells", "<i8"), ("anchor_ns", "<i8")])
"""What the interceptors are told: where the mapping lies, and epoch = anchor + monotonic clock."""


def create_serving(path: Path) -> None:
    """Make the mapping, all of its disk space reserved.

    Raises:
        OSError: the disk is full, or the folder cannot be written.
    """
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, NODES * PARTITIONS * Served.itemsize)


def attach_serving(path: Path) -> Records:
    """Map it: the client's side.

    Raises:
        HarnessError: there is none.
    """
    try:
        return np.memmap(path, Served, "r+")
    except (OSError, ValueError) as error:
        raise HarnessError(f"the client left nothing of who served it at {path}: {error}") from error


def served_table(path: Path, side: str) -> pa.Table:
    """Return who served a client; schema `SERVED`.

    Args:
        path: the mapping.
        side: `producer` or `consumer`.

    Raises:
        HarnessError: it left nothing.
    """
    cells = attach_serving(path)
    filled = np.flatnonzero(cells["records"])
    columns = {"side": pa.array([side] * filled.size, pa.string()), "node": pa.array((filled % NODES).astype(np.int32))}
    columns |= {"partition": pa.array((filled // NODES).astype(np.int32))}
    columns |= {name: pa.array(np.ascontiguousarray(cells[name][filled])) for name in ("records", "first_ns", "last_ns")}
    return pa.table([columns[name] for name in SERVED.names], schema=SERVED)
