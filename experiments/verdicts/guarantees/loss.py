"""no-acked-loss: an acknowledged record stays in the log."""

from __future__ import annotations

from typing import Final

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.guarantee import (
    Answer,
    Guarantee,
    PositiveControl,
    Words,
)
from ackbench.experiments.verdicts.guarantees.late_requests import late_request_rules
from ackbench.experiments.verdicts.guarantees.rules import (
    ACKS,
    CLEANUP,
    FLUSH,
    KIP_101,
    KIP_106,
    KIP_497,
    KIP_516,
    KIP_966,
    LOG,
    REPLICATION,
    RETENTION,
    UNCLEAN_ELECTION,
    guaranteed,
    not_guaranteed,
    unknown,
)
from ackbench.experiments.verdicts.guarantees.violations import Bounds

_DEAD_REPLICAS: Final = "up to {c.max_dead_replicas} dead at once, {c.required_replicas} required"

_RULES: Final = (
    not_guaranteed(
        "acks=0",
        lambda c: c.acks == "0",
        "the client reports success once the record is in its socket buffer; no broker has "
        "acknowledged it",
        ACKS,
    ),
    not_guaranteed(
        "the topic is compacted",
        lambda c: c.compacted,
        "of records with the same key, compaction keeps only the last",
        CLEANUP,
    ),
    not_guaranteed(
        "records are retained for less than an hour, or up to a number of bytes",
        lambda c: c.expires,
        "the broker deletes old segments, whether their records are acknowledged or not",
        RETENTION,
    ),
    not_guaranteed(
        "the topic is deleted",
        lambda c: c.fault.deletes_topic,
        "its records are deleted with it, acknowledged or not; a topic that is created again "
        "under the same name is another topic",
        KIP_516,
    ),
    guaranteed(
        "no fault",
        lambda c: c.fault.kind == "none",
        "the leader appended the record before it acknowledged it, and no replica fails",
        ACKS,
    ),
    not_guaranteed(
        "a fault that the contract does not know",
        lambda c: not c.fault.known,
        "it may stop all replicas at once or change stored data, and no guarantee covers that",
        UNCLEAN_ELECTION,
    ),
    *late_request_rules(
        lambda c: c.transactional,
        "transactions, ",
        "a late EndTxn may abort records of a transaction that is committed afterwards",
    ),
    guaranteed(
        "the fault affects no partition leader",
        lambda c: not c.fault.may_affect_leader,
        "the leader has every record that it acknowledged, and stays alive",
        REPLICATION,
    ),
    not_guaranteed(
        "acks=1, with more than one replica or a replica that is moved",
        lambda c: c.acks == "1" and (c.replication_factor > 1 or c.fault.moves_leader),
        "the leader acknowledges a record before the followers have it; when another replica "
        "becomes the leader, the old leader truncates its log to the new leader's epoch and "
        "loses the records that only it had",
        KIP_101,
    ),
    not_guaranteed(
        "unclean.leader.election.enable=true, or an unclean election is requested",
        lambda c: c.unclean_election or c.fault.forces_unclean_election,
        "when no in-sync replica is left, a replica that lacks acknowledged records may become "
        "the leader, and the others truncate their logs to match",
        KIP_106,
    ),
    guaranteed(
        "acks=all, nodes are isolated from each other, and none is dead",
        lambda c: c.only_isolation,
        "a leader that cannot reach the controllers cannot remove a replica from the ISR, so it "
        "acknowledges nothing on its own; and the next leader was in the ISR",
        KIP_497,
    ),
    guaranteed(
        "fewer replicas dead at once than an acknowledged record needs "
        "(acks=all: min.insync.replicas; acks=1: one), and no stored bytes change",
        lambda c: c.max_dead_replicas < c.required_replicas and not c.fault.corrupts_records,
        "an acknowledged record is on at least the required number of in-sync replicas, one of "
        "them stays alive, and only an in-sync replica may become the leader",
        REPLICATION,
        "at most {c.max_dead_replicas} dead at once, {c.required_replicas} required",
    ),
    not_guaranteed(
        "bytes of a stored record change on the leader",
        lambda c: c.fault.corrupts_records,
        "consumers that verify the batch's CRC detect it, and no process repairs it: the other "
        "replicas are not consulted while this leader leads",
        LOG,
    ),
    guaranteed(
        "acks=all, eligible.leader.replicas.version=1, and fewer replicas shut down uncleanly "
        "than an acknowledged record needs (at least two); the others are paused, isolated or out "
        "of sync",
        lambda c: c.has_enough_clean_replicas and bool(c.eligible_leader_replicas),
        "no record is acknowledged once the ISR is smaller than min.insync.replicas, and the "
        "replicas that leave it then are eligible leaders: at least one of them has not restarted "
        "after an unclean shutdown, is elected, and has every acknowledged record",
        KIP_966,
        "up to {c.uncleanly_shut_down_replicas} shut down uncleanly, "
        "{c.required_replicas} required",
    ),
    unknown(
        "the same, and the level of eligible.leader.replicas.version is unknown",
        lambda c: c.has_enough_clean_replicas and c.eligible_leader_replicas is None,
        "the feature level eligible.leader.replicas.version of this cluster is unknown: with level "
        "1 a replica that left the ISR with all acknowledged records is elected; with level 0 the "
        "guarantee ends when all in-sync replicas are dead",
        KIP_966,
        _DEAD_REPLICAS,
    ),
    not_guaranteed(
        "all required replicas may be dead at once, and lose data that they had synced to disk",
        lambda c: c.fault.loses_synced_data,
        "all in-sync replicas may die, and each restarts without data that it had synced; no "
        "Kafka setting protects against that",
        UNCLEAN_ELECTION,
        _DEAD_REPLICAS,
    ),
    not_guaranteed(
        "all required replicas may be dead at once by power loss, flush.messages=1",
        lambda c: c.fault.power_loss and c.flush_messages <= 1,
        "all in-sync replicas may die, where the guarantee ends; each record was synced to disk "
        "before it was acknowledged, so no loss is expected",
        FLUSH,
    ),
    not_guaranteed(
        "all required replicas may be dead at once by power loss",
        lambda c: c.fault.power_loss,
        "all in-sync replicas may die, and each loses what its operating system had not yet "
        "written to disk",
        UNCLEAN_ELECTION,
        _DEAD_REPLICAS,
    ),
    not_guaranteed(
        "all required replicas may be dead at once, with disks and operating systems intact",
        lambda _c: True,
        "all in-sync replicas may be dead at once, where the guarantee ends; the page cache "
        "outlives the process, so the records are expected back unless another replica becomes "
        "the leader in the meantime",
        UNCLEAN_ELECTION,
        _DEAD_REPLICAS,
    ),
)

NO_ACKED_LOSS: Final = Guarantee(
    name="no-acked-loss",
    text="an acknowledged record is in the log once the cluster is healthy again",
    rules=_RULES,
    violated_by=Bounds("lost"),
    words=Words(
        head="loss",
        legend="acknowledged records lost",
        matrix_head="acked, then lost",
        observed="acknowledged records were lost",
        violated="acknowledged records were lost",
        remedy="the positive control, which this sweep omits,",
        counted=("lost record", "lost records"),
        not_bounded=(
            "records of unknown outcome are absent, and any of them may have been acknowledged"
        ),
    ),
    answer=Answer(
        of=lambda trial: trial.compacted is None,  # compaction removes records by design
        none="No acknowledged record was lost",
        never="lost no acknowledged record",
        worst=lambda trial: (
            f"lost up to {trial.lost[0]:,} of {trial.acked or 0:,} acknowledged records"
        ),
    ),
    in_controls="lost",
    control=PositiveControl(
        result="positive_control_lost",
        must="lose records",
        shows="a loss",
        role=Role.POSITIVE_CONTROL,
    ),
    anomaly=Anomaly.LOST,
    shown_by=("leader-crash-behind",),
    in_narrow_tables=True,
    always_in_matrix=True,
)


def guarantees_no_loss(circumstances: Circumstances) -> bool | None:
    """Return whether no acknowledged record may be lost under these circumstances.

    `None`: unknown.
    """
    return NO_ACKED_LOSS.rule_for(circumstances).guaranteed
