"""no-reprocessing: the consumer group processes a record once."""

from __future__ import annotations

from typing import Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.verdicts.guarantees.circumstances import has_group
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.late_requests import late_request_rules
from ackbench.experiments.verdicts.guarantees.missed_records import consumed_records_may_be_lost
from ackbench.experiments.verdicts.guarantees.rules import (
    JAVA_AUTO_COMMIT,
    KIP_98,
    KIP_447,
    LIBRDKAFKA_AUTO_COMMIT,
    LIBRDKAFKA_COMMIT,
    SEMANTICS,
    UNCLEAN_ELECTION,
    guaranteed,
    not_guaranteed,
)
from ackbench.experiments.verdicts.guarantees.violations import Count

_RULES: Final = (
    not_guaranteed(
        "commit after processing, asynchronously",
        lambda c: c.commits == "after" and c.asynchronous_commits,
        "delivery is at least once, and a member goes on before its commits are answered: those "
        "under way may be lost with its process, and all that it had processed since the last one "
        "that arrived is read again",
        LIBRDKAFKA_COMMIT,
    ),
    not_guaranteed(
        "commit after processing, and not before a revocation",
        lambda c: c.commits == "after" and not c.commit_on_revocation,
        "delivery is at least once: the next owner of a partition that is revoked reads again what "
        "the member had processed since its last commit, without any failure",
        LIBRDKAFKA_COMMIT,
    ),
    not_guaranteed(
        "commit after processing each record",
        lambda c: c.commits == "after" and c.commit_every_records == 1,
        "delivery is at least once: the one record that a member had processed and not yet "
        "committed when it died or was removed from the group is read again",
        SEMANTICS,
    ),
    not_guaranteed(
        "commit after processing",
        lambda c: c.commits == "after",
        "delivery is at least once: what a member had processed and not yet committed when it "
        "died or was removed from the group is read again",
        SEMANTICS,
    ),
    not_guaranteed(
        "Java's client commits by itself, in poll",
        lambda c: c.commits == "auto" and c.client == "java",
        "it commits each auto.commit.interval.ms what poll returned before: what a member had "
        "processed since, when it died or was removed from the group, is read again",
        JAVA_AUTO_COMMIT,
    ),
    not_guaranteed(
        "the client commits by itself",
        lambda c: c.commits == "auto",
        "it commits each auto.commit.interval.ms: what a member had processed since, when it died "
        "or was removed from the group, is read again",
        LIBRDKAFKA_AUTO_COMMIT,
    ),
    not_guaranteed(
        "commit before processing, asynchronously",
        lambda c: c.commits == "before" and c.asynchronous_commits,
        "a member processes records before their commit is answered: if it is lost with the "
        "process, or refused, they are read again",
        LIBRDKAFKA_COMMIT,
    ),
    not_guaranteed(
        "records that consumers received may be lost",
        consumed_records_may_be_lost,
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

NO_REPROCESSING: Final = Guarantee(
    name="no-reprocessing",
    text="the consumer group processes a record once",
    applies=has_group,
    measured_with="group_missed",
    rules=_RULES,
    violated_by=Count("group_redelivered"),
    words=Words(
        head="reproc.",
        legend="records that the group processed more than once",
        matrix_head="processed again",
        observed="the group processed records more than once",
        violated="the group processed records more than once",
        remedy="cells with group.commit=after or auto",
        counted=("record processed again", "records processed again"),
    ),
    answer=Answer(
        never="processed no record again",
        worst=lambda trial: (
            f"processed records again, up to {format_count(trial.group_redelivered, 'time')}"
        ),
    ),
)
