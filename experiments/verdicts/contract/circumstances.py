"""What a cell's promises hang on: its settings and the nature of its fault, read off a planned trial. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.clients.settings.group_members import patience_ms
from experiments.clients.settings.kinds import answer_timeout_ms, choice_of
from experiments.faults import FAULTS
from experiments.faults.composition.composite import nature_of
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.ledger.record import Frozen
from experiments.sweep.plan import Commit, FaultRequest, TrialSpec
from infra.kafka.broker_settings import heartbeat_ms, session_ms
from infra.kafka.zookeeper import TICK_MS

_HOUR_MS: Final = 3_600_000
UNLIMITED_RETRIES: Final = 2_147_483_647
_TRUE: Final = frozenset({"true", "t", "1"})
_REFRESH: Final = "topic.metadata.refresh.interval.ms"
_SCAN_MS: Final = 1000.0
"""How often librdkafka looks through its topics for a leader whose broker is down."""


class Circumstances(Frozen):
    """All that the contract asks about; properties of Kafka and librdkafka, effective ones."""

    acks: str
    """`0`, `1` or `all`."""
    idempotent: bool
    transactional: bool = False
    """Records are sent in transactions; librdkafka then takes no other settings than acks=all and enable.idempotence=true."""
    retries: int
    max_in_flight: int
    delivery_timeout_ms: float
    """0: a record is never given up."""
    socket_timeout_ms: float
    """How long the producer gives a request to be answered: librdkafka's `socket.timeout.ms`, Java's `request.timeout.ms`."""
    connection_setup_timeout_ms: float
    retry_backoff_max_ms: float
    leader_lookup_ms: float = 0
    """How much later than Kafka's own a client learns who leads: librdkafka asks once a second where its broker is down, and may pass over one answer."""
    nodes: int
    """Brokers."""
    controllers: int
    """Who elects the leaders: the brokers themselves, or as few as there are of their own; under ZooKeeper any broker may become the controller."""
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    unclean_election: bool
    flush_messages: int
    """1: every record is synced to disk before it is acknowledged."""
    compacts: bool
    retention_ms: float
    """-1: records are kept for ever."""
    retention_bytes: float
    """-1: no limit."""
    session_timeout_ms: float
    heartbeat_interval_ms: float
    replica_lag_ms: float
    controller_failover_ms: float
    """A new active controller at the latest: fetch timeout, an election of up to twice its timeout, and the backoff of a second one."""
    consumers: int = 0
    """Members of a consumer group; 0: there is none."""
    commits: Commit = "after"
    """When a member commits: before it processes, after, or in one transaction with what it produces."""
    copies: bool = False
    """To process a record is to copy it to another topic, which has the same settings."""
    fault: FaultEffects

    @property
    def expires(self) -> bool:
        """Whether records may be deleted by retention while anybody is at work with them."""
        return 0 <= self.retention_ms < _HOUR_MS or self.retention_bytes >= 0

    @property
    def fenced(self) -> bool:
        """Whether a stalled node may be taken for dead, or dropped from the ISR."""
        return self.fault.stalled > 0 and self.fault.stalls_ms + self.heartbeat_interval_ms >= min(
            self.session_timeout_ms, self.replica_lag_ms
        )

    @property
    def nodes_gone(self) -> int:
        """How many nodes may be dead at once, in Kafka's sense: their process is gone, or they miss their heartbeats."""
        return self.fault.kills + (self.fault.stalled if self.fenced else 0) + self.fault.isolated

    @property
    def only_parted(self) -> bool:
        """Whether nodes are cut off from each other, and all of them live and have their data."""
        other = (
            self.fault.kills
            or self.fault.stalled
            or self.fault.out_of_step
            or self.fault.corrupts
            or self.fault.forgets_synced
        )
        return self.fault.isolated > 0 and not other

    @property
    def gone(self) -> int:
        """How many replicas of one partition may be dead at once; out of step is dead."""
        return min(self.replication_factor, self.nodes_gone + self.fault.out_of_step)

    @property
    def needed(self) -> int:
        """On how many in-sync replicas a record is when it is acknowledged, at the least."""
        return self.min_insync_replicas if self.acks == "all" else 1

    @property
    def gives_up(self) -> bool:
        """Whether the client may give up a record while the fault lasts, and go on with later ones."""
        return (
            self.retries < UNLIMITED_RETRIES
            or 0 < self.delivery_timeout_ms <= self.fault.heals_within_ms
        )

    @property
    def late_arrivals(self) -> bool:
        """Whether a request that the client gave up can still be appended: it waits on its way, or in the buffers of a node that stands still."""
        return (
            max(self.fault.stalls_ms, self.fault.holds_ms) > self.socket_timeout_ms
            and self.gives_up
        )

    @property
    def failover_ms(self) -> float:
        """How long it may take until another replica takes records, where the struck node was also the active controller.

        A session is looked at eight times in its length, so a node is fenced after up to 9/8 of it; a new controller begins every session anew.
        The client looks for the new leader and needs a retry; if its connection stands still rather than breaks, a timeout of its own (looked at once a
        second) and a new connection.
        """
        standing = (
            self.socket_timeout_ms + 1000 + self.connection_setup_timeout_ms
            if self.fault.kills == 0
            else 0
        )
        return (
            self.controller_failover_ms
            + self.session_timeout_ms * 9 / 8
            + standing
            + self.leader_lookup_ms
            + self.retry_backoff_max_ms
        )


def circumstances_of(spec: TrialSpec) -> Circumstances:
    """Return the circumstances of a planned trial: what it asks for, over the clients' and the nodes' own defaults."""
    client = choice_of(spec).producer(spec.producer)
    node = spec.cluster.settings()
    return Circumstances(
        **_of_client(client),
        socket_timeout_ms=answer_timeout_ms(spec),
        **_of_topic(spec.topic, node),
        **_of_nodes(node),
        nodes=spec.cluster.nodes,
        controllers=spec.cluster.controllers or spec.cluster.nodes,
        partitions=spec.partitions,
        replication_factor=spec.replication_factor,
        consumers=spec.workload.members,
        commits=spec.workload.commits,
        copies=spec.workload.kind == "copy",
        fault=effects(spec.fault, shape_of(spec)),
    )


def shape_of(spec: TrialSpec) -> Topology:
    """Return what the trial's fault will find."""
    return Topology(
        others=spec.cluster.controllers + spec.cluster.zookeepers,
        zookeepers=spec.cluster.zookeepers,
        nodes=spec.cluster.nodes,
        partitions=spec.partitions,
        replication_factor=spec.replication_factor,
        transactional=spec.workload.transaction_records > 0,
        client=spec.client,
        consumers=spec.workload.members,
        copies=spec.workload.kind == "copy",
        member_patience_ms=patience_ms(spec.consumer, spec.cluster.broker),
    )


def effects(fault: FaultRequest, shape: Topology) -> FaultEffects:
    """Return what is known of a fault; of a kind that nothing is known of, that it may do anything."""
    if any(leaf.kind not in FAULTS for leaf in fault.leaves()):
        return FaultEffects(kind=fault.kind, known=False, strikes_leader=True)
    return nature_of(fault, shape)


def _of_client(client: Mapping[str, str]) -> dict[str, str | float | bool]:
    return {
        "acks": "all" if client["acks"] == "-1" else client["acks"],
        "idempotent": client["enable.idempotence"].lower() in _TRUE,
        "transactional": bool(client.get("transactional.id")),
        "retries": client["retries"],
        "max_in_flight": client["max.in.flight.requests.per.connection"],
        "delivery_timeout_ms": client["delivery.timeout.ms"],
        "connection_setup_timeout_ms": client["socket.connection.setup.timeout.ms"],
        "retry_backoff_max_ms": client["retry.backoff.max.ms"],
        "leader_lookup_ms": _leader_lookup_ms(client.get(_REFRESH)),
    }


def _leader_lookup_ms(refresh_ms: str | None) -> float:
    """Return how long librdkafka may look for a leader whose broker is down (`rd_kafka_topic_scan_all`); Java's asks at once, and has no such setting."""
    if refresh_ms is None:
        return 0.0
    every_ms = float(refresh_ms)
    return 2 * (min(_SCAN_MS, every_ms) if every_ms > 0 else _SCAN_MS)


def _of_topic(topic: Mapping[str, str], node: Mapping[str, str]) -> dict[str, str | bool]:
    """A topic's own setting counts before its nodes' (https://kafka.apache.org/documentation/#topicconfigs)."""
    return {
        "min_insync_replicas": topic.get("min.insync.replicas") or node["min.insync.replicas"],
        "unclean_election": (
            topic.get("unclean.leader.election.enable") or node["unclean.leader.election.enable"]
        ).lower()
        == "true",
        "flush_messages": topic.get("flush.messages") or node["log.flush.interval.messages"],
        "compacts": "compact"
        in (topic.get("cleanup.policy") or node.get("log.cleanup.policy", "delete")),
        "retention_ms": topic.get("retention.ms") or _node_retention_ms(node),
        "retention_bytes": topic.get("retention.bytes") or node.get("log.retention.bytes", "-1"),
    }


def _node_retention_ms(node: Mapping[str, str]) -> str:
    """The finest unit that is given wins; a week where none is."""
    units = {
        "log.retention.ms": 1,
        "log.retention.minutes": 60_000,
        "log.retention.hours": 3_600_000,
    }
    given = next(
        (int(node[name]) * unit for name, unit in units.items() if name in node), 168 * 3_600_000
    )
    return str(given)


def _of_nodes(node: Mapping[str, str]) -> dict[str, str | float]:
    return {
        "session_timeout_ms": session_ms(node),
        "heartbeat_interval_ms": heartbeat_ms(node),
        "replica_lag_ms": node["replica.lag.time.max.ms"],
        "controller_failover_ms": _controller_failover_ms(node),
    }


def _controller_failover_ms(node: Mapping[str, str]) -> float:
    """Under ZooKeeper the controller's own session must end, at whole ticks; then the first broker that asks is the next one."""
    if "zookeeper.session.timeout.ms" in node:
        return session_ms(node) + TICK_MS
    election = float(node["controller.quorum.election.timeout.ms"]) * 2 + float(
        node["controller.quorum.election.backoff.max.ms"]
    )
    return float(node["controller.quorum.fetch.timeout.ms"]) + election
