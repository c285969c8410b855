"""How the load was spread over the partitions: records by second, the batches and bytes they came in, and how uneven that is."""

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
"""The kind of the events that tell of a partition's batches."""
Places = Mapping[tuple[int, int], int]
"""A count by partition and second."""


def records_by_second(log: DataFrame, asked: DataFrame) -> DataFrame:
    """Count the records that each partition got in each second.

    Args:
        log: trial_no, partition, timestamp_ms, intact, seq; rows that consumers are shown.
        asked: of the schema `spark_jobs.workloads.keys.KEYINGS`.

    Returns:
        trial_no, partition, slot, records; seconds without any have no row.
    """
    slot = sf.floor(
        (sf.col("timestamp_ms") * _NS_PER_MS - sf.col("load_begin_ns")) / sf.lit(_NS_PER_S)
    ).cast("long")
    ours = log.where("intact AND seq IS NOT NULL").join(
        sf.broadcast(asked.select("trial_no", "load_begin_ns")), "trial_no"
    )
    return ours.groupBy("trial_no", "partition", slot.alias("slot")).agg(
        sf.count("*").alias("records")
    )


def loads(counted: pa.Table, events: pa.Table) -> pa.Table:
    """Put batches and bytes beside the records.

    Args:
        counted: of `records_by_second`, with trial_id.
        events: trial_id, kind, partition, detail; that of `stored` is a JSON object with `batches` and `bytes`, by second.
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
    trial_id: str, records: Places, stored: Mapping[str, Places] | None
) -> Iterator[dict[str, Any]]:
    """Give a trial's rows; where somebody looked at the files, a second without a batch has none, and not an unknown number."""
    places = records.keys() | (stored["batches"].keys() if stored else set())
    for place in sorted(places):
        told = {
            name: None if stored is None else stored[name].get(place, 0)
            for name in ("batches", "bytes")
        }
        yield {
            "trial_id": trial_id,
            "partition": place[0],
            "slot": place[1],
            "records": records.get(place, 0),
            **told,
        }


@dataclass(frozen=True)
class Skew:
    """How uneven counts are."""

    total: int
    max_over_mean: float
    """1: all are equal; as many as there are counts: one has all."""
    gini: float
    """0: all are equal; 1 - 1 / counts: one has all."""


def skew_of(counts: Sequence[int]) -> Skew | None:
    """Return it; `None`: there is nothing to spread.

    The Gini coefficient is half the mean difference between any two counts, each with each, over the mean.
    """
    total = sum(counts)
    if not total:
        return None
    ranked, places = np.sort(np.asarray(counts, np.float64)), np.arange(1, len(counts) + 1)
    gini = 2 * float((places * ranked).sum()) / (len(counts) * total) - (len(counts) + 1) / len(
        counts
    )
    return Skew(total, max(counts) * len(counts) / total, max(gini, 0.0))


def skews(of_loads: pa.Table, ledgers: Iterable[Ledger]) -> pa.Table:
    """Return how unevenly each trial's load was spread over its partitions; a partition that got nothing counts as one.

    Args:
        of_loads: of `loads`.
        ledgers: of the trials.
    """
    of_trial: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in of_loads.to_pylist():
        of_trial[row["trial_id"]].append(row)
    rows = (
        row
        for ledger in ledgers
        if (found := of_trial.get(ledger.record.trial_id))
        for row in _skews(ledger, found)
    )
    return pa.Table.from_pylist(list(rows), schema=SKEWS)


def _skews(ledger: Ledger, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    record, partitions = ledger.record, len(ledger.record.end_offsets)
    seconds = range((record.phases.load_end_ns - record.phases.load_begin_ns) // _NS_PER_S)
    for spread in LoadQuantity:
        if any(row[spread] is None for row in rows):
            continue
        counts = {(row["partition"], row["slot"]): row[spread] for row in rows}
        whole = skew_of(
            [
                sum(count for (of, _), count in counts.items() if of == partition)
                for partition in range(partitions)
            ]
        )
        each = [
            found
            for second in seconds
            if (
                found := skew_of(
                    [counts.get((partition, second), 0) for partition in range(partitions)]
                )
            )
        ]
        if whole and each:
            told = {"total": whole.total, "max_over_mean": whole.max_over_mean, "gini": whole.gini}
            by_second = median(found.max_over_mean for found in each)
            yield {
                "trial_id": record.trial_id,
                "of": spread.value,
                "partitions": partitions,
                **told,
                "second_max_over_mean": by_second,
            }
