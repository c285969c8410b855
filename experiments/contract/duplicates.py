"""The rules of one promise: no record is in the log twice. The first whose condition holds decides. Pure."""

from __future__ import annotations

from typing import Final

from experiments.contract.promises import not_promised, promised
from experiments.contract.sources import ACKS, KIP_98, SEMANTICS

RULES: Final = (
    not_promised(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may end the producer, and a new session may send again what the old one had sent",
        KIP_98,
    ),
    not_promised(
        "a producer is killed, and the next one sends again what it was not told of",
        lambda c: c.fault.resends,
        "another producer is another session: the leader cannot tell what it sends again from new records, with idempotence or without",
        KIP_98,
    ),
    promised(
        "enable.idempotence=true",
        lambda c: c.idempotent,
        "the leader knows producer, epoch and sequence number of each batch, and stores a batch that comes again within the session only once",
        KIP_98,
    ),
    promised(
        "acks=0",
        lambda c: c.acks == "0",
        "no answer is awaited, so nothing that was sent is sent again",
        ACKS,
    ),
    promised(
        "retries=0",
        lambda c: c.retries == 0,
        "without retries delivery is at most once",
        SEMANTICS,
    ),
    not_promised(
        "no fault",
        lambda c: c.fault.kind == "none",
        "delivery is at least once: an answer that takes longer than the client waits (socket.timeout.ms; java: request.timeout.ms) "
        "makes it send a stored batch again",
        SEMANTICS,
    ),
    not_promised(
        "the answers to the clients are lost",
        lambda c: c.fault.answers_cut,
        "delivery is at least once: the batch is stored, its producer never hears of it, and sends it again",
        SEMANTICS,
    ),
    not_promised(
        "anything else",
        lambda _c: True,
        "delivery is at least once: a batch may be stored and its answer lost or late, and the client sends it again",
        SEMANTICS,
    ),
)
