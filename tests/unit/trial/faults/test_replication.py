"""Faults of replication and topology against a cluster in memory: order, heal, evidence."""

from __future__ import annotations

import threading

import pytest
from support.fakes.operated_cluster import OperatedCluster, operate

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.faults import FAULTS, FaultContext
from ackbench.experiments.trial.faults.composition.execution import inject as inject_request
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.core.kind import TrialObservations
from ackbench.experiments.trial.faults.operations.moves import without_leader
from ackbench.experiments.trial.metadata_poller import MetadataPoller
from ackbench.infra.kafka.spec import PartitionState


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> OperatedCluster:
    """Three replicas, led by node 2; node 3 is the active controller."""
    three_nodes = OperatedCluster(replicas=(2, 3, 1), active_controller=3)
    operate(three_nodes, monkeypatch)
    return three_nodes


def inject_fault(
    cluster: OperatedCluster, kind: str, **parameters: float
) -> tuple[FaultEvidence, Journal]:
    """Inject a fault early in the load, and return its evidence and the journal."""
    journal = Journal()
    request = FaultRequest(kind=kind, parameters={"at_s": 0.02, **parameters})
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        (injected,) = inject_request(
            request, FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
        )
    return injected.evidence, journal


QUICK = {"alone_s": 0.05, "restart_after_s": 0.1, "patience_s": 2}


def test_a_throttled_follower_leaves_the_isr_and_keeps_running(cluster: OperatedCluster) -> None:
    """It stays out of sync until the quotas are removed; the active controller is no target."""
    evidence, _ = inject_fault(cluster, "followers-throttled", held_s=0.1, patience_s=2)
    assert cluster.signals == [("pause", 1), ("resume", 1)]
    assert (evidence.targets, evidence.took_effect) == ((1,), True)


def test_quotas_are_removed_at_the_heal(cluster: OperatedCluster) -> None:
    """From the topic and every node, so that all replicas are in sync at the end."""
    inject_fault(cluster, "followers-throttled", held_s=0.1, patience_s=2)
    assert not any(cluster.settings.values())
    assert cluster.describe().partitions[0].isr == (2, 3, 1)


def test_a_follower_that_stays_in_the_isr_makes_the_trial_void(cluster: OperatedCluster) -> None:
    """The follower is resumed."""
    cluster.always_in_sync = frozenset({1})
    evidence, _ = inject_fault(cluster, "followers-throttled", held_s=0.1, patience_s=0.1)
    assert not evidence.took_effect
    assert cluster.states[1] == "running"


def test_a_broker_that_does_not_apply_its_quota_makes_the_trial_void(
    cluster: OperatedCluster,
) -> None:
    """For example one that another fault has paused.

    The trial continues, and the quotas of the other brokers are removed.
    """
    cluster.states[1] = "paused"
    threading.Timer(0.2, lambda: cluster.states.update({1: "running"})).start()
    evidence, _ = inject_fault(cluster, "isr-shrunk-leader-crash", **QUICK)
    assert ("kill", 2) not in cluster.signals
    assert not evidence.took_effect
    assert not any(cluster.settings.values())


def test_the_leader_crashes_while_the_last_follower_is_paused(cluster: OperatedCluster) -> None:
    """So no follower can catch up in between. The active controller's node is paused last."""
    evidence, _ = inject_fault(cluster, "isr-shrunk-leader-crash", **QUICK)
    assert cluster.signals == [
        ("pause", 1),
        ("resume", 1),
        ("pause", 3),
        ("kill", 2),
        ("resume", 3),
        ("start", 2),
    ]
    assert (evidence.targets, evidence.took_effect) == ((2, 1, 3), True)
    assert any(
        "the ISR was 2 just before the leader crashed" in sentence for sentence in evidence.evidence
    )


def test_a_follower_that_returns_to_the_isr_is_removed_again(cluster: OperatedCluster) -> None:
    """Its first fetch may have been answered before the quota applied.

    A quota does not throttle a replica that is in sync.
    """
    cluster.rejoins_once, cluster.polls_until_out_of_sync = {1}, 20
    evidence, _ = inject_fault(cluster, "isr-shrunk-leader-crash", **QUICK)
    assert cluster.signals == [
        ("pause", 1),
        ("resume", 1),
        ("pause", 1),
        ("resume", 1),
        ("pause", 3),
        ("kill", 2),
        ("resume", 3),
        ("start", 2),
    ]
    assert evidence.took_effect


def test_a_leader_that_is_not_alone_in_the_isr_is_not_killed(cluster: OperatedCluster) -> None:
    """Its crash would be another fault."""
    cluster.always_in_sync = frozenset({3})
    evidence, _ = inject_fault(cluster, "isr-shrunk-leader-crash", **{**QUICK, "patience_s": 0.1})
    assert ("kill", 2) not in cluster.signals
    assert not evidence.took_effect


def test_an_unclean_election_takes_effect_when_it_was_needed(
    cluster: OperatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No in-sync replica is left, and an out-of-sync replica becomes leader."""
    monkeypatch.setattr(cluster, "catch_up", lambda: None)
    evidence, _ = inject_fault(cluster, "unclean-election", **QUICK)
    assert evidence.took_effect
    assert cluster.elected_leader in {1, 3}


def test_no_unclean_election_is_needed_if_the_partition_has_a_leader(
    cluster: OperatedCluster,
) -> None:
    """For example with eligible leader replicas: a follower is in sync again and leads.

    The trial is void, and the evidence has the reason.
    """
    evidence, _ = inject_fault(cluster, "unclean-election", **QUICK)
    assert not evidence.took_effect
    assert any("no unclean election was needed" in sentence for sentence in evidence.evidence)


@pytest.mark.parametrize("kind", ["preferred-leader-change", "reassignment"])
def test_a_moved_leader_or_replica_is_moved_back(cluster: OperatedCluster, kind: str) -> None:
    """Another node led in between; then replicas and leader are as before."""
    evidence, journal = inject_fault(cluster, kind, away_s=0.1)
    assert evidence.took_effect
    assert journal.events("fault_effective")
    assert (cluster.replicas, cluster.describe().partitions[0].leader) == ((2, 3, 1), 2)


def test_an_election_is_asked_for_again_while_the_preferred_leader_is_not_available(
    cluster: OperatedCluster,
) -> None:
    """A starved broker is fenced for a moment, after the metadata had it in sync."""
    cluster.elections_refused = 2
    evidence, _ = inject_fault(cluster, "preferred-leader-change", away_s=0.1)
    assert evidence.took_effect
    assert cluster.elections_refused == 0
    assert cluster.describe().partitions[0].leader == cluster.replicas[0]


@pytest.mark.parametrize(("nodes", "replicas"), [((1, 2, 3), (3, 1)), ((1, 2, 3, 4, 5), (3, 1, 4))])
def test_the_leaders_replica_moves_to_a_node_without_one(
    nodes: tuple[int, ...], replicas: tuple[int, ...]
) -> None:
    """If every node has one, the leader's replica is removed."""
    assert without_leader(PartitionState("t", 0, 2, (2, 3, 1), (1, 2, 3)), nodes) == replicas


def test_added_partitions_stay(cluster: OperatedCluster) -> None:
    """There is nothing to heal."""
    evidence, _ = inject_fault(cluster, "partitions-raised", to=3)
    assert (cluster.partitions, evidence.took_effect) == (3, True)


@pytest.mark.parametrize(
    ("client", "partition", "took_effect"),
    [("producer 0", 1, True), ("producer 0", 0, False), ("consumer 0", 1, False)],
)
def test_added_partitions_take_effect_when_a_producer_learns_of_one(
    client: str, partition: int, took_effect: bool
) -> None:
    """Until then it sends as before; a partition that it already knew does not count."""
    events = (
        Event(50, "leader_learned", Source.CLIENT, partition=0, detail="producer 0: "),
        Event(200, "leader_learned", Source.CLIENT, partition=partition, detail=f"{client}: "),
    )
    evidence = FaultEvidence(kind="partitions-raised", took_effect=True)
    assert (
        FAULTS["partitions-raised"]
        .confirm(evidence, TrialObservations(events, "all", began_ns=100))
        .took_effect
        is took_effect
    )


def test_a_topic_is_created_again_with_its_settings(cluster: OperatedCluster) -> None:
    """With its partitions, replicas and settings; only its id differs."""
    evidence, journal = inject_fault(cluster, "topic-recreated", gone_s=0.1)
    assert cluster.settings["made", "trial"] == {
        "partitions": "1",
        "replication_factor": "3",
        "config": "{'min.insync.replicas': '2'}",
    }
    assert evidence.took_effect
    assert [event.kind for event in journal.events("topic_deleted", "topic_recreated")] == [
        "topic_deleted",
        "topic_recreated",
    ]


@pytest.mark.parametrize(
    ("kind", "parameters", "topology", "reason"),
    [
        (
            "followers-throttled",
            {},
            Topology(nodes=1, partitions=1, replication_factor=1),
            "no follower",
        ),
        (
            "followers-throttled",
            {"followers": 3},
            Topology(nodes=3, partitions=1, replication_factor=3),
            "at most 2",
        ),
        (
            "unclean-election",
            {},
            Topology(nodes=3, partitions=1, replication_factor=1),
            "no follower",
        ),
        (
            "preferred-leader-change",
            {},
            Topology(nodes=3, partitions=1, replication_factor=1),
            "no follower",
        ),
        ("reassignment", {}, Topology(nodes=1, partitions=1, replication_factor=1), "one node"),
        (
            "partitions-raised",
            {"to": 6},
            Topology(nodes=3, partitions=6, replication_factor=1),
            "more than the 6",
        ),
    ],
)
def test_an_impossible_fault_is_rejected_with_the_reason(
    kind: str, parameters: dict[str, int], topology: Topology, reason: str
) -> None:
    """Planning rejects it, before any trial."""
    message = FAULTS[kind].parameters.model_validate(parameters).impossible_reason(topology)
    assert message is not None
    assert reason in message


def test_reassignment_needs_no_follower() -> None:
    """A single replica can be moved too."""
    assert (
        FAULTS["reassignment"]
        .parameters()
        .impossible_reason(Topology(nodes=3, partitions=1, replication_factor=1))
        is None
    )
