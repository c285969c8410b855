"""availability: the partition accepts records before the heal."""

from __future__ import annotations

from typing import Final

from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances
from ackbench.experiments.verdicts.guarantees.guarantee import Answer, Guarantee, Words
from ackbench.experiments.verdicts.guarantees.rules import (
    ACKS,
    KIP_516,
    KIP_595,
    KIP_631,
    MIN_ISR,
    REPLICATION,
    SESSION_TIMEOUT,
    ZOOKEEPER_GUIDE,
    guaranteed,
    not_guaranteed,
)
from ackbench.experiments.verdicts.guarantees.violations import YesNo


def has_no_outage(circumstances: Circumstances) -> bool:
    """Return whether no node fails: no fault, or a single one of consumers or stored bytes."""
    fault = circumstances.fault
    return fault.kind == "none" or (
        (fault.corrupts_records or fault.interrupts_member)
        and fault.parts == 1
        and circumstances.max_dead_replicas == 0
    )


_RULES: Final = (
    not_guaranteed(
        "no fault, or a single fault that affects only consumers or only stored bytes",
        has_no_outage,
        "no node fails, so there is no outage that could end before a heal",
        REPLICATION,
    ),
    not_guaranteed(
        "a fault that the contract does not know",
        lambda c: not c.fault.known,
        "it may partition the network between the nodes; Kafka stays available when nodes fail, "
        "but may not when the network is partitioned",
        REPLICATION,
    ),
    not_guaranteed(
        "a producer crashes, or is fenced",
        lambda c: c.fault.restarts_producer or c.fault.ends_transactional_producer,
        "the brokers are healthy, and no client sends until another producer starts",
        REPLICATION,
    ),
    not_guaranteed(
        "the clients cannot reach the brokers",
        lambda c: c.fault.clients_cut_off,
        "the brokers are healthy, and have no reason to move a leader that its clients cannot "
        "reach",
        REPLICATION,
    ),
    not_guaranteed(
        "acks=0",
        lambda c: c.acks == "0",
        "no client learns whether a broker accepts the records",
        ACKS,
    ),
    not_guaranteed(
        "the topic is deleted",
        lambda c: c.fault.deletes_topic,
        "no partition can accept a record until the topic is created again",
        KIP_516,
    ),
    not_guaranteed(
        "most ZooKeeper servers are unavailable",
        lambda c: c.fault.zookeeper_unavailable,
        "no documentation states that brokers continue without ZooKeeper; by its purpose they "
        "may, with their current leaders and in-sync replicas, none of which can change",
        ZOOKEEPER_GUIDE,
    ),
    guaranteed(
        "a ZooKeeper server crashes, and no broker",
        lambda c: c.fault.zookeeper_server_down and c.fault.parts == 1,
        "ZooKeeper serves as long as a majority of its servers is alive, and nothing else that "
        "the partition needs fails",
        ZOOKEEPER_GUIDE,
    ),
    guaranteed(
        "acks=1, and the fault affects no partition leader",
        lambda c: c.acks == "1" and not c.fault.may_affect_leader,
        "the leader continues, and waits for no follower",
        ACKS,
    ),
    not_guaranteed(
        "nodes are isolated from each other",
        lambda c: c.fault.nodes_isolated > 0,
        "Kafka stays available when nodes fail, but may not when the network is partitioned: a "
        "leader that has not learned of its successor tells its clients that it leads, and "
        "requests that need other replicas wait",
        REPLICATION,
    ),
    not_guaranteed(
        "the fault leaves no majority of controllers",
        lambda c: c.controllers - c.max_failed_controllers <= c.controllers // 2,
        "without a majority of the controllers, no node can be fenced and no leader elected",
        KIP_595,
        "{c.max_failed_controllers} failed at once, {c.controllers} controllers",
    ),
    not_guaranteed(
        "fewer replicas alive than a record needs",
        lambda c: c.replication_factor - c.max_dead_replicas < c.required_replicas,
        "until the heal, fewer replicas are alive than a record needs to be acknowledged",
        MIN_ISR,
        "{c.max_dead_replicas} of {c.replication_factor} replicas dead, "
        "{c.required_replicas} required",
    ),
    not_guaranteed(
        "several faults combined",
        lambda c: c.fault.parts > 1,
        "one fault may undo the failover from another, and a healed node may not be in sync yet "
        "when the next fault begins",
        REPLICATION,
        "{c.fault.parts} faults",
    ),
    guaranteed(
        "the fault affects no partition leader, and no replica is dead or paused",
        lambda c: (
            c.max_dead_replicas == 0 and c.fault.nodes_paused == 0 and not c.fault.may_affect_leader
        ),
        "nothing that the partition needs fails",
        REPLICATION,
    ),
    not_guaranteed(
        "a node is paused for less than its session timeout",
        lambda c: c.max_dead_replicas == 0 and not c.fault.moves_leader,
        "a node that misses heartbeats for less than broker.session.timeout.ms stays the leader: "
        "its partitions are unavailable until it resumes",
        SESSION_TIMEOUT,
        "paused for {c.fault.pause_ms:g} ms; session timeout {c.session_timeout_ms:g} ms",
    ),
    not_guaranteed(
        "the heal may come before the failover",
        lambda c: c.fault.heals_after_ms <= c.failover_ms,
        "the fault may be healed before the controller fences the dead node and elects a "
        "successor, and before the client learns of it",
        KIP_631,
        "healed after {c.fault.heals_after_ms:g} ms; failover takes up to {c.failover_ms:g} ms",
    ),
    guaranteed(
        "anything else",
        lambda _c: True,
        "Kafka stays available when nodes fail, after a short failover: the fault lasts longer "
        "than that, and enough replicas are alive",
        REPLICATION,
        "failover takes up to {c.failover_ms:g} ms, the heal comes after "
        "{c.fault.heals_after_ms:g} ms",
    ),
)

AVAILABILITY: Final = Guarantee(
    name="availability",
    text="the partition accepts records again before the fault is healed",
    rules=_RULES,
    violated_by=YesNo("recovered_before_heal"),
    words=Words(
        head="avail",
        legend="written",
        matrix_head="outage",
        observed="the partition was unavailable until the fault was healed",
        violated="partitions were unavailable until the fault was healed",
        remedy="cells with replication.factor=1 under the same fault",
    ),
    answer=Answer(
        none="Records were accepted again before the fault was healed",
        never="accepted records again before the fault was healed",
        worst=lambda trial: (
            "accepted no records until the fault was healed, for up to "
            f"{(trial.unavailable_ms or 0) / 1000:,.1f} s"
        ),
    ),
    amount="unavailable_ms",
    in_narrow_tables=True,
    always_in_matrix=True,
)
