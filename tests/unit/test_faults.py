"""Faults against a cluster in memory: the order of what they do, what they heal, and when they say that they bit."""

from __future__ import annotations

import threading

import pytest
from standins.cluster import MemoryCluster

from experiments.clock import now_ns
from experiments.errors import HealFailed
from experiments.faults import FAULTS, Scene
from experiments.faults.aftermath import Aftermath, with_timed_out_requests
from experiments.faults.striking import Struck
from experiments.faults.striking import strike as strike_all
from experiments.journal import Event, Journal
from experiments.ledger.record import FaultEvidence
from experiments.ledger.schema import Source
from experiments.plan import FaultRequest
from experiments.watching import Watch


def strike(cluster: MemoryCluster, kind: str, **parameters: float) -> tuple[FaultEvidence, Journal]:
    """Let a fault strike a watched cluster, quickly."""
    (struck,), journal = let(cluster, FaultRequest(kind=kind, parameters={"at_s": 0.02, **parameters}))
    return struck.evidence, journal


def let(cluster: MemoryCluster, request: FaultRequest) -> tuple[tuple[Struck, ...], Journal]:
    """Let what was asked for strike a watched cluster."""
    journal = Journal()
    with Watch(cluster, cluster.topic, journal, every_s=0.005):
        return strike_all(request, Scene(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)), journal


def test_a_crashed_leader_is_killed_and_started_again() -> None:
    """The target is the leader of partition 0, and it runs again at the end."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    evidence, _ = strike(cluster, "leader-crash", restart_after_s=0.1)
    assert cluster.signals == [("kill", 2), ("start", 2)]
    assert evidence.targets == (2,)
    assert evidence.bit


def test_a_crash_that_nobody_noticed_did_not_bite() -> None:
    """The process was gone, but the partition kept its leader: the trial says nothing about a failover."""
    evidence, _ = strike(MemoryCluster(notices=False), "leader-crash", restart_after_s=0.1, patience_s=0.1)
    assert not evidence.bit
    assert "had not noticed" in evidence.evidence[-1]


def test_followers_stand_still_before_the_leader_dies_and_go_on_after() -> None:
    """Pause both followers, kill the leader, resume both, start the leader."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    evidence, _ = strike(cluster, "leader-crash-behind", behind_s=0.05, restart_after_s=0.1)
    assert cluster.signals == [("pause", 3), ("pause", 1), ("kill", 2), ("resume", 3), ("resume", 1), ("start", 2)]
    assert evidence.bit


def test_without_followers_the_leader_alone_is_killed() -> None:
    """Replication factor 1 has nobody to stop, and the evidence says so."""
    cluster = MemoryCluster(replicas=(2,))
    evidence, _ = strike(cluster, "leader-crash-behind", behind_s=0.05, restart_after_s=0.1)
    assert cluster.signals == [("kill", 2), ("start", 2)]
    assert any("no follower" in sentence for sentence in evidence.evidence)


def test_a_pause_longer_than_the_client_waits_bites() -> None:
    """The leader is stopped, goes on, and the pause outlasted the client's patience."""
    cluster = MemoryCluster()
    evidence, _ = strike(cluster, "leader-pause", pause_s=0.2)
    assert cluster.signals == [("pause", 2), ("resume", 2)]
    assert evidence.bit


def test_a_pause_shorter_than_the_client_waits_did_not_bite() -> None:
    """TCP repairs what is shorter than the client's timeout, and nothing shows."""
    evidence, _ = strike(MemoryCluster(), "leader-pause", pause_s=0.01)
    assert not evidence.bit


def test_a_crashed_follower_bites_when_the_isr_shrinks() -> None:
    """The first follower in the ISR is the target."""
    evidence, _ = strike(MemoryCluster(replicas=(2, 3, 1)), "follower-crash", restart_after_s=0.1)
    assert (evidence.targets, evidence.bit) == ((3,), True)


def test_a_leader_stays_down_until_the_cluster_has_noticed() -> None:
    """A session that outlasts the asked-for time is waited for, within patience."""
    cluster = MemoryCluster(notices=False)
    threading.Timer(0.2, lambda: setattr(cluster, "notices", True)).start()
    evidence, _ = strike(cluster, "leader-crash", restart_after_s=0.02, patience_s=5)
    assert evidence.bit


def aftermath(acks: str, *timed_out_at_ns: int) -> Aftermath:
    """Return what a producer's log tells of requests that timed out, two each time; the fault began at 100 ns."""
    line = "producer 0: [thrd:x]: 127.0.0.1:1/1: Timed out 2 in-flight, 0 retry-queued, 0 out-queue, 0 partially-sent requests"
    return Aftermath(tuple(Event(at_ns, "timed_out", Source.CLIENT, detail=line) for at_ns in timed_out_at_ns), acks, began_ns=100)


@pytest.mark.parametrize(("acks", "timed_out_at_ns", "bites"), [("all", (), False), ("all", (50,), False), ("all", (50, 150), True), ("0", (), True)])
def test_a_pause_bites_when_it_kept_a_request_waiting(acks: str, timed_out_at_ns: tuple[int, ...], bites: bool) -> None:
    """The producers' own logs show requests that timed out since; with acks=0 there is no answer that could be waited for."""
    evidence = FaultEvidence(kind="leader-pause", targets=(2,), bit=True)
    assert with_timed_out_requests(evidence, aftermath(acks, *timed_out_at_ns)).bit is bites


def test_without_followers_there_is_no_follower_to_crash() -> None:
    """The fault has no target, so the trial is void and nothing was signalled."""
    cluster = MemoryCluster(replicas=(2,))
    evidence, _ = strike(cluster, "follower-crash", restart_after_s=0.1)
    assert (cluster.signals, evidence.bit) == ([], False)


def test_a_crashed_controller_bites_when_another_takes_over() -> None:
    """The target is the active controller, not a leader."""
    evidence, _ = strike(MemoryCluster(active_controller=1), "controller-crash", restart_after_s=0.1)
    assert (evidence.targets, evidence.bit) == ((1,), True)


def test_what_was_stopped_goes_on_even_when_the_fault_fails_halfway() -> None:
    """A leader that cannot be started again does not leave its followers standing still."""
    cluster = MemoryCluster(refuses_start=True)
    with pytest.raises(HealFailed, match="node 2 does not start"):
        strike(cluster, "leader-crash-behind", behind_s=0.02, restart_after_s=0.05)
    assert "paused" not in cluster.states.values()


@pytest.mark.parametrize("kind", [kind for kind, fault in FAULTS.items() if fault.family == "process"])
def test_every_fault_notes_its_begin_and_its_end(kind: str) -> None:
    """The phases of a trial are cut at these two marks."""
    cluster = MemoryCluster()
    _, journal = strike(cluster, kind, **quick(kind))
    assert [event.kind for event in journal.events("fault_begin", "fault_end")] == ["fault_begin", "fault_end"]


def quick(kind: str) -> dict[str, float]:
    """Return parameters that let a fault pass in a fraction of a second."""
    return {name: 0.08 for name in FAULTS[kind].parameters.model_fields if name != "at_s"}
