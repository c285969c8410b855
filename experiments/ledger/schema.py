"""The ledger's tables. `docs/ledger.md` tells what each column means to a reader.

Times are nanoseconds since the epoch. A column that nothing settled holds null, never 0 or -1.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

LEDGER_VERSION: Final = 4
"""Raised whenever a reader of the old layout would read the new one wrongly."""

ACKED: Final = "acked"
"""The client reported success. With acks=0 that is all it ever means: handed to the socket."""
REJECTED: Final = "rejected"
"""The client reported that the record was not persisted."""
UNKNOWN: Final = "unknown"
"""The client cannot tell, or never settled the record at all."""

COMMITTED: Final = "committed"
"""The client was told that the transaction is committed."""
ABORTED: Final = "aborted"
"""The client was told that the transaction is aborted."""
FENCED: Final = "fenced"
"""The coordinator let the producer go before it asked to commit: another one took the `transactional.id`, or `transaction.timeout.ms` had passed.

Either way it has aborted the transaction, and raised the producer's epoch.
"""
ABANDONED: Final = "abandoned"
"""Its producer ended, or gave up, before it asked to commit: the coordinator aborts it after `transaction.timeout.ms`."""

_OUTCOME = pa.dictionary(pa.int8(), pa.string())

ATTEMPTS: Final = pa.schema(
    [
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),  # dense from 0 per producer
        pa.field("key", pa.int64()),  # the key's number; null: no key
        pa.field("intended_ns", pa.int64(), nullable=False),
        pa.field("sent_ns", pa.int64()),  # handed to librdkafka; null: it never took the record
        pa.field(
            "settled_ns", pa.int64()
        ),  # sent_ns + librdkafka's own latency; null: never settled
        pa.field("outcome", _OUTCOME, nullable=False),
        pa.field("error", pa.int32(), nullable=False),  # rd_kafka_resp_err_t; 0: none
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),  # null: the broker told none (acks=0, errors)
        pa.field(
            "transaction", pa.int64()
        ),  # the number of its producer's transaction; null: it was sent in none
    ]
)

LOG: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("producer", pa.int32()),  # null: carries no mark of this trial (of other origin)
        pa.field("seq", pa.int64()),
        pa.field("timestamp_ms", pa.int64(), nullable=False),
        pa.field(
            "intact", pa.bool_(), nullable=False
        ),  # false: carries our mark and its checksum does not hold
        pa.field(
            "leader_epoch", pa.int32()
        ),  # of the leader that appended the batch; null: the client was not told
        pa.field(
            "visible", pa.bool_(), nullable=False
        ),  # false: a read_committed reader is not shown it
    ]
)

TRANSACTIONS: Final = pa.schema(
    [
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("transaction", pa.int64(), nullable=False),  # dense from 0 per producer
        pa.field("begin_ns", pa.int64(), nullable=False),
        pa.field(
            "end_ns", pa.int64()
        ),  # when the client was told how it ended, or gave up; null: never
        pa.field(
            "records", pa.int64(), nullable=False
        ),  # how many of the schedule were attempted in it
        pa.field(
            "outcome", _OUTCOME, nullable=False
        ),  # committed, aborted, fenced, abandoned; unknown: it asked to commit, and was never told
        pa.field("error", pa.int32(), nullable=False),  # rd_kafka_resp_err_t; 0: none
    ]
)

READS: Final = pa.schema(
    [
        pa.field("consumer", pa.int32(), nullable=False),
        pa.field("generation", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("producer", pa.int32()),
        pa.field("seq", pa.int64()),
        pa.field(
            "intended_ns", pa.int64()
        ),  # as the record itself carries it: end-to-end latency needs no join
        pa.field("received_ns", pa.int64(), nullable=False),
    ]
)

EVENTS: Final = pa.schema(
    [
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),  # who says so: `Source`
        pa.field(
            "resolution_ns", pa.int64()
        ),  # it happened at most so long before at_ns; null: at_ns is the moment itself
        pa.field("node", pa.int32()),
        pa.field("partition", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("detail", pa.string(), nullable=False),
    ]
)

EPOCHS: Final = pa.schema(
    [
        pa.field(
            "node", pa.int32(), nullable=False
        ),  # whose `leader-epoch-checkpoint`, read after the heal and the full ISR
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=False),
        pa.field(
            "start_offset", pa.int64(), nullable=False
        ),  # the epoch's first offset in the log that survived
    ]
)

TABLES: Final = {
    "attempts": ATTEMPTS,
    "transactions": TRANSACTIONS,
    "log": LOG,
    "reads": READS,
    "events": EVENTS,
    "epochs": EPOCHS,
}
"""What every ledger has."""

_FIELDS: Final = [
    pa.field("timestamp_ms", pa.int64(), nullable=False),
    pa.field("key_digest", pa.int64(), nullable=False),
    pa.field("value_digest", pa.int64(), nullable=False),
    pa.field("headers_digest", pa.int64(), nullable=False),
]
"""What a record is made of; `experiments.clients.record.fields` has the digests."""

SENT: Final = pa.schema(
    [
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        *_FIELDS,
    ]
)

REPLAYS: Final = pa.schema(
    [
        pa.field(
            "replay", pa.int32(), nullable=False
        ),  # which of the trial's, from 1 on; `trial.json` says from where
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("producer", pa.int32()),  # null: carries no mark of this trial
        pa.field("seq", pa.int64()),
        *_FIELDS,
    ]
)

SERVED: Final = pa.schema(
    [
        pa.field("side", pa.string(), nullable=False),  # producer or consumer
        pa.field(
            "node", pa.int32(), nullable=False
        ),  # the broker that records were produced to, or fetched from
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field(
            "first_ns", pa.int64(), nullable=False
        ),  # when the first of them was settled, or given to the application
        pa.field("last_ns", pa.int64(), nullable=False),
    ]
)

OUTPUT: Final = "output"
OF_SOME: Final = {OUTPUT: LOG, "sent": SENT, "replays": REPLAYS, "served": SERVED}
"""What a ledger has besides where its trial was of that kind.

`output`: what copiers made of the log, as the log of the topic that they wrote to. `sent`, `replays`: what records were made of as they were handed over, and
as the log was read again. `served`: which broker served the clients' records.
"""


class Source(StrEnum):
    """Who says that something happened, and so how well the moment is known; `docs/ledger.md` has each one's resolution."""

    TRIAL = "trial"
    """The trial's own story and its fault: the moment itself."""
    METADATA = "metadata"
    """A broker's metadata, asked again and again: known to the time between two answers."""
    BROKER = "broker"
    """A broker's or a controller's own log, by the millisecond."""
    CLIENT = "client"
    """librdkafka's own log, by the millisecond."""


# ---------- How the columns of results are written: what is counted or named is never null, what need not be known may be.


def count(name: str) -> pa.Field:
    """Return a column of whole numbers that are always known."""
    return pa.field(name, pa.int64(), nullable=False)


def text(name: str) -> pa.Field:
    """Return a column of texts that are always there."""
    return pa.field(name, pa.string(), nullable=False)


def perhaps(name: str, kind: pa.DataType) -> pa.Field:
    """Return a column that holds null where something is not known."""
    return pa.field(name, kind)
