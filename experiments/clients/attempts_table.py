"""What a producer attempted, as the ledger's table. Pure."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from experiments.clients.attempts import REFUSED, SENT, SETTLED, UNTOUCHED
from experiments.clients.keying import keys_of
from experiments.clients.mapping import Column, Records
from experiments.clients.outcome import outcome
from experiments.ledger.record import Keying
from experiments.ledger.schema import ACKED, ATTEMPTS, REJECTED, UNKNOWN

_OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN)


def table_of(rows: Records, latency_us: Column, producer: int, keying: Keying) -> pa.Table:
    """Return the records that were due as the ledger's `attempts`.

    Args:
        rows: of dtype `Attempt`, in the schedule's order. Rows that were never due end the table: seq stays dense.
        latency_us: how long each took to settle, for those that are settled.
        producer: their producer's number.
        keying: which keys they had.
    """
    rows = rows[: int(np.count_nonzero(rows["state"] != UNTOUCHED))]
    seq = np.arange(rows.size, dtype=np.int64)
    taken, settled = np.isin(rows["state"], (SENT, SETTLED)), rows["state"] == SETTLED
    columns = {
        "producer": pa.array(np.full(rows.size, producer, np.int32)),
        "seq": pa.array(seq),
        "key": pa.array(keys_of(seq, keying)) if keying.keys else pa.nulls(rows.size, pa.int64()),
        "intended_ns": pa.array(rows["intended_ns"].copy()),
        "sent_ns": _where(taken, rows["sent_ns"]),
        "settled_ns": _where(settled, rows["sent_ns"] + latency_us[: rows.size] * 1000),
        "outcome": _outcomes(rows),
        "error": pa.array(rows["error"].copy()),
        "partition": _where(settled & (rows["partition"] >= 0), rows["partition"]),
        "offset": _where(settled & (rows["error"] == 0) & (rows["offset"] >= 0), rows["offset"]),
        "transaction": pa.nulls(rows.size, pa.int64()),
    }
    return pa.table([columns[field.name].cast(field.type) for field in ATTEMPTS], schema=ATTEMPTS)


def _where(known: Any, values: Any) -> pa.Array:
    """Null where it is not known."""
    return pa.array(np.ascontiguousarray(values), mask=~known)


def _outcomes(rows: Records) -> pa.Array:
    """Judge each kind of ending once: there are a handful."""
    endings = rows["state"].astype(np.int64) << 40 | (rows["error"].astype(np.int64) & 0xFFFF_FFFF) << 8 | rows["status"] & 0xFF
    _, first, kind = np.unique(endings, return_index=True, return_inverse=True)
    judged = np.array([_OUTCOMES.index(_outcome(rows[index])) for index in first], np.int8)
    return pa.DictionaryArray.from_arrays(pa.array(judged[kind] if rows.size else judged), pa.array(_OUTCOMES))


def _outcome(row: np.void) -> str:
    if row["state"] == REFUSED:
        return REJECTED
    return outcome(int(row["error"]), int(row["status"])) if row["state"] == SETTLED else UNKNOWN
