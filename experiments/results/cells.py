"""Each cell over its repeats: sums and spreads as Spark made them, shares and estimates over its sealed trials."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import Any, Final

from experiments.ledger.record import Cell, Scalar, Status
from experiments.ledger.result_tables import QUANTILES, Measure
from experiments.results.models import (
    CellResult,
    CopyCounts,
    LatencySpreads,
    MedianAndMax,
    QuantileSpreads,
    SweepResults,
    TrialResult,
)
from experiments.results.rows import ResultRows, Row
from experiments.results.trials import NS_PER_MS, counts
from experiments.sweep.plan import Plan, RefusedCell, TrialSpec
from experiments.verdicts.statistics import Estimate, Share, estimate, share

# ---------- Cells in the order in which people look for them: by fault, then by their axes, and not as chance drew their trials. Pure.


FIRST_AXES: Final = ("acks", "enable.idempotence", "replication.factor", "partitions")
"""The order in which they are looked at; the other axes follow as the experiment has them."""


def place_of(cell: Cell) -> list[tuple[int, float, str]]:
    """Return what cells are sorted by: no fault comes first, numbers before words."""
    fault = cell.get("fault")
    others = [axis for axis in cell if axis not in {*FIRST_AXES, "fault"}]
    return [
        (int(fault != "none"), 0.0, str(fault)),
        *(_rank(cell.get(axis)) for axis in (*FIRST_AXES, *others)),
    ]


def _rank(value: Scalar) -> tuple[int, float, str]:
    """Sort numbers before words, and both by themselves."""
    return (0, float(value), "") if isinstance(value, (bool, int, float)) else (1, 0.0, str(value))


_US_PER_MS: Final = 1e3
_COUNTED: Final = (Status.SEALED, Status.VOID, Status.FAILED)


def cell_results(
    plan: Plan, trials: Sequence[TrialResult], rows: ResultRows
) -> Iterator[CellResult]:
    """Yield the plan's cells by fault and axes, the refused ones last."""
    planned: list[TrialSpec | RefusedCell] = [*plan.trials, *plan.refused]
    of_cell: dict[str, list[TrialSpec | RefusedCell]] = {}
    for spec in sorted(
        planned,
        key=lambda spec: (isinstance(spec, RefusedCell), place_of(spec.cell), spec.trial_id),
    ):
        of_cell.setdefault(cell_text(spec.cell), []).append(spec)
    for key, specs in of_cell.items():
        yield _cell(
            specs, [trial for trial in trials if cell_text(trial.cell) == key], rows.cells.get(key)
        )


def cell_text(cell: Cell) -> str:
    """Return the text that equal cells share, and that `spark_jobs` knows a cell by."""
    return json.dumps(cell, sort_keys=True)


def judged_trials(results: SweepResults, cell: CellResult) -> list[TrialResult]:
    """Return a cell's sealed and measured trials."""
    key = cell_text(cell.cell)
    return [trial for trial in results.trials if trial.judged and cell_text(trial.cell) == key]


def _cell(
    specs: Sequence[TrialSpec | RefusedCell], trials: Sequence[TrialResult], row: Row | None
) -> CellResult:
    first = specs[0]
    if isinstance(first, RefusedCell):
        return CellResult(
            cell=first.cell, label=first.label, refused=first.reason, planned_trials=0
        )
    cell = CellResult(
        cell=first.cell,
        label=first.label,
        role=first.role,
        added=first.added,
        planned_trials=len(specs),
        **{
            f"{status.value}_trials": sum(trial.status is status for trial in trials)
            for status in _COUNTED
        },
    )
    return (
        cell.model_copy(update={**_sums(row), **_over([trial for trial in trials if trial.judged])})
        if row and row["sealed_trials"]
        else cell
    )


def _sums(row: Row) -> dict[str, Any]:
    """Return what Spark has of a cell."""
    latency = {
        measure.value: {
            name: _spread(row, f"{measure.value}_{name}_us", _US_PER_MS) for name in QUANTILES
        }
        for measure in Measure
    }
    return {
        **counts(row),
        "trials_with_loss": row["trials_with_loss"],
        "trials_with_duplicates": row["trials_with_duplicates"],
        "latency_ms": LatencySpreads(
            **{measure: QuantileSpreads(**spreads) for measure, spreads in latency.items()}
        ),
        "unavailable_ms": _spread(row, "unavailable_ns", NS_PER_MS),
        "consumer_unavailable_ms": _spread(row, "consumer_unavailable_ns", NS_PER_MS),
        "throughput_records_per_s": _spread(row, "acked_per_s", 1.0),
    }


def _over(trials: Sequence[TrialResult]) -> dict[str, Any]:
    """Return what is said of a cell by trial, and not by record."""
    return {
        "copies": _together([trial.copies for trial in trials if trial.copies]),
        "late_trials": sum(bool(trial.generator_late) for trial in trials),
        "loss": _share(trials, lambda trial: trial.lost[0] if trial.lost else None),
        "duplication": _share(trials, lambda trial: trial.duplicates),
        "reordering": _share(trials, lambda trial: trial.reordered),
        "outage_ms": _estimate(trials, lambda trial: trial.unavailable_ms),
        "ack_p99_ms": _estimate(
            trials, lambda trial: trial.latency_ms.ack.p99 if trial.latency_ms.ack else None
        ),
    }


def _together(copies: Sequence[CopyCounts]) -> CopyCounts | None:
    return reduce(add, copies) if copies else None


def _share(
    trials: Sequence[TrialResult], records: Callable[[TrialResult], int | None]
) -> Share | None:
    """Return in how many of the trials there were any, of those of which it is known; `None` where that is none."""
    known = [found for found in map(records, trials) if found is not None]
    return share(sum(found > 0 for found in known), len(known)) if known else None


def _estimate(
    trials: Sequence[TrialResult], value: Callable[[TrialResult], float | None]
) -> Estimate | None:
    return estimate([found for found in map(value, trials) if found is not None])


def _spread(row: Row, name: str, unit: float) -> MedianAndMax | None:
    median, largest = row[f"{name}_median"], row[f"{name}_max"]
    return (
        None
        if median is None or largest is None
        else MedianAndMax(median=median / unit, max=largest / unit)
    )
