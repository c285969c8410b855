"""A cell over its repeats: sums of what was counted, medians and maxima of what was timed. Void trials are counted and not judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import pyarrow as pa

from experiments.ledger.record import Status
from experiments.ledger.result_tables import (
    CELLS,
    QUANTILES,
    SUMMARIZED_COLUMNS,
    SUMMED_SUFFIXES,
    Phase,
)

Row = Mapping[str, Any]
"""A row of a table whose schema `experiments.ledger.result_tables` has."""


def cell_table(trials: pa.Table, latency: pa.Table) -> pa.Table:
    """Return the table of cells.

    Args:
        trials: of `spark_jobs.measures.trials`.
        latency: of `spark_jobs.measures.latency`.
    """
    timed = {row["trial_id"]: row for row in trials.to_pylist()}
    for row in latency.to_pylist():
        if row["phase"] == Phase.ALL:
            timed[row["trial_id"]] |= {
                f"{row['measure']}_{name}_us": row[f"{name}_us"] for name in QUANTILES
            }
    by_cell: dict[str, list[Row]] = {}
    for trial in timed.values():
        by_cell.setdefault(trial["cell"], []).append(trial)
    return pa.Table.from_pylist(
        [_cell(cell, of) for cell, of in sorted(by_cell.items())], schema=CELLS
    )


def _cell(cell: str, trials: Sequence[Row]) -> Row:
    judged = [trial for trial in trials if trial["status"] == Status.SEALED]
    return {
        "cell": cell,
        "sealed_trials": len(judged),
        "void_trials": len(trials) - len(judged),
        "trials_with_loss": sum(trial["lost_low_records"] > 0 for trial in judged),
        "trials_with_duplicates": sum(trial["duplicate_copies"] > 0 for trial in judged),
        **{
            name: _sum([trial[name] for trial in judged])
            for name in CELLS.names
            if name.endswith(SUMMED_SUFFIXES)
        },
        **{
            f"{name}_{of}": value
            for name in SUMMARIZED_COLUMNS
            for of, value in _spread([trial.get(name) for trial in judged]).items()
        },
    }


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum; where one count is not known, that is not either."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _spread(values: Sequence[float | None]) -> dict[str, float | None]:
    """Return median and maximum of what there is; of nothing, neither."""
    there = [value for value in values if value is not None]
    return (
        {"median": float(median(there)), "max": float(max(there))}
        if there
        else {"median": None, "max": None}
    )
