"""Planted trials, measured in this process: what a task of the job does, without Spark."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.pipeline import measure_unit, sweep_tables, trial_tables
from spark_jobs.planted import PlantedTrial


def measure_planted(*trials: PlantedTrial) -> dict[str, pa.Table]:
    """Return the result tables of trials in memory, each measured as one unit."""
    return sweep_tables(
        {trial.trial_id: trial_tables(measure_unit(trial.rows())) for trial in trials}
    )
