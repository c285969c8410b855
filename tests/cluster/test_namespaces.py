"""Nodes in network namespaces: cut off from each other and from their clients, seen by the harness all the while, and gone without a trace."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from experiments.clients.librdkafka import topics
from infra.cluster.capabilities import Capability, missing_capability
from infra.cluster.cleaning import CleanReport, clean
from infra.cluster.handle import read_handle
from infra.cluster.local import LocalCluster, provision
from infra.errors import SupervisorError, WaitTimeout
from infra.kafka.spec import ClusterSpec, NodeStatus
from infra.network.bridge import interface_name
from infra.network.impairment import ImpairmentCounts, PacketDrop, RelayAction, TrafficShaping
from infra.process.processes import kill_and_wait
from infra.process.waiting import wait_until

LACK = missing_capability(Capability.NAMESPACES)
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.root,
    pytest.mark.skipif(
        LACK is not None, reason=f"no network namespaces: {LACK.reason if LACK else ''}"
    ),
]
SPEC = ClusterSpec(
    network="namespaces",
    broker={"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"},
)
MakeTopic = Callable[[int, int], str]


@pytest.fixture(scope="module")
def shared_cluster(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes in namespaces for the module."""
    cluster = provision(tmp_path_factory.mktemp("clusters"), cache, "parted", SPEC)
    yield cluster
    cluster.destroy()
    assert not on_this_machine(cluster)


def on_this_machine(cluster: LocalCluster) -> bool:
    """Whether this machine has an interface into the cluster."""
    return Path("/sys/class/net", interface_name(read_handle(cluster.folder).cluster_id)).exists()


def answers(node: NodeStatus) -> bool:
    """Whether a client's connection is taken."""
    try:
        socket.create_connection((node.host, node.client_port), timeout=0.3).close()
    except OSError:
        return False
    return True


def dropped(caught: tuple[ImpairmentCounts, ...], chain: str) -> int:
    """How many packets one way."""
    return sum(one.packets or 0 for one in caught if one.what.startswith(chain))


def test_a_leader_that_is_cut_off_from_the_others_loses_its_partition_and_is_seen_doing_so(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """Another one leads; clients and harness still reach the old one, the kernel has counted both ways, and after the heal all is whole."""
    topic = make_topic(1, 3)
    leader = cluster.describe([topic]).of(topic)[0].leader or 0
    cluster.impair(
        "cut", [PacketDrop(leader, tuple(node for node in cluster.node_ids() if node != leader))]
    )
    with closing(cluster.metadata_poller(topic)) as metadata_poll:

        def moved() -> bool:
            metadata_poll.controller()
            seen = metadata_poll.partitions()
            return seen is not None and seen.partitions[0].leader not in {None, leader}

        wait_until(moved, awaiting="another leader", timeout_s=30)
    assert answers(cluster.status()[leader - 1])
    caught = cluster.heal("cut")
    assert dropped(caught, "incoming") > 0
    assert dropped(caught, "outgoing") > 0
    cluster.wait_until_healthy()


def test_clients_that_are_cut_off_do_not_blind_the_harness(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """No client's connection is taken, topics are made all the same, and the cluster is not whole before it is mended."""
    nodes = cluster.node_ids()
    cluster.impair("cut", [PacketDrop(node, clients=True) for node in nodes])
    assert not any(map(answers, cluster.status()))
    with pytest.raises(WaitTimeout, match="its network is impaired by cut"):
        cluster.wait_until_healthy(timeout_s=0.2)
    assert cluster.describe().brokers == nodes
    assert dropped(cluster.heal("cut"), "incoming") >= len(nodes)
    assert all(map(answers, cluster.status()))
    make_topic(1, 3)


def test_answers_alone_are_dropped_and_traffic_is_slowed_side_by_side(
    cluster: LocalCluster,
) -> None:
    """Two impairments of one node at a time, each with its own counters, each ended alone; the controller has much to say of a new topic."""
    node = cluster.describe().controller or 0
    others = tuple(other for other in cluster.node_ids() if other != node)
    cluster.impair("answers", [PacketDrop(node, clients=True, incoming=False)])
    cluster.impair("slow", [TrafficShaping(node, others, rate_kbit_per_s=64)])
    assert not answers(cluster.status()[node - 1])
    topics.create_topic(cluster.admin_servers, "slowed", partitions=30, replication_factor=3)
    assert [one.any_traffic for one in cluster.heal("slow")] == [True]
    assert cluster.active_impairments() == ("answers",)
    caught = cluster.heal("answers")
    assert (dropped(caught, "incoming"), dropped(caught, "outgoing") > 0) == (0, True)
    assert cluster.active_impairments() == ()
    cluster.wait_until_healthy()


def test_what_cannot_be_done_is_refused_and_nothing_is_done(cluster: LocalCluster) -> None:
    """There is no such node, and there are no relays; the first cut of the two is undone."""
    with pytest.raises(SupervisorError, match="there is no node 9"):
        cluster.impair("far", [PacketDrop(1, (2,)), PacketDrop(9, (1,))])
    with pytest.raises(SupervisorError, match="no relays in namespaces"):
        cluster.impair("held", [PacketDrop(1, (2,)), RelayAction(1, "responses", "hold")])
    assert cluster.active_impairments() == ()


def test_a_killed_supervisor_leaves_nothing_on_this_machine(clusters: Path, cache: Path) -> None:
    """In the middle of a cut: the kernel takes the namespaces, the interface and the rules with the last process; `clean` removes the folder."""
    cluster = provision(clusters, cache, "killed", ClusterSpec(nodes=1, network="namespaces"))
    cluster.impair("cut", [PacketDrop(1, clients=True)])
    supervisor = read_handle(cluster.folder).supervisor
    assert supervisor
    kill_and_wait(supervisor)
    wait_until(
        lambda: not on_this_machine(cluster),
        awaiting="the kernel to remove the interface",
        timeout_s=20,
    )
    assert clean(clusters, include_held=True).removed == ("killed",)
    assert clean(clusters) == CleanReport()
