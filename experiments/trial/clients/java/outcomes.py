"""The outcome of a record from the exception that Kafka's Java producer reports.

Java's producer has no persistence status as librdkafka has: the last exception does not show
whether an earlier attempt was stored. So a record counts as rejected in two cases only:

- Every attempt would have been refused, because of the record itself, or none was made.
- There is only one attempt (`retries=0`), and the leader refused it before it appended.

All other exceptions leave the outcome unknown. The error numbers are Kafka's own
(https://kafka.apache.org/protocol#protocol_error_codes, `org.apache.kafka.common.protocol.Errors`),
so all kinds of clients report the same numbers.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.terms import REJECTED, UNKNOWN
from ackbench.experiments.trial.clients.programs.tables import NO_CODE

CODES: Final[dict[str, int]] = {
    "CorruptRecordException": 2,
    "UnknownTopicOrPartitionException": 3,
    "LeaderNotAvailableException": 5,
    "NotLeaderOrFollowerException": 6,
    "TimeoutException": 7,
    "BufferExhaustedException": 7,
    "RecordTooLargeException": 10,
    "NetworkException": 13,
    "DisconnectException": 13,
    "InvalidTopicException": 17,
    "RecordBatchTooLargeException": 18,
    "NotEnoughReplicasException": 19,
    "NotEnoughReplicasAfterAppendException": 20,
    "InvalidRequiredAcksException": 21,
    "TopicAuthorizationException": 29,
    "ClusterAuthorizationException": 31,
    "InvalidTimestampException": 32,
    "UnsupportedForMessageFormatException": 43,
    "PolicyViolationException": 44,
    "OutOfOrderSequenceException": 45,
    "InvalidProducerEpochException": 47,
    "InvalidTxnStateException": 48,
    "ConcurrentTransactionsException": 51,
    "KafkaStorageException": 56,
    "UnknownProducerIdException": 59,
    "UnsupportedCompressionTypeException": 76,
    "InvalidRecordException": 87,
    "ProducerFencedException": 90,
}
"""Error numbers by the simple name of the exception class."""

NEVER_STORED: Final = frozenset(
    {
        "BufferExhaustedException",  # the client had no buffer space and sent nothing
        "SerializationException",
        "RecordTooLargeException",
        "RecordBatchTooLargeException",
        "InvalidTopicException",
        "InvalidRequiredAcksException",
        "InvalidTimestampException",
        "UnsupportedForMessageFormatException",
        "UnsupportedCompressionTypeException",
        "PolicyViolationException",
        "InvalidRecordException",
    }
)
"""Refused because of the record itself, so every attempt was refused."""

REFUSED_BEFORE_APPEND: Final = frozenset(
    {
        "UnknownTopicOrPartitionException",
        "LeaderNotAvailableException",
        "NotEnoughReplicasException",
        "TopicAuthorizationException",
        "ClusterAuthorizationException",
        "InvalidProducerEpochException",
    }
)
"""Returned by the leader before it appends; an earlier attempt may have been stored."""


def classify_exception(exception: str, retries: int) -> tuple[int, str]:
    """Return the error number of an exception, and the outcome of its record.

    Args:
        exception: from `Class.toString`: `class org.apache.kafka.common.errors.TimeoutException`.
        retries: the producer's setting.
    """
    name = exception.rpartition(".")[2]
    refused = name in NEVER_STORED or (retries == 0 and name in REFUSED_BEFORE_APPEND)
    return CODES.get(name, NO_CODE), REJECTED if refused else UNKNOWN
