"""The schemas of the result tables of trials with special workloads.

Consumer groups, copiers, keys, record fields and replays, and serving brokers: only such trials
have rows in them. `docs/metrics.md` has every column's formula.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.quantities import TRIAL_PLACES, Place, QuantitySource, QuantityUnit
from ackbench.experiments.ledger.schema import count, nullable, required, text

# Consumer groups.


def columns_of(source: QuantitySource) -> list[pa.Field]:
    """Return the columns of quantities in a table that they come from."""
    return [_column(place) for place in TRIAL_PLACES if place.quantity.source is source]


def _column(place: Place) -> pa.Field:
    quantity = place.quantity
    # The table of copies has only rows of trials that have all of them.
    kind = nullable if quantity.null and quantity.source is QuantitySource.TRIALS else required
    is_rate = quantity.unit is QuantityUnit.RECORDS_PER_S
    return kind(place.column, pa.float64() if is_rate else pa.int64())


GROUPS: Final = pa.schema(
    [
        text("trial_id"),
        count("group"),  # the group's number in the trial, from 1 on
        count("members"),  # how many there were in all
        count("shown_records"),  # distinct visible ids in the log
        count("processed_records"),  # distinct ids that a member processed
        count("missed_records"),  # below a committed offset, and processed by no member
        count("expired_records"),  # missed ones that were not in the log at the end any more
        count("redelivered_reads"),
        # How often a member went on at another offset, because the log lacked its next one.
        count("offset_resets"),
        # Where a member got an error for that instead, and read no further.
        count("stuck_partitions"),
        # Longest time of a partition, during the load, without a processed record.
        count("processing_gap_ns"),
        count("overlap_ns"),  # how long a partition had two owners
        count("unassigned_ns"),  # longest time of a partition, during the load, without an owner
        count("max_partitions"),  # most partitions that one member owned at once
        # Most members at once that belonged to the group and owned nothing for a second or more.
        count("idle_members"),
    ]
)

ASSIGNMENTS: Final = pa.schema(
    [
        text("trial_id"),
        count("group"),
        count("consumer"),
        count("generation"),
        count("partition"),
        count("from_ns"),
        nullable("until_ns", pa.int64()),  # null: the member owned it to the end
        # `released` (revoked), `lost` (the group had taken it away before) or `member_exited` (the
        # member left or crashed); null: the member owned it to the end.
        nullable("ended", pa.string()),
    ]
)
"""One row per assignment of a partition to a member, as the members reported it."""

# Copiers (consume-process-produce).

COPIES: Final = pa.schema([text("trial_id"), *columns_of(QuantitySource.COPIES)])

# Keys, pairs and partitions.


class OrderScope(StrEnum):
    """Between which records an order is defined."""

    KEY = "key"
    """Records of one producer with one key; in the log, those of them in one partition."""
    PARTITION = "partition"
    """Records of one producer in one partition."""
    PAIR = "pair"
    """A record and the one that follows from it; in the log, if both are in one partition."""


class OrderObserver(StrEnum):
    """Where the order is observed."""

    LOG = "log"
    """By offset of each record's first copy."""
    CONSUMERS = "consumers"
    """By first receipt: by any group member or, without a group, by the concurrent consumer."""


class LoadQuantity(StrEnum):
    """What is distributed over the partitions."""

    RECORDS = "records"
    BYTES = "bytes"
    """As stored in the log, with batch headers."""
    BATCHES = "batches"


ERAS: Final = ("before", "after")
"""Before and after partitions are added to a topic, by the partition count the producer used."""

KEYS: Final = pa.schema(
    [
        text("trial_id"),
        text("era"),  # of `ERAS`; only `before` if the partition count did not change
        required("partitions", pa.int32()),  # the topic's partition count then
        count("keys"),  # with an acknowledged record
        count("single_partition_keys"),  # whose acknowledged records went to one partition
        count("murmur2_keys"),  # of those, in the partition of Java's formula
        count("crc32_keys"),  # of those, in the partition of librdkafka's `consistent`
        # Of the single-partition keys, those that were such in the era before; null: first era.
        nullable("known_keys", pa.int64()),
        nullable("unmoved_keys", pa.int64()),  # of those, still in the same partition
    ]
)

ORDERS: Final = pa.schema(
    [
        text("trial_id"),
        text("within"),  # `OrderScope`
        text("observer"),  # `OrderObserver`
        count("compared"),  # records; of pairs, those with both records and an order
        count("inverted"),  # behind a later one
        count("apart"),  # pairs in two different partitions
    ]
)

LAGS: Final = pa.schema(
    [
        text("trial_id"),
        required("consumer", pa.int32()),
        count("records"),
        count("median_ns"),
        count("max_ns"),
    ]
)
"""A consumer's lag: from a record's intended time to its receipt."""

LOADS: Final = pa.schema(
    [
        text("trial_id"),
        required("partition", pa.int32()),
        # The second since load_begin in which the record was created; of a batch, its last record.
        count("slot"),
        count("records"),
        # Null: the log's files were not read.
        nullable("bytes", pa.int64()),
        nullable("batches", pa.int64()),
    ]
)

SKEWS: Final = pa.schema(
    [
        text("trial_id"),
        text("of"),  # `LoadQuantity`
        required("partitions", pa.int32()),
        count("total"),
        required("max_over_mean", pa.float64()),  # over the entire load
        required("gini", pa.float64()),
        required("second_max_over_mean", pa.float64()),  # median over the seconds of the load
    ]
)

# Record fields and replays.


class Field(StrEnum):
    """A part of a record."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"
    """As acknowledged."""


FIELDS: Final = pa.schema(
    [
        text("trial_id"),
        text("field"),  # `Field`
        count("compared_records"),  # in the first replay, and with known digests as sent
        count("differing_records"),
    ]
)

REPLAY_DIFFERENCES: Final = pa.schema(
    [
        text("trial_id"),
        count("replay"),  # its number, from 1 on
        count("records"),
        count("differing_records"),  # at an offset with another record, or none, in replay 1
        count("absent_records"),  # in replay 1, within this replay's range, and not in it
    ]
)

# Serving brokers.

BROKERS: Final = pa.schema(
    [
        text("trial_id"),
        required("node", pa.int32()),
        # The broker's own counter: BytesInPerSec, BytesOutPerSec, MessagesInPerSec.
        text("name"),
        count("count"),  # since the broker's process started
    ]
)
"""What brokers counted of the topic themselves, at the end of the load, before the final read."""

SERVING: Final = pa.schema(
    [
        text("trial_id"),
        text("side"),  # producer or consumer
        required("node", pa.int32()),
        required("partition", pa.int32()),
        count("records"),
        count("first_ns"),
        count("last_ns"),
        # How much of the time from the first to the last the node did not lead the partition.
        count("non_leader_ns"),
    ]
)
