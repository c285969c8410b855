"""Process faults against a cluster in memory: order of the signals, heal, and evidence."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest
from support.fakes.cluster import MemoryCluster
from support.golden_files import Says

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.messages.errors import HealFailed
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.clients.group.groups import ConsumerGroup, ConsumerGroups
from ackbench.experiments.trial.clients.interface import ClientProcesses
from ackbench.experiments.trial.clients.programs.silence import silence_events
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.faults import FAULTS, FaultContext, process
from ackbench.experiments.trial.faults.composition.execution import InjectedFault
from ackbench.experiments.trial.faults.composition.execution import inject as inject_request
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.core.kind import (
    TrialObservations,
    require_timed_out_requests,
)
from ackbench.experiments.trial.faults.process.targets import MAJORITY, Targets
from ackbench.experiments.trial.metadata_poller import MetadataPoller
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.kafka.logs import BrokerLogEvent
from ackbench.infra.kafka.spec import ClusterState, NodeStatus


@dataclass(frozen=True)
class NamedGroup:
    """A consumer group, of which a coordinator needs the name."""

    job: SimpleNamespace


CLIENTS = ClientProcesses(
    producers=(),
    groups=ConsumerGroups(
        (cast("ConsumerGroup", NamedGroup(SimpleNamespace(group="trial-group-1"))),)
    ),
    transactional_ids=("ackbench-trial-0",),
)


def inject_fault(
    cluster: MemoryCluster, kind: str, **parameters: float
) -> tuple[FaultEvidence, Journal]:
    """Inject a fault early in the load, and return its evidence and the journal."""
    (injected,), journal = inject_polled(
        cluster, FaultRequest(kind=kind, parameters={"at_s": 0.02, **parameters})
    )
    return injected.evidence, journal


def inject_polled(
    cluster: MemoryCluster, request: FaultRequest
) -> tuple[tuple[InjectedFault, ...], Journal]:
    """Inject the requested faults while a metadata poller watches the cluster."""
    journal = Journal()
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        return inject_request(
            request,
            FaultContext(
                cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05, clients=CLIENTS
            ),
        ), journal


def test_a_leader_crash_kills_and_restarts_the_leader() -> None:
    """The target is the leader of partition 0; it runs again at the end."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    evidence, _ = inject_fault(cluster, "leader-crash", restart_after_s=0.1)
    assert cluster.signals == [("kill", 2), ("start", 2)]
    assert evidence.targets == (2,)
    assert evidence.took_effect


def test_a_crash_without_a_leader_change_had_no_effect() -> None:
    """The process was killed, but the partition kept its leader: there was no failover."""
    evidence, _ = inject_fault(
        MemoryCluster(detects_failures=False), "leader-crash", restart_after_s=0.1, patience_s=0.1
    )
    assert not evidence.took_effect
    assert "kept its leader (node 2)" in evidence.evidence[-1]


def test_followers_are_paused_before_the_leader_crashes_and_resumed_afterwards() -> None:
    """Pause both followers, kill the leader, resume both, start the leader."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    evidence, _ = inject_fault(cluster, "leader-crash-behind", behind_s=0.05, restart_after_s=0.1)
    assert cluster.signals == [
        ("pause", 3),
        ("pause", 1),
        ("kill", 2),
        ("resume", 3),
        ("resume", 1),
        ("start", 2),
    ]
    assert evidence.took_effect


def test_without_followers_only_the_leader_is_killed() -> None:
    """With replication factor 1 there is no follower to pause, as the evidence states."""
    cluster = MemoryCluster(replicas=(2,))
    evidence, _ = inject_fault(cluster, "leader-crash-behind", behind_s=0.05, restart_after_s=0.1)
    assert cluster.signals == [("kill", 2), ("start", 2)]
    assert any("no follower" in sentence for sentence in evidence.evidence)


def test_a_pause_longer_than_the_request_timeout_takes_effect() -> None:
    """The leader is paused and resumed after more than the client's request timeout."""
    cluster = MemoryCluster()
    evidence, _ = inject_fault(cluster, "leader-pause", pause_s=0.2)
    assert cluster.signals == [("pause", 2), ("resume", 2)]
    assert evidence.took_effect


def test_a_pause_shorter_than_the_request_timeout_had_no_effect() -> None:
    """TCP delivers the delayed packets before the client's request times out."""
    evidence, _ = inject_fault(MemoryCluster(), "leader-pause", pause_s=0.01)
    assert not evidence.took_effect


def test_a_follower_crash_takes_effect_when_the_isr_shrinks() -> None:
    """The first follower in the ISR is the target."""
    evidence, _ = inject_fault(
        MemoryCluster(replicas=(2, 3, 1)), "follower-crash", restart_after_s=0.1
    )
    assert (evidence.targets, evidence.took_effect) == ((3,), True)


def test_a_leader_stays_down_until_the_cluster_reacts() -> None:
    """If the session expires after `restart_after_s`, the restart waits, within `patience_s`."""
    cluster = MemoryCluster(detects_failures=False)
    threading.Timer(0.2, lambda: setattr(cluster, "detects_failures", True)).start()
    evidence, _ = inject_fault(cluster, "leader-crash", restart_after_s=0.02, patience_s=5)
    assert evidence.took_effect


def observations(acks: str, *timed_out_at_ns: int) -> TrialObservations:
    """Return a producer's log lines on timed-out requests, two per line.

    The fault began at 100 ns.
    """
    line = (
        "producer 0: [thrd:x]: 127.0.0.1:1/1: Timed out 2 in-flight, 0 retry-queued, "
        "0 out-queue, 0 partially-sent requests"
    )
    return TrialObservations(
        tuple(Event(at_ns, "timed_out", Source.CLIENT, detail=line) for at_ns in timed_out_at_ns),
        acks,
        began_ns=100,
    )


@pytest.mark.parametrize(
    ("acked_s", "took_effect"),
    [((0.1, 2.9), True), ((0.1, 0.9), False), ((0.1, 0.3, 0.5), False), ((), False)],
    ids=["silent for longer than the time-out", "for less", "never silent", "never acknowledged"],
)
def test_a_pause_takes_effect_when_a_program_is_silent_for_longer_than_its_time_out(
    acked_s: tuple[float, ...], took_effect: bool
) -> None:
    """Its library's log is not read, so that a request timed out is unknown."""
    events = tuple(silence_events((round(one * 1e9) for one in acked_s), "producer 0"))
    observed = TrialObservations(events, "all", began_ns=100, request_timeout_s=1.0)
    evidence = FaultEvidence(kind="leader-pause", took_effect=True, evidence=("SIGSTOP",))
    assert require_timed_out_requests(evidence, observed).took_effect is took_effect


@pytest.mark.parametrize(
    ("acks", "timed_out_at_ns", "took_effect"),
    [("all", (), False), ("all", (50,), False), ("all", (50, 150), True), ("0", (), True)],
)
def test_a_pause_takes_effect_when_a_request_times_out(
    acks: str, timed_out_at_ns: tuple[int, ...], took_effect: bool
) -> None:
    """The producers' own logs show it; with acks=0 a producer waits for no response."""
    evidence = FaultEvidence(kind="leader-pause", targets=(2,), took_effect=True)
    confirmed = require_timed_out_requests(evidence, observations(acks, *timed_out_at_ns))
    assert confirmed.took_effect is took_effect


def test_without_followers_there_is_no_follower_to_crash() -> None:
    """The fault has no target: no signal is sent, and the trial is void."""
    cluster = MemoryCluster(replicas=(2,))
    evidence, _ = inject_fault(cluster, "follower-crash", restart_after_s=0.1)
    assert (cluster.signals, evidence.took_effect) == ([], False)


def test_a_controller_crash_takes_effect_when_another_becomes_active() -> None:
    """The target is the active controller, not the leader."""
    evidence, _ = inject_fault(
        MemoryCluster(active_controller=1), "controller-crash", restart_after_s=0.1
    )
    assert (evidence.targets, evidence.took_effect) == ((1,), True)


@pytest.mark.parametrize("action", ["crash", "stop", "pause"])
@pytest.mark.parametrize(
    ("selector", "targets"),
    [
        ("leader", (2,)),
        ("follower", (3,)),
        ("controller", (1,)),
        ("node", (1,)),
        ("majority", (2, 3)),
        ("all", (1, 2, 3)),
    ],
)
def test_each_action_affects_its_targets_and_is_healed(
    action: str, selector: str, targets: tuple[int, ...]
) -> None:
    """Those nodes and no others; all run again, and the fault took effect.

    The logs, which are read after the trial, may still disprove the effect.
    """
    cluster = MemoryCluster(replicas=(2, 3, 1), active_controller=1)
    evidence, _ = inject_fault(cluster, f"{selector}-{action}", **quick(f"{selector}-{action}"))
    injected, healed = {
        "crash": ("kill", "start"),
        "stop": ("stop", "start"),
        "pause": ("pause", "resume"),
    }[action]
    assert {node for signal, node in cluster.signals if signal == injected} == set(targets)
    assert sorted(signal for signal, _ in cluster.signals) == sorted(
        [injected, healed] * len(targets)
    )
    assert (set(evidence.targets), evidence.took_effect) == (set(targets), True)


def test_with_all_nodes_down_the_missing_responses_are_the_evidence() -> None:
    """No node is left that could report a leader or an ISR."""
    evidence, _ = inject_fault(MemoryCluster(), "all-crash", **quick("all-crash"))
    assert evidence.evidence[-1].startswith("no broker answered from")


def test_with_a_majority_down_the_missing_controller_is_the_evidence() -> None:
    """Without a quorum no leader and no ISR can change; here the leader is still running."""
    cluster = MemoryCluster(replicas=(1,), states=dict.fromkeys((1, 2, 3, 4, 5), "running"))
    context = FaultContext(cluster, cluster.topic, now_ns(), Journal(), client_timeout_s=1)
    with context.injected(2, 3, 4) as healing:
        for node in (2, 3, 4):
            healing.callback(context.start, node)
            context.kill(node)
        reaction = MAJORITY.reaction(
            context, Targets((2, 3, 4), cluster.describe(), context.current_partition())
        )
    assert (reaction or "").startswith("there was no active controller")


def test_a_shutdown_that_does_not_finish_had_no_effect() -> None:
    """The node is killed then, and a clean shutdown was requested."""
    cluster = MemoryCluster(refuses_stop=True)
    evidence, _ = inject_fault(cluster, "leader-stop", **quick("leader-stop"))
    assert (cluster.signals, evidence.took_effect) == ([("kill", 2), ("start", 2)], False)
    assert any(
        "had not shut down" in sentence and "SIGKILL" in sentence for sentence in evidence.evidence
    )


@pytest.mark.parametrize(("nodes", "took_effect"), [((2, 3), True), ((2,), False)])
def test_a_clean_shutdown_takes_effect_when_each_log_reports_it(
    nodes: tuple[int, ...], *, took_effect: bool
) -> None:
    """A broker that crashed during its shutdown did not shut down cleanly."""
    events = tuple(Event(200, "shut_down", Source.BROKER, node=node) for node in nodes)
    evidence = FaultEvidence(kind="majority-stop", targets=(2, 3), took_effect=True)
    assert (
        FAULTS["majority-stop"]
        .confirm(evidence, TrialObservations(events, "all", began_ns=100))
        .took_effect
        is took_effect
    )


@pytest.mark.parametrize(
    ("event", "took_effect"),
    [
        (None, False),
        (Event(50, "isr", partition=0, detail="1,2"), False),
        (Event(150, "isr", partition=0, detail="1,2"), True),
        (Event(150, "isr", partition=0, detail="1,2,3"), False),
        (Event(150, "controller", node=1), True),
        (Event(150, "controller", node=3), False),
    ],
)
def test_a_pause_of_a_follower_takes_effect_when_the_cluster_reacts(
    event: Event | None, *, took_effect: bool
) -> None:
    """With acks=1 no request waits for a follower; the ISR or the controller must change."""
    evidence = FaultEvidence(kind="follower-pause", targets=(3,), took_effect=True)
    observed = TrialObservations((event,) if event else (), "1", began_ns=100)
    assert FAULTS["follower-pause"].confirm(evidence, observed).took_effect is took_effect


@pytest.mark.parametrize("how", ["clean", "hard"])
def test_a_rolling_restart_restarts_one_node_after_the_other(how: str) -> None:
    """No two nodes are down at the same time."""
    cluster = MemoryCluster()
    evidence, _ = inject_fault(cluster, f"rolling-restart-{how}")
    down = "stop" if how == "clean" else "kill"
    assert cluster.signals == [(signal, node) for node in (1, 2, 3) for signal in (down, "start")]
    assert evidence.took_effect


def test_a_rolling_restart_without_a_reaction_of_the_cluster_had_no_effect() -> None:
    """All nodes were restarted all the same, and run."""
    cluster = MemoryCluster(detects_failures=False)
    evidence, _ = inject_fault(cluster, "rolling-restart-hard", patience_s=0.05)
    assert cluster.signals == [(signal, node) for node in (1, 2, 3) for signal in ("kill", "start")]
    assert (evidence.took_effect, evidence.evidence[-1]) == (
        False,
        "the cluster reacted to 0 of 3 restarts",
    )


def test_a_rolling_restart_goes_on_however_long_the_machine_takes() -> None:
    """Its time limit is for each wait for a healthy cluster, not for all restarts together."""
    cluster = MemoryCluster()
    evidence, _ = inject_fault(cluster, "rolling-restart-hard", within_s=0.001)
    assert (evidence.took_effect, len(cluster.signals)) == (True, 6)


def test_a_rolling_restart_gives_up_in_an_unhealthy_cluster(says: Says) -> None:
    """The next node would go down together with what is missing already."""
    cluster = ClusterUnderLoad(is_healthy=False)
    evidence, _ = inject_fault(cluster, "rolling-restart-hard")
    assert (evidence.took_effect, cluster.signals) == (False, [("kill", 1), ("start", 1)])
    says(evidence.evidence[-1])


@pytest.mark.parametrize("kind", ["rolling-restart-clean", "rolling-restart-hard"])
def test_a_rolling_restart_ends_with_the_load(says: Says, kind: str) -> None:
    """What was done of it is one sentence; the node that is left is not touched."""
    cluster = ClusterUnderLoad(load_ends_at_start=3)
    evidence = inject_under_load(cluster, kind)
    assert not evidence.took_effect
    says(evidence.evidence[-1])
    assert [node for _, node in cluster.signals] == [1, 1, 2, 2, 3, 3]


def test_a_rolling_restart_takes_no_node_down_once_the_load_has_ended(says: Says) -> None:
    """No record would notice."""
    cluster = ClusterUnderLoad(load_ends_at_start=1)
    evidence = inject_under_load(cluster, "rolling-restart-hard")
    says(evidence.evidence[-1])
    assert cluster.signals == [("kill", 1), ("start", 1)]


def test_a_restart_storm_ends_with_the_load(says: Says) -> None:
    """Its node runs in the end."""
    cluster = ClusterUnderLoad(load_ends_at_start=2)
    evidence = inject_under_load(cluster, "restart-storm", **quick("restart-storm"))
    assert not evidence.took_effect
    says(evidence.evidence[-1])
    assert set(cluster.states.values()) == {"running"}


def test_log_recovery_is_awaited_while_the_load_lasts() -> None:
    """A node of a slow machine starts later; the time limit counts once the load has ended."""
    cluster = ClusterUnderLoad(recovers_at_poll=20)
    times = {**quick("crash-in-recovery"), "recovers_within_s": 0.001}
    evidence = inject_under_load(cluster, "crash-in-recovery", **times)
    assert "waited" not in " ".join(evidence.evidence)
    assert any("was recovering its log" in sentence for sentence in evidence.evidence)


@dataclass
class ClusterUnderLoad(MemoryCluster):
    """A cluster with a load that ends when a node is started for the nth time."""

    is_healthy: bool = True
    load_ends_at_start: int = 0
    """0: it does not end."""
    recovers_at_poll: int = 0
    """From which poll of the logs on a node recovers its log; 0: it does not."""
    starts: int = 0
    polls: int = 0

    @property
    def load_left_s(self) -> float:
        """For how long the load still lasts."""
        ended = self.load_ends_at_start and self.starts >= self.load_ends_at_start
        return 0 if ended else 60

    def start(self, node_id: int) -> NodeStatus:
        """Start a node, and count."""
        self.starts += 1
        return super().start(node_id)

    def wait_until_healthy(self, timeout_s: float = 60.0) -> ClusterState:
        """Return at once if it is healthy, else time out at once."""
        if not self.is_healthy:
            raise WaitTimeout(f"waited {timeout_s:g} s for the cluster to become healthy")
        return super().wait_until_healthy(timeout_s)

    def node_log_events_since(
        self, node_log_sizes: Mapping[int, int], topic: str
    ) -> tuple[BrokerLogEvent, ...]:
        """Return that the node recovers its log, once it does."""
        del node_log_sizes, topic
        self.polls += 1
        recovers = self.recovers_at_poll and self.polls >= self.recovers_at_poll
        return (RECOVERING,) if recovers else ()


@dataclass(frozen=True)
class ContextUnderLoad(FaultContext):
    """A context whose load is that of its cluster."""

    load_duration_s: float | None = 60

    def load_left_s(self) -> float:
        """Return what the cluster returns."""
        assert isinstance(self.cluster, ClusterUnderLoad)
        return self.cluster.load_left_s


def inject_under_load(cluster: ClusterUnderLoad, kind: str, **parameters: float) -> FaultEvidence:
    """Inject a fault early in the load of the cluster, and return its evidence."""
    journal, request = Journal(), FaultRequest(kind=kind, parameters={"at_s": 0.02, **parameters})
    context = ContextUnderLoad(cluster, cluster.topic, now_ns(), journal, client_timeout_s=0.05)
    with MetadataPoller(cluster, cluster.topic, journal, every_s=0.005):
        (injected,) = inject_request(request, context)
    return injected.evidence


def test_a_restart_storm_kills_the_same_node_repeatedly() -> None:
    """It is the leader at the begin of the fault; it runs at the end."""
    cluster = MemoryCluster()
    evidence, _ = inject_fault(
        cluster, "restart-storm", times=3, up_s=0.05, down_s=0.05, restart_after_s=0.1
    )
    assert cluster.signals == [("kill", 2), ("start", 2)] * 3
    assert evidence.took_effect


RECOVERING = BrokerLogEvent(
    0, 2, "recovering", "Recovering unflushed segment 0", node=2, partition=0, offset=0
)
UNFENCED = BrokerLogEvent(
    0, 1, "unfenced", "The request from broker 2 to unfence has been granted", node=2
)


@pytest.mark.parametrize(
    ("lines", "took_effect"), [((RECOVERING,), True), ((), False), ((RECOVERING, UNFENCED), False)]
)
def test_a_crash_in_recovery_takes_effect_if_the_node_was_recovering_and_still_fenced(
    lines: tuple[BrokerLogEvent, ...], *, took_effect: bool
) -> None:
    """In each case the node is killed twice."""
    cluster = MemoryCluster(log_events=lines)
    evidence, _ = inject_fault(cluster, "crash-in-recovery", **quick("crash-in-recovery"))
    assert cluster.signals == [("kill", 2), ("start", 2)] * 2
    assert evidence.took_effect is took_effect


@pytest.mark.parametrize("kind", ["leader-crash", "leader-stop", "node-crash"])
def test_with_a_single_node_the_missing_responses_are_the_evidence(kind: str) -> None:
    """No node is left to elect another leader; the only evidence is that no broker answers."""
    cluster = MemoryCluster(replicas=(1,), states={1: "running"})
    evidence, _ = inject_fault(cluster, kind, restart_after_s=0.1)
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
def test_a_majority_that_is_all_nodes_is_rejected(kind: str, nodes: int, possible: bool) -> None:
    """It would be the fault of all nodes under another name."""
    reason = (
        FAULTS[kind]
        .parameters()
        .impossible_reason(Topology(nodes=nodes, partitions=1, replication_factor=1))
    )
    expected = (
        f"a majority of {nodes} is all nodes; allowed: 3 nodes or more, or a fault of all nodes"
    )
    assert reason == (None if possible else expected)


@pytest.mark.parametrize("kind", ["follower-crash", "follower-stop", "follower-pause"])
def test_a_fault_of_a_follower_is_rejected_without_one(kind: str) -> None:
    """However many brokers there are."""
    parameters = FAULTS[kind].parameters()
    alone, two = (Topology(nodes=3, partitions=1, replication_factor=factor) for factor in (1, 2))
    assert parameters.impossible_reason(alone) == (
        "with replication factor 1 there is no follower; allowed: 2 or more"
    )
    assert parameters.impossible_reason(two) is None


def test_a_node_that_does_not_exist_is_rejected(says: Says) -> None:
    """Nodes are numbered from 1."""
    parameters = FAULTS["node-stop"].parameters.model_validate({"node": 4})
    says(parameters.impossible_reason(Topology(nodes=3, partitions=1, replication_factor=3)))


def test_paused_followers_are_resumed_even_if_the_heal_fails() -> None:
    """A leader that does not start again does not leave its followers paused."""
    cluster = MemoryCluster(refuses_start=True)
    with pytest.raises(HealFailed, match="node 2 does not start"):
        inject_fault(cluster, "leader-crash-behind", behind_s=0.02, restart_after_s=0.05)
    assert "paused" not in cluster.states.values()


@pytest.mark.parametrize(
    ("kind", "topic"),
    [("coordinator", "__transaction_state"), ("group-coordinator", "__consumer_offsets")],
)
def test_a_coordinator_crashes_and_the_evidence_names_what_it_coordinated(
    kind: str, topic: str
) -> None:
    """It is the leader of the partition of its id, and another node leads it then."""
    cluster = MemoryCluster(replicas=(2, 3, 1))
    evidence, _ = inject_fault(cluster, f"{kind}-crash", restart_after_s=0.1)
    assert cluster.signals == [("kill", 2), ("start", 2)]
    assert evidence.took_effect
    coordinated = {"coordinator": "ackbench-trial-0", "group-coordinator": "trial-group-1"}[kind]
    moved = f"{topic}-0, which node 2 led as the coordinator of {coordinated}, was led by node 3"
    assert any(moved in sentence for sentence in evidence.evidence)


def test_a_pause_that_leaves_the_coordinator_where_it_is_needs_a_request_that_timed_out(
    says: Says,
) -> None:
    """Of a member of the group, or of another client."""
    cluster = MemoryCluster(detects_failures=False)
    evidence, _ = inject_fault(cluster, "group-coordinator-pause", pause_s=0.1)
    assert not evidence.took_effect
    assert "node 2 stayed the coordinator" in evidence.evidence
    confirm = FAULTS["group-coordinator-pause"].confirm
    assert not confirm(evidence, TrialObservations((), "all", 1)).took_effect
    timed_out = Event(2, "timed_out", Source.CLIENT, detail="member 1.0: Timed out 1 in-flight")
    noticed = confirm(evidence, TrialObservations((timed_out,), "all", 1))
    assert noticed.took_effect
    says(noticed.evidence[-1])


@pytest.mark.parametrize("kind", [kind.kind for kind in process.KINDS])
def test_every_fault_records_its_begin_and_end(kind: str) -> None:
    """These two events separate the phases of a trial."""
    cluster = MemoryCluster()
    _, journal = inject_fault(cluster, kind, **quick(kind))
    assert [event.kind for event in journal.events("fault_begin", "fault_end")] == [
        "fault_begin",
        "fault_end",
    ]


def quick(kind: str) -> dict[str, float]:
    """Return parameters with which a fault lasts a fraction of a second."""
    return {
        name: 0.1
        for name in FAULTS[kind].parameters.model_fields
        if name.endswith("_s") and name != "at_s"
    }
