"""The settings that all brokers of a cluster share, every one explicit that bears on failover. Pure.

Names and meanings: https://kafka.apache.org/documentation/#brokerconfigs. Where no reason is given the value is Kafka's own
default, written down so that it is recorded with the trial and does not change with the next version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from infra.errors import InputError
from infra.kafka import kraft, zookeeper
from infra.kafka.kraft import NodeAddress
from infra.kafka.spec import ClusterSpec
from infra.kafka.versions import supports_zookeeper

_FAILOVER: Final = {
    "controlled.shutdown.enable": "true",
    "auto.leader.rebalance.enable": "false",  # would move leaders in the middle of a trial
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "30000",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.min.bytes": "1",
    "replica.fetch.backoff.ms": "1000",
    "replica.socket.timeout.ms": "30000",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "num.replica.fetchers": "1",
}

_DURABILITY: Final = {
    "min.insync.replicas": "1",  # with KIP-966 the topic's own value counts, and topics set it
    "log.flush.interval.messages": "9223372036854775807",
    "log.flush.scheduler.interval.ms": "9223372036854775807",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
    "num.recovery.threads.per.data.dir": "2",
    "log.segment.delete.delay.ms": "1000",  # the default of a minute keeps each trial's topic on disk into the next ones
}

_CONDUCT: Final = {
    "auto.create.topics.enable": "false",  # a mistyped name must be an error
    "group.initial.rebalance.delay.ms": "0",  # 3 s by default, for members that join in bursts
    "log.cleaner.dedupe.buffer.size": "4194304",  # 128 MiB by default, of a heap of 256
    "offsets.topic.num.partitions": "3",  # 50 by default: each costs files and an election
    "transaction.state.log.num.partitions": "3",
}

_KEEPERS: Final = {"kraft": kraft.FAILOVER_PROPERTIES, "zookeeper": zookeeper.FAILOVER_PROPERTIES}


def shared_properties(spec: ClusterSpec) -> dict[str, str]:
    """Return the settings that all nodes share: ours, and over them those that were asked for.

    Raises:
        InputError: what was asked for names a setting that follows from who the node is.
    """
    taken = sorted(
        {key for role in spec.roles for key in _own(NodeAddress(0, 0, 0, 0, role=role), (), spec)}
        & spec.broker.keys()
    )
    if taken:
        raise InputError(
            f"broker settings {', '.join(taken)} follow from the cluster itself and cannot be set"
        )
    return {
        **_KEEPERS[spec.coordination],
        **_FAILOVER,
        **_DURABILITY,
        **_CONDUCT,
        **_internal_topics(spec),
        **_retention(spec),
        **spec.broker,
    }


def server_properties(
    node: NodeAddress, members: Sequence[NodeAddress], spec: ClusterSpec
) -> dict[str, str]:
    """Return everything that stands in the `server.properties` of a broker or a controller.

    Raises:
        InputError: what was asked for names a setting that follows from who the node is.
    """
    return {**_own(node, members, spec), **_rack(node, spec), **shared_properties(spec)}


def _rack(node: NodeAddress, spec: ClusterSpec) -> dict[str, str]:
    """Where followers may be read (KIP-392), each broker is a rack of its own, by its number: `rack-2`."""
    return (
        {"broker.rack": f"rack-{node.node_id}"}
        if "replica.selector.class" in spec.broker and node.role in {"combined", "broker"}
        else {}
    )


def broker_session_timeout_ms(shared: Mapping[str, str]) -> float:
    """Return how long a broker may be silent before it is taken for dead, of a cluster's shared settings."""
    return float(shared.get("zookeeper.session.timeout.ms") or shared["broker.session.timeout.ms"])


def broker_heartbeat_interval_ms(shared: Mapping[str, str]) -> float:
    """Return how often a broker says that it lives; ZooKeeper's client does so after a third of its session (`ClientCnxn.readTimeout`)."""
    return (
        broker_session_timeout_ms(shared) / 3
        if "zookeeper.session.timeout.ms" in shared
        else float(shared["broker.heartbeat.interval.ms"])
    )


def _own(node: NodeAddress, members: Sequence[NodeAddress], spec: ClusterSpec) -> Mapping[str, str]:
    return (
        zookeeper.broker_properties(node, members)
        if spec.coordination == "zookeeper"
        else kraft.node_properties(node, members)
    )


def _retention(spec: ClusterSpec) -> dict[str, str]:
    """Who says how often a broker looks for what has expired wants it from the beginning: it looks for the first time half a minute after its start."""
    interval = spec.broker.get("log.retention.check.interval.ms")
    return {"log.initial.task.delay.ms": interval} if interval else {}


def _internal_topics(spec: ClusterSpec) -> dict[str, str]:
    """They have at most three replicas; share groups, and with them a topic of their own, came with 4.0 (KIP-932)."""
    replicas, majority = str(min(3, spec.nodes)), str(min(3, spec.nodes) // 2 + 1)
    internal = {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": majority,
    }
    if supports_zookeeper(spec.kafka_version):
        return internal
    return internal | {
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": majority,
    }
