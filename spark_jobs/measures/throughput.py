"""The rate of attempts and acknowledgements, and counts for each tenth of a second.

    offered_records_per_s    = attempts / window
    throughput_records_per_s = |acknowledged records that settled by load_end| / window
    window                   = load_end - load_begin, seconds

The load is open-loop: the offered rate is the experiment's, so the second rate is what the cluster
acknowledged of it in time, not what it could do at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.result_terms import TIMELINE_SLOT_NS
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.io.arrays import Attempts, Reads
from ackbench.spark_jobs.io.columns import ACKED_CODE, NULL
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.unit import MeasuredUnit
from ackbench.spark_jobs.measures.value_counts import ValueCounts

Timeline = Mapping[str, ValueCounts]
"""By column of `TIMELINE`: how often each slot occurs. Slot 0 begins with the load."""


def count_timeline(attempts: Attempts, reads: Reads, phases: Phases) -> Timeline:
    """Count the records that were sent, acknowledged and received in each tenth of a second.

    A record is sent when the client accepts it, and acknowledged when it settles. Every read
    counts, also of records without an id.
    """
    acked = (attempts.outcome == ACKED_CODE) & (attempts.settled_ns != NULL)
    times = {
        "sent_records": attempts.sent_ns[attempts.sent_ns != NULL],
        "acked_records": attempts.settled_ns[acked],
        "read_records": reads.received_ns,
    }
    return {
        name: ValueCounts.of((at_ns - phases.load_begin_ns) // TIMELINE_SLOT_NS)
        for name, at_ns in times.items()
    }


def timeline_table(timeline: Timeline) -> pa.Table:
    """Return a trial's rows of `TIMELINE`, without trial_id; no row for an empty slot."""
    slots = np.unique(np.concatenate([counted.values for counted in timeline.values()]))
    columns = {"slot": slots}
    for name, counted in timeline.items():
        columns[name] = np.zeros(len(slots), np.int64)
        columns[name][np.searchsorted(slots, counted.values)] = counted.records
    return pa.table(columns)


@dataclass(frozen=True)
class Throughput(Measure):
    """Attempts, acknowledgements before the load ended, and counts by tenth of a second."""

    attempted: int
    acked_in_time: int
    timeline: Timeline

    @classmethod
    def of(cls, unit: MeasuredUnit) -> Throughput:
        """Count attempts, and acknowledgements within the window of the load."""
        attempts, phases = unit.arrays.attempts, unit.phases
        in_time = attempts.outcome == ACKED_CODE
        in_time &= (attempts.settled_ns != NULL) & (attempts.settled_ns <= phases.load_end_ns)
        timeline = count_timeline(attempts, unit.received, phases)
        return cls(len(attempts), int(in_time.sum()), timeline)

    def __add__(self, other: Throughput) -> Throughput:
        """Return the sum of two units of a trial."""
        return Throughput(
            self.attempted + other.attempted,
            self.acked_in_time + other.acked_in_time,
            {name: slots.merge(other.timeline[name]) for name, slots in self.timeline.items()},
        )

    def rates(self, phases: Phases) -> Mapping[str, float | None]:
        """Return both rates; null without attempts, or if the window has no length."""
        window_s = (phases.load_end_ns - phases.load_begin_ns) / 1e9
        if not window_s or not self.attempted:
            return {"offered_records_per_s": None, "throughput_records_per_s": None}
        return {
            "offered_records_per_s": self.attempted / window_s,
            "throughput_records_per_s": self.acked_in_time / window_s,
        }

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `TIMELINE`, and its columns."""
        return {
            "trials": [self.rates(trial.manifest.phases)],
            "timeline": timeline_table(self.timeline),
        }
