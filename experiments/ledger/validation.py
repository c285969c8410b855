"""Validates a trial's ledger: every file exists, is complete, and has this version and trial.

`validate_trial` reads `trial.json` and the Parquet footers; `verify_files` reads everything.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackbench.experiments.ledger.digests import InvalidLedger, digest_file, require_regular_file
from ackbench.experiments.ledger.schema import OPTIONAL_TABLES, OUTPUT, TABLES
from ackbench.experiments.ledger.trial_manifest import (
    TRIAL_MANIFEST,
    TrialManifest,
    parse_trial_manifest,
)

MOST_RECORD_BYTES: Final = 64 << 20
"""A `trial.json` takes some ten kB."""
UNFINISHED: Final = (".partial", ".failed")
"""Suffixes of the folders of trials that are not sealed (`docs/ledger.md`)."""


def sealed_folders(files: pafs.FileSystem, root: str, *, published: bool = False) -> Iterator[str]:
    """Yield the folders of a sweep's sealed trials, sorted by trial id.

    Yields nothing if the sweep has no folder `trials`.

    Args:
        files: the file system of the sweep.
        root: the sweep's folder.
        published: the sweep is at a URI, where a trial's files appear one by one and `trial.json`
            last: a folder without it is no trial yet. In a sweep's own folder a sealed trial
            appears at once (`experiments.ledger.seal`), so a missing `trial.json` is damage.
    """
    infos = files.get_file_info(pafs.FileSelector(f"{root}/trials", allow_not_found=True))
    folders = sorted(info.path for info in infos if info.type == pafs.FileType.Directory)
    sealed = [folder for folder in folders if not folder.endswith(UNFINISHED)]
    if published:
        manifests = files.get_file_info([f"{folder}/{TRIAL_MANIFEST}" for folder in sealed])
        sealed = [folder for folder, info in zip(sealed, manifests, strict=True) if info.is_file]
    yield from sealed


def validate_trial(files: pafs.FileSystem, folder: str) -> tuple[TrialManifest, dict[str, int]]:
    """Return a trial's manifest, and how many rows each of its tables has, from the footers.

    Raises:
        InvalidLedger: a file is missing, truncated, of another version or of another trial, or
            has other content than `trial.json` counts.
    """
    trial_id = folder.rsplit("/", 1)[-1]
    manifest = _read_trial_manifest(files, folder, trial_id)
    rows = {
        name: _validate_table(files, folder, manifest, name)
        for name in (*TABLES, *optional_tables(manifest))
    }
    scheduled = sum(producer.records for producer in manifest.producers)
    if rows["attempts"] != scheduled:
        raise InvalidLedger(
            f"trial {trial_id}: attempts.parquet has {rows['attempts']} records;"
            f" trial.json counts {scheduled}"
        )
    for name, end_offsets in (("log", manifest.end_offsets), (OUTPUT, manifest.output_end_offsets)):
        if end_offsets is not None and rows[name] > (limit := sum(end_offsets.values())):
            raise InvalidLedger(
                f"trial {trial_id}: {name}.parquet has {rows[name]} records;"
                f" the end offsets in trial.json allow at most {limit}"
            )
    return manifest, rows


def optional_tables(manifest: TrialManifest) -> tuple[str, ...]:
    """Return the names in `OPTIONAL_TABLES` that this trial's ledger has."""
    return (
        *((OUTPUT,) if manifest.output_end_offsets is not None else ()),
        *(("sent", "replays") if manifest.replays else ()),
        *(("served",) if manifest.record_serving_brokers else ()),
        *(("batches",) if manifest.record_batches else ()),
    )


def verify_files(
    files: pafs.FileSystem, folder: str, manifest: TrialManifest, names: Iterable[str]
) -> None:
    """Compare files of a trial with their digests in its `trial.json`.

    Args:
        files: the file system of the sweep.
        folder: the trial's.
        manifest: of the trial; one of version 4 has no digests, so nothing is compared.
        names: the files, as in `TrialManifest.files`.

    Raises:
        InvalidLedger: a table is missing, or a file cannot be read or has other content than when
            it was sealed. Files of folders may be missing: copies of published trials have none.
    """
    expected = manifest.files or {}
    for name in names if expected else ():
        file = f"trial {manifest.trial_id}: {name}"
        try:
            difference = expected[name].mismatch(digest_file(files, f"{folder}/{name}"))
        except KeyError as error:
            raise InvalidLedger(f"{file} has no digest in {TRIAL_MANIFEST}") from error
        except FileNotFoundError as error:
            if "/" in name:  # of `clients/`, which no figure is computed from
                continue
            raise InvalidLedger(f"{file} is missing") from error
        except OSError as error:
            raise InvalidLedger(f"{file} cannot be read: {_one_line(error)}") from error
        if difference:
            raise InvalidLedger(f"{file} was altered after it was sealed: {difference}")


def require_sizes(folder: str, manifest: TrialManifest) -> None:
    """Check that the files of a trial on this machine are there and have their sizes.

    Raises:
        InvalidLedger: one is missing, is no regular file, or has another size. Files of folders
            may be missing, as for `verify_files`; of version 4 only the tables are known.
    """
    tables = (f"{name}.parquet" for name in (*TABLES, *optional_tables(manifest)))
    sizes: dict[str, int | None] = dict.fromkeys(tables)
    sizes |= {name: digest.size_bytes for name, digest in (manifest.files or {}).items()}
    for name, size_bytes in sizes.items():
        file = f"trial {manifest.trial_id}: {name}"
        try:
            status = os.stat(f"{folder}/{name}")  # noqa: PTH116 - a third of the time
        except FileNotFoundError as error:
            if "/" in name:
                continue
            raise InvalidLedger(f"{file} is missing") from error
        except OSError as error:
            raise InvalidLedger(f"{file} cannot be read: {_one_line(error)}") from error
        if not stat.S_ISREG(status.st_mode):
            raise InvalidLedger(f"{file} is no regular file")
        if size_bytes not in {None, status.st_size}:
            raise InvalidLedger(
                f"{file} was altered after it was sealed: it has {status.st_size} bytes and not "
                f"{size_bytes}"
            )


def sealed_files(manifest: TrialManifest, *, published: bool) -> tuple[str, ...]:
    """Return the names of the files of a trial to verify, apart from `trial.json`.

    Args:
        manifest: of the trial.
        published: the sweep is at a URI, which has the tables only: no files of `clients/`.
    """
    return tuple(name for name in manifest.files or () if not (published and "/" in name))


def _read_trial_manifest(files: pafs.FileSystem, folder: str, trial_id: str) -> TrialManifest:
    path = f"{folder}/{TRIAL_MANIFEST}"
    try:
        require_regular_file(files, path)
        with files.open_input_file(path) as stream:
            if stream.size() > MOST_RECORD_BYTES:
                raise InvalidLedger(
                    f"trial {trial_id}: {TRIAL_MANIFEST} has {stream.size():,} bytes"
                )
            content = stream.read()
    except FileNotFoundError as error:
        raise InvalidLedger(f"trial {trial_id}: {TRIAL_MANIFEST} is missing") from error
    except OSError as error:
        raise InvalidLedger(
            f"trial {trial_id}: {TRIAL_MANIFEST} cannot be read: {_one_line(error)}"
        ) from error
    return parse_trial_manifest(content, trial_id)


def _validate_table(files: pafs.FileSystem, folder: str, manifest: TrialManifest, name: str) -> int:
    """Return how many rows a table has, after checking its footer against trial and schema."""
    file = f"trial {manifest.trial_id}: {name}.parquet"
    path = f"{folder}/{name}.parquet"
    try:
        require_regular_file(files, path)
        with files.open_input_file(path) as stream:
            footer = pq.ParquetFile(stream)
            schema, rows = footer.schema_arrow, int(footer.metadata.num_rows)
    except FileNotFoundError as error:
        raise InvalidLedger(f"{file} is missing") from error
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise InvalidLedger(f"{file} cannot be read: {_one_line(error)}") from error
    _check_metadata(file, schema.metadata or {}, manifest)
    _check_columns(file, schema, {**TABLES, **OPTIONAL_TABLES}[name])
    return rows


def _check_metadata(file: str, metadata: dict[bytes, bytes], manifest: TrialManifest) -> None:
    """Compare the metadata that `experiments.ledger.seal` writes to every file."""
    for key, required in (
        ("ackbench.ledger_version", str(manifest.ledger_version)),
        ("ackbench.trial_id", manifest.trial_id),
    ):
        value = metadata.get(key.encode(), b"nothing").decode(errors="replace")
        if value != required:
            raise InvalidLedger(f"{file} has {key}={value}; required: {required}")


def _check_columns(file: str, schema: pa.Schema, required: pa.Schema) -> None:
    """Compare names, types and nullability; the encoding of strings is up to the writer."""
    if schema.names != required.names:
        raise InvalidLedger(
            f"{file} has the columns {', '.join(schema.names)};"
            f" required: {', '.join(required.names)}"
        )
    for field, expected in zip(schema, required, strict=True):
        if _without_dictionary(field.type) != _without_dictionary(expected.type) or (
            field.nullable and not expected.nullable
        ):
            raise InvalidLedger(f"{file} has the column {field}; required: {expected}")


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
