"""What Spark found, in the words of the plain loops: equal where both are right."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from support.reference.results import COUNTS, PlainTrial

from experiments.ledger.result_tables import QUANTILES

Row = Mapping[str, Any]


def in_plain_words(found: Mapping[str, pa.Table]) -> dict[str, PlainTrial]:
    """Return what was found of each trial.

    Args:
        found: tables of `experiments.ledger.result_tables.RESULTS`.
    """
    rows = {name: _by_trial(table) for name, table in found.items() if name != "cells"}
    return {
        trial_id: _trial({name: of[trial_id] for name, of in rows.items()})
        for trial_id in rows["trials"]
    }


def _by_trial(table: pa.Table) -> Mapping[str, Sequence[Row]]:
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["trial_id"]].append(row)
    return rows


def _trial(of: Mapping[str, Sequence[Row]]) -> PlainTrial:
    (counted,) = of["trials"]
    return PlainTrial(
        fates={
            row["fate"]: (row["outcome"], row["records"], row["duplicated_records"], row["copies"])
            for row in of["fates"]
        },
        counts={name: counted[name] for name in COUNTS},
        latencies={(row["measure"], row["phase"]): _figures(row) for row in of["latency"]},
        histogram={
            (row["measure"], row["phase"], row["from_us"], row["to_us"]): row["records"]
            for row in of["histogram"]
        },
        timeline={
            row["slot"]: (row["sent_records"], row["acked_records"], row["read_records"])
            for row in of["timeline"]
        },
        gaps={
            (row["partition"], row["side"]): (
                row["records"],
                row["gap_ns"],
                row["began_ns"],
                row["answered"],
            )
            for row in of["gaps"]
        },
        anomalies=Counter(
            tuple(row[name] for name in ("kind", "producer", "seq", "partition", "offset", "at_ns"))
            for row in of["anomalies"]
        ),
    )


def _figures(row: Row) -> tuple[int, ...]:
    return (row["records"], row["negative_records"], *(row[f"{name}_us"] for name in QUANTILES))
