"""`ackbench check --bootstrap` reads what a running cluster has, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import ackbench

from ackbench.experiments.trial.clients.librdkafka.topics import admin_client, create_topic
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.kafka.spec import ClusterSpec

BROKER = {"default.replication.factor": "2", "unclean.leader.election.enable": "true"}


@pytest.fixture(scope="module")
def cluster(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two brokers with settings of their own, and a topic with others."""
    folder = tmp_path_factory.mktemp("clusters")
    running = provision(folder, cache, "checked", ClusterSpec(nodes=2, broker=BROKER))
    try:
        create_topic(
            running.bootstrap_servers,
            "orders",
            partitions=3,
            replication_factor=2,
            config={"min.insync.replicas": "2", "unclean.leader.election.enable": "false"},
        )
        yield running
    finally:
        running.destroy()


def settings(cluster: LocalCluster, *options: str) -> dict[str, Any]:
    """Return the settings that the check read."""
    result = ackbench("check", "--bootstrap", cluster.bootstrap_servers, "--json", *options)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)["settings"]
    return document


@pytest.mark.further
def test_brokers_are_read_with_their_number_version_and_features(cluster: LocalCluster) -> None:
    """Values that differ from Kafka's defaults, and those that decide."""
    read = settings(cluster)

    assert (read["nodes"], read["kafka_version"]) == (2, ClusterSpec.kafka_version)
    assert read["broker"]["unclean.leader.election.enable"] == "true"
    assert read["broker"]["default.replication.factor"] == "2"
    assert set(read["features"]) == {"eligible.leader.replicas.version", "transaction.version"}


@pytest.mark.further
def test_a_topic_is_read_with_its_replicas_and_settings_in_effect(cluster: LocalCluster) -> None:
    """Those of the topic come before those of the brokers."""
    read = settings(cluster, "--topic-name", "orders")

    assert (read["partitions"], read["replication_factor"]) == (3, 2)
    assert read["topic"]["min.insync.replicas"] == "2"
    assert read["topic"]["unclean.leader.election.enable"] == "false"


@pytest.mark.further
def test_a_topic_that_does_not_exist_is_one_line_and_is_not_created(cluster: LocalCluster) -> None:
    """A request for a topic's metadata may create it."""
    servers = cluster.bootstrap_servers
    result = ackbench("check", "--bootstrap", servers, "--topic-name", "absent")

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "has no topic absent" in result.stderr
    assert "absent" not in admin_client(servers).list_topics(timeout=10).topics
