"""The whole trials of a sweep, each ledger file checked against the contract before a JVM is started."""

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
"""What tells the trials apart where their rows are in one table."""
_GLOB: Final = str.maketrans({sign: f"\\{sign}" for sign in "{}[]*?\\"})


@dataclass(frozen=True)
class Ledger:
    """One whole trial: what it was, and how many rows its tables hold by their own footers."""

    record: TrialRecord
    folder: str
    attempts_rows: int
    log_rows: int
    reads_rows: int

    def path(self, table: str) -> str:
        """Return where a table lies, in the file system of its sweep."""
        return f"{self.folder}/{table}.parquet"


@dataclass(frozen=True)
class Ledgers:
    """All whole trials of one sweep, by trial id, on any file system that Arrow and Spark both know."""

    files: pafs.FileSystem
    root: str
    scheme: str
    trials: tuple[Ledger, ...]

    def spark_paths(self, table: str) -> list[str]:
        """Return a table's files as Spark wants them: Hadoop paths, whose blanks stay and whose glob signs are escaped."""
        return [self.scheme + ledger.path(table).translate(_GLOB) for ledger in self.trials]

    def read(self, table: str) -> pa.Table:
        """Read a table of all trials at once, with `trial_id`: one that has a few hundred rows a trial.

        Raises:
            UnfitLedger: a file's data cannot be read though its footer can.
        """
        return pa.concat_tables(
            [
                with_trial_id(ledger.record.trial_id, _rows(self.files, ledger, table))
                for ledger in self.trials
            ]
        )


def with_trial_id(trial_id: str, rows: pa.Table) -> pa.Table:
    """Add the trial to its rows, as their last column."""
    return rows.append_column(TRIAL_ID, pa.array([trial_id] * len(rows), pa.string()))


def _rows(files: pafs.FileSystem, ledger: Ledger, table: str) -> pa.Table:
    try:
        with files.open_input_file(ledger.path(table)) as stream:
            return pq.ParquetFile(stream).read().cast({**TABLES, **OPTIONAL_TABLES}[table])
    except (pa.ArrowInvalid, OSError) as error:
        told = f"trial {ledger.record.trial_id}: {table}.parquet cannot be read: its footer is whole, and its data are not"
        raise InvalidLedger(told) from error


def open_ledgers(sweep: str) -> Ledgers:
    """Find and check the whole trials of a sweep.

    Args:
        sweep: the sweep's folder, as a path of this machine or as a URI that `pyarrow.fs.FileSystem.from_uri` knows.

    Raises:
        UnfitLedger: there is no such sweep, or a trial's file is missing, cut short, of another version or of another trial.
    """
    files, root, scheme = _locate(sweep)
    if files.get_file_info(f"{root}/trials").type != pafs.FileType.Directory:
        raise InvalidLedger(f"{sweep} is no sweep: it has no folder trials")
    return Ledgers(
        files,
        root,
        scheme,
        tuple(_checked(files, folder) for folder in sealed_folders(files, root)),
    )


def _locate(sweep: str) -> tuple[pafs.FileSystem, str, str]:
    """Return the file system, the path in it, and what Spark wants before such a path."""
    parts = urlsplit(sweep)
    if not parts.scheme:
        return pafs.LocalFileSystem(), str(Path(sweep).resolve()), "file://"
    files, root = pafs.FileSystem.from_uri(sweep)
    in_root = (
        parts.netloc and root.split("/")[0] == parts.netloc
    )  # object stores: the bucket is part of Arrow's path
    return files, root.rstrip("/"), f"{parts.scheme}://" + ("" if in_root else parts.netloc)


def _checked(files: pafs.FileSystem, folder: str) -> Ledger:
    """Return a trial's ledger, its files compared with the contract and with what `trial.json` says of them."""
    record, rows = validate_trial(files, folder)
    return Ledger(record, folder, rows["attempts"], rows["log"], rows["reads"])
