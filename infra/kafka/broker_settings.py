"""The settings that all brokers of a cluster share; all that affect failover are explicit.

Names and meanings: https://kafka.apache.org/documentation/#brokerconfigs. A value without a comment
is Kafka's default, set explicitly so that the trial records it and it does not change with the next
Kafka version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ackbench.infra.errors import InputError
from ackbench.infra.kafka import kraft, zookeeper
from ackbench.infra.kafka.kraft import NodeAddress
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.kafka.versions import supports_zookeeper

_FAILOVER: Final = {
    "controlled.shutdown.enable": "true",
    "auto.leader.rebalance.enable": "false",  # true would move leaders during a trial
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
    "min.insync.replicas": "1",  # topics set their own; with KIP-966 only that one counts
    "log.flush.interval.messages": "9223372036854775807",
    "log.flush.scheduler.interval.ms": "9223372036854775807",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
    "num.recovery.threads.per.data.dir": "2",
    # 60000 by default: the topic of a trial would stay on disk during the next ones
    "log.segment.delete.delay.ms": "1000",
}

_OPERATION: Final = {
    "auto.create.topics.enable": "false",  # a mistyped topic name is an error
    "group.initial.rebalance.delay.ms": "0",  # 3 s by default, for members that join in bursts
    "log.cleaner.dedupe.buffer.size": "4194304",  # 128 MiB by default, with a heap of 256 MiB
    "offsets.topic.num.partitions": "3",  # 50 by default; each costs files and an election
    "transaction.state.log.num.partitions": "3",
}

_COORDINATION: Final = {
    "kraft": kraft.FAILOVER_PROPERTIES,
    "zookeeper": zookeeper.FAILOVER_PROPERTIES,
}


def shared_properties(spec: ClusterSpec) -> dict[str, str]:
    """Return the settings that all nodes share: ackbench's, overridden by those of the spec.

    Raises:
        InputError: the spec overrides a setting that depends on the node.
    """
    reserved = sorted(
        {
            key
            for role in spec.roles
            for key in _node_properties(NodeAddress(0, 0, 0, 0, role=role), (), spec)
        }
        & spec.broker.keys()
    )
    if reserved:
        raise InputError(
            f"broker settings {', '.join(reserved)} depend on the node and cannot be set"
        )
    return {
        **_COORDINATION[spec.coordination],
        **_FAILOVER,
        **_DURABILITY,
        **_OPERATION,
        **_internal_topics(spec),
        **_retention(spec),
        **spec.broker,
    }


def server_properties(
    node: NodeAddress, members: Sequence[NodeAddress], spec: ClusterSpec
) -> dict[str, str]:
    """Return the `server.properties` of a broker or controller.

    Raises:
        InputError: the spec overrides a setting that depends on the node.
    """
    return {**_node_properties(node, members, spec), **_rack(node, spec), **shared_properties(spec)}


def _rack(node: NodeAddress, spec: ClusterSpec) -> dict[str, str]:
    """Make each broker its own rack (`rack-2`) if consumers may fetch from followers (KIP-392)."""
    return (
        {"broker.rack": f"rack-{node.node_id}"}
        if "replica.selector.class" in spec.broker and node.role in {"combined", "broker"}
        else {}
    )


def broker_session_timeout_ms(shared: Mapping[str, str]) -> float:
    """Return after how long without a heartbeat a broker is fenced, or its session expires."""
    return float(shared.get("zookeeper.session.timeout.ms") or shared["broker.session.timeout.ms"])


def broker_heartbeat_interval_ms(shared: Mapping[str, str]) -> float:
    """Return how often a broker sends a heartbeat.

    ZooKeeper's client sends one after a third of its session timeout (`ClientCnxn.readTimeout`).
    """
    return (
        broker_session_timeout_ms(shared) / 3
        if "zookeeper.session.timeout.ms" in shared
        else float(shared["broker.heartbeat.interval.ms"])
    )


def _node_properties(
    node: NodeAddress, members: Sequence[NodeAddress], spec: ClusterSpec
) -> Mapping[str, str]:
    return (
        zookeeper.broker_properties(node, members)
        if spec.coordination == "zookeeper"
        else kraft.node_properties(node, members)
    )


def _retention(spec: ClusterSpec) -> dict[str, str]:
    """Apply an overridden retention check interval from the broker's start.

    By default a broker first checks 30 s after its start, whatever the interval.
    """
    interval = spec.broker.get("log.retention.check.interval.ms")
    return {"log.initial.task.delay.ms": interval} if interval else {}


def _internal_topics(spec: ClusterSpec) -> dict[str, str]:
    """Give internal topics up to three replicas.

    Share groups and their internal topic exist since 4.0 (KIP-932).
    """
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
