"""Measures planted trials in this process, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.io.arrays import UnitArrays, to_arrays
from spark_jobs.pipeline import measure_unit, sweep_tables, trial_tables
from spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedRead, PlantedTrial


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
