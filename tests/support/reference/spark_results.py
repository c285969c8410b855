"""The Spark job's results in the form of the reference, so that both can be compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from support.reference.results import COUNTS, PlainGap, PlainTrial

from ackbench.experiments.ledger.result_terms import QUANTILES

Row = Mapping[str, Any]


def to_plain_trials(tables: Mapping[str, pa.Table]) -> dict[str, PlainTrial]:
    """Return the results by trial.

    Args:
        tables: tables of `experiments.ledger.result_tables.RESULTS`.
    """
    rows = {name: _by_trial(table) for name, table in tables.items() if name != "cells"}
    return {
        trial_id: _trial({name: by_trial[trial_id] for name, by_trial in rows.items()})
        for trial_id in rows["trials"]
    }


def _by_trial(table: pa.Table) -> Mapping[str, Sequence[Row]]:
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["trial_id"]].append(row)
    return rows


def _trial(rows: Mapping[str, Sequence[Row]]) -> PlainTrial:
    (counts,) = rows["trials"]
    return PlainTrial(
        fates={
            row["fate"]: (row["outcome"], row["records"], row["duplicated_records"], row["copies"])
            for row in rows["fates"]
        },
        counts={name: counts[name] for name in COUNTS},
        latencies={(row["measure"], row["phase"]): _figures(row) for row in rows["latency"]},
        histogram={
            (row["measure"], row["phase"], row["from_us"], row["to_us"]): row["records"]
            for row in rows["histogram"]
        },
        timeline={
            row["slot"]: (row["sent_records"], row["acked_records"], row["read_records"])
            for row in rows["timeline"]
        },
        gaps=_gaps(rows["gaps"]),
        anomalies=Counter(
            tuple(row[name] for name in ("kind", "producer", "seq", "partition", "offset", "at_ns"))
            for row in rows["anomalies"]
        ),
    )


def _gaps(rows: Sequence[Row]) -> dict[tuple[int, str], list[PlainGap]]:
    gaps: defaultdict[tuple[int, str], list[PlainGap]] = defaultdict(list)
    for row in rows:
        gap = PlainGap(**{name: row[name] for name in PlainGap._fields})
        gaps[row["partition"], row["side"]].append(gap)
    return dict(gaps)


def _figures(row: Row) -> tuple[int, ...]:
    return (row["records"], row["negative_records"], *(row[f"{name}_us"] for name in QUANTILES))
