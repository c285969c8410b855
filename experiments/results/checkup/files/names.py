"""Names of properties: which scope knows one, and how images and products write it.

The names are those of Kafka's own definitions and of librdkafka's table, of all known versions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from ackbench.experiments.planning.clients.rules import librdkafka_rules
from ackbench.experiments.planning.properties import kafka_properties, known_versions
from ackbench.experiments.planning.properties.protected import loads_code
from ackbench.experiments.results.checkup.files.found import CLIENTS, SCOPES, Scope
from ackbench.infra.kafka.secrets import is_security_property

CONNECTION: Final = ("bootstrap.servers", "metadata.broker.list", "client.id", "group.id")
PRODUCTS: Final[Mapping[str, tuple[str, ...]]] = {
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
    "Kafka Streams": (
        "application.id",
        "application.server",
        "state.dir",
        "num.stream.threads",
        "num.standby.replicas",
        "processing.guarantee",
        "commit.interval.ms",
        "cache.max.bytes.buffering",
        "statestore.cache.max.bytes",
        "default.*.serde*",
        "topology.optimization",
        "default.deserialization.exception.handler",
        "default.production.exception.handler",
        "default.timestamp.extractor",
    ),
    "Spring's serializers": ("spring.json.*", "spring.deserializer.*"),
}
"""Names that products add to property files, which Kafka ignores and which decide nothing here.

Confluent's are those of its brokers, and of the configurations of its serializers and of their
client in github.com/confluentinc/schema-registry (AbstractKafkaSchemaSerDeConfig and its
subclasses, SchemaRegistryClientConfig), but `max.retries` and `retries.*wait.ms`: these may also be
meant for Kafka's producer.
"""
REMOVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("host.name", "port", "advertised.host.name", "advertised.port"), "3.0"),
    **dict.fromkeys(("quota.producer.default", "quota.consumer.default"), "3.0"),
}
"""Properties of brokers and topics that no known version has, and what removed them.

The notes on upgrading to 3.0 (kafka.apache.org/documentation/#upgrade_300_notable).
"""
_ENVIRONMENT: Final = "KAFKA_"
_BITNAMI: Final = "KAFKA_CFG_"
_OF_IMAGE: Final = (
    "KAFKA_HEAP_OPTS",
    "KAFKA_OPTS",
    "KAFKA_JVM_*",
    "KAFKA_GC_*",
    "KAFKA_JMX_*",
    "KAFKA_LOG4J_*",
    "KAFKA_TOOLS_*",
    "KAFKA_CREATE_TOPICS*",
    "KAFKA_CLUSTER_ID",
    "KAFKA_KRAFT_*",
    "KAFKA_ENABLE_KRAFT",
    "KAFKA_DEBUG",
    "KAFKA_HOME",
    "KAFKA_VERSION",
    "KAFKA_USER",
    "KAFKA_PORT",
    "KAFKA_CLIENT_*",
    "KAFKA_INTER_BROKER_USER",
    "KAFKA_INTER_BROKER_PASSWORD",
    "KAFKA_CONTROLLER_USER",
    "KAFKA_CONTROLLER_PASSWORD",
    "KAFKA_CERTIFICATE_PASSWORD",
    "KAFKA_TLS_*",
    "KAFKA_ZOOKEEPER_USER",
    "KAFKA_ZOOKEEPER_PASSWORD",
    "KAFKA_ZOOKEEPER_PROTOCOL",
    "KAFKA_ZOOKEEPER_TLS_*",
    "KAFKA_SKIP_*",
    "KAFKA_INIT_*",
    "KAFKA_EXTRA_*",
    "KAFKA_OVERRIDE_*",
    "KAFKA_MOUNTED_CONF_DIR",
    "KAFKA_VOLUME_DIR",
    "KAFKA_DATA_DIR",
    "KAFKA_BASE_DIR",
    "KAFKA_CONF_*",
    "KAFKA_DAEMON_*",
    "KAFKA_RUN_CONTROLLER",
    "KAFKA_SUPER_USERS_COUNT",
    "KAFKA_METRIC_REPORTERS",
    "KAFKA_REST_*",
)
"""Variables of the images of Apache, Confluent, Bitnami and wurstmeister that are no property."""


@cache
def names_of(scope: Scope) -> frozenset[str]:
    """Return the names that any known version of Kafka or librdkafka has in a scope."""
    tables = [getattr(kafka_properties(version), scope) for version in known_versions()]
    names = {one.name for table in tables for one in table}
    if scope in CLIENTS:
        rules = librdkafka_rules()
        known = rules.producer if scope == "producer" else rules.consumer
        names |= set(known)
        names |= {alias for alias, name in rules.canonical_names.items() if name in known}
    return frozenset(names)


def product_of(name: str) -> str | None:
    """Return the product that adds a name, `None`: it is meant for Kafka."""
    return next((one for one, names in PRODUCTS.items() if matches(name, names)), None)


def matches(name: str, patterns: Collection[str]) -> bool:
    """Return whether a name matches one of the patterns of fnmatch(3)."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def decides_nothing(name: str) -> bool:
    """Return whether a property is an address, a name, security or a class of an application."""
    return name in CONNECTION or is_security_property(name) or loads_code(name)


def scopes_of_names(names: Iterable[str], hint: str) -> tuple[Scope, ...]:
    """Return the scopes that a file with these names is about.

    Args:
        names: of its properties.
        hint: the file's name, which decides where the names do not.

    Returns:
        `broker`, `topic`, or one or both kinds of clients. A file with names that only producers
        and names that only consumers have is one of both.
    """
    names = set(names)
    only: dict[Scope, int] = {
        scope: len(
            names
            & names_of(scope)
            - frozenset().union(*(names_of(one) for one in SCOPES if one != scope))
        )
        for scope in SCOPES
    }
    known = {scope: len(names & names_of(scope)) for scope in SCOPES}
    clients: tuple[Scope, ...] = tuple(scope for scope in CLIENTS if only[scope])
    if "group.id" in names and "consumer" not in clients and not only["producer"]:
        clients = (*clients, "consumer")
    server: Scope = "broker" if known["broker"] >= known["topic"] else "topic"
    if only["broker"] > sum(only[one] for one in clients):
        return ("broker",)
    if clients:
        return clients
    for scope in SCOPES:
        if known[scope] and (scope in hint.lower() or (scope, "server") == ("broker", hint[:6])):
            return (scope,)
    most = max(known.values())
    if not most:
        return ()
    if known[server] == most:
        return (server,)
    return CLIENTS if known["producer"] == known["consumer"] else ("producer",)


def property_of_variable(variable: str) -> str | None:
    """Return the property that an image makes of a variable; `None`: the variable is no property.

    Bitnami's `KAFKA_CFG_` has `.` for each `_`. With Apache's `KAFKA_`, two stand for `_` and three
    for `-`, with Confluent's the other way round; no property of Kafka has either (the images' own
    documentation).
    """
    if variable.startswith(_BITNAMI):
        return variable.removeprefix(_BITNAMI).lower().replace("_", ".")
    if not variable.startswith(_ENVIRONMENT):
        return None
    name = dotted(variable.removeprefix(_ENVIRONMENT))
    return name if name in names_of("broker") or not matches(variable, _OF_IMAGE) else None


def variable_of(prefix: str, name: str) -> str:
    """Return the variable that an image makes a property of: `property_of_variable` reversed."""
    return prefix + name.upper().replace(".", "_")


def dotted(name: str) -> str:
    """Return a name of an environment variable, without its prefix, as that of a property."""
    marks = {1: ".", 2: "_", 3: "-"}
    return re.sub(r"_+", lambda run: marks.get(len(run[0]), run[0]), name.lower())
