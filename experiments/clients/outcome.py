"""What became of a record, as far as its client can tell: acked, rejected or unknown. Pure.

Sources: librdkafka's `rd_kafka_handle_Produce_error` and `rd_kafka_err_action` (rdkafka_request.c), which say for each error
whether the message may have been persisted, and its INTRODUCTION.md, "Message persistence status"; for the brokers' codes
Kafka's own list, https://kafka.apache.org/protocol#protocol_error_codes.

An error code alone can hide an earlier attempt: a record whose first request got no answer and whose retry was refused ends
with the refusal's code. librdkafka keeps the worst it has seen as the message's *persistence status* and never lowers it
(`rd_kafka_msgq_set_metadata`, `rd_kafka_retry_msgq`). So a record counts as rejected only where both agree: its code is one
of the table below, and its status is NOT_PERSISTED.
"""

from __future__ import annotations

from typing import Final

from experiments.ledger.schema import ACKED, REJECTED, UNKNOWN

NOT_PERSISTED: Final = 0
POSSIBLY_PERSISTED: Final = 1
PERSISTED: Final = 2
"""`rd_kafka_msg_status_t` (rdkafka.h)."""

NEVER_APPENDED: Final[dict[int, str]] = {
    # The client's own: the record was never handed to a socket, or no request with it was answered other than by a refusal.
    -192: "_MSG_TIMED_OUT",
    -190: "_UNKNOWN_PARTITION",
    -188: "_UNKNOWN_TOPIC",
    -184: "_QUEUE_FULL",
    -166: "_TIMED_OUT_QUEUE",
    -152: "_PURGE_QUEUE",
    -150: "_FATAL",
    -138: "_INVALID_DIFFERENT_RECORD",
    # The leader's, given before it appends (ReplicaManager.appendToLocalLog, LogValidator).
    2: "INVALID_MSG",
    3: "UNKNOWN_TOPIC_OR_PART",
    5: "LEADER_NOT_AVAILABLE",
    10: "MSG_SIZE_TOO_LARGE",
    17: "TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS",
    21: "INVALID_REQUIRED_ACKS",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    32: "INVALID_TIMESTAMP",
    43: "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    44: "POLICY_VIOLATION",
    47: "INVALID_PRODUCER_EPOCH",
    76: "UNSUPPORTED_COMPRESSION_TYPE",
    87: "INVALID_RECORD",
}
"""Errors that say the record is not in the log, by librdkafka's names.

Not among them, though librdkafka takes them for "not persisted": NOT_LEADER_FOR_PARTITION, which a leader that is deposed
while it waits for its followers answers after it has appended (DelayedProduce), and KAFKA_STORAGE_ERROR, after which part of
a batch may be on the disk.
"""


def outcome(error: int, status: int) -> str:
    """Return the outcome of a record that its client settled.

    Args:
        error: of the delivery report, `rd_kafka_resp_err_t`.
        status: of the delivery report, `rd_kafka_msg_status_t`.
    """
    if error == 0:
        return ACKED
    return REJECTED if error in NEVER_APPENDED and status == NOT_PERSISTED else UNKNOWN
