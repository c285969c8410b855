"""The rules for requests of a transactional producer that arrive in one of its later transactions.

A client that gets no answer within its request timeout closes the connection, sends the request
again on a new one, and goes on. The first request can still arrive: it waits in the network, in a
relay, or in the socket buffers of a paused broker, which reads them when it is resumed, closed or
not. Up to `transaction.version` 1 all transactions of a producer session have one epoch, so a late
EndTxn or AddPartitionsToTxn counts for whichever transaction is open when it arrives (KAFKA-17754).
Level 2 raises the epoch with each EndTxn, and the request has an older one (KIP-890). The client
must speak it, by EndTxn 5 or later: Java's does from 4.0 on, librdkafka sends 0 or 1
(`rd_kafka_EndTxnRequest`, rdkafka_request.c).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.rules import (
    KAFKA_17754,
    KIP_890,
    Rule,
    guaranteed,
    not_guaranteed,
    unknown,
)

EPOCH_PER_TRANSACTION: Final = 2
"""The level of `transaction.version` from which on each transaction has its own epoch."""
_LATE: Final = "a request may arrive after its client has given it up"


def may_arrive_late(c: Circumstances) -> bool:
    """Return whether a request may be delivered after its client's request timeout.

    A fault delays it on purpose, a network or relay holds it, or a node is paused for longer.
    """
    held_ms = max(c.fault.pause_ms, c.fault.requests_held_ms)
    return c.fault.delays_transactional_request or held_ms > c.socket_timeout_ms


def refuses_late_requests(c: Circumstances) -> bool | None:
    """Return whether brokers refuse requests of earlier transactions; `None`: unknown."""
    if c.client == "librdkafka":
        return False
    if c.transaction_version is None:
        return None
    return c.transaction_version >= EPOCH_PER_TRANSACTION


def late_request_rules(
    applies: Callable[[Circumstances], bool], condition: str, consequence: str
) -> tuple[Rule, Rule]:
    """Return the rules of a guarantee that a late request breaks, and that none keeps.

    Args:
        applies: to which cells the guarantee's rules apply: those with transactions.
        condition: `applies` as text, before the rest of the condition; may be empty.
        consequence: what a late request does, as the end of the reason.
    """
    return (
        unknown(
            f"{condition}{_LATE}, and transaction.version is unknown",
            lambda c: applies(c) and may_arrive_late(c) and refuses_late_requests(c) is None,
            "below transaction.version=2 a late request counts for whichever "
            f"transaction is open when it arrives; {consequence}",
            KAFKA_17754,
        ),
        not_guaranteed(
            f"{condition}{_LATE}, without transaction.version=2 or with a client that does not "
            "speak it (librdkafka)",
            lambda c: applies(c) and may_arrive_late(c) and refuses_late_requests(c) is False,
            "all transactions of a producer session have one epoch, so a late request counts for "
            f"whichever transaction is open when it arrives; {consequence}",
            KAFKA_17754,
        ),
    )


LATE_REQUESTS_ARE_REFUSED: Final = guaranteed(
    f"{_LATE}, with transaction.version=2 and a client that speaks it (Java's from 4.0 on)",
    may_arrive_late,
    "each request to end a transaction raises the producer's epoch, and brokers refuse requests "
    "with an older one",
    KIP_890,
)
"""For a place after `late_request_rules`: then the client speaks it."""


def must_tear_transactions(c: Circumstances) -> bool:
    """Return whether a cell is a positive control for atomicity.

    A delayed EndTxn decides the next transaction, and neither side refuses it: the cell must show
    torn transactions, or the sweep has no power to see any.
    """
    return (
        c.transactional and c.fault.kind == "end-txn-delayed" and refuses_late_requests(c) is False
    )
