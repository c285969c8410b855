"""What was read, as the ledger's tables. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from experiments.clients.mapping import Records
from experiments.clients.value import Origin
from experiments.ledger.schema import LOG, READS


def reads_of(rows: Records, consumer: int, generation: int) -> pa.Table:
    """Return rows of dtype `Read` as the ledger's `reads`."""
    constants = {"consumer": np.full(rows.size, consumer, np.int32), "generation": np.full(rows.size, generation, np.int32)}
    columns = {**{name: pa.array(values) for name, values in constants.items()}, **_ours(rows, "producer", "seq", "intended_ns")}
    return _table(rows, columns, READS)


def log_of(rows: Records) -> pa.Table:
    """Return rows of dtype `Read` as the ledger's `log`."""
    epochs = pa.array(np.ascontiguousarray(rows["leader_epoch"]), mask=rows["leader_epoch"] < 0)
    columns = {**_ours(rows, "producer", "seq"), "intact": pa.array(rows["origin"] != Origin.CORRUPT), "leader_epoch": epochs}
    columns["visible"] = pa.array(np.ones(rows.size, np.bool_))
    return _table(rows, columns, LOG)


def _ours(rows: Records, *names: str) -> dict[str, pa.Array]:
    """Null where the record is of other origin or corrupt: what such a header says is not to be believed."""
    strange = rows["origin"] != Origin.OURS
    return {name: pa.array(np.ascontiguousarray(rows[name]), mask=strange) for name in names}


def _table(rows: Records, made: dict[str, pa.Array], schema: pa.Schema) -> pa.Table:
    """What was not made is a column of the rows."""
    return pa.table([made[field.name] if field.name in made else pa.array(np.ascontiguousarray(rows[field.name])) for field in schema], schema=schema)
