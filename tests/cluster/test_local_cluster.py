"""Actions on a local cluster, and the reports of it and of its poller of metadata meanwhile."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from ackbench.experiments.trial.clients.librdkafka.topics import create_topic
from ackbench.infra.cluster.handle import read_handle
from ackbench.infra.cluster.interface import MetadataSnapshot
from ackbench.infra.cluster.local import LocalCluster
from ackbench.infra.cluster.metadata_poller import LocalMetadataPoller
from ackbench.infra.errors import NodeFailed, SupervisorError, WaitTimeout
from ackbench.infra.kafka.logs import BrokerLogEvent
from ackbench.infra.kafka.spec import ClusterState, LeaderEpoch, NodeStatus, PartitionState
from ackbench.infra.process.processes import ProcessIdentity, is_stopped, send_signal
from ackbench.infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
MakeTopic = Callable[[int, int], str]


def _until(
    cluster: LocalCluster,
    condition: Callable[[ClusterState], bool],
    awaiting: str,
    timeout_s: float = 30,
) -> ClusterState:
    def probe() -> ClusterState | None:
        state = cluster.describe()
        return state if condition(state) else None

    return wait_until(probe, awaiting=awaiting, timeout_s=timeout_s, seen=cluster.describe)


def _leader(cluster: LocalCluster, topic: str) -> int:
    """Return the leader of the topic's first partition.

    The broker that answers may learn of a new topic a moment after the others.
    """
    led = _until(
        cluster,
        lambda state: any(partition.leader is not None for partition in state.of(topic)),
        f"a leader of {topic}",
    )
    return next(partition.leader for partition in led.of(topic) if partition.leader is not None)


def _registrations(cluster: LocalCluster, node_id: int) -> int:
    return cluster.node_log(node_id).read_text().count("Successfully registered broker")


def poll_until(
    poller: LocalMetadataPoller, condition: Callable[[MetadataSnapshot], bool], awaiting: str
) -> MetadataSnapshot:
    """Poll until a snapshot meets the condition; return it."""

    def probe() -> MetadataSnapshot | None:
        snapshot = poller.partitions()
        return snapshot if snapshot is not None and condition(snapshot) else None

    return wait_until(probe, awaiting=awaiting, timeout_s=30, every_s=0.01)


@dataclass(frozen=True)
class LeaderCrash:
    """Reports of a cluster and a poller before, while and after the leader was down."""

    topic: str
    killed: NodeStatus
    polled_before: PartitionState
    polled: PartitionState
    """With another leader."""
    described: ClusterState
    """With another leader."""
    healthy: ClusterState
    """After the restart."""
    lines: Sequence[BrokerLogEvent]
    """Of the brokers' logs, about the topic, from before the crash on."""
    epochs: Sequence[LeaderEpoch]
    """Of the checkpoints, after the restart."""


@pytest.fixture(scope="module")
def leader_crash(shared_cluster: LocalCluster) -> LeaderCrash:
    """Crash the leader of a topic that has three replicas, and start it again."""
    cluster, topic = shared_cluster, "crashed"
    cluster.wait_until_healthy()
    create_topic(cluster.admin_servers, topic, partitions=1, replication_factor=3)
    cluster.wait_until_healthy()
    leader = _leader(cluster, topic)
    sizes = cluster.node_log_sizes()
    with closing(cluster.metadata_poller(topic)) as poller:
        (before,) = poll_until(poller, lambda _: True, "anything").partitions
        killed = cluster.kill(leader)
        (polled,) = poll_until(
            poller,
            lambda snapshot: snapshot.partitions[0].leader not in {None, leader},
            "another leader",
        ).partitions
        described = _until(
            cluster, lambda s: s.of(topic)[0].leader not in {None, leader}, "another leader"
        )
        cluster.start(leader)
        poll_until(
            poller, lambda snapshot: set(snapshot.partitions[0].isr) == {1, 2, 3}, "the full ISR"
        )
    healthy = cluster.wait_until_healthy()
    lines = cluster.node_log_events_since(sizes, topic)
    epochs = cluster.leader_epochs(topic)
    return LeaderCrash(topic, killed, before, polled, described, healthy, lines, epochs)


def test_a_provisioned_cluster_describes_itself(cluster: LocalCluster) -> None:
    """All nodes are registered, one is the active controller, and each listener has a port."""
    state = cluster.describe()
    assert state.brokers == cluster.node_ids() == (1, 2, 3)
    assert state.controller in cluster.node_ids()
    ports = [
        port
        for node in cluster.status()
        for port in (node.client_port, node.replication_port, node.controller_port)
    ]
    assert len(set(ports)) == 9
    assert cluster.bootstrap_servers == ",".join(
        f"127.0.0.1:{node.client_port}" for node in cluster.status()
    )


@pytest.mark.further
def test_every_recorded_setting_is_known_to_the_broker(cluster: LocalCluster) -> None:
    """Kafka ignores misspelled properties silently: the broker must log each value."""
    logged = dict(re.findall(r"^\t(\S+) = (.*)$", cluster.node_log(1).read_text(), re.MULTILINE))
    assert {key: logged.get(key) for key in cluster.broker_settings} == cluster.broker_settings


def test_describe_returns_the_requested_topics(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """With the requested partitions and replicas; an unknown topic has none and is not created."""
    topic = make_topic(4, 3)
    state = cluster.describe([topic, "no-such-topic"])
    assert [p.partition for p in state.of(topic)] == [0, 1, 2, 3]
    assert all(set(p.isr) == set(p.replicas) == {1, 2, 3} for p in state.of(topic))
    assert "no-such-topic" not in {p.topic for p in cluster.describe().partitions}


def test_another_replica_leads_after_the_leader_crashed(leader_crash: LeaderCrash) -> None:
    """It is elected when the session has expired; the restarted node rejoins the ISR."""
    assert leader_crash.killed.state == "running"
    assert leader_crash.killed.node_id not in leader_crash.described.brokers
    assert set(leader_crash.healthy.of(leader_crash.topic)[0].isr) == {1, 2, 3}


def test_another_controller_is_active_after_the_active_one_crashed(cluster: LocalCluster) -> None:
    """Its epoch is higher; until its election there is no active controller."""
    before = cluster.describe()
    assert before.controller is not None
    assert before.controller_epoch is not None
    cluster.kill(before.controller)
    after = _until(cluster, lambda s: s.controller is not None, "another controller")
    assert after.controller != before.controller
    assert (after.controller_epoch or 0) > before.controller_epoch


def test_the_other_nodes_answer_while_a_node_is_paused(cluster: LocalCluster) -> None:
    """Every thread is stopped when `pause` returns, and the node continues after `resume`."""
    cluster.pause(2)
    node = cluster.status()[1]
    assert node.pid is not None
    assert (node.state, is_stopped(node.pid)) == ("paused", True)
    assert cluster.describe().brokers
    cluster.resume(2)
    assert cluster.wait_until_healthy().brokers == (1, 2, 3)
    assert cluster.status()[1].pid == node.pid


@pytest.mark.further
def test_a_cluster_with_a_paused_node_is_not_healthy(cluster: LocalCluster) -> None:
    """The message names it, although its session is valid and all brokers report it in each ISR."""
    cluster.pause(3)
    with pytest.raises(WaitTimeout, match="node 3 is paused"):
        cluster.wait_until_healthy(timeout_s=0.3)


def test_a_controller_that_was_replaced_during_its_pause_is_not_believed(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """It resumes as active controller of an older epoch, with metadata that have it in each ISR."""
    topic = make_topic(6, 3)
    paused = cluster.describe()
    assert paused.controller is not None
    cluster.pause(paused.controller)
    fenced = _until(
        cluster,
        lambda s: s.controller is not None and paused.controller not in s.brokers,
        "the paused node to be fenced",
    )
    cluster.resume(paused.controller)
    assert cluster.describe().controller == fenced.controller
    healthy = cluster.wait_until_healthy()
    assert all(set(p.isr) == {1, 2, 3} for p in healthy.of(topic))
    assert _registrations(cluster, paused.controller) > 0


@pytest.mark.further
def test_a_node_that_restarts_within_its_session_is_unhealthy_until_it_is_registered_again(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """It is still in each ISR; its registration is refused until the old session expires."""
    make_topic(1, 3)
    before = _registrations(cluster, 2)
    cluster.kill(2)
    cluster.start(2)
    cluster.wait_until_healthy()
    assert _registrations(cluster, 2) == before + 1


def test_a_stopped_node_has_shut_down_cleanly(cluster: LocalCluster) -> None:
    """Kafka's own marker of a clean shutdown is in its data; a second stop has no effect."""
    cluster.stop(1)
    cluster.stop(1)
    assert cluster.status()[0].state == "stopped"
    assert (cluster.folder / "nodes" / "1" / "data" / ".kafka_cleanshutdown").is_file()


@pytest.mark.further
def test_a_restarted_node_is_a_new_process(cluster: LocalCluster) -> None:
    """Its status from before the restart is outdated."""
    before = cluster.status()[0]
    assert cluster.restart(1) not in {before, None}
    assert cluster.wait_until_healthy().brokers == (1, 2, 3)


@pytest.mark.further
def test_a_stopped_node_cannot_be_killed_or_paused(cluster: LocalCluster) -> None:
    """A fault must not have a stopped node as its target."""
    cluster.kill(3)
    with pytest.raises(SupervisorError, match="cannot kill node 3: it is stopped"):
        cluster.kill(3)
    with pytest.raises(SupervisorError, match="cannot pause node 3: it is stopped"):
        cluster.pause(3)
    with pytest.raises(SupervisorError, match="there is no node 7"):
        cluster.kill(7)


def test_an_unexpected_exit_is_an_error(cluster: LocalCluster) -> None:
    """The wait for a healthy cluster ends at once, with the exit status and lines of the log."""
    node = cluster.status()[0]
    assert node.pid is not None
    assert node.start_ticks is not None
    assert send_signal(ProcessIdentity(node.pid, node.start_ticks), signal.SIGKILL)
    with pytest.raises(NodeFailed, match="node 1 exited by SIGKILL, unexpectedly"):
        cluster.wait_until_healthy()


def test_another_process_uses_the_cluster(cluster: LocalCluster) -> None:
    """A process that knows only the folder sees the same nodes, and is a holder while it runs."""
    script = (
        "import json, os, sys; from pathlib import Path\n"
        "from ackbench.infra.cluster.local import attach\n"
        "from ackbench.infra.cluster.handle import read_handle\n"
        "cluster = attach(Path(sys.argv[1]))\n"
        "holders = [h.process.pid for h in read_handle(cluster.folder).holders]\n"
        "brokers = cluster.describe().brokers\n"
        "print(json.dumps([cluster.bootstrap_servers, brokers, os.getpid() in holders]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(cluster.folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(ran.stdout) == [cluster.bootstrap_servers, [1, 2, 3], True]
    wait_until(
        lambda: len(read_handle(cluster.folder).holders) == 1,
        awaiting="the other process's lease to end",
        timeout_s=60,
    )


def test_the_handle_on_disk_names_every_process(cluster: LocalCluster) -> None:
    """`ackbench clean` relies on it."""
    handle = read_handle(Path(cluster.folder))
    assert handle.nodes == cluster.status()
    assert len([process for process in handle.processes() if process.is_alive()]) == 4


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic with one partition on three nodes."""
    return make_topic(1, 3)


@pytest.fixture
def poller(cluster: LocalCluster, topic: str) -> Iterator[LocalMetadataPoller]:
    """A poller of the topic."""
    with closing(cluster.metadata_poller(topic)) as local_poller:
        yield local_poller


def test_the_poller_returns_what_the_cluster_describes(
    cluster: LocalCluster, topic: str, poller: LocalMetadataPoller
) -> None:
    """Leader, leader epoch and ISR; and the active controller with its epoch."""
    state = cluster.describe([topic])
    assert poll_until(poller, lambda _: True, "anything").partitions == state.of(topic)
    active = wait_until(
        poller.controller, awaiting="the active controller to answer in time", timeout_s=30
    )
    assert (active.leader, active.epoch) == (state.controller, state.controller_epoch)


def test_a_paused_broker_does_not_interrupt_polling(
    cluster: LocalCluster, poller: LocalMetadataPoller
) -> None:
    """Whichever broker was preferred: the poller queries the others without waiting for it."""
    for node_id in cluster.node_ids():
        poll_until(poller, lambda _: True, "anything before the pause")
        cluster.pause(node_id)
        poll_until(poller, lambda _: True, f"anything while node {node_id} is paused")
        cluster.resume(node_id)


def test_the_poller_sees_another_leader_in_a_new_epoch_after_a_crash(
    leader_crash: LeaderCrash,
) -> None:
    """Also when the crashed leader was the preferred broker; it rejoins the ISR after its start."""
    assert leader_crash.polled_before.leader == leader_crash.killed.node_id
    assert leader_crash.polled_before.leader_epoch is not None
    assert leader_crash.polled.leader_epoch == leader_crash.polled_before.leader_epoch + 1


def test_the_checkpoints_and_logs_have_the_new_leader_epoch(leader_crash: LeaderCrash) -> None:
    """The election appends no record, and is in the new leader's checkpoint nevertheless."""
    state = leader_crash.healthy.of(leader_crash.topic)[0]
    (led,) = [line for line in leader_crash.lines if line.kind == "became_leader"]
    assert (led.node, led.leader_epoch, led.offset) == (state.leader, state.leader_epoch, 0)
    assert (state.leader, state.leader_epoch) in {
        (epoch.node_id, epoch.leader_epoch) for epoch in leader_crash.epochs
    }
    assert "unparsed" not in {line.kind for line in leader_crash.lines}
