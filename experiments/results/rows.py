"""The tables of a sweep's `results/`, as the Spark job wrote them, as rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ackbench.experiments.ledger.digests import InvalidLedger, digest_of
from ackbench.experiments.ledger.moved import lift_cell_text
from ackbench.experiments.ledger.quantities import present_column
from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.results_manifest import (
    RESULTS_MANIFEST,
    ResultsManifest,
    parse_results_manifest,
)
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.sweep.documents import read_document
from ackbench.experiments.sweep.folder import SweepFolder

_MOST_TABLE_BYTES: Final = 1 << 30
NAMED_COLUMNS: Final = ("trial_id", "kind", "producer", "seq")
"""The columns of `experiments.ledger.result_tables.ANOMALIES` that name records."""
Row = Mapping[str, Any]
"""A row of a table of `experiments.ledger.result_tables`, by column."""


def read_results_manifest(sweep: SweepFolder) -> ResultsManifest | None:
    """Return the manifest of `results/`; `None`: not measured, or by ledger version 4.

    Raises:
        LedgerError: it was altered or truncated.
    """
    try:
        return parse_results_manifest(read_document(sweep.results / RESULTS_MANIFEST))
    except FileNotFoundError:
        return None
    except InvalidLedger as error:
        raise LedgerError(f"{sweep.root}: {error}; {_remedy(sweep)}") from error


def _empty(name: str) -> pa.Table:
    """Return a table without rows; `Schema.empty_table` would import pandas, for 0.3 s of CPU."""
    return pa.Table.from_batches([], RESULTS[name])


def read_table(
    sweep: SweepFolder,
    name: str,
    manifest: ResultsManifest | None = None,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
) -> pa.Table:
    """Return a table of `results/`; an empty one if the sweep was not measured.

    Args:
        sweep: the sweep.
        name: a key of `experiments.ledger.result_tables.RESULTS`.
        manifest: of the measurement that the table must be of; `None`: of the last one.
        columns: those that are read; `None`: all.
        dictionaries: columns of text that are kept as numbers of their distinct values.

    Raises:
        LedgerError: the table is unreadable, of another version, or not the one that the manifest
            names.
    """
    path, manifest = sweep.results / f"{name}.parquet", manifest or read_results_manifest(sweep)
    if manifest is None and not any(sweep.results.glob("*.parquet")):
        return _empty(name)
    try:
        content = _content(sweep, path, manifest)
        file = pq.ParquetFile(
            pa.BufferReader(content),
            page_checksum_verification=True,
            read_dictionary=list(dictionaries),
        )
        table = file.read(None if columns is None else list(columns), use_threads=False)
        expected = _with_dictionaries(RESULTS[name], dictionaries)
        is_known = file.schema_arrow.equals(expected, check_metadata=False)
        if not is_known and columns is None:
            table = _as_declared(table, expected)
            is_known = table.schema.equals(expected, check_metadata=False)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise LedgerError(f"{path} is unreadable; {_remedy(sweep)}") from error
    if not is_known:
        raise LedgerError(f"{path} is of another version; {_remedy(sweep)}")
    return table


def _as_declared(table: pa.Table, expected: pa.Schema) -> pa.Table:
    """Return a table with today's names and order of columns, if it differs in nothing else."""
    present = table.rename_columns([present_column(name) for name in table.column_names])
    types = {field.name: field.type for field in present.schema}
    if types != {field.name: field.type for field in expected}:
        return table
    return present.select(expected.names).cast(expected)


def _with_dictionaries(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    encoded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [field.with_type(encoded) if field.name in columns else field for field in schema]
    )


def require_table(sweep: SweepFolder, name: str, manifest: ResultsManifest | None) -> None:
    """Check that a table is the one that the manifest names, if there is one.

    Raises:
        LedgerError: as `read_table`.
    """
    path = sweep.results / f"{name}.parquet"
    try:
        if manifest is not None:
            _content(sweep, path, manifest)
    except OSError as error:
        raise LedgerError(f"{path} is unreadable; {_remedy(sweep)}") from error


def _content(sweep: SweepFolder, path: Path, manifest: ResultsManifest | None) -> bytes:
    content = read_document(path, _MOST_TABLE_BYTES)
    if manifest is None:
        return content
    expected = manifest.tables.get(path.name)
    difference = expected.mismatch(digest_of(content)) if expected else "it is not listed there"
    if difference:
        raise LedgerError(
            f"{path} does not match {RESULTS_MANIFEST} next to it ({difference}): it was altered, "
            f"or the sweep was being measured; {_remedy(sweep)}"
        )
    return content


def _remedy(sweep: SweepFolder) -> str:
    return f"compute it again with: ackbench measure {sweep.argument}"


def read_optional_table(
    sweep: SweepFolder, name: str, manifest: ResultsManifest | None = None
) -> pa.Table:
    """Return a table as `read_table` does; an empty one if `results/` does not contain it.

    Older versions measured without some of today's tables.

    Raises:
        LedgerError: as `read_table`.
    """
    listed = manifest is not None and f"{name}.parquet" in manifest.tables
    if not listed and not (sweep.results / f"{name}.parquet").exists():
        return _empty(name)
    return read_table(sweep, name, manifest)


def rows_by_trial(
    sweep: SweepFolder, name: str, manifest: ResultsManifest | None = None
) -> Mapping[str, Sequence[Row]]:
    """Return the rows of a table by trial, in the table's order; other trials have no rows.

    The arguments are those of `read_table`.

    Raises:
        LedgerError: as `read_table`.
    """
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in read_table(sweep, name, manifest).to_pylist():
        rows[row["trial_id"]].append(row)
    return rows


class TrialRows(Sequence[Row]):
    """The rows of a trial in a large table; they become objects only where one needs them.

    A histogram has thousands of rows per trial, and an object takes twenty times their memory.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        """Return a row, or some."""
        rows: list[Row] = self.table.to_pylist()
        return rows[place]

    def __iter__(self) -> Iterator[Row]:
        """Return an iterator over all rows."""
        return iter(self.table.to_pylist())


def large_table_by_trial(
    sweep: SweepFolder, name: str, manifest: ResultsManifest | None = None
) -> Mapping[str, Sequence[Row]]:
    """Return the rows of a large table as `rows_by_trial` does, without an object per row."""
    texts = [field.name for field in RESULTS[name] if pa.types.is_string(field.type)]
    table = read_table(sweep, name, manifest, dictionaries=texts).unify_dictionaries()
    if not table.num_rows:
        return {}
    chunks = table["trial_id"].chunks
    trials = chunks[0].dictionary
    numbers = np.concatenate([chunk.indices for chunk in chunks])
    if np.any(np.diff(numbers) < 0):
        order = np.argsort(numbers, kind="stable")
        table, numbers = table.take(pa.array(order)), numbers[order]
    begins = np.searchsorted(numbers, np.arange(len(trials) + 1))
    return {
        trial_id.as_py(): TrialRows(table.slice(begin, end - begin))
        for trial_id, (begin, end) in zip(trials, pairwise(begins), strict=True)
    }


@dataclass(frozen=True)
class ResultRows:
    """The rows of the tables that results are made of; all empty if the sweep was not measured."""

    trials: Mapping[str, Row]
    """By trial, as are all but `cells`."""
    fates: Mapping[str, Sequence[Row]]
    latency: Mapping[str, Sequence[Row]]
    gaps: Mapping[str, Sequence[Row]]
    cells: Mapping[str, Row]
    """By `experiments.results.cells.cell_key`."""
    readers: Mapping[str, Sequence[Row]] = field(default_factory=lambda: defaultdict(list))
    timeline: Mapping[str, Sequence[Row]] = field(default_factory=lambda: defaultdict(list))
    stalls: Mapping[str, Sequence[Row]] = field(default_factory=lambda: defaultdict(list))
    copies: Mapping[str, Row] = field(default_factory=dict)
    """Only of trials with a copy workload."""
    anomalies: pa.Table = field(default_factory=lambda: _empty("anomalies").select(NAMED_COLUMNS))
    """`NAMED_COLUMNS` of the records that violate a guarantee; empty if they were not read."""

    @classmethod
    def read(
        cls, sweep: SweepFolder, manifest: ResultsManifest | None, *, with_anomalies: bool
    ) -> ResultRows:
        """Read the rows of a sweep.

        Args:
            sweep: the sweep.
            manifest: as for `read_table`.
            with_anomalies: read these too; otherwise they are only compared with the manifest.

        Raises:
            LedgerError: as `read_table`.
        """
        rows: dict[str, Any] = {
            name: rows_by_trial(sweep, name, manifest)
            for name in ("fates", "latency", "gaps", "readers", "timeline", "stalls")
        }
        if with_anomalies:
            rows["anomalies"] = read_table(sweep, "anomalies", manifest, NAMED_COLUMNS)
        else:
            require_table(sweep, "anomalies", manifest)
        copies = read_optional_table(sweep, "copies", manifest).to_pylist()
        trials, cells = (
            read_table(sweep, name, manifest).to_pylist() for name in ("trials", "cells")
        )
        return cls(
            trials={row["trial_id"]: row for row in trials},
            copies={row["trial_id"]: row for row in copies},
            cells={lift_cell_text(row["cell"]): row for row in cells},
            **rows,
        )
