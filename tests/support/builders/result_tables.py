"""A sweep's `results/` without Spark: all tables by their schemas, with a few counts that a test cares about; the rest is 0, or null where it may be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from experiments.ledger.record import Cell, TrialRecord
from experiments.ledger.result_tables import RESULTS
from experiments.sweep.folder import SweepFolder

Counts = Mapping[str, int]
"""Columns of `TRIALS` and their values."""


def write_results(
    sweep: SweepFolder,
    seen: Mapping[str, Counts],
    others: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    **spreads: float,
) -> None:
    """Write the results of some whole trials of a sweep, over what was there.

    Args:
        sweep: whose.
        seen: what else than 0 a trial's columns hold, by its id; a trial that is not named was not measured.
        others: rows of the other tables, by the table's name; they too need no column that is 0 or null.
        spreads: columns of `CELLS` that no sum is, the same in every cell.
    """
    trials = [
        _trial(record, seen[record.trial_id])
        for record in sweep.complete_trials()
        if record.trial_id in seen
    ]
    rows = {
        **dict.fromkeys(RESULTS, ()),
        **(others or {}),
        "trials": trials,
        "cells": [{**cell, **spreads} for cell in _cells(trials)],
    }
    sweep.results.mkdir(exist_ok=True)
    for name, schema in RESULTS.items():
        pq.write_table(
            pa.Table.from_pylist([_filled(row, schema) for row in rows[name]], schema=schema),
            sweep.results / f"{name}.parquet",
        )


def some_lost(acked: int, lost: int) -> Counts:
    """Return what a trial counts of which all records were acknowledged, and so many of them lost."""
    return {
        "attempted_records": acked,
        "acked_records": acked,
        "lost_low_records": lost,
        "lost_high_records": lost,
    }


def text_of(cell: Cell) -> str:
    """Return the text that Spark knows a cell by."""
    return json.dumps(cell, sort_keys=True)


def _trial(record: TrialRecord, counts: Counts) -> dict[str, Any]:
    return {
        "trial_id": record.trial_id,
        "cell": text_of(record.cell),
        "status": record.status.value,
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
            "trials_with_duplicates": sum(trial.get("duplicate_copies", 0) > 0 for trial in sealed),
            **{name: sum(trial.get(name, 0) for trial in sealed) for name in summed},
        }


def _filled(row: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    return {field.name: row.get(field.name, _nothing(field)) for field in schema}


def _nothing(field: pa.Field) -> Any:
    return (
        None
        if field.nullable
        else ""
        if pa.types.is_string(field.type)
        else pa.scalar(0).cast(field.type).as_py()
    )
