"""What Spark makes of keys, pairs and partitions, of trials that ask it: further tables of `results/`. `docs/metrics.md` has every column's formula."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa


class Within(StrEnum):
    """Among what there is an order."""

    KEY = "key"
    """Records of one producer with one key; in the log, of those those in one partition."""
    PARTITION = "partition"
    """Records of one producer in one partition."""
    PAIR = "pair"
    """A record and the one that follows from it; in the log, where both are in one partition."""


class SeenBy(StrEnum):
    """Whose order it is."""

    LOG = "log"
    """By offset, of each record its first copy."""
    CONSUMERS = "consumers"
    """By when a record was first received: by any member of the consumer group, or, where there was none, by the reader along."""


class Spread(StrEnum):
    """What is spread over the partitions."""

    RECORDS = "records"
    BYTES = "bytes"
    """As they lie in the log, batch headers and all."""
    BATCHES = "batches"


def _schema(*fields: tuple[str, pa.DataType], perhaps: tuple[tuple[str, pa.DataType], ...] = ()) -> pa.Schema:
    return pa.schema([*(pa.field(*field, nullable=False) for field in fields), *(pa.field(*field) for field in perhaps)])


_ID: Final = ("trial_id", pa.string())
ERAS: Final = ("before", "after")
"""Of a topic's partitions, when more are added: by the count that the producer went by."""

KEYS: Final = _schema(
    _ID,
    ("era", pa.string()),  # of `ERAS`; a trial whose topic kept its partitions has only `before`
    ("partitions", pa.int32()),  # that the topic had then
    ("keys", pa.int64()),  # with an acknowledged record
    ("settled_keys", pa.int64()),  # of those, all whose acknowledged records went to one partition
    ("murmur2_keys", pa.int64()),  # of those, whose partition is the one that Java's formula says
    ("crc32_keys", pa.int64()),  # of those, whose partition is the one that librdkafka's `consistent` formula says
    perhaps=(
        ("known_keys", pa.int64()),  # of the settled ones, those that were settled in the era before as well; null: there was none
        ("stayed_keys", pa.int64()),  # of those, the ones that are where they were
    ),
)

ORDERS: Final = _schema(
    _ID,
    ("within", pa.string()),
    ("seen_by", pa.string()),
    ("compared", pa.int64()),  # records; of pairs, pairs both of which are there and have an order
    ("inverted", pa.int64()),  # that came behind a later one
    ("apart", pa.int64()),  # pairs whose two lie in different partitions
)

LAGS: Final = _schema(_ID, ("consumer", pa.int32()), ("records", pa.int64()), ("median_ns", pa.int64()), ("max_ns", pa.int64()))
"""How far behind a consumer was: from the intended time of a record to when it was received."""

LOADS: Final = _schema(
    _ID,
    ("partition", pa.int32()),
    ("slot", pa.int64()),  # the second after the load's begin in which the record was made; of a batch: its last record
    ("records", pa.int64()),
    perhaps=(("bytes", pa.int64()), ("batches", pa.int64())),  # null: nobody looked at the log's files
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
