"""What became of a record, as far as Java's producer can tell: from the class of its exception. Pure.

Java tells no persistence status as librdkafka does: that an earlier attempt got through does not show in the last one's exception. So a record
counts as rejected only where every attempt would have been refused alike, for what the record is or because none was made; and, where there is
but one attempt (`retries=0`), for what the leader answers before it appends. All else is unknown. The numbers are Kafka's own
(https://kafka.apache.org/protocol#protocol_error_codes, `org.apache.kafka.common.protocol.Errors`), so both clients' errors are told alike.
"""

from __future__ import annotations

from typing import Final

from experiments.ledger.schema import REJECTED, UNKNOWN

NO_CODE: Final = -1
"""`UNKNOWN_SERVER_ERROR`; also what an exception without a number of its own is given."""
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
    "KafkaStorageException": 56,
    "UnknownProducerIdException": 59,
    "UnsupportedCompressionTypeException": 76,
    "InvalidRecordException": 87,
    "ProducerFencedException": 90,
}
"""By the class's own name."""

NEVER_TAKEN: Final = frozenset(
    {
        "BufferExhaustedException",  # the client had no room for it, and sent nothing
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
"""Refused for what the record is, so each attempt was refused."""

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
"""Answered by the leader before it appends; says nothing of an attempt before."""


def failure(exception: str, retries: int) -> tuple[int, str]:
    """Return the number and the outcome of an exception.

    Args:
        exception: as `Class.toString` has it: `class org.apache.kafka.common.errors.TimeoutException`.
        retries: the producer's.
    """
    name = exception.rpartition(".")[2]
    refused = name in NEVER_TAKEN or (retries == 0 and name in REFUSED_BEFORE_APPEND)
    return CODES.get(name, NO_CODE), REJECTED if refused else UNKNOWN
