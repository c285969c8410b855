"""Faults of replication and topology against a cluster in memory: the order of what they do, what they put back, and when they say that they bit."""

from __future__ import annotations

import threading

import pytest
from support.fakes.operated_cluster import OperatedCluster, operate

from experiments.events.clock import now_ns
from experiments.events.journal import Event, Journal
from experiments.faults import FAULTS, FaultContext
from experiments.faults.composition.execution import inject as strike_all
from experiments.faults.core.effects import Topology
from experiments.faults.core.kind import TrialObservations
from experiments.faults.operations.moves import without_leader
from experiments.ledger.record import FaultEvidence
from experiments.ledger.schema import Source
from experiments.sweep.plan import FaultRequest
from experiments.trial.metadata_poller import MetadataPoller
from infra.kafka.spec import PartitionState


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> OperatedCluster:
    """Three replicas, led by node 2; node 3 is the active controller."""
    made = OperatedCluster(replicas=(2, 3, 1), active_controller=3)
    operate(made, monkeypatch)
    return made


def strike(
    cluster: OperatedCluster, kind: str, **parameters: float
) -> tuple[FaultEvidence, Journal]:
    """Let a fault strike a watched cluster, quickly."""
    journal = Journal()
    request = FaultRequest(kind=kind, parameters={"at_s": 0.02, **parameters})
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        (struck,) = strike_all(
            request, FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
        )
    return struck.evidence, journal


QUICK = {"alone_s": 0.05, "restart_after_s": 0.1, "patience_s": 2}


def test_a_throttled_follower_is_put_out_of_the_isr_and_goes_on(cluster: OperatedCluster) -> None:
    """It runs, and is out of sync until the quotas are lifted; the active controller's node is spared."""
    evidence, _ = strike(cluster, "followers-throttled", held_s=0.1, patience_s=2)
    assert cluster.signals == [("pause", 1), ("resume", 1)]
    assert (evidence.targets, evidence.took_effect) == ((1,), True)


def test_quotas_are_taken_away_again(cluster: OperatedCluster) -> None:
    """Of the topic and of every node, so that all are in sync at the end."""
    strike(cluster, "followers-throttled", held_s=0.1, patience_s=2)
    assert not any(cluster.settings.values())
    assert cluster.describe().partitions[0].isr == (2, 3, 1)


def test_a_follower_that_stays_in_the_isr_makes_it_no_fault(cluster: OperatedCluster) -> None:
    """The trial is void, and the follower goes on."""
    cluster.deaf = frozenset({1})
    evidence, _ = strike(cluster, "followers-throttled", held_s=0.1, patience_s=0.1)
    assert not evidence.took_effect
    assert cluster.states[1] == "running"


def test_a_broker_that_takes_no_quota_makes_it_no_fault(cluster: OperatedCluster) -> None:
    """As when another fault has it down at the same time: the trial goes on, and those that took one are rid of it."""
    cluster.states[1] = "paused"
    threading.Timer(0.2, lambda: cluster.states.update({1: "running"})).start()
    evidence, _ = strike(cluster, "isr-shrunk-leader-crash", **QUICK)
    assert ("kill", 2) not in cluster.signals
    assert not evidence.took_effect
    assert not any(cluster.settings.values())


def test_the_leader_dies_while_the_last_follower_stands_still(cluster: OperatedCluster) -> None:
    """So nobody can catch up between the two; the active controller's node is the last, and the leader is started at the end."""
    evidence, _ = strike(cluster, "isr-shrunk-leader-crash", **QUICK)
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
        "the ISR was 2 when the leader was about to die" in sentence
        for sentence in evidence.evidence
    )


def test_a_follower_that_slips_back_into_the_isr_is_put_out_again(cluster: OperatedCluster) -> None:
    """Its first fetch may have been answered before the quota held; in sync, no quota holds it back. That it had left once says nothing of now."""
    cluster.slips_back, cluster.looks_to_leave = {1}, 20
    evidence, _ = strike(cluster, "isr-shrunk-leader-crash", **QUICK)
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


def test_a_leader_that_was_not_alone_is_not_killed(cluster: OperatedCluster) -> None:
    """Its death would be another fault."""
    cluster.deaf = frozenset({3})
    evidence, _ = strike(cluster, "isr-shrunk-leader-crash", **{**QUICK, "patience_s": 0.1})
    assert ("kill", 2) not in cluster.signals
    assert not evidence.took_effect


def test_an_unclean_election_bites_when_it_was_needed(
    cluster: OperatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody in sync is left, and a replica that is out of sync leads."""
    monkeypatch.setattr(cluster, "catch_up", lambda: None)
    evidence, _ = strike(cluster, "unclean-election", **QUICK)
    assert evidence.took_effect
    assert cluster.led_by in {1, 3}


def test_no_unclean_election_is_needed_where_somebody_leads(cluster: OperatedCluster) -> None:
    """As with eligible leader replicas: the quotas gone, a follower is back in sync and leads; the trial is void, and says why."""
    evidence, _ = strike(cluster, "unclean-election", **QUICK)
    assert not evidence.took_effect
    assert any("no unclean election was needed" in sentence for sentence in evidence.evidence)


@pytest.mark.parametrize("kind", ["preferred-leader-change", "reassignment"])
def test_what_was_moved_is_moved_back(cluster: OperatedCluster, kind: str) -> None:
    """Another node led meanwhile; the replicas and their leader are as they were."""
    evidence, journal = strike(cluster, kind, away_s=0.1)
    assert evidence.took_effect
    assert journal.events("fault_effective")
    assert (cluster.replicas, cluster.describe().partitions[0].leader) == ((2, 3, 1), 2)


@pytest.mark.parametrize(("nodes", "replicas"), [((1, 2, 3), (3, 1)), ((1, 2, 3, 4, 5), (3, 1, 4))])
def test_the_leaders_replica_goes_to_a_node_that_has_none(
    nodes: tuple[int, ...], replicas: tuple[int, ...]
) -> None:
    """Or away, where every node has one."""
    assert without_leader(PartitionState("t", 0, 2, (2, 3, 1), (1, 2, 3)), nodes) == replicas


def test_partitions_are_raised_and_stay(cluster: OperatedCluster) -> None:
    """There is nothing to heal."""
    evidence, _ = strike(cluster, "partitions-raised", to=3)
    assert (cluster.partitions, evidence.took_effect) == (3, True)


@pytest.mark.parametrize(
    ("who", "partition", "bites"),
    [("producer 0", 1, True), ("producer 0", 0, False), ("reader 0", 1, False)],
)
def test_raised_partitions_bit_when_a_producer_learned_of_one(
    who: str, partition: int, bites: bool
) -> None:
    """Until then it sends as before; what it knew already is no news."""
    events = (
        Event(50, "leader_learned", Source.CLIENT, partition=0, detail="producer 0: "),
        Event(200, "leader_learned", Source.CLIENT, partition=partition, detail=f"{who}: "),
    )
    evidence = FaultEvidence(kind="partitions-raised", took_effect=True)
    assert (
        FAULTS["partitions-raised"]
        .confirm(evidence, TrialObservations(events, "all", began_ns=100))
        .took_effect
        is bites
    )


def test_a_topic_is_made_again_as_it_was(cluster: OperatedCluster) -> None:
    """With its partitions, replicas and settings; that it is another one its id says."""
    evidence, journal = strike(cluster, "topic-recreated", gone_s=0.1)
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
    ("kind", "parameters", "shape", "why"),
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
def test_what_cannot_be_is_refused_with_the_reason(
    kind: str, parameters: dict[str, int], shape: Topology, why: str
) -> None:
    """Before anything starts."""
    reason = FAULTS[kind].parameters.model_validate(parameters).impossible_reason(shape)
    assert reason is not None
    assert why in reason


def test_reassignment_needs_no_follower() -> None:
    """The only replica can be moved too."""
    assert (
        FAULTS["reassignment"]
        .parameters()
        .impossible_reason(Topology(nodes=3, partitions=1, replication_factor=1))
        is None
    )
