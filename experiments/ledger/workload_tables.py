"""What Spark makes of consumer groups: two tables of `results/`, of trials that had groups. `docs/metrics.md` has every column's formula."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

from experiments.ledger.schema import count

_TRIAL: Final = pa.field("trial_id", pa.string(), nullable=False)

GROUPS: Final = pa.schema(
    [
        _TRIAL,
        count("group"),  # its number in the trial, from 1 on
        count("members"),  # how many there were in all
        count("shown_records"),  # distinct ids in the log
        count("processed_records"),  # distinct ids that a member processed
        count("missed_records"),  # passed by a commit, and processed by no member
        count("expired_records"),  # those of them that the log did not hold any more at the end
        count("redelivered_reads"),
        count(
            "offset_resets"
        ),  # how often a member went on elsewhere, as the log did not hold the offset any more at which it was to read on
        count(
            "stuck_partitions"
        ),  # of which a member was told that as an error instead, and read no further
        count(
            "processing_gap_ns"
        ),  # longest time of a partition, under load, in which nothing of it was processed
        count("overlap_ns"),  # how long a partition was held by two members at once
        count(
            "unassigned_ns"
        ),  # longest time, under load, in which a partition was held by no member
        count("max_partitions"),  # that one member held at once
        count(
            "idle_members"
        ),  # most that belonged to the group at the same time and held no partition for a second or longer
    ]
)

ASSIGNMENTS: Final = pa.schema(
    [
        _TRIAL,
        count("group"),
        count("consumer"),
        count("generation"),
        count("partition"),
        count("from_ns"),
        pa.field("until_ns", pa.int64()),  # null: it held it to the end
        pa.field(
            "ended", pa.string()
        ),  # `given back`, `lost` (its group had taken it away before) or `gone` (it had died); null: it held it to the end
    ]
)
"""A row for each time that a member was given a partition, by the members' own accounts."""


# ---------- What Spark makes of keys, pairs and partitions, of trials that ask it: further tables of `results/`. `docs/metrics.md` has every column's formula.


class OrderScope(StrEnum):
    """Among what there is an order."""

    KEY = "key"
    """Records of one producer with one key; in the log, of those those in one partition."""
    PARTITION = "partition"
    """Records of one producer in one partition."""
    PAIR = "pair"
    """A record and the one that follows from it; in the log, where both are in one partition."""


class OrderObserver(StrEnum):
    """Whose order it is."""

    LOG = "log"
    """By offset, of each record its first copy."""
    CONSUMERS = "consumers"
    """By when a record was first received: by any member of the consumer group, or, where there was none, by the reader along."""


class LoadQuantity(StrEnum):
    """What is spread over the partitions."""

    RECORDS = "records"
    BYTES = "bytes"
    """As they lie in the log, batch headers and all."""
    BATCHES = "batches"


def _schema(
    *fields: tuple[str, pa.DataType], perhaps: tuple[tuple[str, pa.DataType], ...] = ()
) -> pa.Schema:
    return pa.schema(
        [
            *(pa.field(*field, nullable=False) for field in fields),
            *(pa.field(*field) for field in perhaps),
        ]
    )


_ID: Final = ("trial_id", pa.string())
ERAS: Final = ("before", "after")
"""Of a topic's partitions, when more are added: by the count that the producer went by."""

KEYS: Final = _schema(
    _ID,
    ("era", pa.string()),  # of `ERAS`; a trial whose topic kept its partitions has only `before`
    ("partitions", pa.int32()),  # that the topic had then
    ("keys", pa.int64()),  # with an acknowledged record
    (
        "single_partition_keys",
        pa.int64(),
    ),  # of those, all whose acknowledged records went to one partition
    ("murmur2_keys", pa.int64()),  # of those, whose partition is the one that Java's formula says
    (
        "crc32_keys",
        pa.int64(),
    ),  # of those, whose partition is the one that librdkafka's `consistent` formula says
    perhaps=(
        (
            "known_keys",
            pa.int64(),
        ),  # of the settled ones, those that were settled in the era before as well; null: there was none
        ("unmoved_keys", pa.int64()),  # of those, the ones that are where they were
    ),
)

ORDERS: Final = _schema(
    _ID,
    ("within", pa.string()),
    ("observer", pa.string()),
    ("compared", pa.int64()),  # records; of pairs, pairs both of which are there and have an order
    ("inverted", pa.int64()),  # that came behind a later one
    ("apart", pa.int64()),  # pairs whose two lie in different partitions
)

LAGS: Final = _schema(
    _ID,
    ("consumer", pa.int32()),
    ("records", pa.int64()),
    ("median_ns", pa.int64()),
    ("max_ns", pa.int64()),
)
"""How far behind a consumer was: from the intended time of a record to when it was received."""

LOADS: Final = _schema(
    _ID,
    ("partition", pa.int32()),
    (
        "slot",
        pa.int64(),
    ),  # the second after the load's begin in which the record was made; of a batch: its last record
    ("records", pa.int64()),
    perhaps=(
        ("bytes", pa.int64()),
        ("batches", pa.int64()),
    ),  # null: nobody looked at the log's files
)

SKEWS: Final = _schema(
    _ID,
    ("of", pa.string()),  # of `Spread`
    ("partitions", pa.int32()),
    ("total", pa.int64()),
    ("max_over_mean", pa.float64()),  # over the whole load
    ("gini", pa.float64()),
    ("second_max_over_mean", pa.float64()),  # the median over the seconds of the load
)


# ---------- What Spark makes of records' fields and of replays: two tables of `results/`, of trials that ask it. `docs/metrics.md` has every column's formula.


class Field(StrEnum):
    """A part of a record."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"
    """As its acknowledgement told it."""


FIELDS: Final = pa.schema(
    [
        _TRIAL,
        pa.field("field", pa.string(), nullable=False),  # of `Field`
        count("compared_records"),  # read in the first replay, and known as they were sent
        count("differing_records"),
    ]
)

REPLAYS: Final = pa.schema(
    [
        _TRIAL,
        count("replay"),  # its number, from 1 on
        count("records"),
        count("differing_records"),  # at a place where the first replay had another record, or none
        count("absent_records"),  # that the first replay had, and that this one was to have
    ]
)


# ---------- What Spark makes of consume-process-produce: a table of `results/`, of trials that had copiers. `docs/metrics.md` has every column's formula.


COPIES: Final = pa.schema(
    [
        pa.field("trial_id", pa.string(), nullable=False),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in (
                "copied_records",  # distinct ids that the output shows
                "missed_records",  # in the log, committed past, not in the output, and of which no copier was told that its copy is stored
                "output_lost_records",  # of which a copier was told so, and not in the output
                "repeated_copies",  # in the output, beyond as many as the log has of the record
                "hidden_copies",  # in the output, and not shown: of transactions that were not committed
            )
        ),
    ]
)


# ---------- Who served the clients' records: a table of `results/`, of trials that ask it. `docs/metrics.md` has every column's formula.


BROKERS: Final = pa.schema(
    [
        pa.field("trial_id", pa.string(), nullable=False),
        pa.field("node", pa.int32(), nullable=False),
        pa.field(
            "name", pa.string(), nullable=False
        ),  # of the broker's own counter: BytesInPerSec, BytesOutPerSec, MessagesInPerSec
        pa.field("count", pa.int64(), nullable=False),  # since its process began
    ]
)
"""What brokers counted of the topic themselves, at the end, before it was read to check."""

SERVING: Final = pa.schema(
    [
        pa.field("trial_id", pa.string(), nullable=False),
        pa.field("side", pa.string(), nullable=False),  # producer or consumer
        pa.field("node", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in ("records", "first_ns", "last_ns")
        ),
        pa.field(
            "non_leader_ns", pa.int64(), nullable=False
        ),  # of the time from the first to the last of them, how much it was not the partition's leader
    ]
)
