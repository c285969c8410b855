"""The anomalies of a trial with their causes, of what the other measures found anomalous."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.spark_jobs.causes.anomalous_records import (
    APPENDED_RANGES,
    SuspectRecords,
    anomalous_reads,
    anomalous_records,
    appended_ranges,
    merge_ranges,
    ranges_of_rows,
)
from ackbench.spark_jobs.causes.evidence import trial_evidence
from ackbench.spark_jobs.causes.explanations import ExplainedAnomalies, explain_anomalies
from ackbench.spark_jobs.io.arrays import UnitArrays
from ackbench.spark_jobs.measures.compaction import compacted_of
from ackbench.spark_jobs.measures.consumed import judged_reads_of
from ackbench.spark_jobs.measures.fates import fates_of
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.order import reordered_of
from ackbench.spark_jobs.measures.reads import missed_of, redelivered_of
from ackbench.spark_jobs.measures.unit import MeasuredUnit


@dataclass(frozen=True)
class AnomalyMeasure(Measure):
    """The first anomalies of each kind and cause, and the counts of all."""

    found: ExplainedAnomalies

    @classmethod
    def of(cls, unit: MeasuredUnit) -> AnomalyMeasure:
        """List the anomalous records and reads, and explain them."""
        anomalies = anomalies_of(unit)
        without_offset = anomalies.filter(
            (pc.field("kind") == Anomaly.LOST) & pc.field("offset").is_null()
        )
        has_any = without_offset.num_rows > 0
        ranges = trial_ranges(unit.arrays) if has_any else APPENDED_RANGES.empty_table()
        epochs = unit.arrays.rows.tables["epochs"]
        evidence = trial_evidence(unit.manifest, unit.events, epochs)
        return cls(explain_anomalies(anomalies, ranges, evidence))

    def __add__(self, other: AnomalyMeasure) -> AnomalyMeasure:
        """Return the anomalies of two units of a trial."""
        return AnomalyMeasure(self.found + other.found)

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `ANOMALIES` and `ATTRIBUTION`."""
        del trial
        return {"anomalies": self.found.first, "attribution": self.found.counts}


def anomalies_of(unit: MeasuredUnit) -> pa.Table:
    """Return the anomalies of a unit, of the schema `ANOMALOUS_RECORDS`."""
    compacted = unit.once(compacted_of)
    suspects = SuspectRecords(
        unit.once(fates_of),
        unit.once(missed_of) if unit.ending and unit.ending.at_end else None,
        unit.once(reordered_of),
        unit.once(redelivered_of),
        np.empty(0, np.int64) if compacted is None else compacted.lost_values,
    )
    return pa.concat_tables(
        [
            anomalous_records(replace(unit.arrays, reads=unit.received), suspects),
            anomalous_reads(Anomaly.READ_LOST, unit.once(judged_reads_of).lost),
            anomalous_reads(Anomaly.READ_CONFLICT, unit.once(judged_reads_of).conflicting),
        ]
    )


def trial_ranges(unit: UnitArrays) -> pa.Table:
    """Return what each leader epoch appended in the entire trial, of `APPENDED_RANGES`."""
    if unit.rows.others is None:
        return appended_ranges(unit.log)
    parts = map(ranges_of_rows, unit.rows.others.log_parts())
    return reduce(merge_ranges, parts, APPENDED_RANGES.empty_table())
