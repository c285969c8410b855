"""Faults of disks against a cluster in memory: in which order things are done and healed, and what counts as a bite."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fakes.cluster import MemoryCluster
from support.fakes.disks import DiskCluster

from experiments.events.clock import now_ns
from experiments.events.journal import CRC_FAILED, Event, Journal
from experiments.faults import FAULTS
from experiments.faults.composition.execution import inject
from experiments.faults.core.context import FaultContext
from experiments.faults.core.kind import TrialObservations
from experiments.ledger.record import FaultEvidence
from experiments.sweep.plan import FaultRequest
from experiments.trial.metadata_poller import MetadataPoller

QUICK = {"at_s": 0.02, "restart_after_s": 0.05, "patience_s": 0.2}


def let(cluster: DiskCluster, kind: str, **parameters: float) -> FaultEvidence:
    """Let a fault strike a watched cluster, quickly."""
    journal = Journal()
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        context = FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
        (struck,) = inject(FaultRequest(kind=kind, parameters=parameters or QUICK), context)
    return struck.evidence


def test_all_stand_still_before_any_disk_loses_power(tmp_path: Path) -> None:
    """Nobody may acknowledge a record that a disk has lost already; and all are started again."""
    cluster = DiskCluster(folder=tmp_path)
    evidence = let(cluster, "all-power-loss")
    deeds = [deed for deed, _ in cluster.signals]
    assert deeds == ["pause"] * 3 + ["lose power"] * 3 + ["start"] * 3
    assert (evidence.targets, evidence.took_effect) == ((1, 2, 3), True)


@pytest.mark.parametrize(("kind", "keeper"), [("all-power-loss", 3), ("leader-power-loss", 2)])
def test_a_power_cut_that_lost_nothing_did_not_bite(tmp_path: Path, kind: str, keeper: int) -> None:
    """What was written a moment before and not synced is still there: that was no power cut."""
    evidence = let(DiskCluster(folder=tmp_path, keeps=frozenset({keeper})), kind)
    assert not evidence.took_effect
    assert f"node {keeper}'s disk lost nothing" in evidence.evidence


@pytest.mark.parametrize(
    ("kind", "failing", "healing"),
    [("disk-full", "fill", "free"), ("log-dir-gone", "take away", "bring back")],
)
def test_a_disk_is_put_right_before_its_node_is_started(
    tmp_path: Path, kind: str, failing: str, healing: str
) -> None:
    """Or the node would find it as it was and end again."""
    cluster = DiskCluster(folder=tmp_path)
    evidence = let(cluster, kind)
    assert cluster.signals == [(failing, 2), (healing, 2), ("start", 2)]
    assert evidence.took_effect


@pytest.mark.parametrize("kind", ["disk-full", "log-dir-gone"])
def test_a_failing_disk_that_the_node_outlives_did_not_bite(tmp_path: Path, kind: str) -> None:
    """Nothing says that it noticed; and it runs again at the end, on its disk."""
    cluster = DiskCluster(folder=tmp_path, ends_over_it=False)
    evidence = let(cluster, kind)
    assert not evidence.took_effect
    assert set(cluster.states.values()) == {"running"}


@pytest.mark.parametrize(("slow_s", "took_effect"), [(0.5, True), (0.002, False)])
def test_a_slow_disk_bit_when_a_synced_write_takes_its_time(
    tmp_path: Path, slow_s: float, *, took_effect: bool
) -> None:
    """The kernel may take the limit and not hold anything back; the limit goes either way."""
    cluster = DiskCluster(folder=tmp_path, probes_s=[0.001, 0.002, 0.001, slow_s])
    assert let(cluster, "slow-disk", at_s=0.02, slow_s=0.05).took_effect is took_effect
    assert cluster.signals == [("limit", 2), ("let go", 2)]


def test_a_flipped_bit_finds_nothing_where_there_are_no_records(tmp_path: Path) -> None:
    """The trial is void, and says why."""
    evidence = let(DiskCluster(folder=tmp_path), "bit-flip", at_s=0.02)
    assert not evidence.took_effect
    assert "no plain batch" in evidence.evidence[-1]


@pytest.mark.parametrize(
    ("then", "refused", "took_effect"),
    [
        ("read", True, True),
        ("read", False, False),
        ("restart", False, True),
        ("restart", True, False),
    ],
)
def test_a_flipped_bit_shows_where_it_should(
    then: str, *, refused: bool, took_effect: bool
) -> None:
    """Left as it is, a reader that checks is refused the batch; cut away by recovery, no reader is."""
    struck = FaultEvidence(kind="bit-flip", parameters={"then": then}, took_effect=True)
    events = (Event(2, CRC_FAILED, partition=0, offset=66),) if refused else ()
    assert (
        FAULTS["bit-flip"].confirm(struck, TrialObservations(events, "all", began_ns=1)).took_effect
        is took_effect
    )


def test_a_disk_that_another_fault_took_away_cannot_be_slowed() -> None:
    """It takes no write to be timed: that part misses, and the trial does not fail."""
    journal, cluster = Journal(), MemoryCluster(folder=Path("/nowhere"))
    context = FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
    (struck,) = inject(
        FaultRequest(kind="slow-disk", parameters={"at_s": 0.02, "slow_s": 0.05}), context
    )
    assert not struck.evidence.took_effect
    assert any("takes no write" in sentence for sentence in struck.evidence.evidence)
