"""Latency of acknowledgement and of delivery, with quantiles exact to the microsecond.

    ack        = floor((settled_ns - intended_ns) / 1000) of every acknowledged record
    end_to_end = floor((first received_ns - intended_ns) / 1000) of every record that was received
    quantile p = the smallest value that at least p of all values do not exceed (nearest rank)

Both are measured from the record's intended time, so the time that a late client adds is included.
The phase is the one of the intended time. Truncation to microseconds keeps the order of any two
values, so the quantile of the truncated values is the truncated quantile.

Histograms are log-linear, as an HDR histogram: buckets are 1 us wide below 256 us, and above at
most 1/128 of the value. Below zero they are the mirror image: -1 is to -2 what 0 is to 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.result_tables import HISTOGRAM
from ackbench.experiments.ledger.result_terms import QUANTILES, LatencyKind, Phase
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.io.arrays import Attempts, Reads
from ackbench.spark_jobs.io.columns import ACKED_CODE, NULL, IntColumn
from ackbench.spark_jobs.measures.fates import times_of
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.reads import is_first_read
from ackbench.spark_jobs.measures.unit import MeasuredUnit
from ackbench.spark_jobs.measures.value_counts import ValueCounts, add_equal

_EXACT_BITS: Final = 8
_WIDER_FROM: Final = np.left_shift(np.int64(1), np.arange(_EXACT_BITS, 63))
"""At each of these magnitudes, buckets become twice as wide."""


_HISTOGRAM: Final = pa.schema([field for field in HISTOGRAM if field.name != "trial_id"])
Latencies = Mapping[tuple[LatencyKind, Phase], ValueCounts]
"""Without an entry for a phase in which no record has this latency."""


def ack_latencies(attempts: Attempts, phases: Phases) -> Latencies:
    """Return the time to acknowledgement of every acknowledged record.

    Args:
        attempts: with the outcomes as a `read_committed` application sees them.
        phases: of the trial.
    """
    acked = (attempts.outcome == ACKED_CODE) & (attempts.settled_ns != NULL)
    intended, settled = attempts.intended_ns, attempts.settled_ns
    if not acked.all():
        intended, settled = intended[acked], settled[acked]
    return _by_phase(LatencyKind.ACK, intended, settled, phases)


def end_to_end_latencies(reads: Reads, times: IntColumn, phases: Phases) -> Latencies:
    """Return the time to the first receipt of every record that was received.

    Args:
        reads: of the concurrent consumer, by the time of receipt.
        times: how often each record was received; of `spark_jobs.measures.fates.count_rows`.
        phases: of the trial.
    """
    first = is_first_read(reads, times) & (reads.intended_ns != NULL)
    intended, received = reads.intended_ns, reads.received_ns
    if not first.all():
        intended, received = intended[first], received[first]
    return _by_phase(LatencyKind.END_TO_END, intended, received, phases)


def _by_phase(
    measure: LatencyKind, intended_ns: IntColumn, end_ns: IntColumn, phases: Phases
) -> Latencies:
    """Return the distribution of each phase and of all; a fault that never ended lasts on."""
    us = (end_ns - intended_ns) // 1000
    if phases.fault_begin_ns is None:
        found = {Phase.ALL: ValueCounts.of(us)}
    else:
        before = intended_ns < phases.fault_begin_ns
        after = np.zeros(len(us), bool)
        if phases.fault_end_ns is not None:
            after = ~before & (intended_ns >= phases.fault_end_ns)
        found = {
            Phase.BEFORE: ValueCounts.of(us[before]),
            Phase.DURING: ValueCounts.of(us[~(before | after)]),
            Phase.AFTER: ValueCounts.of(us[after]),
        }
        found[Phase.ALL] = found[Phase.BEFORE].merge(found[Phase.DURING]).merge(found[Phase.AFTER])
    return {
        (measure, phase): latencies for phase, latencies in found.items() if len(latencies.values)
    }


# Rows of the result tables.


def quantile_rows(latencies: Latencies) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `LATENCY`, without trial_id."""
    for (measure, phase), counted in latencies.items():
        yield {
            "measure": measure.value,
            "phase": phase.value,
            "records": int(counted.records.sum()),
            "negative_records": int(counted.records[counted.values < 0].sum()),
            **{f"{name}_us": counted.quantile(p) for name, p in QUANTILES.items()},
        }


def histogram(counted: ValueCounts) -> tuple[IntColumn, IntColumn, IntColumn]:
    """Return the lower bounds, the upper bounds (exclusive) and the records of the buckets."""
    us = counted.values
    magnitude = np.where(us < 0, ~us, us)
    width_bits = np.searchsorted(_WIDER_FROM, magnitude, side="right")
    buckets = add_equal((us >> width_bits) << width_bits, counted.records)
    low = buckets.values
    widths = np.left_shift(
        np.int64(1), np.searchsorted(_WIDER_FROM, np.where(low < 0, ~low, low), side="right")
    )
    return low, low + widths, buckets.records


def histogram_table(latencies: Latencies) -> pa.Table:
    """Return a trial's rows of `HISTOGRAM`, without trial_id."""
    parts = []
    for (measure, phase), counted in latencies.items():
        low, high, records = histogram(counted)
        names = [pa.array([name.value] * len(low), pa.string()) for name in (measure, phase)]
        parts.append(pa.table([*names, low, high, records], schema=_HISTOGRAM))
    return pa.concat_tables([_HISTOGRAM.empty_table(), *parts])


@dataclass(frozen=True)
class LatencyMeasure(Measure):
    """Both latencies, by phase."""

    latencies: Latencies

    @classmethod
    def of(cls, unit: MeasuredUnit) -> LatencyMeasure:
        """Count both latencies by the microsecond."""
        return cls(
            {
                **ack_latencies(unit.arrays.attempts, unit.phases),
                **end_to_end_latencies(unit.received, unit.once(times_of), unit.phases),
            }
        )

    def __add__(self, other: LatencyMeasure) -> LatencyMeasure:
        """Return the latencies of two units of a trial."""
        one, two, nothing = self.latencies, other.latencies, ValueCounts()
        return LatencyMeasure(
            {key: one.get(key, nothing).merge(two.get(key, nothing)) for key in {**one, **two}}
        )

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `LATENCY` and `HISTOGRAM`."""
        del trial
        return {
            "latency": quantile_rows(self.latencies),
            "histogram": histogram_table(self.latencies),
        }

    def records(self, measure: LatencyKind) -> int:
        """Return how many records have a latency."""
        found = self.latencies.get((measure, Phase.ALL))
        return int(found.records.sum()) if found else 0
