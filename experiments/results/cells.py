"""Results per cell: sums and spreads from the Spark job, shares and estimates over its trials."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import Any, Final

from ackbench.experiments.ledger.quantities import CELL_FIELDS, QuantitySource, values_of
from ackbench.experiments.ledger.result_terms import QUANTILES, LatencyKind
from ackbench.experiments.ledger.trial_manifest import SET_ASIDE, Cell, Status
from ackbench.experiments.results.models import (
    CellResult,
    LatencySpreads,
    MedianAndMax,
    QuantileSpreads,
    SweepResults,
    TrialResult,
)
from ackbench.experiments.results.rows import ResultRows, Row
from ackbench.experiments.results.trials import US_PER_MS
from ackbench.experiments.sweep.cell_names import cell_sort_key
from ackbench.experiments.sweep.plan import Plan, RefusedCell, TrialSpec
from ackbench.experiments.verdicts.guarantees.violations import is_positive
from ackbench.experiments.verdicts.statistics import Estimate, Share, estimate, share_of

_COUNTED_STATUSES: Final = (Status.SEALED, *SET_ASIDE)


def cell_results(
    plan: Plan, trials: Sequence[TrialResult], rows: ResultRows
) -> Iterator[CellResult]:
    """Yield the results of the plan's cells, by fault and axes, refused cells last."""
    planned: list[TrialSpec | RefusedCell] = [*plan.trials, *plan.refused]
    specs_by_cell: dict[str, list[TrialSpec | RefusedCell]] = {}
    for spec in sorted(
        planned,
        key=lambda spec: (isinstance(spec, RefusedCell), cell_sort_key(spec.cell), spec.trial_id),
    ):
        specs_by_cell.setdefault(cell_key(spec.cell), []).append(spec)
    own: defaultdict[str, list[TrialResult]] = defaultdict(list)
    for trial in trials:
        own[cell_key(trial.cell)].append(trial)
    for key, specs in specs_by_cell.items():
        yield _cell(specs, own[key], rows.cells.get(key))


def cell_key(cell: Cell) -> str:
    """Return the JSON text that identifies a cell, also in the tables of the Spark job."""
    return json.dumps(cell, sort_keys=True)


def judged_trials(results: SweepResults, cell: CellResult) -> list[TrialResult]:
    """Return the sealed and measured trials of a cell."""
    return list(_judged_by_cell(_Same(results.trials)).get(cell_key(cell.cell), ()))


def median_by_gap(trials: Iterable[TrialResult]) -> TrialResult | None:
    """Return the trial with the median longest gap; of an even number the shorter of both.

    `None`: no trial has one.
    """
    by_gap = sorted(
        (trial.unavailable_ms, trial.trial_id, trial)
        for trial in trials
        if trial.unavailable_ms is not None
    )
    return by_gap[(len(by_gap) - 1) // 2][-1] if by_gap else None


@dataclass(frozen=True, eq=False)
class _Same:
    """Trials that are equal to themselves only: to compare a thousand takes longer than to sort."""

    trials: Sequence[TrialResult]

    def __hash__(self) -> int:
        return id(self.trials)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.trials is other.trials


@lru_cache(maxsize=2)  # a comparison has two sweeps
def _judged_by_cell(same: _Same) -> Mapping[str, Sequence[TrialResult]]:
    """Return the sealed and measured trials by cell, in one pass over all trials."""
    by_cell: defaultdict[str, list[TrialResult]] = defaultdict(list)
    for trial in same.trials:
        if trial.judged:
            by_cell[cell_key(trial.cell)].append(trial)
    return by_cell


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
            for status in _COUNTED_STATUSES
        },
    )
    if not row or not row["sealed_trials"]:
        return cell
    judged = [trial for trial in trials if trial.judged]
    return cell.model_copy(update={**_sums_and_spreads(row), **_shares_and_estimates(judged)})


def _sums_and_spreads(row: Row) -> dict[str, Any]:
    """Return the fields of a cell that the Spark job computes."""
    latency = {
        measure.value: {
            name: _spread(row, f"{measure.value}_{name}_us", US_PER_MS) for name in QUANTILES
        }
        for measure in LatencyKind
    }
    sums = [field for field in CELL_FIELDS if not field.is_spread]
    return {
        **values_of(sums, QuantitySource.TRIALS, row),
        **{
            field.name: _spread(row, field.places[0].column, field.places[0].per_unit)
            for field in CELL_FIELDS
            if field.is_spread
        },
        "trials_with_loss": row["trials_with_loss"],
        "trials_with_duplicates": row["trials_with_duplicates"],
        "latency_ms": LatencySpreads(
            **{measure: QuantileSpreads(**spreads) for measure, spreads in latency.items()}
        ),
    }


def _shares_and_estimates(trials: Sequence[TrialResult]) -> dict[str, Any]:
    """Return the fields of a cell whose unit is the trial, not the record."""
    copies = [trial.copies for trial in trials if trial.copies]
    return {
        "copies": reduce(add, copies) if copies else None,
        "overloaded_trials": sum(bool(trial.overloaded) for trial in trials),
        "late_trials": sum(bool(trial.generator_late) for trial in trials),
        "stalled_trials": sum(bool(trial.stalls) for trial in trials),
        "loss": _share(trials, lambda trial: trial.lost, lambda trial: is_positive(trial.lost)),
        "duplication": _share(trials, lambda trial: trial.duplicates),
        "reordering": _share(trials, lambda trial: trial.reordered),
        "outage_ms": _estimate(trials, lambda trial: trial.unavailable_ms),
        "ack_p99_ms": _estimate(
            trials, lambda trial: trial.latency_ms.ack.p99 if trial.latency_ms.ack else None
        ),
    }


def _share(
    trials: Sequence[TrialResult],
    measured: Callable[[TrialResult], object],
    observed: Callable[[TrialResult], bool | None] | None = None,
) -> Share | None:
    """Return the share of the trials in which something was observed.

    Args:
        trials: judged trials of a cell.
        measured: returns what was measured of a trial; trials without it (`None`) are left out.
        observed: returns whether it was observed, `None` if the trial cannot tell. By default,
            whether the measured count is above 0.
    """
    known = [trial for trial in trials if measured(trial) is not None]
    return (
        share_of(map(observed or (lambda trial: bool(measured(trial))), known)) if known else None
    )


def _estimate(
    trials: Sequence[TrialResult], value: Callable[[TrialResult], float | None]
) -> Estimate | None:
    return estimate([known for known in map(value, trials) if known is not None])


def _spread(row: Row, name: str, unit: float) -> MedianAndMax | None:
    median, largest = row[f"{name}_median"], row[f"{name}_max"]
    if median is None or largest is None:
        return None
    return MedianAndMax(median=median / unit, max=largest / unit)
