"""The sealed trials of a sweep.

Every ledger file is checked against its schema before a JVM is started.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from experiments.ledger.record import TrialRecord
from experiments.ledger.schema import OPTIONAL_TABLES, TABLES
from experiments.ledger.validation import InvalidLedger, sealed_folders, validate_trial

__all__ = ["TRIAL_ID", "InvalidLedger", "Ledger", "Ledgers", "open_ledgers", "with_trial_id"]

TRIAL_ID: Final = pa.field("trial_id", pa.string(), nullable=False)
"""The column that identifies the trial in a table with the rows of several."""
_ESCAPED_GLOB: Final = str.maketrans({character: f"\\{character}" for character in "{}[]*?\\"})


@dataclass(frozen=True)
class Ledger:
    """One sealed trial: its record, and the row counts of its tables' footers."""

    record: TrialRecord
    folder: str
    attempts_rows: int
    log_rows: int
    reads_rows: int

    def path(self, table: str) -> str:
        """Return the path of a table in the file system of its sweep."""
        return f"{self.folder}/{table}.parquet"


@dataclass(frozen=True)
class Ledgers:
    """The sealed trials of a sweep, by trial id, on a file system that Arrow and Spark support."""

    files: pafs.FileSystem
    root: str
    scheme: str
    trials: tuple[Ledger, ...]

    def spark_paths(self, table: str) -> list[str]:
        """Return a table's files for Spark, as Hadoop paths.

        Blanks are not escaped, but the characters of Hadoop's glob patterns are.
        """
        return [self.scheme + ledger.path(table).translate(_ESCAPED_GLOB) for ledger in self.trials]

    def read(self, table: str) -> pa.Table:
        """Return a table of all trials with `trial_id`; for tables of a few hundred rows per trial.

        Raises:
            InvalidLedger: a file's footer is valid, but its data cannot be read.
        """
        return pa.concat_tables(
            [
                with_trial_id(ledger.record.trial_id, _rows(self.files, ledger, table))
                for ledger in self.trials
            ]
        )


def with_trial_id(trial_id: str, rows: pa.Table) -> pa.Table:
    """Add the trial id to a table, as its last column."""
    return rows.append_column(TRIAL_ID, pa.array([trial_id] * len(rows), pa.string()))


def _rows(files: pafs.FileSystem, ledger: Ledger, table: str) -> pa.Table:
    try:
        with files.open_input_file(ledger.path(table)) as stream:
            return pq.ParquetFile(stream).read().cast({**TABLES, **OPTIONAL_TABLES}[table])
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidLedger(
            f"trial {ledger.record.trial_id}: {table}.parquet cannot be read: "
            "its footer is valid, but its data are not"
        ) from error


def open_ledgers(sweep: str) -> Ledgers:
    """Find and check the sealed trials of a sweep.

    Args:
        sweep: the sweep's folder, as a path of this machine or as a URI that
            `pyarrow.fs.FileSystem.from_uri` accepts.

    Raises:
        InvalidLedger: the sweep does not exist, or a trial's file is missing, truncated, of another
            version or of another trial.
    """
    files, root, scheme = _locate(sweep)
    if files.get_file_info(f"{root}/trials").type != pafs.FileType.Directory:
        raise InvalidLedger(f"{sweep} is not a sweep: it has no folder trials")
    return Ledgers(
        files,
        root,
        scheme,
        tuple(_check_trial(files, folder) for folder in sealed_folders(files, root)),
    )


def _locate(sweep: str) -> tuple[pafs.FileSystem, str, str]:
    """Return the file system, the path in it, and the prefix of such paths for Spark."""
    parts = urlsplit(sweep)
    if not parts.scheme:
        return pafs.LocalFileSystem(), str(Path(sweep).resolve()), "file://"
    files, root = pafs.FileSystem.from_uri(sweep)
    # For object stores, the bucket is part of Arrow's path.
    in_root = parts.netloc and root.split("/")[0] == parts.netloc
    return files, root.rstrip("/"), f"{parts.scheme}://" + ("" if in_root else parts.netloc)


def _check_trial(files: pafs.FileSystem, folder: str) -> Ledger:
    """Check a trial's files against their schemas and its `trial.json`, and return its ledger."""
    record, rows = validate_trial(files, folder)
    return Ledger(record, folder, rows["attempts"], rows["log"], rows["reads"])
