"""Writes and seals a trial's ledger: under its final name a ledger is always complete."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackbench.experiments.ledger.digests import digest_file, with_digest
from ackbench.experiments.ledger.schema import OPTIONAL_TABLES, TABLES
from ackbench.experiments.ledger.terms import LEDGER_VERSION
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST, TrialManifest

ROW_GROUP_ROWS: Final = 262_144
"""A reader of a part of a large trial skips the row groups of the others: by their statistics.

Larger ones hold rows of several parts; smaller ones take longer to read (`docs/performance.md`).
"""


def write_table(folder: Path, trial_id: str, name: str, table: pa.Table) -> None:
    """Write one table of the ledger as `<name>.parquet`.

    The file's metadata has the trial and the ledger version. zstd and DELTA_BINARY_PACKED on the
    64-bit columns take 8 bytes per row and write 11 million rows per second.

    Raises:
        ValueError: the table does not have the ledger's schema.
    """
    schema = {**TABLES, **OPTIONAL_TABLES}[name]
    if not table.schema.equals(schema, check_metadata=False):
        raise ValueError(f"table {name} has the schema {table.schema}; required: {schema}")
    described = table.replace_schema_metadata(
        {"ackbench.trial_id": trial_id, "ackbench.ledger_version": str(LEDGER_VERSION)}
    )
    packed: dict[str, str] = {
        field.name: "DELTA_BINARY_PACKED" for field in schema if pa.types.is_int64(field.type)
    }
    plain = [field.name for field in schema if field.name not in packed]
    pq.write_table(
        described,
        folder / f"{name}.parquet",
        compression="zstd",
        use_dictionary=plain,
        column_encoding=packed,
        row_group_size=ROW_GROUP_ROWS,
        write_page_checksum=True,
    )


def seal(
    partial: Path, sealed: Path, manifest: TrialManifest, tables: Mapping[str, pa.Table]
) -> TrialManifest:
    """Write all tables and `trial.json`, sync them to disk, and rename the folder.

    `trial.json` has the digests of all other files of the folder, and its own.

    Args:
        partial: the folder to write to.
        sealed: its final name.
        manifest: the trial's manifest.
        tables: the ledger's tables by name.

    Returns:
        The manifest as sealed.

    Raises:
        ValueError: a table is missing or has another schema.
        OSError: the disk is full, or a folder is not writable.
    """
    if set(tables) - set(OPTIONAL_TABLES) != set(TABLES):
        raise ValueError(f"a ledger has the tables {sorted(tables)}; required: {sorted(TABLES)}")
    for name, table in tables.items():
        write_table(partial, manifest.trial_id, name, table)
    return seal_files(partial, sealed, manifest)


def seal_files(partial: Path, sealed: Path, manifest: TrialManifest) -> TrialManifest:
    """Seal a folder as `seal` does, whose tables were written before."""
    files = sorted(path for path in partial.rglob("*") if path.is_file())
    digests = {
        str(path.relative_to(partial)): digest_file(pafs.LocalFileSystem(), str(path))
        for path in files
    }
    complete = manifest.model_copy(update={"ledger_version": LEDGER_VERSION, "files": digests})
    (partial / TRIAL_MANIFEST).write_bytes(with_digest(complete.model_dump_json(indent=1)).encode())
    for path in (*partial.rglob("*"), partial):
        sync(path)
    partial.rename(sealed)
    sync(sealed.parent)
    return complete


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk (fsync(2))."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
