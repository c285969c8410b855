"""The outcome of a record, as far as its client can know."""

import pytest

from ackbench.experiments.ledger.terms import ACKED, REJECTED, UNKNOWN
from ackbench.experiments.trial.clients.librdkafka.library import library
from ackbench.experiments.trial.clients.producer.attempts import (
    NEVER_APPENDED,
    NOT_PERSISTED,
    PERSISTED,
    POSSIBLY_PERSISTED,
    delivery_outcome,
)

UNKNOWABLE = [-195, -185, -151, -199, 6, 7, 20, 45, 56]
"""_TRANSPORT, _TIMED_OUT, _PURGE_INFLIGHT, _BAD_MSG, NOT_LEADER_FOR_PARTITION, REQUEST_TIMED_OUT,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, OUT_OF_ORDER_SEQUENCE_NUMBER, KAFKA_STORAGE_ERROR."""


@pytest.mark.parametrize("status", [NOT_PERSISTED, POSSIBLY_PERSISTED, PERSISTED])
def test_no_error_is_an_acknowledgement(status: int) -> None:
    """With acks=0 the status stays "possibly persisted"; the record counts as acknowledged."""
    assert delivery_outcome(0, status) == ACKED


@pytest.mark.parametrize("error", sorted(NEVER_APPENDED))
def test_a_refusal_is_a_rejection_unless_an_earlier_attempt_may_have_been_stored(
    error: int,
) -> None:
    """Code and status must agree."""
    assert delivery_outcome(error, NOT_PERSISTED) == REJECTED
    assert delivery_outcome(error, POSSIBLY_PERSISTED) == UNKNOWN


@pytest.mark.parametrize("error", UNKNOWABLE)
def test_an_error_after_which_the_record_may_be_stored_is_unknown(error: int) -> None:
    """Whatever the status is."""
    assert delivery_outcome(error, NOT_PERSISTED) == UNKNOWN


def test_an_unlisted_error_is_unknown() -> None:
    """A new error code of a new Kafka version is not a rejection."""
    assert delivery_outcome(9_999, NOT_PERSISTED) == UNKNOWN


def test_the_table_has_librdkafkas_error_names() -> None:
    """A wrong number next to a correct name would classify another error."""
    assert {
        code: library().rd_kafka_err2name(code).decode() for code in NEVER_APPENDED
    } == NEVER_APPENDED
