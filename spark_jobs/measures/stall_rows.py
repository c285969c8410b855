"""The stalls of a trial, as rows and columns of result tables."""

from __future__ import annotations

from ackbench.spark_jobs.measures.measure import MeasuredTrial, OfEvents, Tables
from ackbench.spark_jobs.measures.stalls import stall_columns, stall_rows


class StallMeasure(OfEvents):
    """Times in which something other than Kafka and the fault kept processes from running."""

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `STALLS`, and its columns."""
        return {
            "trials": [stall_columns(trial.stalls, trial.manifest)],
            "stalls": stall_rows(trial.stalls),
        }
