"""The settings that are checked: property files of brokers, topic, producer and consumer.

A file may have the names of Kafka's Java clients or of librdkafka. What it does not set has the
default of its version, not that of ackbench's own experiments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

import javaproperties
import yaml
from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.phrases import did_you_mean, format_list
from ackbench.experiments.planning.axes import SET_BY_ACKBENCH, Scope
from ackbench.experiments.planning.client_rules import (
    ClientRules,
    acks_problem,
    rules_of,
)
from ackbench.experiments.planning.properties import (
    KafkaProperties,
    kafka_properties,
    known_versions,
    nearest_properties,
    resolve_version,
)
from ackbench.experiments.planning.properties.protected import loads_code
from ackbench.experiments.results.changed_settings import defaults_of
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.trial.clients.settings.kinds import ACKS, ClientChoice, library_of
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.secrets import is_security_property
from ackbench.infra.kafka.versions import parse_version, supports_zookeeper

LATEST: Final = known_versions()[-1]
MAX_FILE_BYTES: Final = 1_000_000
DEFAULT_NODES: Final = 3
_CONNECTION: Final = ("bootstrap.servers", "metadata.broker.list", "client.id", "group.id")
_ZOOKEEPER: Final = "zookeeper."
_ZOOKEEPER_CONNECT: Final = "zookeeper.connect"
_ENVIRONMENT: Final = "KAFKA_"
"""How the images of Kafka name a property as a variable: KAFKA_MIN_INSYNC_REPLICAS."""
_PRODUCTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Confluent": (
        "confluent.*",
        "schema.registry.*",
        "schema.format",
        "schema.reflection",
        "auto.register.schemas",
        "normalize.schemas",
        "propagate.schema.tags",
        "use.schema.*",
        "use.latest.*",
        "use.apache.http.client",
        "id.compatibility.strict",
        "latest.compatibility.strict",
        "latest.cache.*",
        "missing.*",
        "max.schemas.per.subject",
        "key.schema.id.*",
        "value.schema.id.*",
        "key.subject.name.strategy",
        "value.subject.name.strategy",
        "reference.subject.name.strategy",
        "reference.lookup.only",
        "context.name.strategy",
        "execution.environment",
        "rule.*",
        "validation.rules.*",
        "request.header.*",
        "basic.auth.*",
        "bearer.auth.*",
        "http.*",
        "proxy.*",
        "url.randomize",
        "avro.*",
        "specific.avro.*",
        "specific.protobuf.*",
        "derive.type",
        "skip.known.types",
        "json.*",
        "type.property",
        "wrapped.*",
        "composite.*",
    ),
    "Apicurio": ("apicurio.*",),
    "Cruise Control": ("cruise.control.*",),
    "Strimzi": ("strimzi.*",),
}
"""Names that products add to property files, which Kafka ignores and which decide nothing here.

Confluent's are those of its brokers, and of the configurations of its serializers and of their
client in github.com/confluentinc/schema-registry (AbstractKafkaSchemaSerDeConfig and its
subclasses, SchemaRegistryClientConfig), but `max.retries` and `retries.*wait.ms`: these may also be
meant for Kafka's producer.
"""
_MOST_EVENTS: Final = 10_000
"""Parts of a file that are read to see whether it is YAML."""
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
        """Whether brokers are controllers too (`process.roles`)."""
        return "controller" in self.broker.get("process.roles", "")

    def effective_broker(self) -> dict[str, str]:
        """Return the properties that all brokers share, defaults included."""
        effective = {**defaults_of(self.kafka.broker), **self.broker}
        return {
            name: value
            for name, value in effective.items()
            if name not in _OF_ONE_NODE and (self.zookeepers or not name.startswith(_ZOOKEEPER))
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
        text = path.read_text(encoding="utf-8")
        if _is_yaml(text):
            raise InputError(
                f"{path} is YAML or JSON, which is not read: write the settings into a property "
                "file, one per line, as in min.insync.replicas=2"
            )
        return dict(javaproperties.loads(text))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (javaproperties.InvalidUEscapeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no property file: {error}") from error


def _is_yaml(text: str) -> bool:
    """Return whether a text has YAML's or JSON's structure, which property files do not have.

    Lines such as `acks: all` are both, with the same meaning. Nothing is constructed: aliases are
    not resolved.
    """
    try:
        depth = 0
        for event in islice(yaml.parse(text, Loader=yaml.SafeLoader), _MOST_EVENTS):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > 1 or event.flow_style or isinstance(event, yaml.SequenceStartEvent):
                    return True
            block = isinstance(event, yaml.ScalarEvent) and event.style in {"|", ">"}
            if block or (isinstance(event, yaml.DocumentStartEvent) and event.explicit):
                return True
    except (yaml.YAMLError, RecursionError):
        return False
    return False


def configuration_of(
    files: Mapping[str, Path],
    *,
    kafka_version: str | None = None,
    client: ClientKind | None = None,
    nodes: int = DEFAULT_NODES,
    replication_factor: int | None = None,
    partitions: int = 1,
    cluster: ReportedCluster | None = None,
) -> Configuration:
    """Return the settings of the files.

    Args:
        files: by scope: `broker`, `topic`, `producer`, `consumer`.
        kafka_version: of brokers and Java's clients; `None`: the newest that knows all names of
            the files of brokers and topic.
        client: whose names the files have; `None`: the one that knows all names.
        nodes: brokers.
        replication_factor: of the topic; `None`: the brokers' default.
        partitions: of the topic.
        cluster: a running cluster; replaces brokers, features, and if it has a topic, the topic.

    Raises:
        InputError: a file cannot be read, a property is unknown or has a value that is not allowed,
            the client refuses the producer's settings, or the topic has more replicas than brokers.
    """
    warnings: list[str] = []
    given = {
        scope: _relevant(read_properties(path), path, warnings) for scope, path in files.items()
    }
    kafka_version = resolve_version(kafka_version or _version_of(given, files, warnings))
    kafka = nearest_properties(kafka_version)
    if kafka.version != kafka_version:
        warnings.append(f"names and defaults are those of Kafka {kafka.version}")
    if cluster:
        given["broker"] = cluster.broker
        nodes, partitions = cluster.nodes, cluster.partitions
        replication_factor = cluster.replication_factor or replication_factor
        if cluster.topic:
            given["topic"] = _deciding(cluster.topic)
    rules = _rules(given, kafka_version, client)
    for scope, definitions in (("broker", kafka.broker), ("topic", kafka.topic)):
        known = {one.name: one for one in definitions}
        for name, value in given.get(scope, {}).items():
            _require_known(scope, name, known, kafka_version)
            problem = known[name].allowed_instead_of(value) if name in known else None
            if problem:
                raise InputError(f"{scope} property {name} is {value}; allowed: {problem}")
    kind = rules.name
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
        warnings=tuple(warnings),
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


def _relevant(properties: Mapping[str, str], path: Path, warnings: list[str]) -> dict[str, str]:
    """Return the properties without addresses, names, security and classes of the application.

    Those of a product are left out too, with a warning.
    """
    products: dict[str, list[str]] = {}
    for name in properties:
        product = next((one for one, names in _PRODUCTS.items() if _matches(name, names)), None)
        if product:
            products.setdefault(product, []).append(name)
    warnings += [
        f"{path.name}: {format_list(names)} of {product} left out"
        for product, names in products.items()
    ]
    left_out = {name for names in products.values() for name in names}
    return {
        name: value.strip()
        for name, value in properties.items()
        if name not in _CONNECTION
        and name not in left_out
        and not is_security_property(name)
        and not loads_code(name)
    }


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _version_of(
    given: Mapping[str, Mapping[str, str]], files: Mapping[str, Path], warnings: list[str]
) -> str:
    """Return the newest version that knows the most names of the files of brokers and topic."""
    scopes = [scope for scope in ("broker", "topic") if given.get(scope)]

    def unknown(version: str) -> dict[str, str]:
        kafka = kafka_properties(version)
        known = {scope: {one.name for one in getattr(kafka, scope)} for scope in scopes}
        return {
            name: scope for scope in scopes for name in given[scope] if name not in known[scope]
        }

    version = max(known_versions(), key=lambda one: (-len(unknown(one)), parse_version(one)))
    removed = {
        name: scope for name, scope in unknown(LATEST).items() if name not in unknown(version)
    }
    for name, scope in islice(removed.items(), 1):
        warnings.append(
            f"{files[scope].name} is a {version.partition('.')[0]}.x file ({name}): judged by "
            f"Kafka {version}"
        )
    return version


_TRIED: Final[Sequence[ClientKind]] = ("java", "librdkafka")
"""Most names are known to both; without others the files are taken for those of Java's client."""


def _rules(
    given: Mapping[str, Mapping[str, str]], kafka_version: str, client: ClientKind | None
) -> ClientRules:
    """Return the rules of the client whose names the files have, after checking them."""
    problems = []
    for kind in _TRIED:
        if client not in {None, kind}:
            continue
        rules = rules_of(ClientChoice(kind=kind), kafka_version)
        problem = _client_problem(given, rules)
        if problem is None:
            return rules
        problems.append(problem)
    raise InputError(problems[0])


def _client_problem(given: Mapping[str, Mapping[str, str]], rules: ClientRules) -> str | None:
    for scope, known in (("producer", rules.producer), ("consumer", rules.consumer)):
        for name, value in given.get(scope, {}).items():
            canonical = rules.canonical_name(name)
            if canonical not in known:
                return f"unknown {scope} property {name}{_did_you_mean(name, known)}"
            if canonical == ACKS:
                problem = acks_problem(value)
            else:
                problem = rules.value_problem(canonical, value) if value else None
            if problem:
                return f"{scope} property {name} is {value}{problem}"
    return None


def _of_client(kind: ClientKind, properties: Mapping[str, str]) -> dict[str, str]:
    return dict(library_of(kind).canonical_names(properties))


def _require_known(scope: str, name: str, known: Collection[str], kafka_version: str) -> None:
    """Refuse an unknown property; those with a listener's or a plugin's prefix are left alone."""
    if name in known or name.startswith(("listener.", "config.providers")):
        return
    others = [
        version
        for version in known_versions()
        if any(one.name == name for one in getattr(kafka_properties(version), scope))
    ]
    if others:
        raise InputError(
            f"Kafka {kafka_version} has no {scope} property {name}, Kafka {others[-1]} has it: "
            f"--kafka-version {others[-1]}"
        )
    raise InputError(f"unknown {scope} property {name}{_did_you_mean(name, known)}")


def _did_you_mean(name: str, known: Collection[str]) -> str:
    """Return a suggestion; a name may also be that of an image's variable."""
    if name.startswith(_ENVIRONMENT):
        name = name.removeprefix(_ENVIRONMENT).lower().replace("_", ".")
    return did_you_mean(name, known)


def _require_possible(configuration: Configuration) -> None:
    if (configuration.replication_factor or 0) > configuration.nodes:
        raise InputError(
            f"replication factor {configuration.replication_factor} with "
            f"{configuration.nodes} brokers; allowed: at most one replica per broker"
        )
    refusal = configuration.refusal()
    if refusal:
        raise InputError(f"the producer refuses these settings: {refusal}")
