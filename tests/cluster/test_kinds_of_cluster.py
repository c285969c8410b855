"""Kinds of cluster beside the usual one: Kafka 3.9 with ZooKeeper, and controllers that are nodes of their own."""

from pathlib import Path

import pytest

from experiments.clients.librdkafka.topics import create_topic
from infra.cluster.local import LocalCluster, provision
from infra.errors import HarnessError
from infra.kafka.spec import ClusterSpec
from infra.process.waiting import wait_until


def _moved_from(cluster: LocalCluster, was: int) -> int | None:
    now = cluster.describe().controller
    return now if now != was else None


def test_under_zookeeper_the_controller_is_a_broker_and_another_one_takes_over(
    clusters: Path, cache: Path
) -> None:
    """Its ensemble keeps the metadata, the brokers that are left see who died, and all of it can be whole again."""
    cluster = provision(
        clusters,
        cache,
        "zookeeper",
        ClusterSpec(kafka_version="3.9.2", coordination="zookeeper", zookeepers=1),
    )
    try:
        assert [(node.node_id, node.role) for node in cluster.status()] == [
            (1, "broker"),
            (2, "broker"),
            (3, "broker"),
            (4, "zookeeper"),
        ]
        create_topic(cluster.bootstrap_servers, "t", partitions=3, replication_factor=3)
        first = cluster.wait_until_healthy().controller
        assert first is not None
        assert first in cluster.node_ids()
        sizes, metadata_poll = cluster.node_log_sizes(), cluster.metadata_poller("t")
        cluster.kill(first)
        second = wait_until(
            lambda: _moved_from(cluster, first), awaiting="another controller", timeout_s=30
        )
        # A broker may know who was elected before the elected one takes itself for it, and only its own word counts.
        seen = wait_until(
            metadata_poll.controller,
            awaiting="a broker that takes itself for the controller",
            timeout_s=30,
        )
        assert (seen.leader, seen.epoch) == (second, None)
        wait_until(
            lambda: all(first not in one.isr for one in cluster.describe(["t"]).of("t")),
            awaiting="ISRs without it",
            timeout_s=30,
        )
        cluster.start(first)
        whole = cluster.wait_until_healthy()
        assert all(len(one.isr) == 3 for one in whole.of("t"))
        told = cluster.node_log_events_since(sizes, "t")
        assert ("unfenced", first) in {(line.kind, line.node) for line in told}
        assert not [line.line for line in told if line.kind == "unparsed"]
        metadata_poll.close()
    finally:
        cluster.destroy()


def test_a_controller_of_its_own_can_be_killed_and_is_waited_for(
    clusters: Path, cache: Path
) -> None:
    """Without it nothing is whole, whatever the broker still believes; eligible leader replicas are off, as was asked for."""
    spec = ClusterSpec(nodes=1, controllers=1, features={"eligible.leader.replicas.version": 0})
    cluster = provision(clusters, cache, "dedicated", spec)
    try:
        assert [(node.node_id, node.role) for node in cluster.status()] == [
            (1, "broker"),
            (2, "controller"),
        ]
        assert (cluster.node_ids(), cluster.bootstrap_servers.count(":")) == ((1,), 1)
        assert cluster.wait_until_healthy().controller == 2
        assert cluster.broker_settings["eligible.leader.replicas.version"] == "0"
        cluster.kill(2)
        assert cluster.describe().controller is None
        with pytest.raises(HarnessError, match="node 2 is stopped"):
            cluster.wait_until_healthy(timeout_s=0.2)
        cluster.start(2)
        assert cluster.wait_until_healthy().controller == 2
    finally:
        cluster.destroy()
