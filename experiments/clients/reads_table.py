"""What was read, as the ledger's tables. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from experiments.clients.attempts import Records
from experiments.clients.value import Origin
from experiments.ledger.schema import LOG, READS


def reads_of(rows: Records, consumer: int, generation: int) -> pa.Table:
    """Return rows of dtype `Read` as the ledger's `reads`."""
    constants = {"consumer": np.full(rows.size, consumer, np.int32), "generation": np.full(rows.size, generation, np.int32)}
    columns = {**{name: pa.array(values) for name, values in constants.items()}, **_ours(rows, "producer", "seq", "intended_ns")}
    return pa.table([columns.get(field.name, _plain(rows, field.name)) for field in READS], schema=READS)


def log_of(rows: Records) -> pa.Table:
    """Return rows of dtype `Read` as the ledger's `log`."""
    columns = {**_ours(rows, "producer", "seq"), "intact": pa.array(rows["origin"] != Origin.CORRUPT)}
    return pa.table([columns[field.name] if field.name in columns else _plain(rows, field.name) for field in LOG], schema=LOG)


def _ours(rows: Records, *names: str) -> dict[str, pa.Array]:
    """Null where the record is of other origin or corrupt: what such a header says is not to be believed."""
    strange = rows["origin"] != Origin.OURS
    return {name: pa.array(np.ascontiguousarray(rows[name]), mask=strange) for name in names}


def _plain(rows: Records, name: str) -> Any:
    return pa.array(np.ascontiguousarray(rows[name]))
