"""Faults of the network against a cluster in memory: who is cut off from whom, what is mended, and when they say that they bit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.fakes.cluster import MemoryCluster

from experiments.events.clock import now_ns
from experiments.events.journal import Event, Journal
from experiments.faults import FAULTS, FaultContext
from experiments.faults.composition.execution import inject as strike_all
from experiments.faults.core.effects import Topology
from experiments.faults.core.kind import TrialObservations
from experiments.ledger.record import FaultEvidence
from experiments.ledger.schema import Source
from experiments.sweep.plan import FaultRequest
from experiments.trial.metadata_poller import MetadataPoller
from infra.errors import ImpairmentConflict
from infra.network.impairment import Impairment, PacketDrop, RelayAction, TrafficShaping

FOREVER_S = 0.1


class Keeping(MemoryCluster):
    """Keeps all that was ever done to its network."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Do it, and keep it."""
        super().impair(name, impairments)
        self.seen = tuple(impairments)


class Taken(MemoryCluster):
    """One whose relays do something else already."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Refuse."""
        raise ImpairmentConflict(
            f"{name}: the responses of node {impairments[0].node_id} are held already"
        )


def strike(cluster: MemoryCluster, kind: str, **parameters: float | str) -> FaultEvidence:
    """Let a fault strike a watched cluster for a moment."""
    asked = {
        "at_s": 0.02,
        "lasts_s": FOREVER_S,
        **(
            {"patience_s": FOREVER_S}
            if "patience_s" in FAULTS[kind].parameters.model_fields
            else {}
        ),
        **parameters,
    }
    journal = Journal()
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        context = FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
        (struck,) = strike_all(FaultRequest(kind=kind, parameters=asked), context)
    return struck.evidence


CUTS: list[tuple[str, dict[str, float | str], tuple[Impairment, ...]]] = [
    ("leader-isolated", {}, (PacketDrop(2, (1, 3)),)),
    ("follower-isolated", {}, (PacketDrop(3, (1, 2)),)),
    ("controller-isolated", {}, (PacketDrop(1, (2, 3)),)),
    ("split-majority", {}, (PacketDrop(2, (1, 3)),)),
    (
        "split-majority",
        {"clients": "majority"},
        (PacketDrop(2, (1, 3)), PacketDrop(2, clients=True)),
    ),
    (
        "split-majority",
        {"clients": "minority"},
        (PacketDrop(2, (1, 3)), PacketDrop(1, clients=True), PacketDrop(3, clients=True)),
    ),
    ("one-way-cut", {}, (PacketDrop(2, (1, 3), outgoing=False),)),
    ("one-way-cut", {"direction": "out"}, (PacketDrop(2, (1, 3), incoming=False),)),
    (
        "client-isolated",
        {},
        (PacketDrop(1, clients=True), PacketDrop(2, clients=True), PacketDrop(3, clients=True)),
    ),
    ("client-isolated", {"nodes": "leader"}, (PacketDrop(2, clients=True),)),
    ("responses-dropped", {}, (PacketDrop(2, clients=True, incoming=False),)),
    (
        "bandwidth-limited",
        {"rate_kbit_per_s": 500},
        (TrafficShaping(2, (1, 3), rate_kbit_per_s=500),),
    ),
    ("delay", {"delay_ms": 50}, (TrafficShaping(2, (1, 3), delay_ms=50, jitter_ms=20),)),
    ("packet-loss", {"loss_percent": 25}, (PacketDrop(2, (1, 3), clients=True, share=0.25),)),
    ("relay-held", {}, (RelayAction(2, "responses", "hold"),)),
    ("relay-dropped", {"direction": "requests"}, (RelayAction(2, "requests", "drop"),)),
    ("relay-reset", {}, (RelayAction(2, "responses", "reset"),)),
]


@pytest.mark.parametrize(("kind", "parameters", "expected"), CUTS)
def test_each_fault_does_this_to_the_network_and_mends_it(
    kind: str, parameters: dict[str, float | str], expected: tuple[Impairment, ...]
) -> None:
    """Node 2 leads, node 1 is the active controller; at the end nothing is impaired, and the counters are in the evidence."""
    cluster = Keeping(replicas=(2, 3, 1))
    evidence = strike(cluster, kind, **parameters)
    assert cluster.seen == expected
    assert cluster.impairments == {}
    assert evidence.took_effect
    assert any("packets" in sentence for sentence in evidence.evidence)


def test_a_cut_that_met_with_no_packet_did_not_bite() -> None:
    """The rule was there and dropped nothing: the trial says nothing about a cut."""
    evidence = strike(MemoryCluster(has_traffic=False), "leader-isolated")
    assert not evidence.took_effect
    assert any("no traffic" in sentence for sentence in evidence.evidence)


def test_a_partition_that_nobody_noticed_did_not_bite() -> None:
    """Packets were dropped, and the cluster went on as before."""
    evidence = strike(MemoryCluster(detects_failures=False), "leader-isolated")
    assert not evidence.took_effect
    assert any("had not noticed" in sentence for sentence in evidence.evidence)


def test_the_network_is_mended_when_the_fault_fails() -> None:
    """Whatever was raised in the middle of it."""

    class Failing(MemoryCluster):
        def impairment_counts(self, name: str) -> tuple[()]:
            raise RuntimeError(name)

        def heal(self, name: str) -> tuple[()]:
            self.impairments.pop(name)
            return ()

    cluster = Failing()
    with pytest.raises(RuntimeError):
        strike(cluster, "leader-isolated")
    assert cluster.impairments == {}


@pytest.mark.parametrize("kind", ["client-isolated", "responses-dropped", "relay-held"])
def test_a_cut_shorter_than_the_client_waits_is_not_noticed(kind: str) -> None:
    """TCP repairs it; with acks=0 nobody waits, and what is asked is another thing."""
    parameters = FAULTS[kind].parameters.model_validate({"lasts_s": 1})
    assert "allowed: a longer cut" in str(parameters.unnoticed_reason(1.0, "all"))
    assert parameters.unnoticed_reason(0.9, "all") is None
    assert parameters.unnoticed_reason(1.0, "0") is None


@pytest.mark.parametrize(
    "kind", ["leader-isolated", "follower-isolated", "controller-isolated", "one-way-cut"]
)
def test_one_node_has_nobody_to_be_cut_off_from(kind: str) -> None:
    """It is refused at planning; so is a follower where there is none."""
    parameters = FAULTS[kind].parameters()
    assert "allowed: 2 nodes or more" in str(
        parameters.impossible_reason(Topology(nodes=1, partitions=1, replication_factor=1))
    )
    assert (
        parameters.impossible_reason(Topology(nodes=2, partitions=1, replication_factor=2)) is None
    )
    assert (
        parameters.impossible_reason(Topology(nodes=2, partitions=1, replication_factor=1))
        is not None
    ) is (kind == "follower-isolated")


def test_of_two_nodes_no_minority_can_be_parted() -> None:
    """It is refused at planning."""
    parameters = FAULTS["split-majority"].parameters()
    assert "allowed: 3 nodes or more" in str(
        parameters.impossible_reason(Topology(nodes=2, partitions=1, replication_factor=2))
    )
    assert (
        parameters.impossible_reason(Topology(nodes=3, partitions=1, replication_factor=3)) is None
    )


@pytest.mark.parametrize(
    ("told", "took_effect"),
    [
        (("producer 0: gone", 11), True),
        (("producer 0: gone", 9), False),
        (("reader 0: gone", 11), False),
    ],
)
def test_a_reset_bit_when_a_producer_lost_its_connection(
    told: tuple[str, int], took_effect: bool
) -> None:
    """By its own log, and after the fault began."""
    lost = Event(told[1], "disconnected", Source.CLIENT, detail=told[0])
    evidence = FaultEvidence(kind="relay-reset", took_effect=True)
    assert (
        FAULTS["relay-reset"].confirm(evidence, TrialObservations((lost,), "1", 10)).took_effect
        is took_effect
    )


def test_traffic_that_another_fault_treats_cannot_be_treated_again() -> None:
    """Of two relay faults at one node the second one misses; it is no failure of the harness."""
    evidence = strike(Taken(), "relay-held")
    assert not evidence.took_effect
    assert any("are held already" in sentence for sentence in evidence.evidence)
