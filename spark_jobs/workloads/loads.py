"""The distribution of the load over partitions: records, batches and bytes by second; skew."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from experiments.ledger.workload_tables import LOADS, SKEWS, LoadQuantity
from spark_jobs.io.ledgers import Ledger

_NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000
STORED: Final = "stored"
"""The kind of the events that report a partition's batches."""
SlotCounts = Mapping[tuple[int, int], int]
"""A count by partition and second."""


def records_by_second(log: DataFrame, keyed: DataFrame) -> DataFrame:
    """Count the records that each partition received in each second.

    Args:
        log: trial_no, partition, timestamp_ms, intact, seq; visible rows only.
        keyed: of the schema `spark_jobs.workloads.keys.KEYED_TRIALS`.

    Returns:
        trial_no, partition, slot, records; seconds without records have no row.
    """
    slot = sf.floor(
        (sf.col("timestamp_ms") * _NS_PER_MS - sf.col("load_begin_ns")) / sf.lit(_NS_PER_S)
    ).cast("long")
    intact = log.where("intact AND seq IS NOT NULL").join(
        sf.broadcast(keyed.select("trial_no", "load_begin_ns")), "trial_no"
    )
    return intact.groupBy("trial_no", "partition", slot.alias("slot")).agg(
        sf.count("*").alias("records")
    )


def loads(counted: pa.Table, events: pa.Table) -> pa.Table:
    """Return the table `LOADS`: the records, with their batches and bytes.

    Args:
        counted: of `records_by_second`, with trial_id.
        events: trial_id, kind, partition, detail; the detail of `stored` is a JSON object with
            `batches` and `bytes`, by second.
    """
    records: defaultdict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    for row in counted.to_pylist():
        records[row["trial_id"]][row["partition"], row["slot"]] = row["records"]
    stored: defaultdict[str, dict[str, dict[tuple[int, int], int]]] = defaultdict(
        lambda: {"batches": {}, "bytes": {}}
    )
    for event in events.filter(pc.field("kind") == STORED).to_pylist():
        for name, by_second in json.loads(event["detail"]).items():
            stored[event["trial_id"]][name] |= {
                (event["partition"], int(second)): count for second, count in by_second.items()
            }
    rows = (
        row
        for trial_id in records.keys() | stored.keys()
        for row in _rows(trial_id, records[trial_id], stored.get(trial_id))
    )
    return pa.Table.from_pylist(list(rows), schema=LOADS)


def _rows(
    trial_id: str, records: SlotCounts, stored: Mapping[str, SlotCounts] | None
) -> Iterator[dict[str, Any]]:
    """Yield a trial's rows of `LOADS`.

    If the log's files were read, a second without a batch has 0 of them; if not, null.
    """
    slots = records.keys() | (stored["batches"].keys() if stored else set())
    for slot in sorted(slots):
        in_files = {
            name: None if stored is None else stored[name].get(slot, 0)
            for name in ("batches", "bytes")
        }
        yield {
            "trial_id": trial_id,
            "partition": slot[0],
            "slot": slot[1],
            "records": records.get(slot, 0),
            **in_files,
        }


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
    ranked, places = (
        np.sort(np.asarray(counts, np.float64)),
        np.arange(1, len(counts) + 1),
    )
    gini = 2 * float((places * ranked).sum()) / (len(counts) * total) - (len(counts) + 1) / len(
        counts
    )
    return Skew(total, max(counts) * len(counts) / total, max(gini, 0.0))


def skews(loads: pa.Table, ledgers: Iterable[Ledger]) -> pa.Table:
    """Return the table `SKEWS`: how unequally each trial's load is distributed over partitions.

    A partition without records counts as one with 0.

    Args:
        loads: of the schema `LOADS`.
        ledgers: of the trials.
    """
    by_trial: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in loads.to_pylist():
        by_trial[row["trial_id"]].append(row)
    rows = (
        row
        for ledger in ledgers
        if (trial_loads := by_trial.get(ledger.record.trial_id))
        for row in _skews(ledger, trial_loads)
    )
    return pa.Table.from_pylist(list(rows), schema=SKEWS)


def _skews(ledger: Ledger, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    record, partitions = ledger.record, len(ledger.record.end_offsets)
    seconds = range((record.phases.load_end_ns - record.phases.load_begin_ns) // _NS_PER_S)
    for quantity in LoadQuantity:
        if any(row[quantity] is None for row in rows):
            continue
        counts = {(row["partition"], row["slot"]): row[quantity] for row in rows}
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
                "trial_id": record.trial_id,
                "of": quantity.value,
                "partitions": partitions,
                "total": overall.total,
                "max_over_mean": overall.max_over_mean,
                "gini": overall.gini,
                "second_max_over_mean": median(skew.max_over_mean for skew in by_second),
            }
