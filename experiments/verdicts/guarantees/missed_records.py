"""no-missed-records: what the consumer group committed past was processed by one of its members.

A record counts as processed when a member has written it to its journal; with copiers, when a copy
of it is visible in the output topic.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances, has_group
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.late_requests import late_request_rules
from ackbench.experiments.verdicts.guarantees.loss import guarantees_no_loss
from ackbench.experiments.verdicts.guarantees.rules import (
    JAVA_AUTO_COMMIT,
    KAFKA_CONSUMER,
    KIP_98,
    KIP_1327,
    LIBRDKAFKA_AUTO_COMMIT,
    RETENTION,
    SEMANTICS,
    UNCLEAN_ELECTION,
    guaranteed,
    not_guaranteed,
)
from ackbench.experiments.verdicts.guarantees.violations import Count


def consumed_records_may_be_lost(c: Circumstances) -> bool:
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


_RULES: Final = (
    not_guaranteed(
        "commit before processing",
        lambda c: c.commits == "before",
        "delivery is at most once: no member reads again what a member had committed and not yet "
        "processed when it died",
        SEMANTICS,
    ),
    not_guaranteed(
        "a member that fails to process a record goes on with the next batch",
        lambda c: c.skips_failed_records,
        "the position of a consumer is past all records that it has received: the next commit is "
        "past the record that failed, and no member reads it again",
        KAFKA_CONSUMER,
    ),
    not_guaranteed(
        "the client commits by itself what it has handed out",
        lambda c: c.commits == "auto" and c.client != "java" and c.stores_offsets_itself,
        "librdkafka stores the offset of a record when it hands it to the application, and commits "
        "it each auto.commit.interval.ms: no member reads again what a member had received and not "
        "yet processed when it died",
        LIBRDKAFKA_AUTO_COMMIT,
    ),
    not_guaranteed(
        "records that consumers received may be lost",
        consumed_records_may_be_lost,
        "new records may take the offsets of lost ones, before a committed offset; a member that "
        "resumes from that offset skips them",
        UNCLEAN_ELECTION,
    ),
    not_guaranteed(
        "copiers, and no-acked-loss is not guaranteed",
        lambda c: c.copy_workload and not guarantees_no_loss(c),
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
        "Java's client commits by itself, in poll",
        lambda c: c.commits == "auto" and c.client == "java",
        "it commits the offsets of records that poll returned before, at a later poll or at close: "
        "the application has processed them by then, if it has processed all that each poll "
        "returned",
        JAVA_AUTO_COMMIT,
    ),
    guaranteed(
        "commit after processing",
        lambda _c: True,
        "delivery is at least once: the member that takes over resumes from the last commit, and "
        "all records before it were processed",
        SEMANTICS,
    ),
)

NO_MISSED_RECORDS: Final = Guarantee(
    name="no-missed-records",
    text="a record that the consumer group committed past was processed by one of its members",
    applies=has_group,
    measured_with="group_missed",
    rules=_RULES,
    violated_by=Count("group_missed"),
    words=Words(
        head="missed",
        legend="records that the group committed past and did not process",
        matrix_head="missed by the group",
        observed="the group committed past records that it did not process",
        violated="records were committed that no member of the group processed",
        remedy="cells with group.commit=before or auto",
        counted=("record missed by the group", "records missed by the group"),
    ),
    answer=Answer(
        none="The group missed no record",
        never="missed no record",
        worst=lambda trial: (
            f"committed past up to {format_count(trial.group_missed, 'record')} that the group did "
            "not process"
        ),
    ),
)
