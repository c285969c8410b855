"""Nodes in network namespaces: partitions between nodes and clients, and removal of the network."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.infra.cluster.capabilities import Capability, missing_capability
from ackbench.infra.cluster.cleaning import CleanReport, clean
from ackbench.infra.cluster.handle import read_handle
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.errors import SupervisorError, WaitTimeout
from ackbench.infra.kafka.spec import ClusterSpec, NodeStatus
from ackbench.infra.network.bridge import interface_name
from ackbench.infra.network.impairment import (
    ImpairmentCounts,
    PacketDrop,
    RelayAction,
    TrafficShaping,
)
from ackbench.infra.process.processes import kill_and_wait
from ackbench.infra.process.waiting import wait_until

MISSING = missing_capability(Capability.NAMESPACES)
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.root,
    pytest.mark.skipif(
        MISSING is not None, reason=f"no network namespaces: {MISSING.reason if MISSING else ''}"
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
    assert not has_interface(cluster)


def has_interface(cluster: LocalCluster) -> bool:
    """Return whether this machine has a network interface into the cluster."""
    return Path("/sys/class/net", interface_name(read_handle(cluster.folder).cluster_id)).exists()


def accepts_clients(node: NodeStatus) -> bool:
    """Return whether the node accepts a client's connection."""
    try:
        socket.create_connection((node.host, node.client_port), timeout=0.3).close()
    except OSError:
        return False
    return True


def dropped(counts: tuple[ImpairmentCounts, ...], chain: str) -> int:
    """Return how many packets were dropped in one direction."""
    return sum(one.packets or 0 for one in counts if one.what.startswith(chain))


def test_a_leader_that_is_partitioned_from_the_other_nodes_loses_its_leadership(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """Clients and harness still reach it; the kernel counts packets in both directions.

    After the heal the cluster is healthy.
    """
    topic = make_topic(1, 3)
    leader = cluster.describe([topic]).of(topic)[0].leader or 0
    cluster.impair(
        "cut", [PacketDrop(leader, tuple(node for node in cluster.node_ids() if node != leader))]
    )
    with closing(cluster.metadata_poller(topic)) as metadata_poll:

        def moved() -> bool:
            metadata_poll.controller()
            snapshot = metadata_poll.partitions()
            return snapshot is not None and snapshot.partitions[0].leader not in {None, leader}

        wait_until(moved, awaiting="another leader", timeout_s=30)
    assert accepts_clients(cluster.status()[leader - 1])
    counts = cluster.heal("cut")
    assert dropped(counts, "incoming") > 0
    assert dropped(counts, "outgoing") > 0
    cluster.wait_until_healthy()


def test_the_harness_reaches_nodes_that_clients_cannot_reach(
    cluster: LocalCluster, make_topic: MakeTopic
) -> None:
    """The cluster is unhealthy until it is healed."""
    nodes = cluster.node_ids()
    cluster.impair("cut", [PacketDrop(node, clients=True) for node in nodes])
    assert not any(map(accepts_clients, cluster.status()))
    with pytest.raises(WaitTimeout, match="its network is impaired by cut"):
        cluster.wait_until_healthy(timeout_s=0.2)
    assert cluster.describe().brokers == nodes
    assert dropped(cluster.heal("cut"), "incoming") >= len(nodes)
    assert all(map(accepts_clients, cluster.status()))
    make_topic(1, 3)


@pytest.mark.further
def test_two_impairments_of_one_node_are_independent(cluster: LocalCluster) -> None:
    """Dropped responses and a limited rate have their own counters, and are healed separately.

    A new topic with many partitions makes the controller send much.
    """
    node = cluster.describe().controller or 0
    others = tuple(other for other in cluster.node_ids() if other != node)
    cluster.impair("responses", [PacketDrop(node, clients=True, incoming=False)])
    cluster.impair("slow", [TrafficShaping(node, others, rate_kbit_per_s=64)])
    assert not accepts_clients(cluster.status()[node - 1])
    topics.create_topic(cluster.admin_servers, "slowed", partitions=30, replication_factor=3)
    assert [one.any_traffic for one in cluster.heal("slow")] == [True]
    assert cluster.active_impairments() == ("responses",)
    counts = cluster.heal("responses")
    assert (dropped(counts, "incoming"), dropped(counts, "outgoing") > 0) == (0, True)
    assert cluster.active_impairments() == ()
    cluster.wait_until_healthy()


def test_an_impossible_impairment_is_refused_and_undone(cluster: LocalCluster) -> None:
    """An unknown node, and a relay in a network without relays; the first part is undone."""
    with pytest.raises(SupervisorError, match="there is no node 9"):
        cluster.impair("far", [PacketDrop(1, (2,)), PacketDrop(9, (1,))])
    with pytest.raises(SupervisorError, match="there are no relays in a network of namespaces"):
        cluster.impair("held", [PacketDrop(1, (2,)), RelayAction(1, "responses", "hold")])
    assert cluster.active_impairments() == ()


def test_the_network_is_removed_with_a_killed_supervisor(clusters: Path, cache: Path) -> None:
    """The kernel removes namespaces, interface and rules with the last process.

    `clean` removes the folder.
    """
    cluster = provision(clusters, cache, "killed", ClusterSpec(nodes=1, network="namespaces"))
    cluster.impair("cut", [PacketDrop(1, clients=True)])
    supervisor = read_handle(cluster.folder).supervisor
    assert supervisor
    kill_and_wait(supervisor)
    wait_until(
        lambda: not has_interface(cluster),
        awaiting="the kernel to remove the interface",
        timeout_s=60,
    )
    assert clean(clusters, include_held=True).removed == ("killed",)
    assert clean(clusters) == CleanReport()
