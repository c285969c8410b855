"""What the contract depends on: effective settings and fault effects, from a planned trial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT, ClientKind
from ackbench.experiments.sweep.plan import ClusterNeed, TrialSpec
from ackbench.experiments.sweep.retention import Retention, resolve_retention
from ackbench.experiments.sweep.workload import AutoOffsetReset, Commit, GroupMembers
from ackbench.experiments.trial.clients.adapters import Adapter
from ackbench.experiments.trial.clients.settings.group_members import AUTO_OFFSET_STORE
from ackbench.experiments.trial.clients.settings.kinds import client_choice
from ackbench.experiments.trial.clients.settings.librdkafka import is_true
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.composition.composite import effects_of
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.infra.kafka.broker_settings import (
    broker_heartbeat_interval_ms,
    broker_session_timeout_ms,
)
from ackbench.infra.kafka.zookeeper import TICK_MS

UNLIMITED_RETRIES: Final = 2_147_483_647
_REFRESH: Final = "topic.metadata.refresh.interval.ms"
_DEFAULT_PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
_SCAN_MS: Final = 1000.0
"""How often librdkafka checks its topics for leaders whose broker is down."""


class Circumstances(Frozen):
    """The input of the contract: the effective properties of Kafka and its clients."""

    acks: str
    """`0`, `1` or `all`."""
    client: ClientKind = DEFAULT_CLIENT
    """The client under test."""
    kafka_version: str | None = None
    """Of the brokers; `None`: unknown, as of an external cluster."""
    broker_settings_known: bool = True
    """Whether the brokers' settings were read; without, fields from them are Kafka's defaults."""
    transaction_version: int | None = None
    """Level of the feature `transaction.version` (KIP-890); `None`: unknown."""
    eligible_leader_replicas: int | None = None
    """Level of the feature `eligible.leader.replicas.version` (KIP-966); `None`: unknown."""
    idempotent: bool
    transactional: bool = False
    """The producer uses transactions; librdkafka then requires acks=all and idempotence."""
    retries: int
    max_in_flight: int
    delivery_timeout_ms: float
    """0: the client never gives up a record."""
    socket_timeout_ms: float
    """The producer's request timeout: librdkafka's `socket.timeout.ms`, Java's
    `request.timeout.ms`."""
    connection_setup_timeout_ms: float
    retry_backoff_max_ms: float
    leader_lookup_ms: float = 0
    """How much later than a Java client this client may learn of a new leader.

    While a broker is down, librdkafka requests metadata once a second, and may skip one response.
    franz-go does at most once in 5 s (`kgo.MetadataMinAge`).
    """
    nodes: int
    """Brokers."""
    controllers: int
    """Nodes that can become the active controller.

    These are the dedicated controllers, else all brokers; with ZooKeeper, all brokers.
    """
    dedicated_controllers: bool = False
    """Whether no broker is a controller (KRaft)."""
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    unclean_election: bool
    flush_messages: int
    """1: every record is synced to disk before it is acknowledged."""
    compacted: bool
    retention_ms: float
    """-1: no limit."""
    retention_bytes: float
    """-1: no limit."""
    producer_id_expiration_ms: float = _DEFAULT_PRODUCER_ID_EXPIRATION_MS
    """After how long without a write a leader forgets a producer; Kafka's default is one day."""
    session_timeout_ms: float
    heartbeat_interval_ms: float
    replica_lag_ms: float
    replica_fetch_backoff_ms: float = 0
    """How long a follower waits after a fetch that failed (`replica.fetch.backoff.ms`)."""
    controller_failover_ms: float
    """The longest time until a new controller is active.

    KRaft: the fetch timeout, an election of up to twice its timeout, and one backoff.
    """
    consumers: int = 0
    """Members of the consumer group; 0: no group."""
    commits: Commit = "after"
    """When a member commits: before processing, after it, in one transaction with its output, or
    when its client does by itself."""
    commit_every_records: int = 500
    """About how many records a member processes per commit."""
    asynchronous_commits: bool = False
    """`True`: a member goes on before the coordinator has answered its commit."""
    commit_on_revocation: bool = True
    """`True`: a member commits what it has processed before its partitions are revoked."""
    skips_failed_records: bool = False
    """`True`: a member that fails to process a record goes on with the next batch."""
    stores_offsets_itself: bool = True
    """Whether a client that commits by itself commits what it has handed out, processed or not."""
    auto_offset_reset: AutoOffsetReset = "earliest"
    """Where a member begins in a partition without a committed offset."""
    copy_workload: bool = False
    """Members process a record by copying it to an output topic with the same settings."""
    fault: FaultEffects

    def with_acks_all(self) -> Circumstances:
        """Return the circumstances of the same cell with acks=all.

        What consumers received is on as many in-sync replicas as what acks=all acknowledges.
        """
        return self.model_copy(update={"acks": "all"})

    @property
    def expires(self) -> bool:
        """Whether retention may delete records during the trial."""
        return Retention(self.retention_ms, self.retention_bytes).can_expire

    @property
    def may_be_fenced(self) -> bool:
        """Whether a paused node may be fenced, or removed from the ISR."""
        return (
            self.fault.nodes_paused > 0
            and self.fault.pause_ms + self.heartbeat_interval_ms
            >= min(self.session_timeout_ms, self.replica_lag_ms)
        )

    @property
    def max_dead_nodes(self) -> int:
        """How many nodes may be dead at once: their process has ended, or they miss heartbeats."""
        return (
            self.fault.nodes_down
            + (self.fault.nodes_paused if self.may_be_fenced else 0)
            + self.fault.nodes_isolated
        )

    @property
    def max_failed_controllers(self) -> int:
        """How many controllers may be down, fenced or isolated at once."""
        return self.fault.controllers_failed if self.dedicated_controllers else self.max_dead_nodes

    @property
    def only_isolation(self) -> bool:
        """Whether nodes are isolated from each other while all are alive and keep their data."""
        other = (
            self.fault.nodes_down
            or self.fault.nodes_paused
            or self.fault.followers_out_of_sync
            or self.fault.corrupts_records
            or self.fault.loses_synced_data
        )
        return self.fault.nodes_isolated > 0 and not other

    @property
    def max_dead_replicas(self) -> int:
        """How many replicas of one partition may be dead at once; out of sync counts as dead."""
        return min(self.replication_factor, self.max_dead_nodes + self.fault.followers_out_of_sync)

    @property
    def required_replicas(self) -> int:
        """The smallest number of in-sync replicas that have a record when it is acknowledged.

        Brokers cap min.insync.replicas at the number of replicas (KAFKA-15583, from Kafka 3.7 on):
        one replica takes writes with acks=all although min.insync.replicas is 2.
        """
        return min(self.min_insync_replicas, self.replication_factor) if self.acks == "all" else 1

    @property
    def leadership_may_move(self) -> bool:
        """Whether a broker may stop to be the leader while requests are under way to it."""
        return self.fault.may_affect_leader or self.fault.moves_leader

    @property
    def retries_for_ms(self) -> float:
        """How long the client retries a record; infinite without a delivery timeout."""
        return self.delivery_timeout_ms or math.inf

    @property
    def may_outlive_producer_id(self) -> bool:
        """Whether a client may send a batch again after the leader has forgotten its producer.

        A leader does not forget a producer that has an open transaction.
        """
        return not self.transactional and self.retries_for_ms > self.producer_id_expiration_ms

    @property
    def may_outlive_retention(self) -> bool:
        """Whether a client may send a batch again after retention has deleted the first copy."""
        return self.retention_bytes >= 0 or 0 <= self.retention_ms < self.retries_for_ms

    @property
    def uncleanly_shut_down_replicas(self) -> int:
        """How many replicas of one partition may restart after an unclean shutdown (SIGKILL)."""
        return min(self.replication_factor, self.fault.nodes_down)

    @property
    def has_enough_clean_replicas(self) -> bool:
        """Whether an eligible leader replica survives the fault, if the cluster tracks them.

        Of the replicas that had a record when it was acknowledged, at least one shuts down cleanly
        or not at all. The controller cannot tell a crash from a power loss, so each crash counts.
        """
        return (
            self.acks == "all"
            and self.required_replicas > 1
            and self.uncleanly_shut_down_replicas < self.required_replicas
            and self.fault.parts == 1
            and not self.fault.loses_synced_data
            and not self.fault.corrupts_records
        )

    @property
    def may_give_up_records(self) -> bool:
        """Whether the client may give up a record during the fault and continue with later ones."""
        return self.retries < UNLIMITED_RETRIES or self.may_time_out_records

    @property
    def may_time_out_records(self) -> bool:
        """Whether the fault may last for longer than the client's delivery timeout."""
        return 0 < self.delivery_timeout_ms <= self.fault.heals_within_ms

    @property
    def may_append_late(self) -> bool:
        """Whether a request that the client gave up can still be appended.

        Such a request waits in the network, or in the buffers of a paused node.
        """
        return (
            max(self.fault.pause_ms, self.fault.requests_held_ms) > self.socket_timeout_ms
            and self.may_give_up_records
        )

    @property
    def may_elect_controller(self) -> bool:
        """Whether the fault may affect the active controller."""
        return self.fault.controllers_failed > 0 or not self.dedicated_controllers

    @property
    def waits_for_followers(self) -> bool:
        """Whether a record is acknowledged only once followers in the ISR have it."""
        return self.acks == "all" and self.replication_factor > 1

    @property
    def failover_ms(self) -> float:
        """How long a failover may take at the longest.

        If the failed node may be the active controller, another one is elected first. The
        controller checks sessions eight times per session timeout, so it fences a node after up to
        9/8 of it; a new controller restarts all sessions. A record that waits for followers may
        wait for one that fetched from the new leader too early, and fetches again after its
        backoff. The client looks up the new leader and needs a retry. If its connection hangs
        instead of breaking, it also needs its request timeout (checked once a second) and a new
        connection.
        """
        hanging_connection = (
            self.socket_timeout_ms + 1000 + self.connection_setup_timeout_ms
            if self.fault.nodes_down == 0
            else 0
        )
        return (
            (self.controller_failover_ms if self.may_elect_controller else 0)
            + self.session_timeout_ms * 9 / 8
            + hanging_connection
            + self.leader_lookup_ms
            + (self.replica_fetch_backoff_ms if self.waits_for_followers else 0)
            + self.retry_backoff_max_ms
        )


def has_group(circumstances: Circumstances) -> bool:
    """Return whether a consumer group reads the topic."""
    return circumstances.consumers > 0


def circumstances_of(spec: TrialSpec) -> Circumstances:
    """Return the circumstances of a planned trial: its settings over the defaults."""
    topology = topology_of(spec)
    choice = client_choice(spec)
    client = choice.producer_settings(spec.producer)
    timeout_ms = choice.request_timeout_ms(client)
    node, members = spec.cluster.settings(), spec.workload.of_members or GroupMembers()
    retention = resolve_retention(spec.topic, node)
    known = all(leaf.kind in FAULTS for leaf in spec.fault.leaves())
    return Circumstances(
        client=spec.client,
        **_of_cluster(spec.cluster),
        **_of_topic(spec.topic, node),
        retention_ms=retention.ms,
        retention_bytes=retention.bytes,
        **_of_nodes(node),
        **_of_client(client, choice.adapter),
        socket_timeout_ms=timeout_ms,
        nodes=spec.cluster.nodes,
        controllers=spec.cluster.controllers or spec.cluster.nodes,
        dedicated_controllers=spec.cluster.controllers > 0,
        partitions=spec.partitions,
        replication_factor=spec.replication_factor,
        consumers=spec.workload.members,
        commits=spec.workload.commits,
        commit_every_records=members.commit_every_records,
        asynchronous_commits=members.asynchronous_commits,
        commit_on_revocation=members.commit_on_revocation,
        skips_failed_records=members.fail_every > 0 and members.after_failure == "continue",
        stores_offsets_itself=is_true(spec.consumer.get(AUTO_OFFSET_STORE, "true")),
        auto_offset_reset=spec.workload.auto_offset_reset,
        copy_workload=spec.workload.copies is not None,
        # A kind that is not registered may do anything.
        fault=effects_of(spec.fault, topology)
        if known
        else FaultEffects(kind=spec.fault.kind, known=False, may_affect_leader=True),
    )


def topology_of(spec: TrialSpec) -> Topology:
    """Return the topology that a planned trial's fault finds."""
    return Topology.of_trial(
        spec.cluster,
        spec.workload,
        partitions=spec.partitions,
        replication_factor=spec.replication_factor,
        client=spec.client,
        consumer=spec.consumer,
    )


def _of_cluster(cluster: ClusterNeed) -> dict[str, str | int]:
    """Return the version and the feature levels; a version without a feature has level 0 of it.

    Those of an external cluster may be unknown.
    """
    known: dict[str, str | int] = {
        "broker_settings_known": cluster.traits.planned or bool(cluster.broker)
    }
    if not cluster.traits.planned and not cluster.features:
        return known
    return known | {
        "kafka_version": cluster.kafka_version,
        "transaction_version": cluster.features.get("transaction.version", 0),
        "eligible_leader_replicas": cluster.features.get("eligible.leader.replicas.version", 0),
    }


def _of_client(client: Mapping[str, str], adapter: Adapter | None) -> dict[str, str | float | bool]:
    return {
        "acks": "all" if client["acks"] == "-1" else client["acks"],
        "transactional": bool(client.get("transactional.id")),
        "retries": client["retries"],
        "max_in_flight": client["max.in.flight.requests.per.connection"],
        "delivery_timeout_ms": client["delivery.timeout.ms"],
        "connection_setup_timeout_ms": client["socket.connection.setup.timeout.ms"],
        "retry_backoff_max_ms": client["retry.backoff.max.ms"],
        "leader_lookup_ms": max(
            _leader_lookup_ms(client.get(_REFRESH)), adapter.leader_lookup_ms if adapter else 0
        ),
        "idempotent": is_true(client["enable.idempotence"]),
    }


def _leader_lookup_ms(refresh_ms: str | None) -> float:
    """Return how long librdkafka may take to look up a leader whose broker is down.

    Its timer is `rd_kafka_topic_scan_all`. The Java client requests metadata at once, and has no
    such property.
    """
    if refresh_ms is None:
        return 0.0
    interval_ms = float(refresh_ms)
    return 2 * (min(_SCAN_MS, interval_ms) if interval_ms > 0 else _SCAN_MS)


def _of_topic(topic: Mapping[str, str], node: Mapping[str, str]) -> dict[str, str | bool]:
    """Return the topic's effective settings: its own setting wins over its brokers'.

    Source: https://kafka.apache.org/documentation/#topicconfigs.
    """
    return {
        "min_insync_replicas": topic.get("min.insync.replicas") or node["min.insync.replicas"],
        "unclean_election": (
            topic.get("unclean.leader.election.enable") or node["unclean.leader.election.enable"]
        ).lower()
        == "true",
        "flush_messages": topic.get("flush.messages") or node["log.flush.interval.messages"],
        "compacted": "compact"
        in (topic.get("cleanup.policy") or node.get("log.cleanup.policy", "delete")),
    }


def _of_nodes(node: Mapping[str, str]) -> dict[str, str | float]:
    return {
        "session_timeout_ms": broker_session_timeout_ms(node),
        "heartbeat_interval_ms": broker_heartbeat_interval_ms(node),
        "producer_id_expiration_ms": node.get(
            "producer.id.expiration.ms", _DEFAULT_PRODUCER_ID_EXPIRATION_MS
        ),
        "replica_lag_ms": node["replica.lag.time.max.ms"],
        "replica_fetch_backoff_ms": node["replica.fetch.backoff.ms"],
        "controller_failover_ms": _controller_failover_ms(node),
    }


def _controller_failover_ms(node: Mapping[str, str]) -> float:
    """Return the longest time without an active controller.

    With ZooKeeper, the session of the old controller must expire, which ZooKeeper checks once per
    tick; the first broker that asks becomes the next controller.
    """
    if "zookeeper.session.timeout.ms" in node:
        return broker_session_timeout_ms(node) + TICK_MS
    election = float(node["controller.quorum.election.timeout.ms"]) * 2 + float(
        node["controller.quorum.election.backoff.max.ms"]
    )
    return float(node["controller.quorum.fetch.timeout.ms"]) + election
