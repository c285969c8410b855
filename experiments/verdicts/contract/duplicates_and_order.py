"""The rules of one promise: no record is in the log twice. The first whose condition holds decides. Pure."""

from __future__ import annotations

from typing import Final

from experiments.verdicts.contract.guarantees import (
    ACKS,
    IDEMPOTENCE,
    KIP_98,
    MAX_IN_FLIGHT,
    SEMANTICS,
    guaranteed,
    not_guaranteed,
)

DUPLICATE_RULES: Final = (
    not_guaranteed(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may end the producer, and a new session may send again what the old one had sent",
        KIP_98,
    ),
    not_guaranteed(
        "a producer is killed, and the next one sends again what it was not told of",
        lambda c: c.fault.resends,
        "another producer is another session: the leader cannot tell what it sends again from new records, with idempotence or without",
        KIP_98,
    ),
    guaranteed(
        "enable.idempotence=true",
        lambda c: c.idempotent,
        "the leader knows producer, epoch and sequence number of each batch, and stores a batch that comes again within the session only once",
        KIP_98,
    ),
    guaranteed(
        "acks=0",
        lambda c: c.acks == "0",
        "no answer is awaited, so nothing that was sent is sent again",
        ACKS,
    ),
    guaranteed(
        "retries=0",
        lambda c: c.retries == 0,
        "without retries delivery is at most once",
        SEMANTICS,
    ),
    not_guaranteed(
        "no fault",
        lambda c: c.fault.kind == "none",
        "delivery is at least once: an answer that takes longer than the client waits (socket.timeout.ms; java: request.timeout.ms) "
        "makes it send a stored batch again",
        SEMANTICS,
    ),
    not_guaranteed(
        "the answers to the clients are lost",
        lambda c: c.fault.answers_cut,
        "delivery is at least once: the batch is stored, its producer never hears of it, and sends it again",
        SEMANTICS,
    ),
    not_guaranteed(
        "anything else",
        lambda _c: True,
        "delivery is at least once: a batch may be stored and its answer lost or late, and the client sends it again",
        SEMANTICS,
    ),
)


# ---------- The rules of one promise: records lie in the order in which they were sent. The first whose condition holds decides. Pure.


ORDER_RULES: Final = (
    not_guaranteed(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may end the producer, and a new session knows nothing of the old one's order",
        KIP_98,
    ),
    not_guaranteed(
        "a producer is killed, and another one goes on",
        lambda c: c.fault.ends_producer,
        "a new session knows nothing of the old one's order: what that had on its way may be stored behind what the new one sends",
        KIP_98,
    ),
    guaranteed(
        "enable.idempotence=true",
        lambda c: c.idempotent,
        "the leader takes a producer's batches in the order of their sequence numbers only",
        IDEMPOTENCE,
    ),
    guaranteed(
        "acks=0, no fault",
        lambda c: c.acks == "0" and c.fault.kind == "none",
        "nothing is sent again, and a broker takes the requests of one connection in their order",
        MAX_IN_FLIGHT,
    ),
    not_guaranteed(
        "acks=0, any fault",
        lambda c: c.acks == "0",
        "nobody waits for what is on its way: where the connection breaks, requests on a new one may overtake those in the old one's buffers",
        ACKS,
    ),
    not_guaranteed(
        "one request in flight or no retries, and the client gives up requests that wait on their way or at a node that stands still",
        lambda c: (c.max_in_flight == 1 or c.retries == 0) and c.late_arrivals,
        "a request that was given up waits there in buffers, and may be appended at the heal, behind records that were sent later",
        MAX_IN_FLIGHT,
    ),
    guaranteed(
        "max.in.flight.requests.per.connection=1",
        lambda c: c.max_in_flight == 1,
        "no batch is sent before the one ahead of it is acknowledged; a batch may be stored twice, but its first copy lies in its place",
        MAX_IN_FLIGHT,
    ),
    guaranteed(
        "retries=0",
        lambda c: c.retries == 0,
        "nothing is sent again, so nothing can come behind what was sent later",
        MAX_IN_FLIGHT,
    ),
    not_guaranteed(
        "anything else",
        lambda _c: True,
        "several requests are in flight: where one fails and is sent again, those behind it may be stored before it",
        MAX_IN_FLIGHT,
    ),
)
