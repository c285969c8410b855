"""order: the records of a producer are stored in the order in which they were sent."""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.verdicts.guarantees.duplicates import FORGOTTEN_PRODUCER
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.rules import (
    ACKS,
    IDEMPOTENCE,
    KIP_98,
    LIBRDKAFKA_PRODUCE_ERROR,
    MAX_IN_FLIGHT,
    guaranteed,
    not_guaranteed,
)
from ackbench.experiments.verdicts.guarantees.violations import Count

_RULES: Final = (
    not_guaranteed(
        "a fault that the contract does not know",
        lambda c: not c.fault.known,
        "it may end the producer, and a new producer session does not know the old one's order",
        KIP_98,
    ),
    not_guaranteed(
        "a producer crashes, and another one continues",
        lambda c: c.fault.restarts_producer,
        "a new producer session does not know the old one's order: requests that were in flight "
        "may be appended after records of the new session",
        KIP_98,
    ),
    *FORGOTTEN_PRODUCER,
    guaranteed(
        "enable.idempotence=true",
        lambda c: c.idempotent,
        "the leader accepts a producer's batches only in the order of their sequence numbers",
        IDEMPOTENCE,
    ),
    guaranteed(
        "acks=0, no fault",
        lambda c: c.acks == "0" and c.fault.kind == "none",
        "nothing is resent, and a broker processes the requests of one connection in order",
        MAX_IN_FLIGHT,
    ),
    not_guaranteed(
        "acks=0, any fault",
        lambda c: c.acks == "0",
        "the producer does not wait for requests in flight: when the connection breaks, requests "
        "on a new connection may overtake those in the buffers of the old one",
        ACKS,
    ),
    not_guaranteed(
        "one request in flight or no retries, and the client gives up records whose requests "
        "are delayed in the network or at a paused node",
        lambda c: (c.max_in_flight == 1 or c.retries == 0) and c.may_append_late,
        "a delayed request stays in buffers, and may be appended at the heal, after records that "
        "were sent later",
        MAX_IN_FLIGHT,
    ),
    guaranteed(
        "max.in.flight.requests.per.connection=1",
        lambda c: c.max_in_flight == 1,
        "no batch is sent before the previous one is acknowledged; a batch may be stored more "
        "than once, but its first copy is in order",
        MAX_IN_FLIGHT,
    ),
    not_guaranteed(
        "retries=0 with librdkafka, and leadership may move",
        lambda c: c.retries == 0 and c.client == "librdkafka" and c.leadership_may_move,
        "librdkafka resends a batch that is answered with NOT_LEADER_OR_FOLLOWER without counting "
        "a retry, and may have sent later records to the new leader in the meantime",
        LIBRDKAFKA_PRODUCE_ERROR,
    ),
    guaranteed(
        "retries=0",
        lambda c: c.retries == 0,
        "nothing is resent, so nothing can be appended after records that were sent later",
        MAX_IN_FLIGHT,
    ),
    not_guaranteed(
        "anything else",
        lambda _c: True,
        "several requests are in flight: when one fails and is resent, later ones may be stored "
        "before it",
        MAX_IN_FLIGHT,
    ),
)

ORDER: Final = Guarantee(
    name="order",
    text="the records of a producer are in a partition's log in the order in which they were sent",
    rules=_RULES,
    violated_by=Count("reordered"),
    words=Words(
        head="ord",
        legend="records out of order",
        matrix_head="out of order",
        observed="records were out of order",
        violated="records were stored out of order",
        remedy="cells with enable.idempotence=false under the same fault",
        counted=("record out of order", "records out of order"),
    ),
    answer=Answer(
        none="No record was out of order",
        never="kept the order",
        worst=lambda trial: f"had up to {format_count(trial.reordered, 'record')} out of order",
    ),
    anomaly=Anomaly.REORDERED,
    shown_by=("leader-pause",),
    in_narrow_tables=True,
)
