"""The rules of one promise: the partition takes records again before the heal. The first whose condition holds decides. Pure."""

from __future__ import annotations

from typing import Final

from experiments.verdicts.contract.guarantees import (
    ACKS,
    DELETING,
    ENSEMBLE,
    KIP_595,
    KIP_631,
    MIN_ISR,
    REPLICATION,
    SESSION,
    guaranteed,
    not_guaranteed,
)

RULES: Final = (
    not_guaranteed(
        "no fault, or one of the consumers, or a stored record's bytes change and nothing else",
        lambda c: (
            c.fault.kind == "none"
            or ((c.fault.corrupts or c.fault.ends_member) and c.fault.parts == 1 and c.gone == 0)
        ),
        "no node fails, so there is no outage to end before a heal",
        REPLICATION,
    ),
    not_guaranteed(
        "a fault of which nothing is known",
        lambda c: not c.fault.known,
        "it may cut the nodes off from each other; Kafka stays available when nodes fail, and not when the network parts",
        REPLICATION,
    ),
    not_guaranteed(
        "a producer is killed, or fenced",
        lambda c: c.fault.ends_producer or c.fault.undecided,
        "the brokers are well, and nobody sends until another producer begins",
        REPLICATION,
    ),
    not_guaranteed(
        "the clients are cut off",
        lambda c: c.fault.clients_cut,
        "the brokers are well and have no reason to move a leader that its clients do not reach",
        REPLICATION,
    ),
    not_guaranteed(
        "acks=0",
        lambda c: c.acks == "0",
        "nobody is told whether a broker takes the records",
        ACKS,
    ),
    not_guaranteed(
        "the topic is deleted",
        lambda c: c.fault.deletes_topic,
        "there is nothing that could take a record until it is made again",
        DELETING,
    ),
    not_guaranteed(
        "most of ZooKeeper's servers are gone",
        lambda c: c.fault.ends_ensemble,
        "no page says that brokers go on without it; by what it is for they may, with the leaders and in-sync replicas that they have, "
        "and none of these can change",
        ENSEMBLE,
    ),
    guaranteed(
        "a ZooKeeper server dies, and no broker",
        lambda c: c.fault.strikes_ensemble and c.fault.parts == 1,
        "ZooKeeper serves as long as most of its servers live, and nothing else that the partition needs fails",
        ENSEMBLE,
    ),
    guaranteed(
        "acks=1, no partition's leader is hit",
        lambda c: c.acks == "1" and not c.fault.strikes_leader,
        "the leader goes on, and waits for no follower",
        ACKS,
    ),
    not_guaranteed(
        "nodes are cut off from each other",
        lambda c: c.fault.isolated > 0,
        "Kafka stays available when nodes fail, and may not when the network parts: a leader that does not know that another one leads "
        "tells its clients that it leads, and keeps those waiting that want more than its own word",
        REPLICATION,
    ),
    not_guaranteed(
        "the fault leaves no majority of controllers",
        lambda c: c.controllers - c.nodes_gone <= c.controllers // 2,
        "without a majority of the controllers nobody can take a node for dead or elect a leader",
        KIP_595,
        "{c.nodes_gone} dead at once, {c.controllers} controllers",
    ),
    not_guaranteed(
        "fewer replicas left than a record needs",
        lambda c: c.replication_factor - c.gone < c.needed,
        "the replicas that are left are fewer than a record needs to be acknowledged, until the heal",
        MIN_ISR,
        "{c.gone} of {c.replication_factor} replicas dead, {c.needed} needed",
    ),
    not_guaranteed(
        "several faults joined",
        lambda c: c.fault.parts > 1,
        "the failover from one may be undone by the next, and a node that was healed may not be in sync yet when that strikes",
        REPLICATION,
        "{c.fault.parts} faults",
    ),
    guaranteed(
        "no partition's leader is hit, and no replica is dead or stands still",
        lambda c: c.gone == 0 and c.fault.stalled == 0 and not c.fault.strikes_leader,
        "nothing that the partition needs fails",
        REPLICATION,
    ),
    not_guaranteed(
        "a node stands still for less than its session",
        lambda c: c.gone == 0 and not c.fault.moves_leader,
        "a node that misses heartbeats for less than broker.session.timeout.ms stays the leader: its partitions wait until it goes on",
        SESSION,
        "{c.fault.stalls_ms:g} ms against {c.session_timeout_ms:g} ms",
    ),
    not_guaranteed(
        "the heal may come before the failover",
        lambda c: c.fault.heals_after_ms <= c.failover_ms,
        "the fault may be healed before the dead node is detected, its successor elected and the client told",
        KIP_631,
        "healed after {c.fault.heals_after_ms:g} ms; failover takes up to {c.failover_ms:g} ms, where the node was the active controller too",
    ),
    guaranteed(
        "anything else",
        lambda _c: True,
        "Kafka stays available when nodes fail, after a short failover: the fault lasts longer than that, and enough replicas are left",
        REPLICATION,
        "failover takes up to {c.failover_ms:g} ms, the heal comes after {c.fault.heals_after_ms:g} ms",
    ),
)
