"""The settings that are checked: of brokers, topic, producer and consumer.

What is not given has the default of its version, not that of ackbench's own experiments.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.planning.axes import SET_BY_ACKBENCH, Scope
from ackbench.experiments.planning.clients.rules import rules_of
from ackbench.experiments.planning.properties import (
    KafkaProperties,
    defaults_of,
    known_versions,
    nearest_properties,
)
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.infra.kafka.versions import supports_zookeeper

LATEST: Final = known_versions()[-1]
DEFAULT_NODES: Final = 3
_ZOOKEEPER: Final = "zookeeper."
_ZOOKEEPER_CONNECT: Final = "zookeeper.connect"
OF_BROKER: Final = {
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "cleanup.policy": "log.cleanup.policy",
    "flush.messages": "log.flush.interval.messages",
}
"""Properties of a topic that decide about guarantees, and the brokers' names of their defaults."""
_OF_ONE_NODE: Final = SET_BY_ACKBENCH[Scope.BROKER]
"""Properties of one node, which decide nothing for the cluster."""


class Configuration(Frozen):
    """Settings to check; only what was given, by canonical names."""

    kafka_version: str = LATEST
    client: ClientKind = "java"
    nodes: int = DEFAULT_NODES
    replication_factor: int | None = None
    """`None`: the brokers' `default.replication.factor`."""
    partitions: int = 1
    broker: dict[str, str] = Field(default_factory=dict)
    topic: dict[str, str] = Field(default_factory=dict)
    producer: dict[str, str] = Field(default_factory=dict)
    consumer: dict[str, str] | None = None
    """`None`: no consumer group is checked."""
    controllers: int | None = None
    """Nodes that are only controllers; `None`: three, unless brokers are controllers too."""
    combined: bool | None = None
    """Whether brokers are controllers too; `None`: `process.roles` says it."""
    features: dict[str, int] = Field(default_factory=dict)
    """Levels that differ from those of a new cluster of the version."""
    warnings: tuple[str, ...] = ()
    """What was left out or assumed, one line each."""

    @property
    def kafka(self) -> KafkaProperties:
        """The definitions of the version, or of the nearest one that is known."""
        return nearest_properties(self.kafka_version)

    @property
    def zookeepers(self) -> int:
        """How many ZooKeeper servers the brokers have; 0: the cluster is one of KRaft."""
        servers = self.broker.get(_ZOOKEEPER_CONNECT, "").partition("/")[0].split(",")
        if "process.roles" in self.broker or not supports_zookeeper(self.kafka_version):
            return 0
        return sum(bool(server.strip()) for server in servers)

    @property
    def replicas(self) -> int:
        """The replication factor of the topic, given or by default."""
        given = self.replication_factor or self.effective_broker()["default.replication.factor"]
        return min(int(given), self.nodes)

    @property
    def has_combined_nodes(self) -> bool:
        """Whether brokers are controllers too."""
        if self.combined is not None:
            return self.combined
        return "controller" in self.broker.get("process.roles", "")

    def effective_broker(self) -> dict[str, str]:
        """Return the properties that all brokers share, defaults included."""
        effective = {**defaults_of(self.kafka.broker), **self.broker}
        has_zookeepers = self.zookeepers > 0
        return {
            name: value
            for name, value in effective.items()
            if name not in _OF_ONE_NODE and (has_zookeepers or not name.startswith(_ZOOKEEPER))
        }

    def effective_topic(self) -> dict[str, str]:
        """Return the properties of the topic that decide about guarantees.

        Its own, and the brokers' values of those that it does not set.
        """
        broker = self.effective_broker()
        inherited = {name: broker.get(of_broker, "") for name, of_broker in OF_BROKER.items()}
        return {**inherited, **self.topic}

    def effective_producer(self) -> dict[str, str]:
        """Return the properties of the producer that affect correctness, defaults included."""
        return ClientChoice(kind=self.client, defaults=True).producer_settings(self.producer)

    def effective_consumer(self) -> dict[str, str]:
        """Return the properties of the consumer that affect correctness, defaults included."""
        choice = ClientChoice(kind=self.client, defaults=True)
        return choice.consumer_settings(self.consumer or {})

    def effective_features(self) -> dict[str, int]:
        """Return the levels of the cluster's features."""
        usual = {feature.name: feature.usual for feature in self.kafka.features}
        return {**usual, **self.features}

    def refusal(self) -> str | None:
        """Return the client's reason if it refuses the producer's settings, else `None`."""
        return _refusal(
            self.client, self.kafka_version, frozenset(self.effective_producer().items())
        )


@cache
def _refusal(
    client: ClientKind, kafka_version: str, producer: frozenset[tuple[str, str]]
) -> str | None:
    return rules_of(ClientChoice(kind=client), kafka_version).refusal(dict(producer))


class ReportedCluster(Frozen):
    """What a running cluster reports of itself and of a topic."""

    servers: str
    """Its addresses, as they were given."""
    nodes: int
    """Brokers."""
    kafka_version: str | None
    """The release of its software, as one of `known_versions`; `None`: not one of these."""
    broker: dict[str, str]
    features: dict[str, int]
    """Levels of the features that the contract asks for."""
    topic: dict[str, str]
    """Settings in effect; empty: no topic was asked for."""
    replication_factor: int | None
    """Of the topic; `None`: no topic was asked for."""
    partitions: int
