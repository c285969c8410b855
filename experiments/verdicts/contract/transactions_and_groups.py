"""The rules for atomicity, no-missed-records and no-reprocessing. The first match decides.

Atomicity applies to cells with transactions only, the other two to cells with a consumer group.
A record counts as processed when a member has written it to its journal; with copiers, when a copy
of it is visible in the output topic.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.verdicts.contract import loss
from ackbench.experiments.verdicts.contract.circumstances import Circumstances
from ackbench.experiments.verdicts.contract.guarantees import (
    ISOLATION,
    KIP_98,
    KIP_447,
    KIP_1327,
    RETENTION,
    SEMANTICS,
    UNCLEAN_ELECTION,
    guaranteed,
    not_guaranteed,
)
from ackbench.experiments.verdicts.contract.late_requests import (
    LATE_REQUESTS_ARE_REFUSED,
    late_request_rules,
)

ATOMICITY_RULES: Final = (
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
    *late_request_rules(
        lambda _c: True,
        "",
        "a late EndTxn commits or aborts the middle of it",
    ),
    not_guaranteed(
        "no-acked-loss is not guaranteed",
        lambda c: not loss.guarantees_no_loss(c),
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


def _consumed_records_may_be_lost(c: Circumstances) -> bool:
    """Return whether the log or the commits may lose records that consumers received.

    After such a loss, new records take the offsets of lost ones, and a committed offset no longer
    separates processed from unprocessed records.
    """
    fault = c.fault
    loses = (
        fault.loses_synced_data
        or fault.deletes_topic
        or fault.forces_unclean_election
        or c.unclean_election
        or fault.corrupts_records
    )
    return (
        not fault.known
        or loses
        or (fault.power_loss and c.flush_messages > 1)
        or c.max_dead_nodes + fault.followers_out_of_sync > 1
    )


MISSED_RULES: Final = (
    not_guaranteed(
        "commit before processing",
        lambda c: c.commits == "before",
        "delivery is at most once: no member reads again what a member had committed and not yet "
        "processed when it died",
        SEMANTICS,
    ),
    not_guaranteed(
        "records that consumers received may be lost",
        _consumed_records_may_be_lost,
        "new records may take the offsets of lost ones, before a committed offset; a member that "
        "resumes from that offset skips them",
        UNCLEAN_ELECTION,
    ),
    not_guaranteed(
        "copiers, and no-acked-loss is not guaranteed",
        lambda c: c.copy_workload and not loss.guarantees_no_loss(c),
        "the output topic has the same settings: an acknowledged copy may be lost like any "
        "record, although the offset is committed",
        UNCLEAN_ELECTION,
    ),
    not_guaranteed(
        "records are retained for less than an hour, or up to a number of bytes",
        lambda c: c.expires,
        "the broker deletes old segments, consumed or not; a consumer whose next offset is "
        "deleted resumes where auto.offset.reset directs it, and commits past the gap",
        RETENTION,
    ),
    not_guaranteed(
        "auto.offset.reset=latest, and partitions are added",
        lambda c: c.auto_offset_reset == "latest" and c.fault.adds_partitions,
        "a member that discovers a new partition begins at its end: it skips what producers wrote "
        "before, and commits past it",
        KIP_1327,
    ),
    *late_request_rules(
        lambda c: c.commits == "within",
        "commit and copies in one transaction, ",
        "a late EndTxn may abort copies whose offsets are committed afterwards",
    ),
    guaranteed(
        "commit and copies in one transaction",
        lambda c: c.commits == "within",
        "delivery is exactly once: the offset is committed together with the copies of all "
        "records before it, or not at all",
        KIP_98,
    ),
    guaranteed(
        "commit after processing",
        lambda _c: True,
        "delivery is at least once: the member that takes over resumes from the last commit, and "
        "all records before it were processed",
        SEMANTICS,
    ),
)

REPROCESSING_RULES: Final = (
    not_guaranteed(
        "commit after processing",
        lambda c: c.commits == "after",
        "delivery is at least once: what a member had processed and not yet committed when it "
        "died or was removed from the group is read again",
        SEMANTICS,
    ),
    not_guaranteed(
        "records that consumers received may be lost",
        _consumed_records_may_be_lost,
        "commits may be lost like other records, and the group resumes from an earlier commit",
        UNCLEAN_ELECTION,
    ),
    *late_request_rules(
        lambda c: c.commits == "within",
        "commit and copies in one transaction, ",
        "a late EndTxn may commit copies without their offsets, and they are copied again",
    ),
    guaranteed(
        "commit and copies in one transaction",
        lambda c: c.commits == "within",
        "delivery is exactly once: read_committed consumers receive no copy whose offset is not "
        "committed, and the coordinator refuses the commit of a member that it removed",
        KIP_447,
    ),
    not_guaranteed(
        "copiers, enable.idempotence=false",
        lambda c: c.copy_workload and not c.idempotent,
        "a copy may be stored and its response lost or late, and the copier's producer resends it",
        KIP_98,
    ),
    guaranteed(
        "commit before processing",
        lambda _c: True,
        "delivery is at most once: a member processes only what the coordinator has confirmed as "
        "committed, and no member reads that again",
        SEMANTICS,
    ),
)
