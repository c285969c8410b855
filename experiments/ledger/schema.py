"""The schemas of the ledger's tables. `docs/ledger.md` describes each column for readers.

Times are nanoseconds since the epoch. A value that was not observed is null, never 0 or -1.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_OUTCOME = pa.dictionary(pa.int8(), pa.string())


def required(name: str, kind: pa.DataType) -> pa.Field:
    """Return a column that is never null."""
    return pa.field(name, kind, nullable=False)


def nullable(name: str, kind: pa.DataType) -> pa.Field:
    """Return a column that is null where the value is unknown or does not apply."""
    return pa.field(name, kind)


def count(name: str) -> pa.Field:
    """Return a column of 64-bit integers that is never null."""
    return required(name, pa.int64())


def text(name: str) -> pa.Field:
    """Return a column of strings that is never null."""
    return required(name, pa.string())


ATTEMPTS: Final = pa.schema(
    [
        required("producer", pa.int32()),
        count("seq"),  # dense from 0 per producer
        nullable("key", pa.int64()),  # the key's number; null: no key
        count("intended_ns"),
        # When librdkafka accepted the record; null: it never did.
        nullable("sent_ns", pa.int64()),
        # sent_ns + librdkafka's own latency; null: never settled.
        nullable("settled_ns", pa.int64()),
        required("outcome", _OUTCOME),
        required("error", pa.int32()),  # rd_kafka_resp_err_t; 0: none
        nullable("partition", pa.int32()),
        nullable("offset", pa.int64()),  # null: not reported (acks=0, errors)
        # The number of the producer's transaction; null: sent without one.
        nullable("transaction", pa.int64()),
    ]
)

LOG: Final = pa.schema(
    [
        required("partition", pa.int32()),
        count("offset"),
        nullable("producer", pa.int32()),  # null: no record of this trial, or a corrupt one
        nullable("seq", pa.int64()),
        count("timestamp_ms"),
        # False: it carries this trial's token, and its checksum does not match.
        required("intact", pa.bool_()),
        # Of the leader that appended the batch; null: the client did not get it.
        nullable("leader_epoch", pa.int32()),
        required("visible", pa.bool_()),  # false: not visible to a read_committed consumer
    ]
)

TRANSACTIONS: Final = pa.schema(
    [
        required("producer", pa.int32()),
        count("transaction"),  # dense from 0 per producer
        count("begin_ns"),
        # When the client learned the outcome, or gave up; null: never.
        nullable("end_ns", pa.int64()),
        count("records"),  # how many records of the schedule were attempted in it
        # Unknown: the producer asked to commit and never got a response.
        required("outcome", _OUTCOME),
        required("error", pa.int32()),  # rd_kafka_resp_err_t; 0: none
    ]
)

READS: Final = pa.schema(
    [
        required("consumer", pa.int32()),
        required("generation", pa.int32()),
        required("partition", pa.int32()),
        count("offset"),
        nullable("producer", pa.int32()),
        nullable("seq", pa.int64()),
        # As the record carries it, so end-to-end latency needs no join.
        nullable("intended_ns", pa.int64()),
        count("received_ns"),
    ]
)

EVENTS: Final = pa.schema(
    [
        count("at_ns"),
        text("kind"),
        text("source"),  # `Source`
        # The event happened at most this long before at_ns; null: at at_ns.
        nullable("resolution_ns", pa.int64()),
        nullable("node", pa.int32()),
        nullable("partition", pa.int32()),
        nullable("leader_epoch", pa.int32()),
        nullable("offset", pa.int64()),
        text("detail"),
    ]
)

EPOCHS: Final = pa.schema(
    [
        # Whose `leader-epoch-checkpoint`, after the heal, with the full ISR.
        required("node", pa.int32()),
        required("partition", pa.int32()),
        required("leader_epoch", pa.int32()),
        count("start_offset"),  # the epoch's first offset in the log that survived
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
"""The tables of every ledger."""

_FIELDS: Final = [
    count("timestamp_ms"),
    count("key_digest"),
    count("value_digest"),
    count("headers_digest"),
]
"""A record's fields, as digests; interceptors make them (`trial.clients.librdkafka`)."""

SENT: Final = pa.schema([required("producer", pa.int32()), count("seq"), *_FIELDS])

REPLAYS: Final = pa.schema(
    [
        # The replay's number in the trial, from 1 on; `trial.json` has where it began.
        required("replay", pa.int32()),
        required("partition", pa.int32()),
        count("offset"),
        nullable("producer", pa.int32()),  # null: no record of this trial
        nullable("seq", pa.int64()),
        *_FIELDS,
    ]
)

SERVED: Final = pa.schema(
    [
        text("side"),  # producer or consumer
        required("node", pa.int32()),  # the broker that acknowledged or returned the records
        required("partition", pa.int32()),
        count("records"),
        # When the first of them was settled, or passed to the application.
        count("first_ns"),
        count("last_ns"),
    ]
)

BATCHES: Final = pa.schema(
    [
        required("partition", pa.int32()),
        count("first_offset"),
        count("last_offset"),
        count("producer_id"),
        required("producer_epoch", pa.int32()),
        required("base_sequence", pa.int32()),
    ]
)
"""The batches of idempotent producers, from the headers in the leaders' segment files (KIP-98)."""

OUTPUT: Final = "output"
OPTIONAL_TABLES: Final = {
    OUTPUT: LOG,
    "sent": SENT,
    "replays": REPLAYS,
    "served": SERVED,
    "batches": BATCHES,
}
"""The tables that only the ledgers of some trials have.

`output`: with copiers, the log of the topic that they wrote to. `sent` and `replays`: with headers,
the digests of the records' fields as sent and as replayed. `served`: which broker served the
clients' records. `batches`: with an idempotent producer, if the brokers' files are accessible.
"""
