"""The schemas of the result tables that Spark derives from a sweep's ledgers (`results/`).

`docs/metrics.md` has every column's formula. The tables of trials with consumer groups, copiers,
keys, headers or serving brokers are in `workload_tables`. Null means that the trial has no such
value (nothing was read, nothing was acknowledged); it is never written as 0.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.quantities import CELL_PLACES, QuantitySource
from ackbench.experiments.ledger.result_terms import QUANTILES, LatencyKind
from ackbench.experiments.ledger.schema import count, nullable, required, text
from ackbench.experiments.ledger.workload_tables import (
    ASSIGNMENTS,
    BROKERS,
    COPIES,
    FIELDS,
    GROUPS,
    KEYS,
    LAGS,
    LOADS,
    ORDERS,
    REPLAY_DIFFERENCES,
    SERVING,
    SKEWS,
    columns_of,
)

TRIALS: Final = pa.schema(
    [
        text("trial_id"),
        text("cell"),  # JSON with sorted keys, so equal cells are equal strings
        text("status"),  # sealed or void
        *columns_of(QuantitySource.TRIALS),
    ]
)

FATES: Final = pa.schema(
    [
        text("trial_id"),
        # acked, rejected, unknown, aborted; null: no attempt of this trial
        nullable("outcome", pa.string()),
        text("fate"),  # `Fate`
        # Distinct ids; copies for PHANTOM and CORRUPT, whose ids are not reliable.
        count("records"),
        count("duplicated_records"),  # those of them with more than one copy
        count("copies"),  # in the log
    ]
)

LATENCY: Final = pa.schema(
    [
        text("trial_id"),
        text("measure"),  # `LatencyKind`
        text("phase"),  # `Phase`
        count("records"),
        count("negative_records"),
        *(count(f"{name}_us") for name in QUANTILES),
    ]
)

HISTOGRAM: Final = pa.schema(
    [
        text("trial_id"),
        text("measure"),  # `LatencyKind`
        text("phase"),  # `Phase`
        # The bucket's bounds, the upper one exclusive. A bucket is at most 1/128 of the value
        # wide, and 1 us below 256 us.
        count("from_us"),
        count("to_us"),
        count("records"),
    ]
)


TIMELINE: Final = pa.schema(
    [
        text("trial_id"),
        count("slot"),  # tenths of a second since load_begin, negative before it
        count("sent_records"),
        count("acked_records"),
        count("read_records"),
    ]
)


GAPS: Final = pa.schema(
    [
        text("trial_id"),
        # -1: of records that were given up before their client had chosen a partition.
        required("partition", pa.int32()),
        text("side"),  # `Side`
        count("records"),  # acknowledged or received, of the partition
        count("gap_ns"),  # ended_ns - began_ns - stalled_ns
        count("began_ns"),
        count("ended_ns"),
        count("stalled_ns"),  # for how long the harness kept the side's clients from running
        # Whether an acknowledgement or read ended it; false: it lasted to the end of the load.
        required("answered", pa.bool_()),
        # Whether it is the longest of its partition and side by gap_ns; of several, the earliest.
        required("longest", pa.bool_()),
    ]
)
"""Per partition and side its longest gap, and each that lasted for `MIN_OUTAGE_NS` with stalls."""

STALLS: Final = pa.schema(
    [
        text("trial_id"),
        text("process"),  # `experiments.ledger.stalls.Stall`, as are the following
        text("cause"),
        count("began_ns"),
        count("ended_ns"),
        nullable("amount", pa.int64()),
    ]
)
"""One row per time in which the harness or its machine kept a process of the trial from running."""

READERS: Final = pa.schema(
    [
        text("trial_id"),
        required("partition", pa.int32()),
        # The last record that the concurrent consumer received before the heal; null: none.
        nullable("last_read_ns", pa.int64()),
        # The first acknowledgement after that read and before the heal; null: there was none.
        nullable("unread_since_ns", pa.int64()),
        # For how long between that and the heal the harness kept the consumer from running.
        count("stalled_ns"),
    ]
)
"""One row per partition of a trial with a healed fault and a concurrent consumer of its topic."""

OUTAGES: Final = pa.schema(
    [
        text("trial_id"),
        required("partition", pa.int32()),
        text("side"),  # `Side`
        count("began_ns"),  # of the gap, which it identifies; as are the columns of `GAPS`
        required("longest", pa.bool_()),
        text("step"),  # `OutageStep`
        nullable("at_ns", pa.int64()),  # null: not observed
        nullable("source", pa.string()),  # `experiments.ledger.terms.Source`, or `ledger`
        nullable("resolution_ns", pa.int64()),
    ]
)
"""One row per step of each gap that overlaps the fault; none without a fault.

Of a partition and side: its longest gap, whatever its length, and each of `MIN_OUTAGE_NS` or more.
"""

_CONTEXT: Final = [
    # By at_ns: before, during, after; null: a trial without a fault, or an unknown time.
    nullable("phase", pa.string()),
    # The leader at that time. Of a record in the log: when it was appended; TRUNCATED: the one
    # that acknowledged it; NEVER_APPENDED: the one that it was sent to.
    nullable("leader", pa.int32()),
    nullable("leader_epoch", pa.int32()),
    nullable("isr", pa.string()),  # "1,2,3", as the metadata poller observed it
    text("cause"),  # `Cause`
    # The offset to which `truncated_by` reports that it truncated its log, or the end of the
    # leader epoch in the log that survived.
    nullable("truncated_to", pa.int64()),
    # Null with a `truncated_to`: the evidence is in the leader epochs, not in a broker's log.
    nullable("truncated_by", pa.int32()),
]

ANOMALIES: Final = pa.schema(
    [
        text("trial_id"),
        text("kind"),  # `Anomaly`
        nullable("producer", pa.int32()),
        nullable("seq", pa.int64()),
        nullable("partition", pa.int32()),
        nullable("offset", pa.int64()),  # LOST: as acknowledged; others: in the log
        # When the attempt was acknowledged or given up, or when the record was received.
        nullable("at_ns", pa.int64()),
        *_CONTEXT,
    ]
)
"""One row per anomalous record, and why; of each trial, kind and cause at most `ANOMALY_ROWS`."""


ATTRIBUTION: Final = pa.schema(
    [
        text("trial_id"),
        text("kind"),  # `Anomaly`
        nullable("partition", pa.int32()),
        *_CONTEXT,
        count("records"),
        nullable("first_offset", pa.int64()),
        nullable("last_offset", pa.int64()),
        nullable("first_at_ns", pa.int64()),
        nullable("last_at_ns", pa.int64()),
    ]
)
"""All anomalies, counted by everything that they have in common."""

_OF_CELLS: Final = [
    place for place in CELL_PLACES if place.quantity.source is QuantitySource.TRIALS
]
SUMMED_COLUMNS: Final = tuple(place.column for place in _OF_CELLS if not place.is_spread)
"""The columns of `TRIALS` of which a cell has the sum."""

SUMMARIZED_COLUMNS: Final = (
    *(f"{measure.value}_{name}_us" for measure in LatencyKind for name in QUANTILES),
    *(place.column for place in _OF_CELLS if place.is_spread),
)
"""The values of which a cell has the median and the maximum of its trials."""

CELLS: Final = pa.schema(
    [
        text("cell"),
        count("sealed_trials"),
        count("void_trials"),  # in no other column
        count("trials_with_loss"),  # with a certain loss: lost_low > 0
        count("trials_with_duplicates"),
        *(TRIALS.field(name) for name in SUMMED_COLUMNS),  # null if it is unknown of a trial
        *(
            nullable(f"{name}_{summary}", pa.float64())
            for name in SUMMARIZED_COLUMNS
            for summary in ("median", "max")
        ),
    ]
)

RESULTS: Final = {
    "trials": TRIALS,
    "cells": CELLS,
    "fates": FATES,
    "latency": LATENCY,
    "histogram": HISTOGRAM,
    "timeline": TIMELINE,
    "gaps": GAPS,
    "readers": READERS,
    "anomalies": ANOMALIES,
    "attribution": ATTRIBUTION,
    "outages": OUTAGES,
    "stalls": STALLS,
    "groups": GROUPS,
    "assignments": ASSIGNMENTS,
    "fields": FIELDS,
    "replays": REPLAY_DIFFERENCES,
    "serving": SERVING,
    "brokers": BROKERS,
    "copies": COPIES,
    "keys": KEYS,
    "orders": ORDERS,
    "lags": LAGS,
    "loads": LOADS,
    "skews": SKEWS,
}
"""The tables by name."""
