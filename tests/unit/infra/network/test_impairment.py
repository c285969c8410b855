"""Tests of impairments: all or none are applied, and each is removed whatever the others do."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ackbench.infra.errors import SupervisorError
from ackbench.infra.network.bridge import run_command
from ackbench.infra.network.impairment import (
    ImpairableNetwork,
    Impairment,
    ImpairmentCounts,
    ImpairmentMechanism,
    PacketDrop,
    RelayAction,
    RequestHold,
    TrafficShaping,
)


@dataclass
class FakeKernel:
    """Records which nodes are impaired, and refuses what it is configured to refuse."""

    impaired_nodes: set[int] = field(default_factory=set)
    refuses_apply: int = 0
    refuses_remove: int = 0

    def create(self, impairment: Impairment) -> ImpairmentMechanism:
        """Return a mechanism that is not yet applied."""
        return _FakeMechanism(self, getattr(impairment, "node_id", 0))


@dataclass
class _FakeMechanism:
    kernel: FakeKernel
    node: int

    def apply(self) -> None:
        if self.node == self.kernel.refuses_apply:
            raise SupervisorError("refused")
        self.kernel.impaired_nodes.add(self.node)

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        return (ImpairmentCounts(self.node, "packets", 1),)

    def remove(self) -> tuple[ImpairmentCounts, ...]:
        if self.node == self.kernel.refuses_remove:
            raise SupervisorError("refused")
        self.kernel.impaired_nodes.discard(self.node)
        return (ImpairmentCounts(self.node, "packets", 2),)


DROPS = (PacketDrop(1), PacketDrop(2), PacketDrop(3))


def test_heal_returns_the_final_counts_once() -> None:
    """A second heal finds nothing to do."""
    kernel = FakeKernel()
    network = ImpairableNetwork(kernel.create)
    network.impair("a", DROPS)
    assert (kernel.impaired_nodes, network.active_impairments()) == ({1, 2, 3}, ("a",))
    assert [counts.packets for counts in network.impairment_counts("a")] == [1, 1, 1]
    assert sorted((counts.node_id, counts.packets) for counts in network.heal("a")) == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]
    assert (kernel.impaired_nodes, network.active_impairments(), network.heal("a")) == (
        set(),
        (),
        (),
    )


def test_if_one_impairment_is_refused_none_stays_applied() -> None:
    """Half a network partition would be a different fault."""
    kernel = FakeKernel(refuses_apply=3)
    network = ImpairableNetwork(kernel.create)
    with pytest.raises(SupervisorError, match="refused"):
        network.impair("a", DROPS)
    assert (kernel.impaired_nodes, network.active_impairments()) == (set(), ())


def test_if_one_impairment_cannot_be_removed_the_others_are() -> None:
    """The error is raised, and the network is still known to be impaired."""
    kernel = FakeKernel(refuses_remove=2)
    network = ImpairableNetwork(kernel.create)
    network.impair("a", DROPS)
    with pytest.raises(SupervisorError, match="refused"):
        network.heal("a")
    assert (kernel.impaired_nodes, network.active_impairments()) == ({2}, ("a",))


def test_names_of_impairments_are_unique_and_must_exist() -> None:
    """Two faults at the same time have two names."""
    network = ImpairableNetwork(FakeKernel().create)
    network.impair("a", DROPS)
    with pytest.raises(SupervisorError, match="already"):
        network.impair("a", DROPS)
    with pytest.raises(SupervisorError, match=r"no impairment b: active are \['a'\]"):
        network.impairment_counts("b")


@pytest.mark.parametrize(
    ("impairment", "text"),
    [
        (PacketDrop(2, (1, 3)), "node 2 drops incoming and outgoing packets of nodes 1, 3"),
        (
            PacketDrop(2, (1,), clients=True, incoming=False, share=0.125),
            "node 2 drops 12.5 % of the outgoing packets of node 1 and clients",
        ),
        (
            TrafficShaping(2, (1,), rate_kbit_per_s=500),
            "node 2 sends to node 1 and clients at 500 kbit/s at most",
        ),
        (
            TrafficShaping(2, (), delay_ms=50, jitter_ms=20),
            "node 2 sends to clients 50 ms late (jitter 20 ms)",
        ),
        (RelayAction(2, "requests", "hold"), "the relay of node 2 holds requests"),
        (RequestHold("EndTxn", "trial-0"), "the relays hold one EndTxn of trial-0"),
    ],
)
def test_impairment_is_described_for_evidence(impairment: Impairment, text: str) -> None:
    """The description says which node does what to which traffic."""
    assert str(impairment) == text


def test_command_that_fails_or_hangs_raises_a_supervisor_error() -> None:
    """The message has the command's error output, or the timeout."""
    assert run_command(["cat"], "input") == "input"
    with pytest.raises(SupervisorError, match="sh -c echo why >&2; exit 3: why"):
        run_command(["sh", "-c", "echo why >&2; exit 3"])
    with pytest.raises(SupervisorError, match=r"not done after 0\.05 s"):
        run_command(["sh", "-c", "exec sleep 60"], timeout_s=0.05)
