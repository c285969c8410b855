"""no-duplicates: a record is stored once."""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.rules import (
    ACKS,
    IDEMPOTENCE,
    KIP_98,
    LIBRDKAFKA_GUARANTEES,
    LIBRDKAFKA_PRODUCE_ERROR,
    PRODUCER_ID_EXPIRATION,
    SEMANTICS,
    guaranteed,
    not_guaranteed,
)
from ackbench.experiments.verdicts.guarantees.violations import Count

FORGOTTEN_PRODUCER: Final = (
    not_guaranteed(
        "enable.idempotence=true, and producer.id.expiration.ms is shorter than "
        "delivery.timeout.ms, or the client never gives up",
        lambda c: c.idempotent and c.may_outlive_producer_id,
        "the leader may forget the producer while the client still sends a batch again, and then "
        "cannot tell the batch from a new one",
        PRODUCER_ID_EXPIRATION,
        "producer.id.expiration.ms={c.producer_id_expiration_ms:g}, "
        "delivery.timeout.ms={c.delivery_timeout_ms:g}",
    ),
    not_guaranteed(
        "enable.idempotence=true, and records are retained for less than delivery.timeout.ms, or "
        "up to a number of bytes",
        lambda c: c.idempotent and c.may_outlive_retention,
        "producer IDs may expire sooner if retention deletes the last write of the producer, and "
        "the leader then cannot tell a batch that is sent again from a new one",
        PRODUCER_ID_EXPIRATION,
    ),
)
"""Where idempotence ends, by its documentation: for duplicates and order alike."""


def _gives_up_records(c: Circumstances) -> bool:
    """Return whether an idempotent producer without transactions may give up records."""
    return c.idempotent and not c.transactional and c.may_time_out_records


_RULES: Final = (
    not_guaranteed(
        "a fault that the contract does not know",
        lambda c: not c.fault.known,
        "it may end the producer, and a new producer session may resend what the old one sent",
        KIP_98,
    ),
    not_guaranteed(
        "a producer crashes, and its successor resends the records that were not acknowledged",
        lambda c: c.fault.resends_unacknowledged,
        "the successor is a new producer session: the leader cannot tell its resends from new "
        "records, with idempotence or without",
        KIP_98,
    ),
    *FORGOTTEN_PRODUCER,
    guaranteed(
        "enable.idempotence=true with librdkafka, and records may time out during the fault",
        lambda c: _gives_up_records(c) and c.client == "librdkafka",
        "its documentation states that a message is written to the log only once, and that after "
        "a time-out the producer drains all requests, bumps its epoch and skips the timed-out "
        "messages as if they had never existed; it makes no exception for other messages, nor for "
        "one that timed out in flight, which may be stored or not",
        LIBRDKAFKA_GUARANTEES,
        "delivery.timeout.ms={c.delivery_timeout_ms:g}; the fault is healed within "
        "{c.fault.heals_within_ms:g} ms",
    ),
    guaranteed(
        "enable.idempotence=true with Java's client, and records may time out during the fault",
        lambda c: _gives_up_records(c) and c.client == "java",
        "its documentation states that exactly one copy of each message is written, without an "
        "exception; a partition whose batches timed out gets a new epoch once none of its batches "
        "is in flight, and the others keep their sequence numbers",
        IDEMPOTENCE,
        "delivery.timeout.ms={c.delivery_timeout_ms:g}; the fault is healed within "
        "{c.fault.heals_within_ms:g} ms",
    ),
    guaranteed(
        "enable.idempotence=true",
        lambda c: c.idempotent,
        "the leader knows the producer ID, epoch and sequence number of each batch, and appends "
        "a batch that is resent within the session only once",
        KIP_98,
    ),
    guaranteed(
        "acks=0",
        lambda c: c.acks == "0",
        "the producer waits for no response, so it resends nothing",
        ACKS,
    ),
    not_guaranteed(
        "retries=0 and acks=all with librdkafka, and leadership may move",
        lambda c: (
            c.retries == 0
            and c.acks == "all"
            and c.client == "librdkafka"
            and c.leadership_may_move
        ),
        "a leader that is deposed while it waits for its followers answers "
        "NOT_LEADER_OR_FOLLOWER, although it has appended the batch and followers may have it; "
        "librdkafka takes such a batch for not stored, and resends it without counting a retry",
        LIBRDKAFKA_PRODUCE_ERROR,
    ),
    guaranteed(
        "retries=0",
        lambda c: c.retries == 0,
        "without retries, delivery is at most once",
        SEMANTICS,
    ),
    not_guaranteed(
        "no fault",
        lambda c: c.fault.kind == "none",
        "delivery is at least once: the client resends a stored batch when the response takes "
        "longer than its request timeout (socket.timeout.ms; Java: request.timeout.ms)",
        SEMANTICS,
    ),
    not_guaranteed(
        "responses to the clients are lost",
        lambda c: c.fault.responses_lost,
        "delivery is at least once: the leader stores the batch, the producer never receives the "
        "response, and resends it",
        SEMANTICS,
    ),
    not_guaranteed(
        "anything else",
        lambda _c: True,
        "delivery is at least once: a batch may be stored and its response lost or late, and the "
        "client resends it",
        SEMANTICS,
    ),
)

NO_DUPLICATES: Final = Guarantee(
    name="no-duplicates",
    text="a record is in the log once",
    rules=_RULES,
    violated_by=Count("duplicated"),
    words=Words(
        head="dup",
        legend="duplicate records",
        matrix_head="duplicates",
        observed="records were duplicated",
        violated="records were stored more than once",
        remedy="cells with enable.idempotence=false under the same fault",
        counted=("record with duplicates", "records with duplicates"),
    ),
    answer=Answer(
        none="No record was duplicated",
        never="duplicated no record",
        worst=lambda trial: f"had up to {format_count(trial.duplicates, 'duplicate')}",
    ),
    in_controls="duplicates",
    amount="duplicates",
    anomaly=Anomaly.DUPLICATED,
    shown_by=("leader-pause",),
    in_narrow_tables=True,
    always_in_matrix=True,
)
