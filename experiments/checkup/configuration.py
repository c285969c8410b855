"""The settings that are checked: property files of brokers, topic, producer and consumer.

A file may have the names of Kafka's Java clients or of librdkafka. What it does not set has the
default of its version, not that of ackbench's own experiments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import javaproperties
from pydantic import Field

from experiments.clients.settings import java, librdkafka
from experiments.clients.settings.kinds import ACKS, ClientChoice
from experiments.ledger.record import Frozen
from experiments.messages.phrases import did_you_mean, format_list
from experiments.planning.client_rules import (
    ClientRules,
    acks_problem,
    java_rules,
    librdkafka_rules,
)
from experiments.planning.properties import KafkaProperties, kafka_properties, known_versions
from experiments.results.changed_settings import defaults_of
from experiments.sweep.plan import ClientKind
from infra.errors import InputError
from infra.kafka.secrets import is_security_property

LATEST: Final = known_versions()[-1]
MAX_FILE_BYTES: Final = 1_000_000
DEFAULT_NODES: Final = 3
_CONNECTION: Final = ("bootstrap.servers", "metadata.broker.list", "client.id", "group.id")
_ZOOKEEPER: Final = "zookeeper."
OF_BROKER: Final = {
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "cleanup.policy": "log.cleanup.policy",
    "flush.messages": "log.flush.interval.messages",
}
"""Properties of a topic that decide about guarantees, and the brokers' names of their defaults."""
_OF_ONE_NODE: Final = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)
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
    features: dict[str, int] = Field(default_factory=dict)
    """Levels that differ from those of a new cluster of the version."""

    @property
    def kafka(self) -> KafkaProperties:
        """The definitions of the version."""
        return kafka_properties(self.kafka_version)

    @property
    def replicas(self) -> int:
        """The replication factor of the topic, given or by default."""
        given = self.replication_factor or self.effective_broker()["default.replication.factor"]
        return min(int(given), self.nodes)

    @property
    def has_combined_nodes(self) -> bool:
        """Whether brokers are controllers too (`process.roles`)."""
        return "controller" in self.broker.get("process.roles", "")

    def effective_broker(self) -> dict[str, str]:
        """Return the properties that all brokers share, defaults included."""
        effective = {**defaults_of(self.kafka.broker), **self.broker}
        return {
            name: value
            for name, value in effective.items()
            # The clusters that are checked have no ZooKeeper.
            if name not in _OF_ONE_NODE and not name.startswith(_ZOOKEEPER)
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


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties of a file, as `java.util.Properties` and librdkafka read it.

    Raises:
        InputError: it cannot be read, is no property file, or is too large; one line.
    """
    try:
        if not path.is_file():
            raise InputError(f"{path} is no file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"{path} has {size:,} bytes; allowed: {MAX_FILE_BYTES:,}")
        return dict(javaproperties.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (javaproperties.InvalidUEscapeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no property file: {error}") from error


def configuration_of(
    files: Mapping[str, Path],
    *,
    kafka_version: str = LATEST,
    client: ClientKind | None = None,
    nodes: int = DEFAULT_NODES,
    replication_factor: int | None = None,
    partitions: int = 1,
    cluster: ReportedCluster | None = None,
) -> Configuration:
    """Return the settings of the files.

    Args:
        files: by scope: `broker`, `topic`, `producer`, `consumer`.
        kafka_version: of brokers and Java's clients.
        client: whose names the files have; `None`: the one that knows all names.
        nodes: brokers.
        replication_factor: of the topic; `None`: the brokers' default.
        partitions: of the topic.
        cluster: a running cluster; replaces brokers, features, and if it has a topic, the topic.

    Raises:
        InputError: a file cannot be read, a property is unknown or has a value that is not allowed,
            the client refuses the producer's settings, or the topic has more replicas than brokers.
    """
    if kafka_version not in known_versions():
        raise InputError(
            f"Kafka {kafka_version} is unknown here; allowed: {format_list(known_versions(), 'or')}"
        )
    given = {scope: _relevant(read_properties(path)) for scope, path in files.items()}
    if cluster:
        given["broker"] = cluster.broker
        nodes, partitions = cluster.nodes, cluster.partitions
        replication_factor = cluster.replication_factor or replication_factor
        if cluster.topic:
            given["topic"] = _deciding(cluster.topic)
    rules = _rules(given, kafka_version, client)
    kafka = kafka_properties(kafka_version)
    for scope, definitions in (("broker", kafka.broker), ("topic", kafka.topic)):
        known = {one.name: one for one in definitions}
        for name, value in given.get(scope, {}).items():
            _require_known(scope, name, known)
            problem = known[name].allowed_instead_of(value) if name in known else None
            if problem:
                raise InputError(f"{scope} property {name} is {value}; allowed: {problem}")
    kind: ClientKind = "librdkafka" if rules.name == "librdkafka" else "java"
    configuration = Configuration(
        kafka_version=kafka_version,
        client=kind,
        nodes=nodes,
        replication_factor=replication_factor,
        partitions=partitions,
        broker=given.get("broker", {}),
        topic=given.get("topic", {}),
        producer=_of_client(kind, given.get("producer", {})),
        consumer=_of_client(kind, given["consumer"]) if "consumer" in given else None,
        features=_known_levels(cluster.features, kafka) if cluster else {},
    )
    _require_possible(configuration)
    return configuration


def _deciding(topic: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in effect of a topic that decide about guarantees."""
    names = {*OF_BROKER, "retention.ms", "retention.bytes"}
    return {name: value for name, value in topic.items() if name in names}


def _known_levels(features: Mapping[str, int], kafka: KafkaProperties) -> dict[str, int]:
    known = {feature.name for feature in kafka.features}
    return {name: level for name, level in features.items() if name in known}


def _relevant(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without addresses, names, security and classes of the application."""
    return {
        name: value.strip()
        for name, value in properties.items()
        if name not in _CONNECTION
        and not is_security_property(name)
        and not name.endswith((".serializer", ".deserializer", ".classes", ".class"))
    }


def _rules(
    given: Mapping[str, Mapping[str, str]], kafka_version: str, client: ClientKind | None
) -> ClientRules:
    """Return the rules of the client whose names the files have, after checking them."""
    candidates = {"java": lambda: java_rules(kafka_version), "librdkafka": librdkafka_rules}
    problems = []
    for kind, rules_of in candidates.items():
        if client not in {None, kind}:
            continue
        rules = rules_of()
        problem = _client_problem(given, rules)
        if problem is None:
            return rules
        problems.append(problem)
    raise InputError(problems[0])


def _client_problem(given: Mapping[str, Mapping[str, str]], rules: ClientRules) -> str | None:
    for scope, known in (("producer", rules.producer), ("consumer", rules.consumer)):
        for name, value in given.get(scope, {}).items():
            is_java = rules.name != "librdkafka"
            canonical = name if is_java else librdkafka.CANONICAL_NAMES.get(name, name)
            if canonical not in known:
                return f"unknown {scope} property {name}{did_you_mean(name, known)}"
            problem = rules.value_problem(canonical, value) if value else None
            if name == ACKS:
                problem = acks_problem(value)
            if problem:
                return f"{scope} property {name} is {value}{problem}"
    return None


def _of_client(kind: ClientKind, properties: Mapping[str, str]) -> dict[str, str]:
    library = java if kind == "java" else librdkafka
    return dict(library.canonical_names(properties))


def _require_known(scope: str, name: str, known: Collection[str]) -> None:
    """Refuse an unknown property; those with a listener's or a plugin's prefix are left alone."""
    if name not in known and "." in name and not name.startswith(("listener.", "config.providers")):
        raise InputError(f"unknown {scope} property {name}{did_you_mean(name, known)}")


def _require_possible(configuration: Configuration) -> None:
    if (configuration.replication_factor or 0) > configuration.nodes:
        raise InputError(
            f"replication factor {configuration.replication_factor} with "
            f"{configuration.nodes} brokers; allowed: at most one replica per broker"
        )
    refusal = java.refusal(configuration.effective_producer())
    if refusal:
        raise InputError(f"the producer refuses these settings: {refusal}")
