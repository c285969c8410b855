"""Several faults of one trial against a cluster in memory: their order, their evidence, and that none undoes another."""

from __future__ import annotations

import pytest
from support.fakes.cluster import MemoryCluster

from experiments.errors import HealFailed
from experiments.events.clock import now_ns
from experiments.events.journal import Event, Journal
from experiments.faults import FaultContext
from experiments.faults.composition.execution import InjectedFault, evidence_of, inject
from experiments.ledger.record import FaultEvidence
from experiments.ledger.schema import Source
from experiments.sweep.plan import Composition, FaultRequest
from experiments.trial.metadata_poller import MetadataPoller

NEVER_NS = 2**62


def crash(whom: str, at_s: float, restart_after_s: float = 0.1) -> FaultRequest:
    """Return a crash that is over soon."""
    return FaultRequest(
        kind=f"{whom}-crash",
        parameters={"at_s": at_s, "restart_after_s": restart_after_s, "patience_s": 0.3},
    )


def pause(at_s: float, pause_s: float) -> FaultRequest:
    """Return a pause of the leader that is over soon."""
    return FaultRequest(kind="leader-pause", parameters={"at_s": at_s, "pause_s": pause_s})


def joined(how: Composition, *parts: FaultRequest) -> FaultRequest:
    """Return several faults as one."""
    return FaultRequest(kind=f" {how} ".join(part.kind for part in parts), joined=how, parts=parts)


def let(cluster: MemoryCluster, request: FaultRequest) -> tuple[tuple[InjectedFault, ...], Journal]:
    """Let them strike a watched cluster."""
    journal = Journal()
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        return inject(
            request, FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.02)
        ), journal


def told(
    request: FaultRequest,
    struck: tuple[InjectedFault, ...],
    *events: Event,
    load_end_ns: int = NEVER_NS,
) -> FaultEvidence:
    """Return the evidence of the whole."""
    return evidence_of(request, struck, events, "all", load_end_ns)


def test_in_turn_the_second_strikes_after_the_heal_of_the_first() -> None:
    """Its time counts from that heal: both ask for 0.02 s, and the first takes longer than that."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    _, journal = let(cluster, joined(">>", crash("leader", 0.02), crash("follower", 0.02)))
    assert cluster.signals == [("kill", 2), ("start", 2), ("kill", 3), ("start", 3)]
    first_end, second_begin = (
        journal.events(kind)[place].at_ns for kind, place in (("fault_end", 0), ("fault_begin", 1))
    )
    assert second_begin - first_end >= 0.015e9


def test_at_the_same_time_both_nodes_are_down() -> None:
    """Each is killed at its own time, before the other is started again."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    let(cluster, joined("&", crash("leader", 0.02, 0.3), crash("controller", 0.1, 0.1)))
    assert [signal for signal, _ in cluster.signals] == ["kill", "kill", "start", "start"]


def test_an_event_says_which_of_several_faults_it_is_of() -> None:
    """By its number in the order in which they are written, and its kind."""
    _, journal = let(MemoryCluster(), joined("&", crash("leader", 0.02), crash("controller", 0.02)))
    begins = sorted(event.detail for event in journal.events("fault_begin"))
    assert [detail.partition(":")[0] for detail in begins] == [
        "1.leader-crash",
        "2.controller-crash",
    ]


def test_each_part_has_its_own_evidence_and_parameters() -> None:
    """All sentences of the one name its node only, and each begins with whose it is."""
    request = joined(">>", crash("leader", 0.02), crash("follower", 0.03))
    struck, _ = let(MemoryCluster(replicas=(2, 3, 1)), request)
    whole = told(request, struck)
    assert (whole.took_effect, whole.targets) == (True, (2, 3))
    assert whole.parameters["2.follower-crash.at_s"] == 0.03
    assert [sentence.partition(":")[0] for sentence in whole.evidence] == ["1.leader-crash"] * 2 + [
        "2.follower-crash"
    ] * 2


def test_one_part_that_did_not_bite_makes_the_whole_void() -> None:
    """And it is named first."""
    request = joined(">>", crash("leader", 0.02), crash("follower", 0.02))
    struck, _ = let(MemoryCluster(replicas=(2,)), request)
    whole = told(request, struck)
    assert (whole.took_effect, whole.evidence[0]) == (False, "2.follower-crash did not bite")


def test_what_strikes_after_the_load_strikes_nothing() -> None:
    """The heal of the one before may take long, and there are no more records to lose."""
    request = joined(">>", crash("leader", 0.02), crash("follower", 0.02))
    struck, journal = let(MemoryCluster(), request)
    whole = told(request, struck, load_end_ns=journal.events("fault_begin")[1].at_ns)
    assert (whole.took_effect, whole.evidence[0]) == (False, "2.follower-crash did not bite")


def test_only_timeouts_since_a_pause_began_are_its_own() -> None:
    """A request that timed out in the crash before says nothing about the pause."""
    request = joined(">>", crash("leader", 0.02), pause(0.02, 0.1))
    struck, journal = let(MemoryCluster(), request)
    begins = [event.at_ns for event in journal.events("fault_begin")]
    line = "producer 0: [thrd:x]: 127.0.0.1:1/1: Timed out 2 in-flight, 0 retry-queued"
    late, early = (
        Event(at_ns + 1, "timed_out", Source.CLIENT, detail=line) for at_ns in reversed(begins)
    )
    assert (
        told(request, struck, early).took_effect,
        told(request, struck, early, late).took_effect,
    ) == (False, True)


def test_a_node_that_two_keep_still_goes_on_when_both_let_go() -> None:
    """The shorter pause ends first, and must not end the longer one."""
    cluster = MemoryCluster()
    let(cluster, joined("&", pause(0.02, 0.1), pause(0.05, 0.3)))
    assert [signal for signal, _ in cluster.signals] == ["pause", "pause", "resume"]


def test_a_node_that_was_killed_is_not_resumed() -> None:
    """It was stopped when it was killed; the crash starts it again."""
    cluster = MemoryCluster()
    let(cluster, joined("&", pause(0.02, 0.2), crash("leader", 0.08, 0.3)))
    assert cluster.signals == [("pause", 2), ("kill", 2), ("start", 2)]


def test_a_node_that_is_down_already_cannot_be_struck() -> None:
    """That part says so and did not bite; the other is not disturbed."""
    cluster = MemoryCluster(replicas=(1,), active_controller=1, detects_failures=False)
    struck, _ = let(
        cluster, joined("&", crash("leader", 0.02, 0.3), crash("controller", 0.1, 0.05))
    )
    assert cluster.signals == [("kill", 1), ("start", 1)]
    assert struck[1].evidence.evidence == (
        "node 1 was down already",
        "none of its nodes ran: nothing was done",
    )


def test_a_part_that_cannot_be_healed_does_not_keep_the_others_from_it() -> None:
    """The paused leader goes on, though the killed controller does not start; the error names fault and node."""
    cluster = MemoryCluster(replicas=(2, 3, 1), active_controller=1, refuses_start=True)
    with pytest.raises(HealFailed, match=r"node 1 does not start"):
        let(cluster, joined("&", pause(0.02, 0.4), crash("controller", 0.02, 0.05)))
    assert cluster.states == {1: "stopped", 2: "running", 3: "running"}


def test_what_was_never_healed_by_its_part_is_put_right_in_the_end() -> None:
    """A fault that forgot its heal would leave the cluster broken for the next trial."""
    cluster = MemoryCluster()
    context = FaultContext(cluster, cluster.topic, now_ns(), Journal(), client_timeout_s=1)
    context.kill(2)
    context.pause(3)
    context.restore_nodes()
    assert set(cluster.states.values()) == {"running"}
