"""What Spark makes of a sweep's ledgers: the tables of `results/`. `docs/metrics.md` has every column's formula.

Null means that the trial has no such value (nobody read, nothing was acknowledged), and is never written as 0.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

from experiments.ledger.schema import count, perhaps, text
from experiments.ledger.workload_tables import (
    ASSIGNMENTS,
    BROKERS,
    COPIES,
    FIELDS,
    GROUPS,
    KEYS,
    LAGS,
    LOADS,
    ORDERS,
    REPLAYS,
    SERVING,
    SKEWS,
)

# ---------- What is wrong with single records, and why: the tables `anomalies` and `attribution` of `results/`.


class Anomaly(StrEnum):
    """What can be wrong with one record or one read; a record can have several."""

    LOST = "LOST"
    DUPLICATED = "DUPLICATED"
    """A row for each copy in the log beyond the first."""
    REORDERED = "REORDERED"
    """Its first copy lies behind a record that the same producer sent later to the same partition."""
    REJECTED_PRESENT = "REJECTED_PRESENT"
    UNKNOWN_ABSENT = "UNKNOWN_ABSENT"
    ABORTED_VISIBLE = "ABORTED_VISIBLE"
    PHANTOM = "PHANTOM"
    CORRUPT = "CORRUPT"
    MISSED = "MISSED"
    """In the log, and never received by the consumer, although that read on beyond it."""
    REDELIVERED = "REDELIVERED"
    """The same offset received again."""


class Cause(StrEnum):
    """Why, as far as the evidence carries; `docs/metrics.md` has the rule of each."""

    DELETED = "DELETED"
    """Its topic was deleted after it was acknowledged, and made again under its name without it."""
    TRUNCATED = "TRUNCATED"
    """Its acknowledged offset lies at or past the place to which a broker says that it cut its log, or past the end of its epoch in the log that survived."""
    NEVER_APPENDED = "NEVER_APPENDED"
    """Nobody told an offset (acks=0), and the next leader never had it. It was on its way to the one before, or in that one's log alone; which is not known."""
    RESENT = "RESENT"
    """The client gave up waiting for the answer and sent it again: so it is there twice, or late, or although the last try was refused."""
    UNANSWERED = "UNANSWERED"
    """Of unknown fate: the client gave up waiting for the leader's answer, or lost the connection on which it was to come."""
    UNATTRIBUTED = "UNATTRIBUTED"
    """The evidence does not say."""


_SCENE: Final = [
    perhaps(
        "phase", pa.string()
    ),  # by at_ns: before, during, after; null: a trial without fault, or no time is known
    perhaps(
        "leader", pa.int32()
    ),  # who led then; of records in the log: when they were appended; TRUNCATED: who acknowledged; NEVER_APPENDED: to whom sent
    perhaps("leader_epoch", pa.int32()),
    perhaps("isr", pa.string()),  # "1,2,3", as the watcher saw it then
    text("cause"),
    perhaps(
        "truncated_to", pa.int64()
    ),  # the offset to which `truncated_by` says that it cut its log, or where the epoch ends in the log that survived
    perhaps(
        "truncated_by", pa.int32()
    ),  # null beside `truncated_to`: no broker's log says so, the leader epochs do
]

ANOMALIES: Final = pa.schema(
    [
        text("trial_id"),
        text("kind"),  # of `Anomaly`
        perhaps("producer", pa.int32()),
        perhaps("seq", pa.int64()),
        perhaps("partition", pa.int32()),
        perhaps("offset", pa.int64()),  # LOST: as acknowledged; in the log or read: where
        perhaps(
            "at_ns", pa.int64()
        ),  # when it was acknowledged, or given up (attempts); received (reads)
        *_SCENE,
    ]
)

ATTRIBUTION: Final = pa.schema(
    [
        text("trial_id"),
        text("kind"),
        perhaps("partition", pa.int32()),
        *_SCENE,
        count("records"),
        perhaps("first_offset", pa.int64()),
        perhaps("last_offset", pa.int64()),
        perhaps("first_at_ns", pa.int64()),
        perhaps("last_at_ns", pa.int64()),
    ]
)
"""`ANOMALIES`, counted by all that they have in common."""


class Fate(StrEnum):
    """What became of one record; the first nine add up to the attempts of a trial, and no two hold of one record.

    In the log means: shown to a `read_committed` consumer. A record of a transaction is acknowledged when that is committed.
    """

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
    ABORTED = "ABORTED"
    """Of a transaction that was not committed, and not shown."""
    ABORTED_VISIBLE = "ABORTED_VISIBLE"
    """Of a transaction that was not committed, and shown all the same."""
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


TRIALS: Final = pa.schema(
    [
        text("trial_id"),
        text("cell"),  # JSON with sorted keys: equal cells are equal texts
        text("status"),  # sealed or void
        count("attempted_records"),
        count("acked_records"),
        count("rejected_records"),
        count("unknown_records"),
        count("aborted_records"),
        count("aborted_visible_records"),
        count("lost_low_records"),
        count("lost_high_records"),
        count("duplicate_copies"),  # copies beyond the first
        count("duplicated_records"),  # records with more than one copy
        count("log_records"),
        count("phantom_copies"),
        count("corrupt_copies"),
        count(
            "hidden_copies"
        ),  # rows of the log that a read_committed consumer is not shown; in none of the other counts
        count("reordered_records"),
        pa.field(
            "missed_records", pa.int64()
        ),  # null: the consumer along did not come to the end, or nobody says that it did
        pa.field("redelivered_reads", pa.int64()),  # null: nobody read
        *(
            pa.field(f"group_{name}", pa.int64())
            for name in ("missed_records", "redelivered_reads")
        ),  # null: there was no consumer group
        *(
            pa.field(f"{name}_transactions", pa.int64())
            for name in ("committed", "aborted", "unknown", "torn")
        ),  # null: it had no transactions
        pa.field("unavailable_ns", pa.int64()),  # for the producers
        pa.field(
            "consumer_unavailable_ns", pa.int64()
        ),  # the consumer's longest gap of all partitions; null: nobody read
        pa.field("attempted_per_s", pa.float64()),
        pa.field("acked_per_s", pa.float64()),
    ]
)

FATES: Final = pa.schema(
    [
        text("trial_id"),
        pa.field(
            "outcome", pa.string()
        ),  # acked, rejected, unknown, aborted; null: no attempt of ours
        text("fate"),
        count(
            "records"
        ),  # distinct ids; of PHANTOM and CORRUPT, which have none to rely on, copies
        count("duplicated_records"),  # those of them with more than one copy
        count("copies"),  # in the log
    ]
)

LATENCY: Final = pa.schema(
    [
        text("trial_id"),
        text("measure"),
        text("phase"),
        count("records"),
        count("negative_records"),
        *(count(f"{name}_us") for name in QUANTILES),
    ]
)

GAPS: Final = pa.schema(
    [
        text("trial_id"),
        pa.field("partition", pa.int32(), nullable=False),
        text("side"),  # of `Side`
        count("records"),  # acknowledged; received
        count("gap_ns"),
        count("began_ns"),
        pa.field(
            "answered", pa.bool_(), nullable=False
        ),  # an answer ended it; false: it lasted as long as anything was due
    ]
)

SPREADS: Final = (
    *(f"{measure.value}_{name}_us" for measure in Measure for name in QUANTILES),
    "unavailable_ns",
    "consumer_unavailable_ns",
    "acked_per_s",
)
"""What a cell tells of its trials as a median and a maximum."""

COUNTED: Final = ("_records", "_copies", "_reads", "_transactions")
"""How the columns of `TRIALS` end that count something: a cell has their sums."""

CELLS: Final = pa.schema(
    [
        text("cell"),
        count("sealed_trials"),
        count("void_trials"),  # in none of the other columns
        count("trials_with_loss"),  # lost for certain: lost_low > 0
        count("trials_with_duplicates"),
        *(
            field for field in TRIALS if field.name.endswith(COUNTED)
        ),  # sums; of what is not known of all, null
        *(pa.field(f"{name}_{of}", pa.float64()) for name in SPREADS for of in ("median", "max")),
    ]
)


class Side(StrEnum):
    """Who was without the partition."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class OutageStep(StrEnum):
    """The parts of an outage, in the order in which they happen."""

    LAST_BEFORE = "last_before"
    """The last acknowledgement (or read) before the gap."""
    DETECTED = "detected"
    """The controller took the broker for dead."""
    ELECTED = "elected"
    """Another replica began to lead."""
    LEARNED = "learned"
    """The client was told of the new leader."""
    FIRST_AFTER = "first_after"
    """The first acknowledgement (or read) after the gap."""


TIMELINE_SLOT_NS: Final = 100_000_000

TIMELINE: Final = pa.schema(
    [
        text("trial_id"),
        count("slot"),  # tenths of a second since load_begin; below 0: before it
        count("sent_records"),
        count("acked_records"),
        count("read_records"),
    ]
)

HISTOGRAM: Final = pa.schema(
    [
        text("trial_id"),
        text("measure"),
        text("phase"),
        count(
            "from_us"
        ),  # the slot's lower bound; at most 1/128 of the value wide, and 1 us below 256 us
        count("to_us"),  # its upper bound, exclusive
        count("records"),
    ]
)

OUTAGES: Final = pa.schema(
    [
        text("trial_id"),
        pa.field("partition", pa.int32(), nullable=False),
        text("side"),  # of `Side`
        text("mark"),  # of `Mark`
        perhaps("at_ns", pa.int64()),  # null: not seen
        perhaps("source", pa.string()),  # of `experiments.ledger.schema.Source`, or `ledger`
        perhaps("resolution_ns", pa.int64()),
    ]
)
"""A row for each mark of each partition whose longest gap overlaps the fault's time; trials without fault have none."""

RESULTS: Final = {
    "trials": TRIALS,
    "cells": CELLS,
    "fates": FATES,
    "latency": LATENCY,
    "histogram": HISTOGRAM,
    "timeline": TIMELINE,
    "gaps": GAPS,
    "anomalies": ANOMALIES,
    "attribution": ATTRIBUTION,
    "outages": OUTAGES,
    "groups": GROUPS,
    "assignments": ASSIGNMENTS,
    "fields": FIELDS,
    "replays": REPLAYS,
    "serving": SERVING,
    "brokers": BROKERS,
    "copies": COPIES,
    "keys": KEYS,
    "orders": ORDERS,
    "lags": LAGS,
    "loads": LOADS,
    "skews": SKEWS,
}
