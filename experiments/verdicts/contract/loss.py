"""The rules of one promise: no acknowledged record is lost. The first whose condition holds decides. Pure."""

from __future__ import annotations

from typing import Final

from experiments.verdicts.contract.circumstances import Circumstances
from experiments.verdicts.contract.guarantees import (
    ACKS,
    ALL_DIE,
    CLEANUP,
    DELETING,
    FLUSH,
    KIP_101,
    KIP_106,
    KIP_497,
    LOG,
    REPLICATION,
    RETENTION,
    guaranteed,
    not_guaranteed,
)

RULES: Final = (
    not_guaranteed(
        "acks=0",
        lambda c: c.acks == "0",
        "the client reports success once the record is in its socket; no broker has said anything",
        ACKS,
    ),
    not_guaranteed(
        "the topic is compacted",
        lambda c: c.compacts,
        "of records with the same key, only the last is kept",
        CLEANUP,
    ),
    not_guaranteed(
        "records are kept for less than an hour, or up to a number of bytes",
        lambda c: c.expires,
        "old segments are deleted, acknowledged or not",
        RETENTION,
    ),
    not_guaranteed(
        "the topic is deleted",
        lambda c: c.fault.deletes_topic,
        "its records go with it, acknowledged or not; a topic that is made again under its name is another one",
        DELETING,
    ),
    guaranteed(
        "no fault",
        lambda c: c.fault.kind == "none",
        "the leader wrote the record before it acknowledged it, and no replica fails",
        ACKS,
    ),
    not_guaranteed(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may take every replica at once, or what is written; no guarantee reaches that far",
        ALL_DIE,
    ),
    guaranteed(
        "no partition's leader is hit",
        lambda c: not c.fault.strikes_leader,
        "the leader has every record that it acknowledged, and stays alive",
        REPLICATION,
    ),
    not_guaranteed(
        "acks=1, more than one replica, or the replica is moved",
        lambda c: c.acks == "1" and (c.replication_factor > 1 or c.fault.moves_leader),
        "the leader acknowledges before the followers have the record; where another leads, the old leader cuts its log to the new leader's epoch, "
        "and what only it had is gone",
        KIP_101,
    ),
    not_guaranteed(
        "unclean.leader.election.enable=true, or an unclean election is asked for",
        lambda c: c.unclean_election or c.fault.elects_uncleanly,
        "where no in-sync replica is left, one that lacks acknowledged records may lead, and the others cut theirs to match",
        KIP_106,
    ),
    guaranteed(
        "acks=all, nodes are cut off from each other and none is dead",
        lambda c: c.only_parted,
        "a leader that the controllers do not hear cannot take a replica out of the ISR, so it acknowledges nothing alone; and who leads next was in the ISR",
        KIP_497,
    ),
    guaranteed(
        "acks=all, fewer replicas dead at once than min.insync.replicas; or no replica dead; and no stored record's bytes change",
        lambda c: c.gone < c.needed and not c.fault.corrupts,
        "an acknowledged record is on at least as many in-sync replicas as it needs, one of them stays alive, and only an in-sync replica may lead",
        REPLICATION,
        "at most {c.gone} dead at once, {c.needed} needed",
    ),
    not_guaranteed(
        "a stored record's bytes change under its leader",
        lambda c: c.fault.corrupts,
        "readers that check see that the batch's CRC does not hold, and nobody puts it right: other replicas are not asked as long as the leader leads",
        LOG,
    ),
    not_guaranteed(
        "as many dead, and what they had synced goes too",
        lambda c: c.fault.forgets_synced,
        "the in-sync replicas may all die, and each comes back with less than it had synced: nothing that Kafka can be set to helps against that",
        ALL_DIE,
        "up to {c.gone} dead at once, {c.needed} needed",
    ),
    not_guaranteed(
        "as many dead, by power loss, flush.messages=1",
        lambda c: c.fault.power_loss and c.flush_messages <= 1,
        "the in-sync replicas may all die, and there the guarantee ends; each record was synced to disk first, so none is expected to go",
        FLUSH,
    ),
    not_guaranteed(
        "as many dead, by power loss",
        lambda c: c.fault.power_loss,
        "the in-sync replicas may all die, and each loses what its operating system had not yet written to disk",
        ALL_DIE,
        "up to {c.gone} dead at once, {c.needed} needed",
    ),
    not_guaranteed(
        "as many dead, with their disks and operating systems intact",
        lambda _c: True,
        "the in-sync replicas may all be dead at once, and there the guarantee ends; the page cache outlives the process, "
        "so what was written is expected back, as long as no other replica leads meanwhile",
        ALL_DIE,
        "up to {c.gone} dead at once, {c.needed} needed",
    ),
)


def is_promised(circumstances: Circumstances) -> bool:
    """Whether no acknowledged record may be lost."""
    return next(rule for rule in RULES if rule.when(circumstances)).guaranteed
