"""Anomalies counted by all that they have in common: a few rows a trial, of which each can be said in a sentence."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from experiments.ledger.measured_causes import ATTRIBUTION

_COUNTED: Final = {
    "records": ("kind", "count"),
    **{f"{of}_{what}": (what, "min" if of == "first" else "max") for what in ("offset", "at_ns") for of in ("first", "last")},
}
"""What is told of each group, and how it is made of which column."""
_SHARED: Final = [name for name in ATTRIBUTION.names if name not in _COUNTED]


def attribution(anomalies: pa.Table) -> pa.Table:
    """Return the table of attribution, in an order that depends on nothing but its rows.

    Args:
        anomalies: of `spark_jobs.anomalies`.
    """
    grouped = anomalies.group_by(_SHARED).aggregate(list(_COUNTED.values()))
    columns = {name: grouped[name] for name in _SHARED} | {name: grouped[f"{column}_{made}"] for name, (column, made) in _COUNTED.items()}
    counted = pa.table({name: columns[name] for name in ATTRIBUTION.names}).cast(ATTRIBUTION)
    return counted.sort_by([(name, "ascending") for name in ATTRIBUTION.names]).combine_chunks()
