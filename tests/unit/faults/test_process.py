"""Faults against a cluster in memory: the order of what they do, what they heal, and when they say that they bit."""

from __future__ import annotations

import threading

import pytest
from support.fakes.cluster import MemoryCluster

from experiments.errors import HealFailed
from experiments.events.clock import now_ns
from experiments.events.journal import Event, Journal
from experiments.faults import FAULTS, FaultContext, process
from experiments.faults.composition.execution import InjectedFault
from experiments.faults.composition.execution import inject as strike_all
from experiments.faults.core.effects import Topology
from experiments.faults.core.kind import TrialObservations, require_timed_out_requests
from experiments.faults.process.targets import MAJORITY, Targets
from experiments.ledger.record import FaultEvidence
from experiments.ledger.schema import Source
from experiments.sweep.plan import FaultRequest
from experiments.trial.metadata_poller import MetadataPoller
from infra.kafka.logs import BrokerLogEvent


def strike(cluster: MemoryCluster, kind: str, **parameters: float) -> tuple[FaultEvidence, Journal]:
    """Let a fault strike a watched cluster, quickly."""
    (struck,), journal = let(
        cluster, FaultRequest(kind=kind, parameters={"at_s": 0.02, **parameters})
    )
    return struck.evidence, journal


def let(cluster: MemoryCluster, request: FaultRequest) -> tuple[tuple[InjectedFault, ...], Journal]:
    """Let what was asked for strike a watched cluster."""
    journal = Journal()
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        return strike_all(
            request, FaultContext(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
        ), journal


def test_a_crashed_leader_is_killed_and_started_again() -> None:
    """The target is the leader of partition 0, and it runs again at the end."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    evidence, _ = strike(cluster, "leader-crash", restart_after_s=0.1)
    assert cluster.signals == [("kill", 2), ("start", 2)]
    assert evidence.targets == (2,)
    assert evidence.took_effect


def test_a_crash_that_nobody_noticed_did_not_bite() -> None:
    """The process was gone, but the partition kept its leader: the trial says nothing about a failover."""
    evidence, _ = strike(
        MemoryCluster(detects_failures=False), "leader-crash", restart_after_s=0.1, patience_s=0.1
    )
    assert not evidence.took_effect
    assert "had not noticed" in evidence.evidence[-1]


def test_followers_stand_still_before_the_leader_dies_and_go_on_after() -> None:
    """Pause both followers, kill the leader, resume both, start the leader."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    evidence, _ = strike(cluster, "leader-crash-behind", behind_s=0.05, restart_after_s=0.1)
    assert cluster.signals == [
        ("pause", 3),
        ("pause", 1),
        ("kill", 2),
        ("resume", 3),
        ("resume", 1),
        ("start", 2),
    ]
    assert evidence.took_effect


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
    assert evidence.took_effect


def test_a_pause_shorter_than_the_client_waits_did_not_bite() -> None:
    """TCP repairs what is shorter than the client's timeout, and nothing shows."""
    evidence, _ = strike(MemoryCluster(), "leader-pause", pause_s=0.01)
    assert not evidence.took_effect


def test_a_crashed_follower_bites_when_the_isr_shrinks() -> None:
    """The first follower in the ISR is the target."""
    evidence, _ = strike(MemoryCluster(replicas=(2, 3, 1)), "follower-crash", restart_after_s=0.1)
    assert (evidence.targets, evidence.took_effect) == ((3,), True)


def test_a_leader_stays_down_until_the_cluster_has_noticed() -> None:
    """A session that outlasts the asked-for time is waited for, within patience."""
    cluster = MemoryCluster(detects_failures=False)
    threading.Timer(0.2, lambda: setattr(cluster, "detects_failures", True)).start()
    evidence, _ = strike(cluster, "leader-crash", restart_after_s=0.02, patience_s=5)
    assert evidence.took_effect


def aftermath(acks: str, *timed_out_at_ns: int) -> TrialObservations:
    """Return what a producer's log tells of requests that timed out, two each time; the fault began at 100 ns."""
    line = "producer 0: [thrd:x]: 127.0.0.1:1/1: Timed out 2 in-flight, 0 retry-queued, 0 out-queue, 0 partially-sent requests"
    return TrialObservations(
        tuple(Event(at_ns, "timed_out", Source.CLIENT, detail=line) for at_ns in timed_out_at_ns),
        acks,
        began_ns=100,
    )


@pytest.mark.parametrize(
    ("acks", "timed_out_at_ns", "bites"),
    [("all", (), False), ("all", (50,), False), ("all", (50, 150), True), ("0", (), True)],
)
def test_a_pause_bites_when_it_kept_a_request_waiting(
    acks: str, timed_out_at_ns: tuple[int, ...], bites: bool
) -> None:
    """The producers' own logs show requests that timed out since; with acks=0 there is no answer that could be waited for."""
    evidence = FaultEvidence(kind="leader-pause", targets=(2,), took_effect=True)
    assert (
        require_timed_out_requests(evidence, aftermath(acks, *timed_out_at_ns)).took_effect is bites
    )


def test_without_followers_there_is_no_follower_to_crash() -> None:
    """The fault has no target, so the trial is void and nothing was signalled."""
    cluster = MemoryCluster(replicas=(2,))
    evidence, _ = strike(cluster, "follower-crash", restart_after_s=0.1)
    assert (cluster.signals, evidence.took_effect) == ([], False)


def test_a_crashed_controller_bites_when_another_takes_over() -> None:
    """The target is the active controller, not a leader."""
    evidence, _ = strike(
        MemoryCluster(active_controller=1), "controller-crash", restart_after_s=0.1
    )
    assert (evidence.targets, evidence.took_effect) == ((1,), True)


@pytest.mark.parametrize("action", ["crash", "stop", "pause"])
@pytest.mark.parametrize(
    ("whom", "targets"),
    [
        ("leader", (2,)),
        ("follower", (3,)),
        ("controller", (1,)),
        ("node", (1,)),
        ("majority", (2, 3)),
        ("all", (1, 2, 3)),
    ],
)
def test_each_verb_strikes_each_target_and_undoes_it(
    action: str, whom: str, targets: tuple[int, ...]
) -> None:
    """Those nodes and no others, and all of them run again; it bit, as far as can be said before anybody's log is read."""
    cluster = MemoryCluster(replicas=(2, 3, 1), active_controller=1)
    evidence, _ = strike(cluster, f"{whom}-{action}", **quick(f"{whom}-{action}"))
    done, undone = {
        "crash": ("kill", "start"),
        "stop": ("stop", "start"),
        "pause": ("pause", "resume"),
    }[action]
    assert {node for signal, node in cluster.signals if signal == done} == set(targets)
    assert sorted(signal for signal, _ in cluster.signals) == sorted([done, undone] * len(targets))
    assert (set(evidence.targets), evidence.took_effect) == (set(targets), True)


def test_where_all_are_gone_it_is_their_answers_that_are_missed() -> None:
    """Nobody is left who could tell of a leader or an ISR."""
    evidence, _ = strike(MemoryCluster(), "all-crash", **quick("all-crash"))
    assert evidence.evidence[-1].startswith("no broker answered from")


def test_where_most_are_gone_and_nothing_moves_it_is_the_controller_that_is_missed() -> None:
    """Without a quorum nobody can move a leader or shrink an ISR; the node that leads is not among the dead here."""
    cluster = MemoryCluster(replicas=(1,), states=dict.fromkeys((1, 2, 3, 4, 5), "running"))
    context = FaultContext(cluster, cluster.topic, now_ns(), Journal(), client_timeout_s=1)
    with context.injected(2, 3, 4) as healing:
        for node in (2, 3, 4):
            healing.callback(context.start, node)
            context.kill(node)
        seen = MAJORITY.reaction(
            context, Targets((2, 3, 4), cluster.describe(), context.current_partition())
        )
    assert (seen or "").startswith("there was no active controller")


def test_a_stop_that_does_not_end_is_a_kill_and_did_not_bite() -> None:
    """What was asked for is a clean end."""
    cluster = MemoryCluster(refuses_stop=True)
    evidence, _ = strike(cluster, "leader-stop", **quick("leader-stop"))
    assert (cluster.signals, evidence.took_effect) == ([("kill", 2), ("start", 2)], False)
    assert any("had not ended, and was killed" in sentence for sentence in evidence.evidence)


@pytest.mark.parametrize(("who", "bites"), [((2, 3), True), ((2,), False)])
def test_a_clean_stop_bites_when_each_log_says_so(who: tuple[int, ...], bites: bool) -> None:
    """A broker that died on the way, asked or not, did not shut down."""
    events = tuple(Event(200, "shut_down", Source.BROKER, node=node) for node in who)
    evidence = FaultEvidence(kind="majority-stop", targets=(2, 3), took_effect=True)
    assert (
        FAULTS["majority-stop"]
        .confirm(evidence, TrialObservations(events, "all", began_ns=100))
        .took_effect
        is bites
    )


@pytest.mark.parametrize(
    ("event", "bites"),
    [
        (None, False),
        (Event(50, "isr", partition=0, detail="1,2"), False),
        (Event(150, "isr", partition=0, detail="1,2"), True),
        (Event(150, "isr", partition=0, detail="1,2,3"), False),
        (Event(150, "controller", node=1), True),
        (Event(150, "controller", node=3), False),
    ],
)
def test_a_pause_beside_the_clients_bites_when_the_cluster_felt_it(
    event: Event | None, bites: bool
) -> None:
    """With acks=1 nobody waits for a follower; it left the ISR, or the controller moved, or the pause proves nothing."""
    evidence = FaultEvidence(kind="follower-pause", targets=(3,), took_effect=True)
    told = TrialObservations((event,) if event else (), "1", began_ns=100)
    assert FAULTS["follower-pause"].confirm(evidence, told).took_effect is bites


@pytest.mark.parametrize("how", ["clean", "hard"])
def test_a_rolling_restart_takes_one_node_after_the_other(how: str) -> None:
    """Never two at once."""
    cluster = MemoryCluster()
    evidence, _ = strike(cluster, f"rolling-restart-{how}", within_s=20)
    down = "stop" if how == "clean" else "kill"
    assert cluster.signals == [(signal, node) for node in (1, 2, 3) for signal in (down, "start")]
    assert evidence.took_effect


def test_a_rolling_restart_that_takes_too_long_did_not_bite() -> None:
    """Some nodes never had their turn."""
    cluster = MemoryCluster(detects_failures=False)
    evidence, _ = strike(cluster, "rolling-restart-hard", within_s=0.3, patience_s=0.2)
    assert (evidence.took_effect, evidence.evidence[-1]) == (
        False,
        "0 of 3 nodes were restarted within 0.3 s and seen to be missed",
    )
    assert set(cluster.states.values()) == {"running"}


def test_a_storm_kills_the_same_node_again_and_again() -> None:
    """The leader of when it began, and it runs in the end."""
    cluster = MemoryCluster()
    evidence, _ = strike(
        cluster, "restart-storm", times=3, up_s=0.05, down_s=0.05, restart_after_s=0.1
    )
    assert cluster.signals == [("kill", 2), ("start", 2)] * 3
    assert evidence.took_effect


RECOVERING = BrokerLogEvent(
    0, 2, "recovering", "Recovering unflushed segment 0", node=2, partition=0, offset=0
)
LET_IN = BrokerLogEvent(
    0, 1, "unfenced", "The request from broker 2 to unfence has been granted", node=2
)


@pytest.mark.parametrize(
    ("lines", "bites"), [((RECOVERING,), True), ((), False), ((RECOVERING, LET_IN), False)]
)
def test_a_crash_in_recovery_bites_when_the_log_says_so_and_nobody_let_the_node_in(
    lines: tuple[BrokerLogEvent, ...], bites: bool
) -> None:
    """It is killed twice all the same."""
    cluster = MemoryCluster(log_events=lines)
    evidence, _ = strike(cluster, "crash-in-recovery", **quick("crash-in-recovery"))
    assert cluster.signals == [("kill", 2), ("start", 2)] * 2
    assert evidence.took_effect is bites


@pytest.mark.parametrize("kind", ["leader-crash", "leader-stop", "node-crash"])
def test_the_only_node_is_missed_by_whoever_asks(kind: str) -> None:
    """Nobody is left to elect another leader, or to tell of it; that nobody answers is all there is to be seen."""
    cluster = MemoryCluster(replicas=(1,), states={1: "running"})
    evidence, _ = strike(cluster, kind, restart_after_s=0.1)
    assert evidence.took_effect
    assert evidence.evidence[-1].startswith("no broker answered")


@pytest.mark.parametrize(
    ("kind", "nodes", "possible"),
    [
        ("node-crash", 1, True),
        ("majority-crash", 1, False),
        ("majority-pause", 2, False),
        ("majority-stop", 3, True),
    ],
)
def test_a_majority_that_is_all_is_refused(kind: str, nodes: int, possible: bool) -> None:
    """It would be another fault under that name."""
    reason = (
        FAULTS[kind]
        .parameters()
        .impossible_reason(Topology(nodes=nodes, partitions=1, replication_factor=1))
    )
    assert reason == (
        None
        if possible
        else f"a majority of {nodes} is all there are; allowed: 3 nodes or more, or a fault of all"
    )


def test_a_node_that_does_not_exist_is_refused() -> None:
    """They are numbered from 1."""
    asked = FAULTS["node-stop"].parameters.model_validate({"node": 4})
    assert (
        asked.impossible_reason(Topology(nodes=3, partitions=1, replication_factor=3))
        == "node is 4; allowed: 1 to 3"
    )


def test_what_was_stopped_goes_on_even_when_the_fault_fails_halfway() -> None:
    """A leader that cannot be started again does not leave its followers standing still."""
    cluster = MemoryCluster(refuses_start=True)
    with pytest.raises(HealFailed, match="node 2 does not start"):
        strike(cluster, "leader-crash-behind", behind_s=0.02, restart_after_s=0.05)
    assert "paused" not in cluster.states.values()


@pytest.mark.parametrize("kind", [kind.kind for kind in process.KINDS])
def test_every_fault_notes_its_begin_and_its_end(kind: str) -> None:
    """The phases of a trial are cut at these two marks."""
    cluster = MemoryCluster()
    _, journal = strike(cluster, kind, **quick(kind))
    assert [event.kind for event in journal.events("fault_begin", "fault_end")] == [
        "fault_begin",
        "fault_end",
    ]


def quick(kind: str) -> dict[str, float]:
    """Return parameters that let a fault pass in a fraction of a second."""
    return {
        name: 0.1
        for name in FAULTS[kind].parameters.model_fields
        if name.endswith("_s") and name != "at_s"
    }
