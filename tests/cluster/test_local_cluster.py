"""What can be done to a cluster, and what it says of itself meanwhile."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.cluster.handle import read_handle
from infra.cluster.local import LocalCluster
from infra.errors import NodeFailed, SupervisorError, WaitTimeout
from infra.kafka.spec import ClusterState
from infra.process.processes import ProcessIdentity, is_stopped, send_signal
from infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
MakeTopic = Callable[[int, int], str]


def _until(
    cluster: LocalCluster,
    awaited: Callable[[ClusterState], bool],
    awaiting: str,
    timeout_s: float = 30,
) -> ClusterState:
    def look() -> ClusterState | None:
        state = cluster.describe()
        return state if awaited(state) else None

    return wait_until(look, awaiting=awaiting, timeout_s=timeout_s, seen=cluster.describe)


def _leader(cluster: LocalCluster, topic: str) -> int:
    """Return the leader of the topic's first partition; the broker that answers may learn of a new topic a moment after the others."""
    led = _until(
        cluster,
        lambda state: any(partition.leader is not None for partition in state.of(topic)),
        f"a leader of {topic}",
    )
    return next(partition.leader for partition in led.of(topic) if partition.leader is not None)


def _registrations(cluster: LocalCluster, node_id: int) -> int:
    return cluster.node_log(node_id).read_text().count("Successfully registered broker")


def test_a_provisioned_cluster_describes_itself(cluster: LocalCluster) -> None:
    """All nodes are registered, one of them is the active controller, and every listener has a port of its own."""
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


def test_every_setting_that_is_recorded_is_known_to_the_broker(cluster: LocalCluster) -> None:
    """A misspelled property would be ignored in silence: each must be among the values that the broker itself logs, as we set it."""
    logged = dict(re.findall(r"^\t(\S+) = (.*)$", cluster.node_log(1).read_text(), re.MULTILINE))
    assert {key: logged.get(key) for key in cluster.broker_settings} == cluster.broker_settings


def test_describe_is_asked_for_topics_by_name(cluster: LocalCluster, make_topic: MakeTopic) -> None:
    """Partitions, replicas and ISR are those that were asked for; a topic that does not exist has none and is not made."""
    topic = make_topic(4, 3)
    state = cluster.describe([topic, "no-such-topic"])
    assert [p.partition for p in state.of(topic)] == [0, 1, 2, 3]
    assert all(set(p.isr) == set(p.replicas) == {1, 2, 3} for p in state.of(topic))
    assert "no-such-topic" not in {p.topic for p in cluster.describe().partitions}


def test_the_leader_moves_when_its_node_is_killed(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """Another replica leads once the session is over, and the node is in the ISR again after its start."""
    topic = make_topic(1, 3)
    killed = cluster.kill(_leader(cluster, topic))
    assert killed.state == "running"
    moved = _until(
        cluster, lambda s: s.of(topic)[0].leader not in {None, killed.node_id}, "another leader"
    )
    assert killed.node_id not in moved.brokers
    cluster.start(killed.node_id)
    assert set(cluster.wait_until_healthy().of(topic)[0].isr) == {1, 2, 3}


def test_another_controller_is_seen_when_the_active_one_is_killed(cluster: LocalCluster) -> None:
    """Its epoch is higher; before there is one, none is named."""
    before = cluster.describe()
    assert before.controller is not None
    assert before.controller_epoch is not None
    cluster.kill(before.controller)
    after = _until(cluster, lambda s: s.controller is not None, "another controller")
    assert after.controller != before.controller
    assert (after.controller_epoch or 0) > before.controller_epoch


def test_a_paused_node_stands_still_and_the_others_answer(cluster: LocalCluster) -> None:
    """Every thread of it is stopped when `pause` returns, and it goes on after `resume`."""
    cluster.pause(2)
    node = cluster.status()[1]
    assert node.pid is not None
    assert (node.state, is_stopped(node.pid)) == ("paused", True)
    assert cluster.describe().brokers
    cluster.resume(2)
    assert cluster.wait_until_healthy().brokers == (1, 2, 3)
    assert cluster.status()[1].pid == node.pid


def test_a_paused_node_is_not_whole(cluster: LocalCluster) -> None:
    """The message says which node is paused, though its session has not expired and the others see it in every ISR."""
    cluster.pause(3)
    with pytest.raises(WaitTimeout, match="node 3 is paused"):
        cluster.wait_until_healthy(timeout_s=0.3)


def test_a_controller_that_was_replaced_while_it_was_paused_is_not_believed(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """It wakes up as active controller of an older epoch, with metadata in which it is in every ISR; whole means whole for all."""
    topic = make_topic(6, 3)
    asleep = cluster.describe()
    assert asleep.controller is not None
    cluster.pause(asleep.controller)
    fenced = _until(
        cluster,
        lambda s: s.controller is not None and asleep.controller not in s.brokers,
        "the paused node to be fenced",
    )
    cluster.resume(asleep.controller)
    assert cluster.describe().controller == fenced.controller
    whole = cluster.wait_until_healthy()
    assert all(set(p.isr) == {1, 2, 3} for p in whole.of(topic))
    assert _registrations(cluster, asleep.controller) > 0


def test_a_node_that_comes_back_within_its_session_is_not_whole_before_it_is_registered_again(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """The others have it in every ISR from before, and it is refused until its old session is over."""
    make_topic(1, 3)
    before = _registrations(cluster, 2)
    cluster.kill(2)
    cluster.start(2)
    cluster.wait_until_healthy()
    assert _registrations(cluster, 2) == before + 1


def test_a_stopped_node_ended_cleanly(cluster: LocalCluster) -> None:
    """It left Kafka's own mark of a clean shutdown in its data, and a second stop does nothing."""
    cluster.stop(1)
    cluster.stop(1)
    assert cluster.status()[0].state == "stopped"
    assert (cluster.folder / "nodes" / "1" / "data" / ".kafka_cleanshutdown").is_file()


def test_a_restarted_node_is_another_process(cluster: LocalCluster) -> None:
    """The pid that was known before means nothing afterwards."""
    before = cluster.status()[0]
    assert cluster.restart(1) not in {before, None}
    assert cluster.wait_until_healthy().brokers == (1, 2, 3)


def test_a_node_that_does_not_run_cannot_be_killed_or_paused(cluster: LocalCluster) -> None:
    """A fault must not take a dead node for its victim."""
    cluster.kill(3)
    with pytest.raises(SupervisorError, match="cannot kill node 3: it is stopped"):
        cluster.kill(3)
    with pytest.raises(SupervisorError, match="cannot pause node 3: it is stopped"):
        cluster.pause(3)
    with pytest.raises(SupervisorError, match="there is no node 7"):
        cluster.kill(7)


def test_a_death_that_nobody_asked_for_is_told(cluster: LocalCluster) -> None:
    """Waiting for a whole cluster ends at once, with the node's status and last words."""
    node = cluster.status()[0]
    assert node.pid is not None
    assert node.start_ticks is not None
    assert send_signal(ProcessIdentity(node.pid, node.start_ticks), signal.SIGKILL)
    with pytest.raises(NodeFailed, match="node 1 exited unexpectedly with status -9"):
        cluster.wait_until_healthy()


def test_another_process_uses_the_cluster(cluster: LocalCluster) -> None:
    """A process that knows the folder alone sees the same nodes, and is a holder meanwhile."""
    script = (
        "import json, os, sys; from pathlib import Path; from infra.cluster.local import attach; from infra.cluster.handle import read_handle\n"
        "cluster = attach(Path(sys.argv[1])); holders = [h.process.pid for h in read_handle(cluster.folder).holders]\n"
        "print(json.dumps([cluster.bootstrap_servers, cluster.describe().brokers, os.getpid() in holders]))"
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
        awaiting="the end of the other's lease",
        timeout_s=5,
    )


def test_the_handle_on_disk_names_every_process(cluster: LocalCluster) -> None:
    """It is what `ackbench clean` goes by."""
    handle = read_handle(Path(cluster.folder))
    assert handle.nodes == cluster.status()
    assert len([process for process in handle.processes() if process.is_alive()]) == 4
