"""A sweep's tables as DataFrames of any Spark session: `spark.read.format("ackbench")`.

    spark.dataSource.register(ackbench.SparkSource)
    attempts = spark.read.format("ackbench").option("table", "attempts").load("s3://bucket/sweeps/S")

A table is one of the ledgers (`experiments.ledger.schema`), with `trial_id` before its columns, or
`results/<name>`, one of `experiments.ledger.result_tables`. A file is compared with its digest by
the task that reads it: of one that was altered no row is returned, and the query fails.

The API is that of Python data sources (SPIP of Spark 4.0, `pyspark.sql.datasource`). Spark starts
Python processes for it, which need this package, and credentials for the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ackbench.experiments.ledger.digests import FileDigest, InvalidLedger, digest_file, read_bounded
from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST, parse_results_manifest
from ackbench.experiments.ledger.schema import OPTIONAL_TABLES, TABLES
from ackbench.experiments.ledger.validation import optional_tables
from ackbench.spark_jobs.io.ledgers import open_ledgers

FORMAT: Final = "ackbench"
_RESULTS: Final = "results/"
_TRIAL_ID: Final = pa.field("trial_id", pa.string())
_SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    **{name: schema.insert(0, _TRIAL_ID) for name, schema in {**TABLES, **OPTIONAL_TABLES}.items()},
    **{f"{_RESULTS}{name}": schema for name, schema in RESULTS.items()},
}
_SQL_TYPES: Final = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
}
_BATCH_ROWS: Final = 1 << 16


class SparkSource(DataSource):
    """The format `ackbench`.

    Options: `path` (of `load`), the sweep's folder or URI; `table`; and `columns`, names with
    commas between them, by default all.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns as Spark's DDL; each may be null."""
        return ", ".join(f"`{field.name}` {_SQL_TYPES[field.type]}" for field in self._columns())

    def reader(self, schema: StructType) -> SweepReader:
        """Return the reader of the columns of a schema."""
        sweep = self.options.get("path")
        if not sweep:
            raise InvalidLedger("give the sweep's folder or URI: load('s3://bucket/sweeps/ID')")
        columns = {field.name: field.type for field in self._columns()}
        chosen = pa.schema([(name, columns[name]) for name in schema.fieldNames()])
        return SweepReader(sweep, self._table(), chosen)

    def _table(self) -> str:
        table = self.options.get("table", "")
        if table not in _SCHEMAS:
            raise InvalidLedger(f"option table={table}: give one of {', '.join(_SCHEMAS)}")
        return table

    def _columns(self) -> list[pa.Field]:
        """Return the chosen columns, with plain types: a dictionary is how a file stores text."""
        schema, text = _SCHEMAS[self._table()], self.options.get("columns")
        names = [name.strip() for name in text.split(",")] if text else schema.names
        if unknown := [name for name in names if name not in schema.names]:
            raise InvalidLedger(
                f"option columns: {self._table()} has no {', '.join(unknown)}, only "
                f"{', '.join(schema.names)}"
            )
        return [pa.field(name, _plain(schema.field(name).type)) for name in names]


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


@dataclass
class SealedFile(InputPartition):
    """A file that one task reads."""

    location: str
    """Of the sweep."""
    path: str
    """In the file system of the location."""
    digest: FileDigest | None
    """`None`: the trial is of a version without digests."""
    trial_id: str | None
    """`None`: the file has the column."""


@dataclass(frozen=True)
class SweepReader(DataSourceReader):
    """Reads a table of a sweep, a task per file."""

    sweep: str
    table: str
    columns: pa.Schema

    def partitions(self) -> list[SealedFile]:
        """Return the files of the table; none, if the sweep has no such rows.

        Raises:
            InvalidLedger: there is no such sweep, a trial is incomplete, or the sweep was not
                measured.
        """
        if self.table.startswith(_RESULTS):
            return [*self._result_files()]
        ledgers, file = open_ledgers(self.sweep), f"{self.table}.parquet"
        return [
            SealedFile(
                ledgers.location,
                f"{trial.folder}/{file}",
                (trial.manifest.files or {}).get(file),
                trial.manifest.trial_id,
            )
            for trial in ledgers.trials
            if self.table in {*TABLES, *optional_tables(trial.manifest)}
        ]

    def _result_files(self) -> Iterator[SealedFile]:
        location = open_location(self.sweep)
        folder = f"{location.path}/results"
        try:
            content = read_bounded(location.files, f"{folder}/{RESULTS_MANIFEST}")
        except FileNotFoundError:
            raise InvalidLedger(f"{self.sweep} has no results: it was not measured") from None
        file = f"{self.table.removeprefix(_RESULTS)}.parquet"
        digest = parse_results_manifest(content).tables.get(file)
        if digest:
            yield SealedFile(location.uri, f"{folder}/{file}", digest, None)

    def read(self, partition: SealedFile) -> Iterator[pa.RecordBatch]:  # type: ignore[override]  # of `partitions` alone
        """Yield the rows of a file, in a task.

        Raises:
            InvalidLedger: the file is not as it was sealed.
        """
        files = open_location(partition.location).files
        if partition.digest and (
            difference := partition.digest.mismatch(digest_file(files, partition.path))
        ):
            raise InvalidLedger(f"{partition.path} was altered after it was sealed: {difference}")
        added = {"trial_id"} if partition.trial_id else set()
        own = [name for name in self.columns.names if name not in added]
        with files.open_input_file(partition.path) as stream, pq.ParquetFile(stream) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=own):
                yield self._batch(batch, partition.trial_id)

    def _batch(self, batch: pa.RecordBatch, trial_id: str | None) -> pa.RecordBatch:
        arrays = [
            pa.repeat(pa.scalar(trial_id), batch.num_rows)
            if field.name == "trial_id" and trial_id is not None
            else batch.column(field.name).cast(field.type)
            for field in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)
