"""The rules of one promise: a transaction is shown whole or not at all. The first whose condition holds decides. Pure.

It is asked of cells with transactions alone.
"""

from __future__ import annotations

from typing import Final

from experiments.verdicts.contract import loss
from experiments.verdicts.contract.circumstances import Circumstances
from experiments.verdicts.contract.guarantees import (
    ALL_DIE,
    ISOLATION,
    KIP_98,
    KIP_447,
    KIP_890,
    RETENTION,
    SEMANTICS,
    guaranteed,
    not_guaranteed,
)

ATOMICITY_RULES: Final = (
    not_guaranteed(
        "no transactions",
        lambda c: not c.transactional,
        "each record stands by itself",
        KIP_98,
    ),
    not_guaranteed(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may take the transaction's markers, or the coordinator's own log, with all their replicas",
        ALL_DIE,
    ),
    not_guaranteed(
        "no-acked-loss is not promised",
        lambda c: not loss.is_promised(c),
        "of a committed transaction a part may be lost, or the marker that ends it",
        ALL_DIE,
    ),
    guaranteed(
        "a producer is killed in a transaction, or fenced by another one",
        lambda c: c.fault.undecided,
        "what was not committed is aborted: by the coordinator once transaction.timeout.ms has passed, or when another producer takes the transactional.id",
        KIP_890,
    ),
    guaranteed(
        "anything else",
        lambda _c: True,
        "the coordinator decides once, in a replicated log, and has the decision written to every partition; what is undecided is shown to nobody",
        ISOLATION,
    ),
)


# ---------- The rules of a consumer group's two promises: nothing is missed, nothing is processed twice. The first whose condition holds decides. Pure.
#
# They are asked of cells with a consumer group alone. A record counts as processed when a member has written it down; of copiers, when the output shows
# a copy of it.


def _goes_back(c: Circumstances) -> bool:
    """Whether the log, or the group's own log of commits, may lose what consumers were shown: then offsets stand for other records than they did."""
    fault = c.fault
    loses = (
        fault.forgets_synced
        or fault.deletes_topic
        or fault.elects_uncleanly
        or c.unclean_election
        or fault.corrupts
    )
    return (
        not fault.known
        or loses
        or (fault.power_loss and c.flush_messages > 1)
        or c.nodes_gone + fault.isolated + fault.out_of_step > 1
    )


MISSED: Final = (
    not_guaranteed(
        "commit before processing",
        lambda c: c.commits == "before",
        "delivery is at most once: what a member had committed and not yet processed when it died is read by nobody again",
        SEMANTICS,
    ),
    not_guaranteed(
        "what consumers were shown may be lost",
        _goes_back,
        "a committed offset may come to stand before records that take the place of others, and whoever reads on from it passes over them",
        ALL_DIE,
    ),
    not_guaranteed(
        "copiers, and no-acked-loss is not promised",
        lambda c: c.copies and not loss.is_promised(c),
        "the topic that they write to has the same settings, and an acknowledged copy may be lost as any record, though its offset is committed",
        ALL_DIE,
    ),
    not_guaranteed(
        "records are kept for less than an hour, or up to a number of bytes",
        lambda c: c.expires,
        "old segments are deleted, read or not; a consumer whose next offset is gone goes on where auto.offset.reset says, and commits past what lies between",
        RETENTION,
    ),
    guaranteed(
        "commit and copies in one transaction",
        lambda c: c.commits == "within",
        "delivery is exactly once: the offset is committed with the copies of all before it, or not at all",
        KIP_98,
    ),
    guaranteed(
        "commit after processing",
        lambda _c: True,
        "delivery is at least once: whoever takes over reads on from the last commit, and all before that was processed",
        SEMANTICS,
    ),
)

REPEATED: Final = (
    not_guaranteed(
        "commit after processing",
        lambda c: c.commits == "after",
        "delivery is at least once: what a member had processed and not yet committed when it died, or was thrown out, is read again",
        SEMANTICS,
    ),
    not_guaranteed(
        "what consumers were shown may be lost",
        _goes_back,
        "commits may be lost as records may, and the group reads on from an earlier one",
        ALL_DIE,
    ),
    guaranteed(
        "commit and copies in one transaction",
        lambda c: c.commits == "within",
        "delivery is exactly once: copies of which the offsets are not committed are shown to nobody, and who was thrown out of the group is refused "
        "the commit",
        KIP_447,
    ),
    not_guaranteed(
        "copiers, enable.idempotence=false",
        lambda c: c.copies and not c.idempotent,
        "a copy may be stored and its answer lost or late, and the copier's own producer sends it again",
        KIP_98,
    ),
    guaranteed(
        "commit before processing",
        lambda _c: True,
        "delivery is at most once: a member processes what the coordinator has told it is committed, and nobody reads that again",
        SEMANTICS,
    ),
)
