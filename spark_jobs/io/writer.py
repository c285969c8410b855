"""The results as files: one per table, sorted, and the same bytes for the same values.

Nothing in them depends on when or where they were written. `manifest.json` has their digests.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ackbench.experiments.ledger.digests import digest_file
from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST, ResultsManifest
from ackbench.experiments.ledger.seal import sync

ROW_GROUP_ROWS: Final = 1 << 18
"""From so many rows on, those of a table that were added are written."""
_SORT_COLUMNS: Final = (
    "trial_id",
    "cell",
    "measure",
    "phase",
    "outcome",
    "fate",
    "partition",
    "side",
    "group",
    "consumer",
    "generation",
    "from_ns",
    "field",
    "replay",
    "node",
    "name",
    "slot",
    "from_us",
    "kind",
    "producer",
    "seq",
    "offset",
    "at_ns",
    "era",
    "within",
    "observer",
    "of",
)


class ResultsWriter:
    """Writes `results/<name>.parquet` and the manifest, while the context lasts.

    All files are written and synced to disk under partial names first, so that earlier results stay
    until all new ones are complete. Then the manifest gets its name, and after it the tables. Equal
    tables give equal bytes. If the context ends with an error, partial files are removed.

    Args:
        files: the file system of the sweep.
        sweep: its folder.
    """

    def __init__(self, files: pafs.FileSystem, sweep: str) -> None:
        self._files, self._sweep, self._folder = files, sweep, f"{sweep}/results"
        self._tables = {
            name: _TableWriter(files, self._partial(name), schema)
            for name, schema in RESULTS.items()
        }

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the partial files of an error."""
        if error is not None:
            for table in self._tables.values():
                table.discard()

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Add rows of some tables, which belong behind those that were added before.

        Raises:
            ValueError: a table does not match its schema.
            OSError: the file system failed.
        """
        self._files.create_dir(self._folder)
        for name, table in tables.items():
            self._tables[name].add(table)

    def commit(
        self, trials: Mapping[str, str] | None = None, left_out: Mapping[str, str] | None = None
    ) -> None:
        """Complete the files, with the manifest, and replace those of earlier results.

        Args:
            trials: of the manifest.
            left_out: of the manifest.

        Raises:
            OSError: the file system failed.
        """
        self._files.create_dir(self._folder)
        digests = {}
        for name, table in self._tables.items():
            table.complete()
            digests[f"{name}.parquet"] = digest_file(self._files, self._partial(name))
        manifest = ResultsManifest(
            tables=dict(sorted(digests.items())),
            # Tasks of a cluster end in any order.
            trials=dict(sorted((trials or {}).items())),
            left_out=dict(sorted((left_out or {}).items())),
        )
        with self._files.open_output_stream(self._partial("manifest")) as stream:
            stream.write(manifest.to_json().encode())
        names = {"manifest": RESULTS_MANIFEST} | {name: f"{name}.parquet" for name in RESULTS}
        _sync(self._files, *map(self._partial, names))
        for name, final in names.items():
            self._files.move(self._partial(name), f"{self._folder}/{final}")
        _sync(self._files, self._folder, self._sweep)

    def _partial(self, name: str) -> str:
        return f"{self._folder}/.{name}.partial"


class _TableWriter:
    """Writes the file of a table: its few rows, or the last ones, when it is complete."""

    def __init__(self, files: pafs.FileSystem, path: str, schema: pa.Schema) -> None:
        self._files, self._path, self._schema = files, path, schema
        self._added: list[pa.Table] = []
        self._added_rows = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        self._added.append(table.select(self._schema.names).cast(self._schema))
        self._added_rows += len(table)
        if self._added_rows >= ROW_GROUP_ROWS:
            self._write()

    def complete(self) -> None:
        writer = self._write() if self._added_rows or self._writer is None else self._writer
        writer.close()

    def discard(self) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
                self._files.delete_file(self._path)

    def _write(self) -> pq.ParquetWriter:
        self._writer = self._writer or pq.ParquetWriter(
            self._path,
            self._schema,
            filesystem=self._files,
            compression="zstd",
            write_page_checksum=True,
        )
        self._writer.write_table(
            _sorted(pa.concat_tables([self._schema.empty_table(), *self._added]))
        )
        self._added, self._added_rows = [], 0
        return self._writer


def write_results(
    files: pafs.FileSystem,
    sweep: str,
    tables: Mapping[str, pa.Table],
    trials: Mapping[str, str] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> None:
    """Write the complete tables of a sweep; arguments and errors are those of `ResultsWriter`."""
    with ResultsWriter(files, sweep) as results:
        results.add(tables)
        results.commit(trials, left_out)


def _sync(files: pafs.FileSystem, *paths: str) -> None:
    """Sync to disk; an object store does it before it confirms a write."""
    if isinstance(files, pafs.LocalFileSystem):
        for path in paths:
            sync(Path(path))


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by(
        [(name, "ascending") for name in _SORT_COLUMNS if name in table.column_names]
    ).combine_chunks()
