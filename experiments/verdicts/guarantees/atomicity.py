"""atomicity: a `read_committed` consumer receives committed transactions, each as a whole."""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.experiments.verdicts.guarantees.guarantee import (
    Answer,
    Guarantee,
    PositiveControl,
    Words,
)
from ackbench.experiments.verdicts.guarantees.late_requests import (
    LATE_REQUESTS_ARE_REFUSED,
    late_request_rules,
)
from ackbench.experiments.verdicts.guarantees.loss import guarantees_no_loss
from ackbench.experiments.verdicts.guarantees.rules import (
    ISOLATION,
    KIP_98,
    UNCLEAN_ELECTION,
    guaranteed,
    not_guaranteed,
)
from ackbench.experiments.verdicts.guarantees.violations import Count

_RULES: Final = (
    not_guaranteed(
        "no transactions",
        lambda c: not c.transactional,
        "each record is independent of the others",
        KIP_98,
    ),
    not_guaranteed(
        "a fault that the contract does not know",
        lambda c: not c.fault.known,
        "it may affect all replicas of the transaction markers or of the coordinator's log",
        UNCLEAN_ELECTION,
    ),
    *late_request_rules(lambda _c: True, "", "a late EndTxn commits or aborts the middle of it"),
    not_guaranteed(
        "no-acked-loss is not guaranteed",
        lambda c: not guarantees_no_loss(c),
        "part of a committed transaction may be lost, or the marker that ends it",
        UNCLEAN_ELECTION,
    ),
    guaranteed(
        "a producer crashes in a transaction, or is fenced by another producer",
        lambda c: c.fault.ends_transactional_producer,
        "the coordinator aborts what was not committed: once transaction.timeout.ms has passed, "
        "or when another producer initializes with the same transactional.id",
        KIP_98,
    ),
    LATE_REQUESTS_ARE_REFUSED,
    guaranteed(
        "anything else",
        lambda _c: True,
        "the coordinator decides once, in a replicated log, and writes the decision to every "
        "partition; read_committed consumers receive nothing of an undecided transaction. On every "
        "version, as long as no request outlasts the client's request timeout: nothing here holds "
        "requests, or pauses a broker, for so long",
        ISOLATION,
    ),
)

ATOMICITY: Final = Guarantee(
    name="atomicity",
    text="a `read_committed` consumer receives all of a committed transaction, and nothing else",
    applies=lambda c: c.transactional,
    measured_with="transactions",
    rules=_RULES,
    violated_by=Count("atomicity_violations"),
    words=Words(
        head="atom",
        legend=(
            "transactions partly visible, or visible though not committed; a record "
            "counts as acknowledged when its transaction is committed"
        ),
        matrix_head="not atomic",
        observed="transactions were partly visible, or visible though not committed",
        violated="transactions were visible in part, or without being committed",
        counted=("violation of atomicity", "violations of atomicity"),
    ),
    answer=Answer(
        none="Every transaction was visible as a whole or not at all",
        never="showed every transaction as a whole or not at all",
        worst=lambda trial: (
            "showed a transaction in part"
            if trial.transactions.torn
            else "showed records that were not committed"
        ),
    ),
    in_controls="violations of atomicity",
    control=PositiveControl(
        result="positive_control_torn", must="tear transactions", shows="a torn transaction"
    ),
    anomaly=Anomaly.ABORTED_VISIBLE,
    in_narrow_tables=True,
)
