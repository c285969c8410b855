"""What Spark makes of a sweep's ledgers: the tables of `results/`. `docs/metrics.md` has every column's formula.

Null means that the trial has no such value (nobody read, nothing was acknowledged), and is never written as 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa


class Fate(StrEnum):
    """What became of one record; the first seven add up to the attempts of a trial, and no two hold of one record."""

    DELIVERED_ONCE = "DELIVERED_ONCE"
    """Acknowledged, and in the log once."""
    DUPLICATED = "DUPLICATED"
    """Acknowledged, and in the log at several offsets."""
    LOST = "LOST"
    """Acknowledged, and not in the log."""
    REJECTED = "REJECTED"
    """Refused, and not in the log."""
    REJECTED_PRESENT = "REJECTED_PRESENT"
    """Refused, and in the log all the same, once or more often."""
    UNKNOWN_PRESENT = "UNKNOWN_PRESENT"
    """The client cannot tell, and it is in the log, once or more often."""
    UNKNOWN_ABSENT = "UNKNOWN_ABSENT"
    """The client cannot tell, and it is not in the log."""
    PHANTOM = "PHANTOM"
    """In the log, and never attempted by this trial: of other origin, or under an id that no producer was given."""
    CORRUPT = "CORRUPT"
    """In the log with this trial's mark, and its checksum does not hold; counts as no copy of any record."""


class Measure(StrEnum):
    """Which latency."""

    ACK = "ack"
    """From the intended time to the client's acknowledgement."""
    END_TO_END = "end_to_end"
    """From the intended time to the first read."""


class Phase(StrEnum):
    """A part of the trial, by the record's intended time."""

    ALL = "all"
    BEFORE = "before"
    DURING = "during"
    AFTER = "after"


QUANTILES: Final = {"p50": 500, "p90": 900, "p99": 990, "p99_9": 999, "max": 1000}
"""Name and rank, in thousandths. Nearest rank: the smallest value that at least this share of all values do not exceed."""


def _count(name: str) -> pa.Field:
    return pa.field(name, pa.int64(), nullable=False)


def _text(name: str) -> pa.Field:
    return pa.field(name, pa.string(), nullable=False)


TRIALS: Final = pa.schema(
    [
        _text("trial_id"),
        _text("cell"),  # JSON with sorted keys: equal cells are equal texts
        _text("status"),  # sealed or void
        _count("attempted_records"),
        _count("acked_records"),
        _count("rejected_records"),
        _count("unknown_records"),
        _count("lost_low_records"),
        _count("lost_high_records"),
        _count("duplicate_copies"),  # copies beyond the first
        _count("duplicated_records"),  # records with more than one copy
        _count("log_records"),
        pa.field("unavailable_ns", pa.int64()),
        pa.field("attempted_per_s", pa.float64()),
        pa.field("acked_per_s", pa.float64()),
    ]
)

FATES: Final = pa.schema(
    [
        _text("trial_id"),
        pa.field("outcome", pa.string()),  # acked, rejected, unknown; null: no attempt of ours
        _text("fate"),
        _count("records"),  # distinct ids; of PHANTOM and CORRUPT, which have none to rely on, copies
        _count("duplicated_records"),  # those of them with more than one copy
        _count("copies"),  # in the log
    ]
)

LATENCY: Final = pa.schema(
    [
        _text("trial_id"),
        _text("measure"),
        _text("phase"),
        _count("records"),
        _count("negative_records"),
        *(_count(f"{name}_us") for name in QUANTILES),
    ]
)

GAPS: Final = pa.schema(
    [
        _text("trial_id"),
        pa.field("partition", pa.int32(), nullable=False),
        _count("acked_records"),
        _count("gap_ns"),
        _count("began_ns"),
    ]
)

SPREADS: Final = (*(f"{measure.value}_{name}_us" for measure in Measure for name in QUANTILES), "unavailable_ns", "acked_per_s")
"""What a cell tells of its trials as a median and a maximum."""

CELLS: Final = pa.schema(
    [
        _text("cell"),
        _count("sealed_trials"),
        _count("void_trials"),  # in none of the other columns
        _count("trials_with_loss"),  # lost for certain: lost_low > 0
        _count("trials_with_duplicates"),
        *(_count(field.name) for field in TRIALS if field.name.endswith(("_records", "_copies"))),  # sums
        *(pa.field(f"{name}_{of}", pa.float64()) for name in SPREADS for of in ("median", "max")),
    ]
)

RESULTS: Final = {"trials": TRIALS, "fates": FATES, "latency": LATENCY, "gaps": GAPS, "cells": CELLS}
