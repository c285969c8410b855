"""A sweep's `results/` without Spark.

All tables have their schemas and the values that a test sets. Other values are null, or 0 if the
column is required.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.ledger.trial_manifest import Cell, TrialManifest
from ackbench.experiments.sweep.folder import SweepFolder

Counts = Mapping[str, int]
"""Columns of `TRIALS` and their values."""


def write_results(
    sweep: SweepFolder,
    counts: Mapping[str, Counts],
    tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    **cell_values: float,
) -> None:
    """Write the results of some complete trials of a sweep, and replace existing results.

    Args:
        sweep: the sweep.
        counts: by trial id: the columns of `TRIALS` that are not 0; other trials are not measured.
        tables: rows of the other tables by table name; columns that are 0 or null can be omitted.
        cell_values: columns of `CELLS` that are not sums, equal in every cell.
    """
    trials = [
        _trial(record, counts[record.trial_id])
        for record in sweep.complete_trials()
        if record.trial_id in counts
    ]
    rows = {
        **dict.fromkeys(RESULTS, ()),
        **(tables or {}),
        "trials": trials,
        "cells": [{**cell, **cell_values} for cell in _cells(trials)],
    }
    sweep.results.mkdir(exist_ok=True)
    for name, schema in RESULTS.items():
        pq.write_table(
            pa.Table.from_pylist([_filled(row, schema) for row in rows[name]], schema=schema),
            sweep.results / f"{name}.parquet",
        )


def loss_counts(acked: int, lost: int) -> Counts:
    """Return the counts of a trial whose records were all acknowledged and partly lost."""
    return {
        "attempted_records": acked,
        "acked_records": acked,
        "lost_low_records": lost,
        "lost_high_records": lost,
    }


def cell_text(cell: Cell) -> str:
    """Return the text that identifies a cell in the tables."""
    return json.dumps(cell, sort_keys=True)


def _trial(manifest: TrialManifest, counts: Counts) -> dict[str, Any]:
    return {
        "trial_id": manifest.trial_id,
        "cell": cell_text(manifest.cell),
        "status": manifest.status.value,
        **counts,
    }


def _cells(trials: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for cell in dict.fromkeys(trial["cell"] for trial in trials):
        sealed = [
            trial for trial in trials if trial["cell"] == cell and trial["status"] == "sealed"
        ]
        summed = {name for trial in sealed for name in trial} & set(RESULTS["cells"].names) - {
            "cell"
        }
        yield {
            "cell": cell,
            "sealed_trials": len(sealed),
            "void_trials": sum(trial["cell"] == cell for trial in trials) - len(sealed),
            "trials_with_loss": sum(trial.get("lost_low_records", 0) > 0 for trial in sealed),
            "trials_with_duplicates": sum(trial.get("duplicates", 0) > 0 for trial in sealed),
            **{name: sum(trial.get(name, 0) for trial in sealed) for name in summed},
        }


def _filled(row: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    return {field.name: row.get(field.name, _default(field)) for field in schema}


def _default(field: pa.Field) -> Any:
    if field.nullable:
        return None
    return "" if pa.types.is_string(field.type) else pa.scalar(0).cast(field.type).as_py()
