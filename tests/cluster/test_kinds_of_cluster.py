"""Other kinds of cluster: Kafka 3.9 with ZooKeeper, and dedicated controllers."""

from pathlib import Path

import pytest

from ackbench.experiments.trial.clients.librdkafka.topics import create_topic
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.process.waiting import wait_until


def _successor(cluster: LocalCluster, controller: int) -> int | None:
    current = cluster.describe().controller
    return current if current != controller else None


@pytest.mark.further
def test_under_zookeeper_the_controller_is_a_broker_and_another_one_takes_over(
    clusters: Path, cache: Path
) -> None:
    """The remaining brokers report the crash, and the cluster becomes healthy again."""
    cluster = provision(
        clusters,
        cache,
        "zookeeper",
        ClusterSpec(kafka_version="3.9.2", coordination="zookeeper", nodes=2, zookeepers=1),
    )
    try:
        assert [(node.node_id, node.role) for node in cluster.status()] == [
            (1, "broker"),
            (2, "broker"),
            (3, "zookeeper"),
        ]
        create_topic(cluster.bootstrap_servers, "t", partitions=3, replication_factor=2)
        first = cluster.wait_until_healthy().controller
        assert first is not None
        assert first in cluster.node_ids()
        sizes, poller = cluster.node_log_sizes(), cluster.metadata_poller("t")
        cluster.kill(first)
        second = wait_until(
            lambda: _successor(cluster, first), awaiting="another controller", timeout_s=30
        )
        # A broker may learn who was elected before the elected broker names itself, which counts.
        seen = wait_until(
            poller.controller, awaiting="a broker that names itself as the controller", timeout_s=30
        )
        assert (seen.leader, seen.epoch) == (second, None)
        wait_until(
            lambda: all(first not in one.isr for one in cluster.describe(["t"]).of("t")),
            awaiting="ISRs without it",
            timeout_s=30,
        )
        cluster.start(first)
        healthy = cluster.wait_until_healthy()
        assert all(len(one.isr) == 2 for one in healthy.of("t"))
        events = cluster.node_log_events_since(sizes, "t")
        assert ("unfenced", first) in {(line.kind, line.node) for line in events}
        assert not [line.line for line in events if line.kind == "unparsed"]
        poller.close()
    finally:
        cluster.destroy()


@pytest.mark.further
def test_a_cluster_is_healthy_again_after_its_dedicated_controller_crashed(
    clusters: Path, cache: Path
) -> None:
    """Until then it is not, whatever the broker reports; eligible leader replicas are off."""
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
