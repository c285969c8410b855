"""The measuring job, from the ledgers of a sweep to its result tables.

Spark distributes *units* (`spark_jobs.io.units`): a trial, or a part of a large one. A task reads a
unit's columns as arrays, and each measure of `MEASURES` counts what it is about in one pass. What
comes back is small: counts, distributions, and the first anomalies of each kind and cause. A task
adds up the units of a trial, measure by measure, and the rows of all measures are the trial's
tables.

    ledger -> unit (io) -> MeasuredUnit: outcomes that count, what several measures need
           -> measures, unit by unit -> + -> rows -> check_sums -> tables of the trial, of the sweep
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.validation import verify_files
from ackbench.spark_jobs.causes.anomalies import AnomalyMeasure
from ackbench.spark_jobs.causes.outages import OutageMeasure
from ackbench.spark_jobs.io.units import Unit, UnitRows, read_unit
from ackbench.spark_jobs.measures.availability import AvailabilityMeasure
from ackbench.spark_jobs.measures.cells import cell_table
from ackbench.spark_jobs.measures.compaction import CompactionMeasure
from ackbench.spark_jobs.measures.consumed import ConsumedReads
from ackbench.spark_jobs.measures.cpu import CpuMeasure
from ackbench.spark_jobs.measures.fates import FateMeasure
from ackbench.spark_jobs.measures.latency import LatencyMeasure
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Row
from ackbench.spark_jobs.measures.order import OrderMeasure
from ackbench.spark_jobs.measures.read_committed import unit_of
from ackbench.spark_jobs.measures.reads import ReadCounts
from ackbench.spark_jobs.measures.stall_rows import StallMeasure
from ackbench.spark_jobs.measures.throughput import Throughput
from ackbench.spark_jobs.measures.transactions import TransactionMeasure
from ackbench.spark_jobs.measures.trials import check_sums, identity_columns
from ackbench.spark_jobs.workloads.assignments import GroupMeasure
from ackbench.spark_jobs.workloads.copies import CopiedCounts
from ackbench.spark_jobs.workloads.requested import FieldRows, KeyedRows
from ackbench.spark_jobs.workloads.serving import ServingMeasure

MEASURES: Final[tuple[type[Measure], ...]] = (
    FateMeasure,
    OrderMeasure,
    ReadCounts,
    ConsumedReads,
    CompactionMeasure,
    LatencyMeasure,
    AvailabilityMeasure,
    Throughput,
    TransactionMeasure,
    GroupMeasure,
    CopiedCounts,  # after the groups, whose columns mean the copiers' if there are any
    KeyedRows,
    FieldRows,
    AnomalyMeasure,
    OutageMeasure,
    StallMeasure,
    CpuMeasure,
    ServingMeasure,
)
"""The measures of every trial, as far as it has anything of the kind."""
_CONTEXT: Final = ("events", "epochs", "transactions", "served")
TrialTables = Mapping[str, pa.Table]
"""A trial's result tables by name, without trial_id."""


# A unit and a trial in an executor, where an invalid ledger is a result like any other.


def verify_and_measure(location: str, unit: Unit) -> tuple[str, MeasuredTrial | InvalidLedger]:
    """Verify, read and measure a unit."""
    try:
        files = open_location(location).files
        verify_files(files, unit.ledger.folder, unit.ledger.manifest, unit.files)
        return unit.ledger.manifest.trial_id, measure_unit(read_unit(files, unit))
    except InvalidLedger as error:
        return unit.ledger.manifest.trial_id, error


def tables_or_error(measured: MeasuredTrial | InvalidLedger) -> TrialTables | InvalidLedger:
    """Return a trial's tables."""
    if isinstance(measured, InvalidLedger):
        return measured
    try:
        return trial_tables(measured)
    except InvalidLedger as error:
        return error


def measure_unit(rows: UnitRows) -> MeasuredTrial:
    """Measure a unit."""
    unit = unit_of(rows)
    return MeasuredTrial(
        ledger=rows.ledger,
        context={name: rows.tables[name] for name in _CONTEXT if name in rows.tables},
        measures={kind: found for kind in MEASURES if (found := kind.of(unit)) is not None},
    )


def merge_units(
    one: MeasuredTrial | InvalidLedger, other: MeasuredTrial | InvalidLedger
) -> MeasuredTrial | InvalidLedger:
    """Return what was measured of two units of a trial together; of two errors, one."""
    if isinstance(one, InvalidLedger):
        return one
    return other if isinstance(other, InvalidLedger) else one + other


def trial_tables(trial: MeasuredTrial) -> TrialTables:
    """Return a trial's result tables.

    Raises:
        InvalidLedger: two counts of the same quantity differ.
    """
    row: dict[str, Any] = {**identity_columns(trial.manifest)}
    tables: dict[str, pa.Table] = {}
    for measure in trial.measures:
        for name, rows in trial.rows_of(measure).items():
            if name == "trials":
                (columns,) = rows
                row |= columns
            else:
                tables[name] = rows if isinstance(rows, pa.Table) else _table(name, rows)
    check_sums(trial, row, trial[AnomalyMeasure].found.count)
    return {"trials": _table("trials", [row]), **tables}


# The tables of a sweep.


def sweep_tables(by_trial: Mapping[str, TrialTables]) -> dict[str, pa.Table]:
    """Return the tables of `experiments.ledger.result_tables.RESULTS`.

    Args:
        by_trial: the tables of each trial, by trial id.
    """
    parts = list(sweep_parts(by_trial.items()))
    return {
        name: pa.concat_tables(
            [schema.empty_table(), *(part[name] for part in parts if name in part)]
        )
        for name, schema in RESULTS.items()
    }


def sweep_parts(trials: Iterable[tuple[str, TrialTables]]) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of each trial by table, and last those of the table of cells."""
    summaries = {name: [RESULTS[name].empty_table()] for name in ("trials", "latency")}
    for trial_id, tables in trials:
        part = {
            name: _with_trial_id(trial_id, table, RESULTS[name]) for name, table in tables.items()
        }
        for name, found in summaries.items():
            found.append(part[name])
        yield part
    yield {"cells": cell_table(*(pa.concat_tables(found) for found in summaries.values()))}


def _table(name: str, rows: list[Row]) -> pa.Table:
    """Return rows as a table with the result's columns, except trial_id."""
    schema = RESULTS[name]
    return pa.Table.from_pylist(
        rows, pa.schema([field for field in schema if field.name != "trial_id"])
    )


def _with_trial_id(trial_id: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    ids = pa.array([trial_id]).take(pa.array([0] * len(table), pa.int64()))
    return table.append_column("trial_id", ids).select(schema.names).cast(schema)
