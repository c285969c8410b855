"""The warehouse: results of all sweeps as Parquet files, for questions over many of them.

A finished sweep has one file per table, `<table>/experiment=<name>/month=<year-month>/<id>.parquet`
(Hive's partitions, as Spark, DuckDB and pandas read them). A file is written again under the same
name if its sweep is measured again, and stays when the sweep is pruned.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ackbench.experiments.ledger.location import Location, open_location
from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.messages.errors import LedgerError, UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_list, one_line
from ackbench.experiments.results.formats.columns import (
    CELL_COLUMNS,
    EXPECTATION_COLUMNS,
    TRIAL_COLUMNS,
    VERDICT_COLUMNS,
    Column,
    Dtype,
    axis_text,
    judged_clauses,
)
from ackbench.experiments.results.history.summary import planned_s
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.read import read_results
from ackbench.experiments.results.rows import read_table
from ackbench.experiments.results.trials import settings_of_trial
from ackbench.experiments.sweep.cell_names import CORE_AXES
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.plan import Plan
from ackbench.infra.machine.home import Home

_TYPES: Final[Mapping[Dtype, pa.DataType]] = MappingProxyType(
    {"string": pa.string(), "Int64": pa.int64(), "Float64": pa.float64(), "boolean": pa.bool_()}
)
_PARTITIONS: Final = ds.partitioning(
    pa.schema([("experiment", pa.string()), ("month", pa.string())]), flavor="hive"
)
_OF_SWEEP: Final = (
    pa.field("sweep_id", pa.string()),
    pa.field("planned_at", pa.timestamp("s", tz="UTC")),
    pa.field("kafka_version", pa.string()),
    pa.field("client", pa.string()),
)
"""The first columns of each table. Of several versions or clients in a sweep: all, with commas."""
WAREHOUSE: Final = "warehouse"
"""The folder's name, in a home and in a store."""
_ORDER: Final = ("planned_at", "sweep_id")
_AXES: Final = MappingProxyType({axis: axis.replace(".", "_") for axis in CORE_AXES})
"""The columns of the axes that every cell has; SQL would need quotes for a dot."""
_SETTINGS: Final = pa.schema(
    [(name, pa.string()) for name in ("trial_id", "scope", "name", "value")]
)


@dataclass(frozen=True)
class _Measured:
    """A sweep, and what its trials showed."""

    sweep: SweepFolder
    plan: Plan
    results: SweepResults


@dataclass(frozen=True)
class _Table:
    """A table of the warehouse."""

    schema: pa.Schema
    """Without the columns of `_OF_SWEEP`."""
    rows: Callable[[_Measured], pa.Table]


def _of_columns(
    columns: Sequence[Column[Any]],
    rows_of: Callable[[SweepResults], Sequence[Any]],
    cell_of: Callable[[Any], Cell],
) -> _Table:
    """Return a table of documented columns, after those of the axes that every cell has."""
    types = [(name, pa.string()) for name in _AXES.values()]
    schema = pa.schema([*types, *((column.name, _TYPES[column.dtype]) for column in columns)])

    def rows(measured: _Measured) -> pa.Table:
        content = [
            {
                **{name: axis_text(cell_of(row).get(axis)) for axis, name in _AXES.items()},
                **{column.name: column.value(row) for column in columns},
            }
            for row in rows_of(measured.results)
        ]
        return pa.Table.from_pylist(content, schema)

    return _Table(schema, rows)


def _of_job(name: str) -> _Table:
    """Return a table of the measuring job as it is."""
    return _Table(RESULTS[name], lambda one: read_table(one.sweep, name, one.results.manifest))


def _settings(measured: _Measured) -> pa.Table:
    manifests = measured.results.manifests
    rows = [
        {"trial_id": spec.trial_id, "scope": scope, "name": name, "value": value}
        for spec in measured.plan.trials
        for (scope, name), value in settings_of_trial(spec, manifests.get(spec.trial_id)).items()
    ]
    return pa.Table.from_pylist(rows, _SETTINGS)


_TABLES: Final[Mapping[str, _Table]] = MappingProxyType(
    {
        "trials": _of_columns(TRIAL_COLUMNS, attrgetter("trials"), attrgetter("cell")),
        "cells": _of_columns(CELL_COLUMNS, attrgetter("cells"), attrgetter("cell")),
        "verdicts": _of_columns(
            VERDICT_COLUMNS, lambda results: judged_clauses(results.cells), attrgetter("cell.cell")
        ),
        "expectations": _of_columns(
            EXPECTATION_COLUMNS, attrgetter("expectations"), attrgetter("cell")
        ),
        "settings": _Table(_SETTINGS, _settings),
        "latency": _of_job("latency"),
        "outages": _of_job("outages"),
    }
)
TABLES: Final = tuple(_TABLES)
"""Names of the tables."""


def warehouse_of_home(home: Home) -> Location:
    """Return the warehouse of a home; the folder need not exist."""
    return open_location((home.root / WAREHOUSE).as_uri())


def warehouse_beside(published: Location) -> Location:
    """Return the warehouse of the store that a sweep is published to."""
    return published.parent.at(WAREHOUSE)


def files_of(sweep: SweepFolder, results: SweepResults) -> Mapping[str, bytes]:
    """Return a sweep's files of the warehouse, by their paths in it.

    Args:
        sweep: the sweep.
        results: what its trials showed.

    Raises:
        LedgerError: a table of its results cannot be read.
    """
    measured = _Measured(sweep, sweep.plan(), results)
    planned_at = datetime.fromtimestamp(planned_s(sweep), UTC)
    folder = f"experiment={measured.plan.experiment}/month={planned_at:%Y-%m}"
    values = {
        "sweep_id": sweep.sweep_id,
        "planned_at": planned_at,
        "kafka_version": _joined(trial.cluster.kafka_version for trial in measured.plan.trials),
        "client": _joined(trial.client for trial in measured.plan.trials),
    }
    return {
        f"{name}/{folder}/{sweep.sweep_id}.parquet": _parquet(values, table.rows(measured))
        for name, table in _TABLES.items()
    }


def _parquet(values: Mapping[str, Any], rows: pa.Table) -> bytes:
    """Return a file of the rows, after the columns that tell their sweep."""
    constant = [pa.repeat(pa.scalar(values[one.name], one.type), len(rows)) for one in _OF_SWEEP]
    schema = pa.schema([*_OF_SWEEP, *rows.schema])
    content = io.BytesIO()
    pq.write_table(pa.table([*constant, *rows.columns], schema=schema), content, compression="zstd")
    return content.getvalue()


def write_files(files: Mapping[str, bytes], warehouse: Location) -> None:
    """Write a sweep's files. Idempotent.

    Raises:
        LocationError: a file cannot be written.
    """
    for path, content in files.items():
        warehouse.write(path, content)


def _joined(values: Iterable[str]) -> str:
    return ",".join(sorted(set(values)))


def add_missing(home: Home) -> None:
    """Write the finished sweeps of a home that its warehouse does not have.

    A sweep that cannot be read is left out: `ackbench sweeps` says why.
    """
    warehouse = warehouse_of_home(home)
    kept = {Path(name).stem for name in warehouse.at(TABLES[-1]).list_files()}
    for sweep in list_sweeps(home):
        if sweep.sweep_id in kept or not sweep.results.is_dir():
            continue
        with suppress(LedgerError):
            write_files(files_of(sweep, read_results(sweep)), warehouse)


def read_history(
    warehouse: Location,
    name: str,
    experiment: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return a table of all sweeps, or of those of one experiment, the oldest sweep first.

    Columns that a sweep's version did not have are null; those of a newer version are left out.

    Args:
        warehouse: of a home, or of a store.
        name: the table.
        experiment: the name of the experiment; `None`: all.
        columns: those that are read; `None`: all.

    Raises:
        UnknownName: there is no such table, or no such column in it.
        LedgerError: a file cannot be read; the message names it.
        LocationError: the store cannot be read.
    """
    if name not in _TABLES:
        raise UnknownName(
            f"unknown table {name}{did_you_mean(name, TABLES)}; allowed: "
            f"{format_list(TABLES, 'or')}"
        )
    folder = warehouse.at(name)
    schema = pa.schema([*_OF_SWEEP, *_TABLES[name].schema, *_PARTITIONS.schema])
    for column in columns or ():
        if column not in schema.names:
            raise UnknownName(
                f"unknown column {column} of {name}{did_you_mean(column, schema.names)}"
            )
    paths = [f"{folder.path}/{path}" for path in folder.list_files() if path.endswith(".parquet")]
    chosen = None if experiment is None else ds.field("experiment") == experiment
    try:
        files = ds.dataset(
            paths,
            schema=schema,
            format="parquet",
            filesystem=folder.files,
            partitioning=_PARTITIONS,
            partition_base_dir=folder.path,
        )
        read = dict.fromkeys((*_ORDER, *columns)) if columns is not None else schema.names
        rows = files.to_table(columns=list(read), filter=chosen)
        return rows.sort_by([(column, "ascending") for column in _ORDER]).select(
            list(columns) if columns is not None else schema.names
        )
    except (pa.ArrowException, OSError) as error:
        raise LedgerError(
            f"{folder.uri} cannot be read ({one_line(str(error))}): delete the file, and "
            "ackbench writes it again from its sweep"
        ) from error
