"""The whole trials of a sweep, each ledger file checked against the contract before a JVM is started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pydantic import ValidationError

from experiments.ledger.record import TrialRecord
from experiments.ledger.schema import LEDGER_VERSION, TABLES

UNFINISHED: Final = (".partial", ".failed")
"""Suffixes of trial folders that are no whole trials (`docs/ledger.md`)."""
_GLOB: Final = str.maketrans({sign: f"\\{sign}" for sign in "{}[]*?\\"})


class UnfitLedger(Exception):
    """A ledger that cannot be measured; the text is one line that names the trial and the file, or the sum that does not hold."""


@dataclass(frozen=True)
class Ledger:
    """One whole trial: what it was, and how many rows its tables hold by their own footers."""

    record: TrialRecord
    folder: str
    attempts_rows: int
    log_rows: int

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


def open_ledgers(sweep: str) -> Ledgers:
    """Find and check the whole trials of a sweep.

    Args:
        sweep: the sweep's folder, as a path of this machine or as a URI that `pyarrow.fs.FileSystem.from_uri` knows.

    Raises:
        UnfitLedger: there is no such sweep, or a trial's file is missing, cut short, of another version or of another trial.
    """
    files, root, scheme = _locate(sweep)
    selector = pafs.FileSelector(f"{root}/trials", allow_not_found=True)
    folders = sorted(info.path for info in files.get_file_info(selector) if info.type == pafs.FileType.Directory)
    if files.get_file_info(f"{root}/trials").type != pafs.FileType.Directory:
        raise UnfitLedger(f"{sweep} is no sweep: it has no folder trials")
    return Ledgers(files, root, scheme, tuple(_whole(files, folders)))


def _locate(sweep: str) -> tuple[pafs.FileSystem, str, str]:
    """Return the file system, the path in it, and what Spark wants before such a path."""
    parts = urlsplit(sweep)
    if not parts.scheme:
        return pafs.LocalFileSystem(), str(Path(sweep).resolve()), "file://"
    files, root = pafs.FileSystem.from_uri(sweep)
    in_root = parts.netloc and root.split("/")[0] == parts.netloc  # object stores: the bucket is part of Arrow's path
    return files, root.rstrip("/"), f"{parts.scheme}://" + ("" if in_root else parts.netloc)


def _whole(files: pafs.FileSystem, folders: list[str]) -> Iterator[Ledger]:
    for folder in folders:
        whole = not folder.endswith(UNFINISHED) and files.get_file_info(f"{folder}/trial.json").type == pafs.FileType.File
        if whole:
            yield _checked(files, folder)


def _checked(files: pafs.FileSystem, folder: str) -> Ledger:
    """Return a trial's ledger, its files compared with the contract and with what `trial.json` says of them."""
    trial_id = folder.rsplit("/", 1)[-1]
    record = _record(files, folder, trial_id)
    rows = {name: _checked_rows(files, folder, trial_id, name) for name in TABLES}
    scheduled = sum(producer.records for producer in record.producers)
    if rows["attempts"] != scheduled:
        raise UnfitLedger(f"trial {trial_id}: attempts.parquet holds {rows['attempts']} records, and trial.json tells of {scheduled}")
    if rows["log"] > (ends := sum(record.end_offsets.values())):
        raise UnfitLedger(f"trial {trial_id}: log.parquet holds {rows['log']} records, and the end offsets of trial.json allow {ends}")
    return Ledger(record, folder, rows["attempts"], rows["log"])


def _record(files: pafs.FileSystem, folder: str, trial_id: str) -> TrialRecord:
    with files.open_input_file(f"{folder}/trial.json") as stream:
        text = stream.read()
    try:
        version = json.loads(text).get("ledger_version")
        if version != LEDGER_VERSION:
            raise UnfitLedger(f"trial {trial_id}: trial.json is of ledger version {version}, and this program reads {LEDGER_VERSION}")
        record = TrialRecord.model_validate_json(text)
    except (ValidationError, ValueError, AttributeError) as error:
        raise UnfitLedger(f"trial {trial_id}: trial.json is not a trial's record: {_one_line(error)}") from error
    if record.trial_id != trial_id:
        raise UnfitLedger(f"trial {trial_id}: trial.json is of trial {record.trial_id}")
    return record


def _checked_rows(files: pafs.FileSystem, folder: str, trial_id: str, name: str) -> int:
    """Return how many rows a table holds, once its footer is found to be the contract's and the trial's."""
    file = f"trial {trial_id}: {name}.parquet"
    try:
        with files.open_input_file(f"{folder}/{name}.parquet") as stream:
            footer = pq.ParquetFile(stream)
            schema, rows = footer.schema_arrow, int(footer.metadata.num_rows)
    except FileNotFoundError as error:
        raise UnfitLedger(f"{file} is missing") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise UnfitLedger(f"{file} cannot be read: {_one_line(error)}") from error
    _check_marks(file, schema.metadata or {}, trial_id)
    _check_columns(file, schema, TABLES[name])
    return rows


def _check_marks(file: str, marks: dict[bytes, bytes], trial_id: str) -> None:
    """Compare the marks that `experiments.ledger.seal` puts into every file."""
    for mark, due in (("ackbench.ledger_version", str(LEDGER_VERSION)), ("ackbench.trial_id", trial_id)):
        found = marks.get(mark.encode())
        if found != due.encode():
            raise UnfitLedger(f"{file} is marked {mark}={found.decode() if found else 'nothing'}, not {due}")


def _check_columns(file: str, found: pa.Schema, due: pa.Schema) -> None:
    """Compare names, types and nullability; how a text is encoded is the writer's business."""
    if found.names != due.names:
        raise UnfitLedger(f"{file} has the columns {', '.join(found.names)}, not {', '.join(due.names)}")
    for field, contract in zip(found, due, strict=True):
        if _plain(field.type) != _plain(contract.type) or (field.nullable and not contract.nullable):
            raise UnfitLedger(f"{file} has {field}, and the ledger's schema {contract}")


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
