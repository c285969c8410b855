"""Whether a trial's ledger is what it says it is: every file there, whole, of this version and of this trial. No rows are read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pydantic import ValidationError

from experiments.ledger.record import TrialRecord
from experiments.ledger.schema import LEDGER_VERSION, OF_SOME, OUTPUT, TABLES

UNFINISHED: Final = (".partial", ".failed")
"""Suffixes of trial folders that are no whole trials (`docs/ledger.md`)."""


class UnfitLedger(Exception):
    """A ledger that cannot be measured; the text is one line that names the trial and the file, or the sum that does not hold."""


def whole_folders(files: pafs.FileSystem, root: str) -> Iterator[str]:
    """Yield the folders of a sweep's whole trials, by trial id; none where it has no folder `trials`."""
    infos = files.get_file_info(pafs.FileSelector(f"{root}/trials", allow_not_found=True))
    folders = (info.path for info in infos if info.type == pafs.FileType.Directory)
    yield from sorted(folder for folder in folders if not folder.endswith(UNFINISHED))


def checked(files: pafs.FileSystem, folder: str) -> tuple[TrialRecord, dict[str, int]]:
    """Return a trial's record and how many rows each of its tables holds by its own footer.

    Raises:
        UnfitLedger: a file is missing, cut short, of another version or of another trial, or holds other than `trial.json` tells.
    """
    trial_id = folder.rsplit("/", 1)[-1]
    record = _record(files, folder, trial_id)
    rows = {
        name: _checked_rows(files, folder, trial_id, name)
        for name in (*TABLES, *tables_besides(record))
    }
    scheduled = sum(producer.records for producer in record.producers)
    if rows["attempts"] != scheduled:
        raise UnfitLedger(
            f"trial {trial_id}: attempts.parquet holds {rows['attempts']} records, and trial.json tells of {scheduled}"
        )
    if rows["log"] > (ends := sum(record.end_offsets.values())):
        raise UnfitLedger(
            f"trial {trial_id}: log.parquet holds {rows['log']} records, and the end offsets of trial.json allow {ends}"
        )
    if record.output_end_offsets is not None and rows[OUTPUT] > (
        ends := sum(record.output_end_offsets.values())
    ):
        raise UnfitLedger(
            f"trial {trial_id}: output.parquet holds {rows[OUTPUT]} records, and the end offsets of trial.json allow {ends}"
        )
    return record, rows


def tables_besides(record: TrialRecord) -> tuple[str, ...]:
    """Return the tables of `OF_SOME` that a trial's ledger has."""
    return (
        *((OUTPUT,) if record.output_end_offsets is not None else ()),
        *(("sent", "replays") if record.replays else ()),
        *(("served",) if record.record_serving_brokers else ()),
    )


def _record(files: pafs.FileSystem, folder: str, trial_id: str) -> TrialRecord:
    try:
        with files.open_input_file(f"{folder}/trial.json") as stream:
            text = stream.read()
    except FileNotFoundError as error:
        raise UnfitLedger(f"trial {trial_id}: trial.json is missing") from error
    try:
        version = json.loads(text).get("ledger_version")
        if version != LEDGER_VERSION:
            raise UnfitLedger(
                f"trial {trial_id}: trial.json is of ledger version {version}, and this program reads {LEDGER_VERSION}"
            )
        record = TrialRecord.model_validate_json(text)
    except (ValidationError, ValueError, AttributeError) as error:
        raise UnfitLedger(
            f"trial {trial_id}: trial.json is not a trial's record: {_one_line(error)}"
        ) from error
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
    _check_columns(file, schema, {**TABLES, **OF_SOME}[name])
    return rows


def _check_marks(file: str, marks: dict[bytes, bytes], trial_id: str) -> None:
    """Compare the marks that `experiments.ledger.seal` puts into every file."""
    for mark, due in (
        ("ackbench.ledger_version", str(LEDGER_VERSION)),
        ("ackbench.trial_id", trial_id),
    ):
        found = marks.get(mark.encode())
        if found != due.encode():
            raise UnfitLedger(
                f"{file} is marked {mark}={found.decode() if found else 'nothing'}, not {due}"
            )


def _check_columns(file: str, found: pa.Schema, due: pa.Schema) -> None:
    """Compare names, types and nullability; how a text is encoded is the writer's business."""
    if found.names != due.names:
        raise UnfitLedger(
            f"{file} has the columns {', '.join(found.names)}, not {', '.join(due.names)}"
        )
    for field, contract in zip(found, due, strict=True):
        if _plain(field.type) != _plain(contract.type) or (
            field.nullable and not contract.nullable
        ):
            raise UnfitLedger(f"{file} has {field}, and the ledger's schema {contract}")


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
