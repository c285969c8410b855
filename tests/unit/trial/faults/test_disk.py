"""Disk faults against a cluster in memory: order of injection and heal, and evidence."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fakes.cluster import MemoryCluster
from support.fakes.disks import DiskCluster

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import CRC_FAILED, Event, Journal
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.composition.execution import inject
from ackbench.experiments.trial.faults.core.context import FaultContext
from ackbench.experiments.trial.faults.core.kind import TrialObservations
from ackbench.experiments.trial.metadata_poller import MetadataPoller

QUICK = {"at_s": 0.02, "restart_after_s": 0.05, "patience_s": 0.2}


def inject_fault(cluster: DiskCluster, kind: str, **parameters: float) -> FaultEvidence:
    """Inject a fault early in the load, and return its evidence."""
    journal = Journal()
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        context = FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
        (injected,) = inject(FaultRequest(kind=kind, parameters=parameters or QUICK), context)
    return injected.evidence


def test_all_nodes_are_paused_before_any_disk_loses_power(tmp_path: Path) -> None:
    """No node may acknowledge a record that a disk has already lost; all are started again."""
    cluster = DiskCluster(folder=tmp_path)
    evidence = inject_fault(cluster, "all-power-loss")
    actions = [action for action, _ in cluster.signals]
    assert actions == ["pause"] * 3 + ["lose power"] * 3 + ["start"] * 3
    assert (evidence.targets, evidence.took_effect) == ((1, 2, 3), True)


@pytest.mark.parametrize(("kind", "node"), [("all-power-loss", 3), ("leader-power-loss", 2)])
def test_a_power_loss_without_lost_data_had_no_effect(tmp_path: Path, kind: str, node: int) -> None:
    """Data that was written just before and not synced is still there."""
    evidence = inject_fault(DiskCluster(folder=tmp_path, durable_nodes=frozenset({node})), kind)
    assert not evidence.took_effect
    assert f"node {node}'s disk lost nothing" in evidence.evidence


@pytest.mark.parametrize(
    ("kind", "failing", "healing"),
    [("disk-full", "fill", "free"), ("log-dir-gone", "shut down", "bring back")],
)
def test_a_disk_is_healed_before_its_node_is_started(
    tmp_path: Path, kind: str, failing: str, healing: str
) -> None:
    """Otherwise the node would shut down again."""
    cluster = DiskCluster(folder=tmp_path)
    evidence = inject_fault(cluster, kind)
    assert cluster.signals == [(failing, 2), (healing, 2), ("start", 2)]
    assert evidence.took_effect


@pytest.mark.parametrize("kind", ["disk-full", "log-dir-gone"])
def test_a_failing_disk_without_a_shutdown_had_no_effect(tmp_path: Path, kind: str) -> None:
    """Nothing shows that the node was affected; it runs at the end, on its disk."""
    cluster = DiskCluster(folder=tmp_path, exits_on_disk_failure=False)
    evidence = inject_fault(cluster, kind)
    assert not evidence.took_effect
    assert set(cluster.states.values()) == {"running"}


@pytest.mark.parametrize(("slow_s", "took_effect"), [(0.5, True), (0.002, False)])
def test_a_slow_disk_takes_effect_when_a_synced_write_is_slow(
    tmp_path: Path, slow_s: float, *, took_effect: bool
) -> None:
    """The kernel may accept the limit without effect; the limit is removed either way."""
    cluster = DiskCluster(folder=tmp_path, synced_writes_s=[0.001, 0.002, 0.001, slow_s])
    assert inject_fault(cluster, "slow-disk", at_s=0.02, slow_s=0.05).took_effect is took_effect
    assert cluster.signals == [("limit", 2), ("unlimit", 2)]


def test_a_bit_flip_without_records_had_no_effect(tmp_path: Path) -> None:
    """The trial is void, and the evidence has the reason."""
    evidence = inject_fault(DiskCluster(folder=tmp_path), "bit-flip", at_s=0.02)
    assert not evidence.took_effect
    assert "no uncompressed batch" in evidence.evidence[-1]


@pytest.mark.parametrize(
    ("then", "refused", "took_effect"),
    [
        ("read", True, True),
        ("read", False, False),
        ("restart", False, True),
        ("restart", True, False),
    ],
)
def test_a_bit_flip_takes_effect_as_its_parameters_require(
    then: str, *, refused: bool, took_effect: bool
) -> None:
    """`read`: a consumer that checks CRCs rejects the batch. `restart`: recovery truncates it."""
    evidence = FaultEvidence(kind="bit-flip", parameters={"then": then}, took_effect=True)
    events = (Event(2, CRC_FAILED, partition=0, offset=66),) if refused else ()
    assert (
        FAULTS["bit-flip"]
        .confirm(evidence, TrialObservations(events, "all", began_ns=1))
        .took_effect
        is took_effect
    )


def test_a_disk_that_another_fault_removed_cannot_be_slowed() -> None:
    """No write to it succeeds: the fault has no effect, and the trial does not fail."""
    journal, cluster = Journal(), MemoryCluster(folder=Path("/nowhere"))
    context = FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
    (injected,) = inject(
        FaultRequest(kind="slow-disk", parameters={"at_s": 0.02, "slow_s": 0.05}), context
    )
    assert not injected.evidence.took_effect
    assert any("a write to node 2's disk failed" in line for line in injected.evidence.evidence)
