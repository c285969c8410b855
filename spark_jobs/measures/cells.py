"""The table of cells: over a cell's trials, the sums of counts and the medians and maxima of times.

Void trials are counted, but their values are not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import pyarrow as pa

from ackbench.experiments.ledger.result_tables import CELLS, SUMMARIZED_COLUMNS, SUMMED_COLUMNS
from ackbench.experiments.ledger.result_terms import QUANTILES, Phase
from ackbench.experiments.ledger.trial_manifest import Status

Row = Mapping[str, Any]
"""A row of a table whose schema `experiments.ledger.result_tables` has."""


def cell_table(trials: pa.Table, latency: pa.Table) -> pa.Table:
    """Return the table `CELLS`.

    Args:
        trials: the table `TRIALS`.
        latency: the table `LATENCY`.
    """
    rows = {row["trial_id"]: row for row in trials.to_pylist()}
    for row in latency.to_pylist():
        if row["phase"] == Phase.ALL:
            rows[row["trial_id"]] |= {
                f"{row['measure']}_{name}_us": row[f"{name}_us"] for name in QUANTILES
            }
    by_cell: dict[str, list[Row]] = {}
    for trial in rows.values():
        by_cell.setdefault(trial["cell"], []).append(trial)
    return pa.Table.from_pylist(
        [_cell(cell, trials_of) for cell, trials_of in sorted(by_cell.items())], schema=CELLS
    )


def _cell(cell: str, trials: Sequence[Row]) -> Row:
    sealed = [trial for trial in trials if trial["status"] == Status.SEALED]
    return {
        "cell": cell,
        "sealed_trials": len(sealed),
        "void_trials": len(trials) - len(sealed),
        "trials_with_loss": sum(trial["lost_low_records"] > 0 for trial in sealed),
        "trials_with_duplicates": sum(trial["duplicates"] > 0 for trial in sealed),
        **{name: _sum([trial[name] for trial in sealed]) for name in SUMMED_COLUMNS},
        **{
            f"{name}_{statistic}": value
            for name in SUMMARIZED_COLUMNS
            for statistic, value in _spread([trial.get(name) for trial in sealed]).items()
        },
    }


def _sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum; if any count is unknown, None."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _spread(values: Sequence[float | None]) -> dict[str, float | None]:
    """Return the median and the maximum of the known values; None if there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return {"median": None, "max": None}
    return {"median": float(median(known)), "max": float(max(known))}
