"""The distribution of the load over partitions: records, batches and bytes by second; skew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.ledger.workload_tables import LoadQuantity
from ackbench.spark_jobs.io.arrays import LogRows
from ackbench.spark_jobs.io.columns import NO_NUMBER
from ackbench.spark_jobs.measures.availability import rows_by_number
from ackbench.spark_jobs.measures.value_counts import ValueCounts

_NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000
STORED: Final = "stored"
"""The kind of the events that report a partition's batches."""
SlotCounts = Mapping[tuple[int, int], int]
"""A count by partition and second."""


def records_by_second(log: LogRows, load_begin_ns: int) -> SlotCounts:
    """Count the records that each partition received in each second, by their timestamps.

    Args:
        log: the visible rows, with timestamps.
        load_begin_ns: begin of the first second.
    """
    if log.timestamp_ms is None:
        return {}
    rows = log.record != NO_NUMBER
    second = (log.timestamp_ms[rows] * _NS_PER_MS - load_begin_ns) // _NS_PER_S
    return {
        (partition, int(slot)): int(records)
        for partition, of in rows_by_number(log.partition[rows])
        for counted in (ValueCounts.of(second[of]),)
        for slot, records in zip(counted.values, counted.records, strict=True)
    }


def load_rows(records: SlotCounts, events: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield a trial's rows of `LOADS`, without trial_id: records, with their batches and bytes.

    If the log's files were read, a second without a batch has 0 of them; if not, null.

    Args:
        records: of `records_by_second`.
        events: kind, partition, detail; the detail of `stored` is a JSON object with `batches` and
            `bytes`, by second.
    """
    stored: dict[str, dict[tuple[int, int], int]] = {"batches": {}, "bytes": {}}
    reports = events.filter(pc.field("kind") == STORED).to_pylist()
    for event in reports:
        for name, by_second in json.loads(event["detail"]).items():
            stored[name] |= {
                (event["partition"], int(second)): count for second, count in by_second.items()
            }
    for slot in sorted(records.keys() | stored["batches"].keys()):
        in_files = {
            name: stored[name].get(slot, 0) if reports else None for name in ("batches", "bytes")
        }
        yield {"partition": slot[0], "slot": slot[1], "records": records.get(slot, 0), **in_files}


@dataclass(frozen=True)
class Skew:
    """How unequal counts are."""

    total: int
    max_over_mean: float
    """1 if all counts are equal; the number of counts if one has everything."""
    gini: float
    """0 if all counts are equal; 1 - 1 / number of counts if one has everything."""


def skew_of(counts: Sequence[int]) -> Skew | None:
    """Return the skew of counts; `None` if their sum is 0.

    The Gini coefficient is half the mean difference between any two counts, each with each, divided
    by the mean.
    """
    total = sum(counts)
    if not total:
        return None
    ranked, places = (np.sort(np.asarray(counts, np.float64)), np.arange(1, len(counts) + 1))
    gini = 2 * float((places * ranked).sum()) / (len(counts) * total) - (len(counts) + 1) / len(
        counts
    )
    return Skew(total, max(counts) * len(counts) / total, max(gini, 0.0))


def skew_rows(
    loads: Sequence[Mapping[str, Any]], manifest: TrialManifest
) -> Iterator[dict[str, Any]]:
    """Yield a trial's rows of `SKEWS`, without trial_id: how unequally its load is distributed.

    A partition without records counts as one with 0.

    Args:
        loads: of `load_rows`.
        manifest: of the trial.
    """
    partitions = len(manifest.end_offsets)
    seconds = range((manifest.phases.load_end_ns - manifest.phases.load_begin_ns) // _NS_PER_S)
    for quantity in LoadQuantity:
        if not loads or any(row[quantity] is None for row in loads):
            continue
        counts = {(row["partition"], row["slot"]): row[quantity] for row in loads}
        overall = skew_of(
            [
                sum(count for (of, _), count in counts.items() if of == partition)
                for partition in range(partitions)
            ]
        )
        by_second = [
            skew
            for second in seconds
            if (
                skew := skew_of(
                    [counts.get((partition, second), 0) for partition in range(partitions)]
                )
            )
        ]
        if overall and by_second:
            yield {
                "of": quantity.value,
                "partitions": partitions,
                "total": overall.total,
                "max_over_mean": overall.max_over_mean,
                "gini": overall.gini,
                "second_max_over_mean": median(skew.max_over_mean for skew in by_second),
            }
