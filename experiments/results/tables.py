"""The tables of a sweep's `results/`, as Spark wrote them. No Spark is needed to read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.errors import LedgerError
from experiments.ledger.measured import RESULTS
from experiments.sweep_folder import SweepFolder


def read_if_there(sweep: SweepFolder, name: str) -> pa.Table:
    """As `read_table`, of a table that a sweep may have been measured without: then it is empty.

    Raises:
        LedgerError: it cannot be read, or is of another version.
    """
    return read_table(sweep, name) if (sweep.results / f"{name}.parquet").exists() else RESULTS[name].empty_table()


def read_table(sweep: SweepFolder, name: str) -> pa.Table:
    """Return a table of `experiments.ledger.measured.RESULTS`; of a sweep that was not measured, an empty one.

    Raises:
        LedgerError: it cannot be read, or is of another version.
    """
    path = sweep.results / f"{name}.parquet"
    if not sweep.results.exists():
        return RESULTS[name].empty_table()
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise LedgerError(f"{path} cannot be read: `ackbench measure {sweep.sweep_id}` makes it anew") from error
    if not table.schema.equals(RESULTS[name], check_metadata=False):
        raise LedgerError(f"{path} is of another version: `ackbench measure {sweep.sweep_id}` makes it anew")
    return table
