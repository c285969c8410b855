"""A node behind a relay that holds, drops and resets its clients' traffic. Needs no root.

The harness connects to the node directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.errors import SupervisorError, WaitTimeout
from ackbench.infra.kafka.spec import ClusterSpec, Listener
from ackbench.infra.network.impairment import ImpairmentCounts, PacketDrop, RelayAction
from ackbench.infra.network.rule_actions import RequestRule
from ackbench.infra.network.treatment import Direction, RelayTreatment
from ackbench.infra.process.waiting import wait_until

pytestmark = pytest.mark.cluster
TOPIC = "relayed"


@pytest.fixture(scope="module")
def shared_cluster(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One node behind a relay, and a topic."""
    cluster = provision(
        tmp_path_factory.mktemp("clusters"),
        cache,
        "relayed",
        ClusterSpec(nodes=1, network="relays"),
    )
    topics.create_topic(cluster.admin_servers, TOPIC, partitions=1, replication_factor=1)
    yield cluster
    cluster.destroy()


def send(
    cluster: LocalCluster, direction: Direction, treatment: RelayTreatment
) -> tuple[int, tuple[ImpairmentCounts, ...]]:
    """Send one record during an impairment; return its stored copies and the relay's counts."""
    delivered: list[Message] = []
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "socket.timeout.ms": 1000,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.list_topics(TOPIC, 10)
    before = topics.end_offsets(cluster.admin_servers, TOPIC)[0]
    producer.produce(TOPIC, b"first")
    assert producer.flush(10) == 0
    cluster.impair("relay", [RelayAction(1, direction, treatment)])
    producer.produce(
        TOPIC, b"second", on_delivery=lambda _error, message: delivered.append(message)
    )
    wait_until(
        lambda: (
            producer.poll(0.01) is not None and cluster.impairment_counts("relay")[0].any_traffic
        ),
        awaiting="the relay to receive it",
        timeout_s=60,
    )
    assert not delivered
    with pytest.raises(WaitTimeout, match="its network is impaired by relay"):
        cluster.wait_until_healthy(timeout_s=0.1)
    counts = cluster.heal("relay")
    assert producer.flush(20) == 0
    return topics.end_offsets(cluster.admin_servers, TOPIC)[0] - before - 1, counts


def test_a_held_request_is_stored_once(cluster: LocalCluster) -> None:
    """Request and response are late, and no connection is lost."""
    stored, (counts,) = send(cluster, "requests", "hold")
    assert (stored, counts.connections) == (1, 0)


def test_a_dropped_request_is_stored_once(cluster: LocalCluster) -> None:
    """The node never received it; the client retries over a new connection."""
    stored, (counts,) = send(cluster, "requests", "drop")
    assert (stored, counts.connections) >= (1, 1)


@pytest.mark.parametrize("treatment", ["drop", "reset"])
def test_a_dropped_response_causes_a_duplicate(
    cluster: LocalCluster, treatment: RelayTreatment
) -> None:
    """The batch is stored without an acknowledgement, so the producer retries."""
    stored, (counts,) = send(cluster, "responses", treatment)
    assert stored >= 2
    assert (counts.connections or 0) >= 1


def test_dropping_packets_is_refused_without_namespaces(cluster: LocalCluster) -> None:
    """A relay only sees connections."""
    with pytest.raises(SupervisorError, match="needs namespaces"):
        cluster.impair("cut", [PacketDrop(1, clients=True)])


@pytest.mark.parametrize(
    ("rule", "duplicates"),
    [
        (
            RequestRule(
                *("Produce", "requests", "respond"),
                error="NOT_LEADER_OR_FOLLOWER",
                topic=TOPIC,
                partition=0,
                times=1,
            ),
            0,
        ),
        (
            RequestRule(
                *("Produce", "responses", "rewrite"),
                rewrite="responses.partition_responses.error_code:NOT_LEADER_OR_FOLLOWER",
                topic=TOPIC,
                times=1,
            ),
            1,
        ),
    ],
    ids=["respond", "rewrite"],
)
def test_a_batch_that_is_refused_by_a_relay_is_not_appended(
    cluster: LocalCluster, rule: RequestRule, duplicates: int
) -> None:
    """The client sends it again; it is a duplicate only if the broker had the first request."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    producer.list_topics(TOPIC, 10)
    before = topics.end_offsets(cluster.admin_servers, TOPIC)[0]
    cluster.impair("rule", [rule])
    producer.produce(TOPIC, b"once", partition=0)
    assert producer.flush(30) == 0
    (counts,) = cluster.heal("rule")
    assert counts.requests == 1
    assert "followed by correlation id" in str(counts)
    stored = topics.end_offsets(cluster.admin_servers, TOPIC)[0] - before
    assert stored == 1 + duplicates


def test_a_topic_that_is_removed_from_metadata_is_gone_for_the_client(
    cluster: LocalCluster,
) -> None:
    """Until the rule ends; other topics are not affected."""
    rule = RequestRule("Metadata", "responses", "rewrite", rewrite="topics:removed", topic=TOPIC)
    cluster.impair("rule", [rule])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    assert TOPIC not in producer.list_topics(timeout=10).topics
    (counts,) = cluster.heal("rule")
    assert counts.any_traffic
    assert TOPIC in producer.list_topics(timeout=10).topics


def test_a_rule_ends_with_the_next_transaction(cluster: LocalCluster) -> None:
    """Its requests are forwarded again when a record of that is stored."""
    rule = RequestRule(
        "Produce", "requests", "delay", delay_ms=1, until="next-transaction", topic=""
    )
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "until",
            "log_level": 0,
        }
    )
    producer.init_transactions(30)
    cluster.impair("rule", [rule])
    acted: list[int] = []
    for _ in range(3):
        producer.begin_transaction()
        producer.produce(TOPIC, b"in a transaction", partition=0)
        producer.commit_transaction(30)
        acted.append(cluster.impairment_counts("rule")[0].requests or 0)
    (counts,) = cluster.heal("rule")
    assert acted == [1, 2, 2]
    assert counts.ended == "the rule ended when the next transaction had a stored record"


def has_met(cluster: LocalCluster, name: str) -> bool:
    """Return whether a rule has acted on three requests."""
    return (cluster.impairment_counts(name)[0].requests or 0) >= 3


@pytest.mark.further
def test_requests_of_brokers_and_controllers_pass_their_relays(cache: Path, tmp_path: Path) -> None:
    """Followers fetch from leaders, brokers send heartbeats, and a rule meets both."""
    cluster = provision(tmp_path, cache, "nodes", ClusterSpec(nodes=3, network="node-relays"))
    try:
        topics.create_topic(cluster.admin_servers, TOPIC, partitions=3, replication_factor=3)
        rules: tuple[tuple[str, Listener], ...] = (
            ("Fetch", "replication"),
            ("BrokerHeartbeat", "controller"),
        )
        for api, listener in rules:
            rule = RequestRule(api, "requests", "delay", delay_ms=1, listener=listener)
            cluster.impair(api, [rule])
            wait_until(partial(has_met, cluster, api), awaiting=f"{api} requests", timeout_s=60)
            (counts,) = cluster.heal(api)
            assert all(" of broker-" in str(one) or api != "Fetch" for one in counts.met)
        cluster.wait_until_healthy()
    finally:
        cluster.destroy()


def test_requests_between_nodes_need_relays_in_front_of_them(cluster: LocalCluster) -> None:
    """Those of a cluster whose clients alone have relays cannot be met."""
    rule = RequestRule("Fetch", "requests", "drop", listener="replication")
    with pytest.raises(SupervisorError, match="no relay is in front of the replication listeners"):
        cluster.impair("between", [rule])
