"""The rules of one promise: a transaction is shown whole or not at all. The first whose condition holds decides. Pure.

It is asked of cells with transactions alone.
"""

from __future__ import annotations

from typing import Final

from experiments.contract import loss
from experiments.contract.promises import not_promised, promised
from experiments.contract.sources import ALL_DIE, ISOLATION, KIP_98, KIP_890

RULES: Final = (
    not_promised(
        "no transactions",
        lambda c: not c.transactional,
        "each record stands by itself",
        KIP_98,
    ),
    not_promised(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may take the transaction's markers, or the coordinator's own log, with all their replicas",
        ALL_DIE,
    ),
    not_promised(
        "no-acked-loss is not promised",
        lambda c: not loss.is_promised(c),
        "of a committed transaction a part may be lost, or the marker that ends it",
        ALL_DIE,
    ),
    promised(
        "a producer is killed in a transaction, or fenced by another one",
        lambda c: c.fault.undecided,
        "what was not committed is aborted: by the coordinator once transaction.timeout.ms has passed, or when another producer takes the transactional.id",
        KIP_890,
    ),
    promised(
        "anything else",
        lambda _c: True,
        "the coordinator decides once, in a replicated log, and has the decision written to every partition; what is undecided is shown to nobody",
        ISOLATION,
    ),
)
