"""Several faults of one trial against a cluster in memory: order, evidence, independence."""

from __future__ import annotations

import pytest
from support.fakes.cluster import MemoryCluster
from support.golden_files import Says

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Status
from ackbench.experiments.messages.errors import HealFailed
from ackbench.experiments.sweep.plan import Composition, FaultRequest
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.faults import FaultContext
from ackbench.experiments.trial.faults.composition.execution import (
    InjectedFault,
    evidence_of,
    inject,
)
from ackbench.experiments.trial.faults.core import EFFECTIVE
from ackbench.experiments.trial.metadata_poller import MetadataPoller

NEVER_NS = 2**62


def crash(selector: str, at_s: float, restart_after_s: float = 0.1) -> FaultRequest:
    """Return a short crash."""
    return FaultRequest(
        kind=f"{selector}-crash",
        parameters={"at_s": at_s, "restart_after_s": restart_after_s, "patience_s": 0.3},
    )


def pause(at_s: float, pause_s: float) -> FaultRequest:
    """Return a short pause of the leader."""
    return FaultRequest(kind="leader-pause", parameters={"at_s": at_s, "pause_s": pause_s})


def combined(how: Composition, *parts: FaultRequest) -> FaultRequest:
    """Return several faults as one request."""
    return FaultRequest(kind=f" {how} ".join(part.kind for part in parts), joined=how, parts=parts)


def inject_polled(
    cluster: MemoryCluster, request: FaultRequest
) -> tuple[tuple[InjectedFault, ...], Journal]:
    """Inject the faults while a metadata poller watches the cluster."""
    journal = Journal()
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        return inject(
            request, FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.02)
        ), journal


def combined_evidence(
    request: FaultRequest,
    injected: tuple[InjectedFault, ...],
    *events: Event,
    load_end_ns: int = NEVER_NS,
) -> FaultEvidence:
    """Return the evidence of all parts."""
    return evidence_of(request, injected, events, "all", load_end_ns, 1.0)


def test_in_sequence_the_second_fault_begins_after_the_heal_of_the_first() -> None:
    """Its `at_s` counts from that heal: both have 0.02 s, and the first takes longer."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    _, journal = inject_polled(
        cluster, combined(">>", crash("leader", 0.02), crash("follower", 0.02))
    )
    assert cluster.signals == [("kill", 2), ("start", 2), ("kill", 3), ("start", 3)]
    first_end, second_begin = (
        journal.events(kind)[place].at_ns for kind, place in (("fault_end", 0), ("fault_begin", 1))
    )
    assert second_begin - first_end >= 0.015e9


def test_in_parallel_both_nodes_are_down() -> None:
    """Each is killed at its own time, before the other is started again."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    inject_polled(cluster, combined("&", crash("leader", 0.02, 0.3), crash("controller", 0.1, 0.1)))
    assert [signal for signal, _ in cluster.signals] == ["kill", "kill", "start", "start"]


def test_an_event_names_its_fault() -> None:
    """By its place in the notation, and its kind."""
    _, journal = inject_polled(
        MemoryCluster(), combined("&", crash("leader", 0.02), crash("controller", 0.02))
    )
    begins = sorted(event.detail for event in journal.events("fault_begin"))
    assert [detail.partition(":")[0] for detail in begins] == [
        "1.leader-crash",
        "2.controller-crash",
    ]


def test_each_part_has_its_own_evidence_and_parameters() -> None:
    """Each sentence begins with the part that it belongs to."""
    request = combined(">>", crash("leader", 0.02), crash("follower", 0.03))
    injected, _ = inject_polled(MemoryCluster(replicas=(2, 3, 1)), request)
    evidence = combined_evidence(request, injected)
    assert (evidence.took_effect, evidence.targets) == (True, (2, 3))
    assert evidence.parameters["2.follower-crash.at_s"] == 0.03
    assert [sentence.partition(":")[0] for sentence in evidence.evidence] == [
        "1.leader-crash"
    ] * 2 + ["2.follower-crash"] * 2


def test_one_part_without_effect_makes_the_trial_incomplete() -> None:
    """The evidence names this part first; the other one's node had crashed."""
    request = combined(">>", crash("leader", 0.02), crash("follower", 0.02))
    injected, _ = inject_polled(MemoryCluster(replicas=(2,)), request)
    evidence = combined_evidence(request, injected)
    assert (evidence.took_effect, evidence.evidence[0]) == (False, "2.follower-crash had no effect")
    assert evidence.status is Status.INCOMPLETE


@pytest.mark.parametrize(
    ("effective", "status"),
    [
        ((), Status.VOID),
        (("1.leader-crash: process 7 has ended",), Status.INCOMPLETE),
        (("2.follower-crash: process 8 has ended",), Status.INCOMPLETE),
    ],
)
def test_a_fault_of_which_something_was_done_is_incomplete_and_otherwise_void(
    effective: tuple[str, ...], status: Status
) -> None:
    """No part took effect, and a node of one of them had crashed."""
    request = combined(">>", crash("leader", 0.02), crash("follower", 0.02))
    injected, _ = inject_polled(MemoryCluster(detects_failures=False), request)
    events = [Event(1, EFFECTIVE, Source.TRIAL, detail=detail) for detail in effective]
    evidence = combined_evidence(request, injected, *events)
    assert (evidence.took_effect, evidence.status) == (False, status)
    assert [line.split(" ", 1)[1] for line in evidence.evidence[:2]] == [
        "was carried out in part" if any(name in one for one in effective) else "had no effect"
        for name in ("1.leader-crash", "2.follower-crash")
    ]


def test_a_part_that_begins_after_the_load_had_no_effect() -> None:
    """The heal of the one before may take long, and there are no more records to lose."""
    request = combined(">>", crash("leader", 0.02), crash("follower", 0.02))
    injected, journal = inject_polled(MemoryCluster(), request)
    evidence = combined_evidence(
        request, injected, load_end_ns=journal.events("fault_begin")[1].at_ns
    )
    assert (evidence.took_effect, evidence.evidence[0]) == (False, "2.follower-crash had no effect")


def test_a_fault_whose_last_step_came_after_the_load_was_carried_out_in_part() -> None:
    """The leader crashed when there were no more records to lose."""
    request = FaultRequest(
        kind="leader-crash-behind",
        parameters={"at_s": 0.02, "behind_s": 0.05, "restart_after_s": 0.1, "patience_s": 0.3},
    )
    injected, journal = inject_polled(MemoryCluster(replicas=(2, 3, 1)), request)
    evidence = combined_evidence(
        request,
        injected,
        *journal.events(EFFECTIVE),
        load_end_ns=journal.events("fault_kill")[0].at_ns,
    )
    assert (evidence.took_effect, evidence.evidence[-1]) == (
        False,
        "2 of its 3 steps came before the load ended",
    )


def test_a_late_step_that_acts_on_stored_records_has_its_effect() -> None:
    """A leader that crashes alone in its ISR takes with it what was acknowledged before."""
    request = FaultRequest(kind="unclean-election", parameters={"at_s": 0.02})
    evidence = FaultEvidence(kind="unclean-election", targets=(2,), took_effect=True)
    effects = tuple(Event(at_ns, EFFECTIVE) for at_ns in (100, 300))
    late = combined_evidence(
        request,
        (InjectedFault("unclean-election", request, evidence, began_ns=50),),
        *effects,
        load_end_ns=200,
    )
    assert (late.took_effect, late.evidence) == (
        True,
        ("1 of its 2 steps came before the load ended",),
    )


def test_only_timeouts_since_the_begin_of_a_pause_count_for_it() -> None:
    """A request that timed out in the crash before is no evidence of the pause."""
    request = combined(">>", crash("leader", 0.02), pause(0.02, 0.1))
    injected, journal = inject_polled(MemoryCluster(), request)
    begins = [event.at_ns for event in journal.events("fault_begin")]
    line = "producer 0: [thrd:x]: 127.0.0.1:1/1: Timed out 2 in-flight, 0 retry-queued"
    late, early = (
        Event(at_ns + 1, "timed_out", Source.CLIENT, detail=line) for at_ns in reversed(begins)
    )
    assert (
        combined_evidence(request, injected, early).took_effect,
        combined_evidence(request, injected, early, late).took_effect,
    ) == (False, True)


def test_a_node_with_two_pauses_is_resumed_when_both_have_ended() -> None:
    """The shorter pause ends first, and must not end the longer one."""
    cluster = MemoryCluster()
    inject_polled(cluster, combined("&", pause(0.02, 0.1), pause(0.05, 0.3)))
    assert [signal for signal, _ in cluster.signals] == ["pause", "pause", "resume"]


def test_a_node_that_was_killed_is_not_resumed() -> None:
    """It was paused when it was killed; the heal of the crash starts it again."""
    cluster = MemoryCluster()
    inject_polled(cluster, combined("&", pause(0.02, 0.2), crash("leader", 0.08, 0.3)))
    assert cluster.signals == [("pause", 2), ("kill", 2), ("start", 2)]


def test_a_node_that_is_already_down_is_no_target(says: Says) -> None:
    """That part had no effect, as its evidence states; the other part is not disturbed."""
    cluster = MemoryCluster(replicas=(1,), active_controller=1, detects_failures=False)
    injected, _ = inject_polled(
        cluster, combined("&", crash("leader", 0.02, 0.3), crash("controller", 0.1, 0.05))
    )
    assert cluster.signals == [("kill", 1), ("start", 1)]
    says(injected[1].evidence.evidence)


def test_a_part_that_cannot_be_healed_does_not_prevent_the_heal_of_others() -> None:
    """The paused leader is resumed although the killed controller does not start.

    The error names the node.
    """
    cluster = MemoryCluster(replicas=(2, 3, 1), active_controller=1, refuses_start=True)
    with pytest.raises(HealFailed, match=r"node 1 does not start"):
        inject_polled(cluster, combined("&", pause(0.02, 0.4), crash("controller", 0.02, 0.05)))
    assert cluster.states == {1: "stopped", 2: "running", 3: "running"}


def test_nodes_that_no_part_has_healed_are_restored_at_the_end() -> None:
    """A fault without its heal would leave the cluster broken for the next trial."""
    cluster = MemoryCluster()
    context = FaultContext(cluster, cluster.topic, now_ns(), Journal(), client_timeout_s=1)
    context.kill(2)
    context.pause(3)
    context.restore_nodes()
    assert set(cluster.states.values()) == {"running"}
