"""Joins the plan, the trials and Spark's tables into what the rest of the project reads. No Spark is needed to read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from experiments.errors import LedgerError
from experiments.ledger.measured import QUANTILES, RESULTS, Fate, Measure, Phase
from experiments.ledger.record import Cell, Status, TrialRecord
from experiments.plan import Plan, RefusedCell, TrialSpec
from experiments.result_models import (
    CellResult,
    Fates,
    FaultResult,
    Gap,
    Latencies,
    LatencySpreads,
    PhaseLatencies,
    Quantiles,
    QuantileSpreads,
    Spread,
    SweepResults,
    TrialResult,
)
from experiments.result_tables import read_table
from experiments.sweep_folder import SweepFolder

__all__ = ["SweepResults", "read_results"]

Row = Mapping[str, Any]
"""A row of a table whose schema `experiments.ledger.measured` has."""
_NS_PER_MS, _US_PER_MS, _NS_PER_S = 1e6, 1e3, 1e9


def read_results(sweep: SweepFolder) -> SweepResults:
    """Return all that is known of a sweep, also of one that is still running or was never measured.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's record or a table of `results/` cannot be read; names it.
    """
    plan, tables = sweep.plan(), _Tables.read(sweep)
    records = _records(sweep)
    trials = [*(_refused(cell) for cell in plan.refused), *(_whole(record, tables) for record in records.values())]
    trials += [_failed(spec, sweep) for spec in plan.trials if spec.trial_id not in records and sweep.failed(spec.trial_id).exists()]
    trials.sort(key=lambda trial: trial.trial_id)
    known = {trial.trial_id for trial in trials}
    return SweepResults(
        sweep_id=plan.sweep_id,
        experiment=plan.experiment,
        question=plan.question,
        seed=plan.seed,
        trials=tuple(trials),
        cells=tuple(_cells(plan, trials, tables)),
        pending=tuple(spec.trial_id for spec in plan.trials if spec.trial_id not in known),
        unmeasured=tuple(sorted(records.keys() - tables.trials.keys())),
    )


@dataclass(frozen=True)
class _Tables:
    """The rows of `results/`, by what they are about."""

    trials: Mapping[str, Row]
    fates: Mapping[str, Sequence[Row]]
    latency: Mapping[str, Sequence[Row]]
    gaps: Mapping[str, Sequence[Row]]
    cells: Mapping[str, Row]

    @classmethod
    def read(cls, sweep: SweepFolder) -> _Tables:
        rows = {name: _rows(sweep, name) for name in RESULTS}
        of_trial = {name: _grouped(rows[name]) for name in ("fates", "latency", "gaps")}
        return cls(trials={row["trial_id"]: row for row in rows["trials"]}, cells={row["cell"]: row for row in rows["cells"]}, **of_trial)


def _rows(sweep: SweepFolder, name: str) -> list[Row]:
    """Return a table's rows; of a sweep that was not measured, none."""
    return list(read_table(sweep, name).to_pylist())


def _grouped(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    of_trial: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_trial[row["trial_id"]].append(row)
    return of_trial


def _records(sweep: SweepFolder) -> dict[str, TrialRecord]:
    try:
        return {record.trial_id: record for record in sweep.whole_trials()}
    except (ValidationError, OSError) as error:
        raise LedgerError(f"a trial.json below {sweep.root / 'trials'} cannot be read: {' '.join(str(error).split())}") from error


def _refused(refused: RefusedCell) -> TrialResult:
    fault = FaultResult(kind=_fault_kind(refused.cell))
    return TrialResult(
        trial_id=refused.trial_id, cell=refused.cell, label=refused.label, repeat=None, status=Status.REFUSED, reason=refused.reason, fault=fault
    )


def _fault_kind(cell: Cell) -> str | None:
    kind = cell.get("fault")
    return None if kind is None else str(kind)


def _failed(spec: TrialSpec, sweep: SweepFolder) -> TrialResult:
    told = sweep.failed(spec.trial_id) / "reason.txt"
    reason = told.read_text().strip() if told.exists() else "it left no reason behind"
    fault = FaultResult(kind=spec.fault.kind)
    return TrialResult(trial_id=spec.trial_id, cell=spec.cell, label=spec.label, repeat=spec.repeat, status=Status.FAILED, reason=reason, fault=fault)


def _whole(record: TrialRecord, tables: _Tables) -> TrialResult:
    trial = TrialResult(
        trial_id=record.trial_id,
        cell=record.cell,
        label=record.label,
        repeat=record.repeat,
        status=record.status,
        reason=record.reason,
        fault=FaultResult(**record.fault.model_dump()),
    )
    row = tables.trials.get(record.trial_id)
    return trial if row is None else trial.model_copy(update=_values(record, row, tables))


def _values(record: TrialRecord, row: Row, tables: _Tables) -> dict[str, Any]:
    """Return the measured fields of `TrialResult`."""
    latency = tables.latency[record.trial_id]
    return {
        **_counts(row),
        "latency_ms": _latencies(latency, Phase.ALL),
        "latency_by_phase_ms": PhaseLatencies(**{phase.value: _latencies(latency, phase) for phase in Phase if phase is not Phase.ALL}),
        "unavailable_ms": _scaled(row["unavailable_ns"], _NS_PER_MS),
        "throughput_rps": row["acked_per_s"],
        "offered_rps": row["attempted_per_s"],
        "fates": _fates(tables.fates[record.trial_id]),
        "gaps": tuple(_gap(gap, record.phases.load_begin_ns) for gap in tables.gaps[record.trial_id]),
    }


def _counts(row: Row) -> dict[str, Any]:
    """Return the counts that a trial and a cell share."""
    return {
        **{name: row[f"{name}_records"] for name in ("attempted", "acked", "rejected", "unknown", "duplicated")},
        "lost": (row["lost_low_records"], row["lost_high_records"]),
        "duplicates": row["duplicate_copies"],
    }


def _latencies(rows: Sequence[Row], phase: Phase) -> Latencies:
    return Latencies(**{row["measure"]: _quantiles(row) for row in rows if row["phase"] == phase})


def _quantiles(row: Row) -> Quantiles:
    values = {name: row[f"{name}_us"] / _US_PER_MS for name in QUANTILES}
    return Quantiles(records=row["records"], negative_records=row["negative_records"], **values)


def _fates(rows: Sequence[Row]) -> Fates:
    return Fates(**{fate.lower(): sum(row["records"] for row in rows if row["fate"] == fate) for fate in Fate})


def _gap(row: Row, load_begin_ns: int) -> Gap:
    began_s = (row["began_ns"] - load_begin_ns) / _NS_PER_S
    return Gap(partition=row["partition"], acked=row["acked_records"], gap_ms=row["gap_ns"] / _NS_PER_MS, began_s=began_s)


def _cells(plan: Plan, trials: Sequence[TrialResult], tables: _Tables) -> Iterator[CellResult]:
    """Yield the plan's cells in the order of their first trials' ids."""
    planned: list[TrialSpec | RefusedCell] = [*plan.trials, *plan.refused]
    of_cell: dict[str, list[TrialSpec | RefusedCell]] = {}
    for spec in sorted(planned, key=lambda spec: spec.trial_id):
        of_cell.setdefault(_key(spec.cell), []).append(spec)
    for key, specs in of_cell.items():
        yield _cell(specs, [trial for trial in trials if _key(trial.cell) == key], tables.cells.get(key))


def _key(cell: Cell) -> str:
    """The text that `spark_jobs` knows a cell by."""
    return json.dumps(cell, sort_keys=True)


def _cell(specs: Sequence[TrialSpec | RefusedCell], trials: Sequence[TrialResult], row: Row | None) -> CellResult:
    first = specs[0]
    cell = CellResult(
        cell=first.cell,
        label=first.label,
        refused=first.reason if isinstance(first, RefusedCell) else None,
        planned_trials=0 if isinstance(first, RefusedCell) else len(specs),
        **{f"{status.value}_trials": sum(trial.status is status for trial in trials) for status in (Status.SEALED, Status.VOID, Status.FAILED)},
    )
    return cell.model_copy(update=_cell_values(row)) if row and row["sealed_trials"] else cell


def _cell_values(row: Row) -> dict[str, Any]:
    """Return the measured fields of `CellResult`."""
    latency = {measure.value: {name: _spread(row, f"{measure.value}_{name}_us", _US_PER_MS) for name in QUANTILES} for measure in Measure}
    return {
        **_counts(row),
        "trials_with_loss": row["trials_with_loss"],
        "trials_with_duplicates": row["trials_with_duplicates"],
        "latency_ms": LatencySpreads(**{measure: QuantileSpreads(**spreads) for measure, spreads in latency.items()}),
        "unavailable_ms": _spread(row, "unavailable_ns", _NS_PER_MS),
        "throughput_rps": _spread(row, "acked_per_s", 1.0),
    }


def _spread(row: Row, name: str, unit: float) -> Spread | None:
    median, largest = row[f"{name}_median"], row[f"{name}_max"]
    return None if median is None or largest is None else Spread(median=median / unit, max=largest / unit)


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
