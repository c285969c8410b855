"""Network faults against a cluster in memory: impairments, heal, and evidence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.fakes.cluster import MemoryCluster

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.faults import FAULTS, FaultContext
from ackbench.experiments.trial.faults.composition.execution import inject as inject_request
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.core.kind import TrialObservations
from ackbench.experiments.trial.metadata_poller import MetadataPoller
from ackbench.infra.errors import ImpairmentConflict
from ackbench.infra.network.impairment import Impairment, PacketDrop, RelayAction, TrafficShaping

DURATION_S = 0.1


class RecordingCluster(MemoryCluster):
    """Records the impairments of its network."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Apply the impairments and record them."""
        super().impair(name, impairments)
        self.applied = tuple(impairments)


class ConflictingCluster(MemoryCluster):
    """A cluster whose relays already have another action."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Reject the impairments."""
        raise ImpairmentConflict(
            f"{name}: the responses of node {len(impairments)} are held already"
        )


def inject_fault(cluster: MemoryCluster, kind: str, **parameters: float | str) -> FaultEvidence:
    """Inject a fault for a moment while a metadata poller watches the cluster."""
    values = {
        "at_s": 0.02,
        "lasts_s": DURATION_S,
        **(
            {"patience_s": DURATION_S}
            if "patience_s" in FAULTS[kind].parameters.model_fields
            else {}
        ),
        **parameters,
    }
    journal = Journal()
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        context = FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
        (injected,) = inject_request(FaultRequest(kind=kind, parameters=values), context)
    return injected.evidence


IMPAIRMENTS: list[tuple[str, dict[str, float | str], tuple[Impairment, ...]]] = [
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


@pytest.mark.parametrize(("kind", "parameters", "expected"), IMPAIRMENTS)
def test_each_fault_impairs_the_network_and_heals_it(
    kind: str, parameters: dict[str, float | str], expected: tuple[Impairment, ...]
) -> None:
    """Node 2 leads and node 1 is the active controller.

    At the end nothing is impaired, and the evidence has the packet counters.
    """
    cluster = RecordingCluster(replicas=(2, 3, 1))
    evidence = inject_fault(cluster, kind, **parameters)
    assert cluster.applied == expected
    assert cluster.impairments == {}
    assert evidence.took_effect
    assert any("packets" in sentence for sentence in evidence.evidence)


def test_an_isolation_that_dropped_no_packet_had_no_effect() -> None:
    """The rule was in place and no packet matched it."""
    evidence = inject_fault(MemoryCluster(has_traffic=False), "leader-isolated")
    assert not evidence.took_effect
    assert any("no traffic" in sentence for sentence in evidence.evidence)


def test_an_isolation_without_a_leader_change_had_no_effect() -> None:
    """Packets were dropped, and the cluster did not react."""
    evidence = inject_fault(MemoryCluster(detects_failures=False), "leader-isolated")
    assert not evidence.took_effect
    assert any("kept its leader (node 2)" in sentence for sentence in evidence.evidence)


def test_the_network_is_healed_when_the_fault_fails() -> None:
    """Any exception during the fault still leads to the heal."""

    class FailingCluster(MemoryCluster):
        def impairment_counts(self, name: str) -> tuple[()]:
            raise RuntimeError(name)

        def heal(self, name: str) -> tuple[()]:
            self.impairments.pop(name)
            return ()

    cluster = FailingCluster()
    with pytest.raises(RuntimeError):
        inject_fault(cluster, "leader-isolated")
    assert cluster.impairments == {}


@pytest.mark.parametrize("kind", ["client-isolated", "responses-dropped", "relay-held"])
def test_a_cut_shorter_than_the_request_timeout_is_rejected(kind: str) -> None:
    """TCP retransmits in time; with acks=0 the producer does not wait, so it is accepted."""
    parameters = FAULTS[kind].parameters.model_validate({"lasts_s": 1})
    assert "allowed: a longer cut" in str(parameters.unnoticed_reason(1.0, "all"))
    assert parameters.unnoticed_reason(0.9, "all") is None
    assert parameters.unnoticed_reason(1.0, "0") is None


@pytest.mark.parametrize(
    "kind", ["leader-isolated", "follower-isolated", "controller-isolated", "one-way-cut"]
)
def test_a_single_node_cannot_be_isolated(kind: str) -> None:
    """Planning rejects it; and the isolation of a follower if there is none."""
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


def test_two_nodes_have_no_minority_to_isolate() -> None:
    """Planning rejects the fault."""
    parameters = FAULTS["split-majority"].parameters()
    assert "allowed: 3 nodes or more" in str(
        parameters.impossible_reason(Topology(nodes=2, partitions=1, replication_factor=2))
    )
    assert (
        parameters.impossible_reason(Topology(nodes=3, partitions=1, replication_factor=3)) is None
    )


@pytest.mark.parametrize(
    ("event", "took_effect"),
    [
        (("producer 0: gone", 11), True),
        (("producer 0: gone", 9), False),
        (("consumer 0: gone", 11), False),
    ],
)
def test_a_reset_takes_effect_when_a_producer_loses_its_connection(
    event: tuple[str, int], took_effect: bool
) -> None:
    """According to the producer's own log, after the fault began."""
    lost = Event(event[1], "disconnected", Source.CLIENT, detail=event[0])
    evidence = FaultEvidence(kind="relay-reset", took_effect=True)
    assert (
        FAULTS["relay-reset"].confirm(evidence, TrialObservations((lost,), "1", 10)).took_effect
        is took_effect
    )


def test_of_two_relay_faults_at_one_node_the_second_has_no_effect() -> None:
    """The conflict is evidence, not a failure of the harness."""
    evidence = inject_fault(ConflictingCluster(), "relay-held")
    assert not evidence.took_effect
    assert any("are held already" in sentence for sentence in evidence.evidence)
