"""Measures planted trials in this process, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackbench.experiments.ledger.digests import digest_of, with_digest
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.spark_jobs.io.arrays import UnitArrays, to_arrays
from ackbench.spark_jobs.io.ledgers import InvalidLedger, Ledger, open_ledgers
from ackbench.spark_jobs.io.units import LARGE_TABLES, read_unit, split
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial
from ackbench.spark_jobs.pipeline import measure_unit, merge_units, sweep_tables, trial_tables
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedRead, PlantedTrial

FEW_ROWS = 3
"""In a unit and in a row group, of a trial with few rows."""
MOST_UNITS, MOST_ROW_GROUPS = 6, 18
"""Of a trial with many rows."""


def measure_planted(*trials: PlantedTrial) -> dict[str, pa.Table]:
    """Return the result tables of planted trials, each measured as one unit."""
    return sweep_tables(
        {trial.trial_id: trial_tables(measure_unit(trial.rows())) for trial in trials}
    )


def planted_arrays(
    attempts: Sequence[PlantedAttempt] = (),
    log: Sequence[PlantedLogRow] = (),
    reads: Sequence[PlantedRead] = (),
    **others: Any,
) -> UnitArrays:
    """Return the arrays of a planted trial; `others` are further fields of `PlantedTrial`."""
    return to_arrays(PlantedTrial("t", attempts, log, reads, **others).rows())


def measure_in_units(
    sweep: Path, trials: Iterable[PlantedTrial], random: Random
) -> dict[str, pa.Table]:
    """Return the result tables of planted trials whose units are measured one by one.

    Args:
        sweep: a new folder; the trials are written to files with small row groups.
        trials: the trials.
        random: chooses in which order, and in which association, the units are merged.
    """
    for trial in trials:
        shrink_row_groups(trial.plant(sweep))
    ledgers = open_ledgers(str(sweep))
    return sweep_tables(
        {
            ledger.manifest.trial_id: trial_tables(
                merge_at_random(
                    [
                        measure_unit(read_unit(ledgers.files, unit))
                        for unit in split([ledger], _unit_records(ledger))
                    ],
                    random,
                )
            )
            for ledger in ledgers.trials
        }
    )


def shrink_row_groups(trial: Path) -> None:
    """Seal a planted trial again, its large tables with row groups of a few rows."""
    manifest = read_trial_manifest(trial)
    for path in trial.glob("*.parquet"):
        if path.stem in LARGE_TABLES:
            table = pq.ParquetFile(path).read(use_threads=False)  # `read_table` takes 6 ms each
            rows = max(FEW_ROWS, len(table) // MOST_ROW_GROUPS)
            pq.write_table(table, path, row_group_size=rows)
    files = {name: digest_of((trial / name).read_bytes()) for name in manifest.files or ()}
    sealed = manifest.model_copy(update={"files": files})
    (trial / TRIAL_MANIFEST).write_text(with_digest(sealed.model_dump_json(indent=1)))


def _unit_records(ledger: Ledger) -> int:
    rows = max(ledger.attempts_rows, ledger.log_rows, ledger.reads_rows)
    return max(FEW_ROWS, -(-rows // MOST_UNITS))


def with_measures(trial: MeasuredTrial, *measures: Measure) -> MeasuredTrial:
    """Return what was measured of a trial, with other measures in place of those of their kind."""
    return replace(
        trial, measures={**trial.measures, **{type(measure): measure for measure in measures}}
    )


def merge_at_random(units: Sequence[MeasuredTrial], random: Random) -> MeasuredTrial:
    """Merge the units of a trial, any two at a time."""
    remaining = list(units)
    while len(remaining) > 1:
        random.shuffle(remaining)
        merged = merge_units(remaining.pop(), remaining.pop())
        if isinstance(merged, InvalidLedger):
            raise merged
        remaining.append(merged)
    return remaining[0]


def measure_ledger(sweep: Path) -> dict[str, pa.Table]:
    """Return the result tables of the sealed trials of a sweep, each measured as one unit."""
    ledgers = open_ledgers(str(sweep))
    return sweep_tables(
        {
            ledger.manifest.trial_id: trial_tables(measure_unit(read_unit(ledgers.files, unit)))
            for ledger in ledgers.trials
            for unit in split(
                [ledger], max(1, ledger.attempts_rows, ledger.log_rows, ledger.reads_rows)
            )
        }
    )
