"""consumers-agree: consumers that receive a record at one offset receive the same record.

"Only committed messages are ever given out to the consumer" (Kafka's design page), whatever acks
is: a leader returns records below the high watermark only. It advances once the entire ISR has a
record, and from Kafka 3.7 on only while the ISR has min.insync.replicas or all replicas
(KAFKA-15583, `Partition.maybeIncrementLeaderHW`). So what a consumer received is on as many in-sync
replicas as a record that acks=all acknowledges, and is as safe.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances, has_group
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.rules import (
    KAFKA_15583,
    KIP_106,
    KIP_497,
    KIP_516,
    KIP_966,
    LOG,
    REPLICATION,
    UNCLEAN_ELECTION,
    guaranteed,
    not_guaranteed,
    unknown,
)
from ackbench.experiments.verdicts.guarantees.violations import Count


def _all_may_die(circumstances: Circumstances) -> bool:
    """Return whether all in-sync replicas that had a record may die when a consumer has got it."""
    return circumstances.max_dead_replicas >= circumstances.with_acks_all().required_replicas


_REPLACED: Final = (
    not_guaranteed(
        "the topic is deleted",
        lambda c: c.fault.deletes_topic,
        "a topic that is created again under the same name is another topic, and its offsets begin "
        "at 0 again",
        KIP_516,
    ),
    guaranteed(
        "no fault",
        lambda c: c.fault.kind == "none",
        "only committed records are returned to consumers, and no replica fails",
        REPLICATION,
    ),
    not_guaranteed(
        "a fault that the contract does not know",
        lambda c: not c.fault.known,
        "it may stop all replicas at once or change stored data, and no guarantee covers that",
        UNCLEAN_ELECTION,
    ),
    not_guaranteed(
        "bytes of a stored record change on the leader",
        lambda c: c.fault.corrupts_records,
        "the final read gets the changed bytes, which no process repairs",
        LOG,
    ),
    guaranteed(
        "the fault affects no partition leader",
        lambda c: not c.fault.may_affect_leader,
        "the leader has every record that it returned, and stays alive",
        REPLICATION,
    ),
    not_guaranteed(
        "unclean.leader.election.enable=true, or an unclean election is requested",
        lambda c: c.unclean_election or c.fault.forces_unclean_election,
        "a replica that was not in sync may become the leader and lack committed records; the "
        "others truncate their logs to match, and the offsets are used again",
        KIP_106,
    ),
    guaranteed(
        "nodes are isolated from each other, and none is dead",
        lambda c: c.only_isolation,
        "a leader that cannot reach the controllers cannot remove a replica from the ISR, so its "
        "high watermark stays where it is; and the next leader was in the ISR",
        KIP_497,
    ),
    guaranteed(
        "fewer replicas dead at once than min.insync.replicas (at most all replicas), whatever "
        "acks is",
        lambda c: not _all_may_die(c),
        "the high watermark advances only while min.insync.replicas are in sync, so at least as "
        "many have what a consumer received; one of them stays alive, and only an in-sync replica "
        "may become the leader",
        KAFKA_15583,
        "at most {c.max_dead_replicas} dead at once; min.insync.replicas {c.min_insync_replicas}, "
        "{c.replication_factor} replicas",
    ),
    guaranteed(
        "eligible.leader.replicas.version=1, and fewer replicas shut down uncleanly than "
        "min.insync.replicas (at least two); the others are paused, isolated or out of sync",
        lambda c: c.with_acks_all().has_enough_clean_replicas and bool(c.eligible_leader_replicas),
        "the high watermark stays where it is once the ISR is smaller than min.insync.replicas, "
        "and the replicas that leave it then are eligible leaders: at least one of them has what "
        "consumers received, and is elected",
        KIP_966,
    ),
    unknown(
        "the same, and the level of eligible.leader.replicas.version is unknown",
        lambda c: (
            c.with_acks_all().has_enough_clean_replicas and c.eligible_leader_replicas is None
        ),
        "the feature level eligible.leader.replicas.version of this cluster is unknown: with level "
        "1 a replica that left the ISR with all committed records is elected; with level 0 the "
        "guarantee ends when all in-sync replicas are dead",
        KIP_966,
    ),
    not_guaranteed(
        "all in-sync replicas may be dead at once, and lose what they had stored",
        lambda c: c.fault.power_loss or c.fault.loses_synced_data,
        "the record is committed on the in-sync replicas alone, and may be written to no disk",
        UNCLEAN_ELECTION,
    ),
    not_guaranteed(
        "all in-sync replicas may be dead at once, with disks and operating systems intact",
        lambda _c: True,
        "the ISR may have shrunk to the replicas that die, where the guarantee ends; the page "
        "cache outlives the process, so the records are expected back",
        UNCLEAN_ELECTION,
        "up to {c.max_dead_replicas} dead at once; min.insync.replicas {c.min_insync_replicas}, "
        "{c.replication_factor} replicas",
    ),
)
"""What may put another record at an offset that a consumer has received."""

CONSUMERS_AGREE: Final = Guarantee(
    name="consumers-agree",
    text="consumers that receive a record at one partition and offset receive the same record",
    applies=has_group,
    measured_with="group_missed",
    rules=_REPLACED,
    violated_by=Count("conflicting_reads"),
    words=Words(
        head="read conflict",
        legend="consumers received different records at one offset",
        matrix_head="received in conflict",
        observed="consumers received different records at one offset",
        violated="consumers received different records at one offset",
        counted=("record received in conflict", "records received in conflict"),
    ),
    answer=Answer(
        never="delivered one record per offset",
        worst=lambda trial: (
            f"delivered up to {format_count(trial.conflicting_reads, 'record')} at an offset where "
            "another one was received"
        ),
    ),
    in_controls="received in conflict",
    always_measured=True,
    anomaly=Anomaly.READ_CONFLICT,
)
