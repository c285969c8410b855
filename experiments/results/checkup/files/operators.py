"""Resources of Kubernetes: workloads, maps of files, and those of the operators of Kafka.

Strimzi: strimzi.io/docs/operators/latest/configuring; Confluent for Kubernetes:
docs.confluent.io/operator/current/co-configure-overrides.html; values of Bitnami's chart:
github.com/bitnami/charts/tree/main/bitnami/kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.results.checkup.files import products
from ackbench.experiments.results.checkup.files.applications import take_framework
from ackbench.experiments.results.checkup.files.containers import (
    is_workload,
    share_settings,
    take_workload,
)
from ackbench.experiments.results.checkup.files.found import (
    FoundFile,
    FoundNode,
    FoundTopic,
    Scope,
    Taking,
)
from ackbench.experiments.results.checkup.files.names import property_of_variable, scopes_of_names
from ackbench.experiments.results.checkup.files.properties_files import pairs_of, take_named
from ackbench.experiments.results.checkup.files.trees import (
    LineText,
    at,
    entries,
    items,
    line_of,
    mapping,
)

_STRIMZI: Final = "kafka.strimzi.io"
_CONFLUENT: Final = "platform.confluent.io"
_NOT_OF_KAFKA: Final = "resources that decide nothing here"
_CHART_NAMES: Final[Mapping[str, str]] = {
    "defaultReplicationFactor": "default.replication.factor",
    "offsetsTopicReplicationFactor": "offsets.topic.replication.factor",
    "transactionStateLogReplicationFactor": "transaction.state.log.replication.factor",
    "transactionStateLogMinIsr": "transaction.state.log.min.isr",
    "autoCreateTopicsEnable": "auto.create.topics.enable",
    "logRetentionHours": "log.retention.hours",
    "maxMessageBytes": "message.max.bytes",
    "numPartitions": "num.partitions",
    "logFlushIntervalMessages": "log.flush.interval.messages",
}
_ONLY_IN_CHART: Final = ("kraft", "zookeeper", "logRetentionHours", "deleteTopicEnable")


def is_resource(document: object) -> bool:
    """Return whether a document is a resource of Kubernetes."""
    return bool(at(document, "kind") and (at(document, "apiVersion") or at(document, "spec")))


def read_resources(documents: Sequence[Any], path: Path) -> FoundFile:
    """Return the settings of the resources of a file.

    Raises:
        InputError: none has a setting of Kafka.
    """
    flat = [
        one
        for document in documents
        for one in (
            items(at(document, "items")) if str(at(document, "kind")) == "List" else [document]
        )
    ]
    groups = {str(at(one, "apiVersion")).partition("/")[0] for one in flat}
    title = "Kubernetes"
    if _STRIMZI in groups:
        title = "Strimzi"
    elif _CONFLUENT in groups:
        title = "Confluent for Kubernetes"
    taking = Taking(path, title)
    others = []
    for document in flat:
        kind = str(at(document, "kind"))
        take = _TAKEN.get((title, kind)) or _TAKEN.get(("Kubernetes", kind))
        if take:
            take(document, taking)
        elif is_workload(document):
            take_workload(document, taking)
        else:
            others.append(f"{kind} {at(document, 'metadata', 'name') or ''}".strip())
    if not any(one.scope == "broker" for one in taking.settings):
        share_settings(taking)  # else a resource `Kafka` has those of all brokers
    if taking.settings or taking.nodes or taking.topics:
        taking.leave(_NOT_OF_KAFKA, others)
    return taking.found()


def _name(document: object) -> str:
    return str(at(document, "metadata", "name") or at(document, "kind"))


def _number(value: object) -> int | None:
    return int(str(value)) if str(value).isdecimal() else None


def _config(value: object, taking: Taking, scope: Scope) -> None:
    for name, one in entries(value):
        if one is not None and not isinstance(one, dict | list):
            taking.take(scope, str(name), one, name.line)


def _strimzi_kafka(document: Mapping[str, Any], taking: Taking) -> None:
    kafka = at(document, "spec", "kafka")
    _config(at(kafka, "config"), taking, "broker")
    taking.kafka_version = str(at(kafka, "version") or "") or None
    replicas = _number(at(kafka, "replicas"))
    if replicas:
        taking.nodes.append(
            FoundNode(f"{_name(document)}-kafka", replicas, volumes=_storage(at(kafka, "storage")))
        )
    zookeepers = _number(at(document, "spec", "zookeeper", "replicas"))
    if zookeepers:
        servers = ",".join(f"{_name(document)}-zookeeper-{one}:2181" for one in range(zookeepers))
        line = line_of(at(document, "spec", "zookeeper"))
        taking.take("broker", "zookeeper.connect", servers, line)


def _node_pool(document: Mapping[str, Any], taking: Taking) -> None:
    spec = at(document, "spec")
    roles = frozenset(str(one) for one in items(at(spec, "roles"))) or frozenset({"broker"})
    taking.nodes.append(
        FoundNode(
            _name(document),
            _number(at(spec, "replicas")) or 1,
            roles,
            volumes=_storage(at(spec, "storage")),
        )
    )


def _storage(storage: object) -> tuple[str, ...] | None:
    """Return a name for each volume of a node; an ephemeral one is of the pod."""
    kind = str(at(storage, "type") or "")
    if kind == "jbod":
        return tuple(
            f"{at(one, 'type')} {at(one, 'id') or 0}" for one in items(at(storage, "volumes"))
        )
    return (kind,) if kind else None


def _topic(
    document: Mapping[str, Any], taking: Taking, replicas: str, partitions: str, config: str
) -> None:
    spec = at(document, "spec")
    taking.topics.append(
        FoundTopic(_name(document), _number(at(spec, replicas)), _number(at(spec, partitions)))
    )
    _config(at(spec, config), taking, "topic")


def _strimzi_topic(document: Mapping[str, Any], taking: Taking) -> None:
    _topic(document, taking, "replicas", "partitions", "config")


def _confluent_topic(document: Mapping[str, Any], taking: Taking) -> None:
    _topic(document, taking, "replicas", "partitionCount", "configs")


def _connect(document: Mapping[str, Any], taking: Taking) -> None:
    config = at(document, "spec", "config")
    pairs = [(name, str(value)) for name, value in entries(config) if value is not None]
    take_framework([*pairs, (LineText("config.storage.topic", line_of(config) or 1), "")], taking)


def _connector(document: Mapping[str, Any], taking: Taking) -> None:
    config = at(document, "spec", "config") or at(document, "spec", "configs")
    kind = at(document, "spec", "class") or ""
    pairs = [(name, str(value)) for name, value in entries(config) if value is not None]
    line = line_of(kind) or 1
    take_framework([*pairs, (LineText("connector.class", line), str(kind))], taking)


def _confluent_kafka(document: Mapping[str, Any], taking: Taking) -> None:
    spec = at(document, "spec")
    for line in items(at(spec, "configOverrides", "server")):
        name, _, value = str(line).partition("=")
        taking.take("broker", name.strip(), value, line_of(line))
    taking.nodes.append(FoundNode(_name(document), _number(at(spec, "replicas")) or 1))


def _confluent_connect(document: Mapping[str, Any], taking: Taking) -> None:
    lines = items(at(document, "spec", "configOverrides", "server"))
    pairs = [
        (
            LineText(str(line).partition("=")[0].strip(), line_of(line) or 1),
            str(line).partition("=")[2],
        )
        for line in lines
    ]
    take_framework([*pairs, (LineText("config.storage.topic", 1), "")], taking)


def _map_of_files(document: Mapping[str, Any], taking: Taking) -> None:
    """Take the property files and the variables of a ConfigMap."""
    variables = {}
    for name, text in entries(at(document, "data")):
        line = line_of(text) or 1
        if text is None or "\n" not in str(text):
            variables[name] = str(text or "")
            continue
        outputs = [
            (product, one) for product, read in products.NOTATIONS for one in read(str(text))
        ]
        pairs = list(pairs_of(str(text), taking.path, line))
        if outputs:
            products.take_outputs(outputs, taking, line - 1)
        elif take_framework(pairs, taking):
            continue
        elif scopes := scopes_of_names([one for one, _ in pairs], str(name)):
            take_named(taking, pairs, scopes)
        else:
            taking.leave("files that have no setting of Kafka", [str(name)])
    if any(name.startswith("KAFKA_") for name in variables):
        env = [
            {"name": name, "value": LineText(value, name.line)} for name, value in variables.items()
        ]
        pod = {"spec": {"containers": [{"env": env}]}, "metadata": at(document, "metadata")}
        take_workload(pod, taking)


def _nothing(document: Mapping[str, Any], taking: Taking) -> None:
    taking.leave(_NOT_OF_KAFKA, [f"{at(document, 'kind')} {_name(document)}"])


_TAKEN: Final = {
    ("Strimzi", "Kafka"): _strimzi_kafka,
    ("Strimzi", "KafkaNodePool"): _node_pool,
    ("Strimzi", "KafkaTopic"): _strimzi_topic,
    ("Strimzi", "KafkaConnect"): _connect,
    ("Strimzi", "KafkaConnector"): _connector,
    ("Strimzi", "KafkaUser"): _nothing,
    ("Confluent for Kubernetes", "Kafka"): _confluent_kafka,
    ("Confluent for Kubernetes", "KafkaTopic"): _confluent_topic,
    ("Confluent for Kubernetes", "Connect"): _confluent_connect,
    ("Confluent for Kubernetes", "Connector"): _connector,
    ("Kubernetes", "ConfigMap"): _map_of_files,
}
"""How each kind of resource is read, by the operator that has it."""


def chart_values(document: object) -> Mapping[str, Any] | None:
    """Return the values of Bitnami's chart in a file, also as a part of another's; else `None`."""
    for values in (mapping(document), mapping(at(document, "kafka"))):
        if {*_CHART_NAMES, "extraConfig", "overrideConfiguration"} & set(values):
            return values
        if "replicaCount" in values and {*_ONLY_IN_CHART} & set(values):
            return values
        for part in ("controller", "broker"):
            if at(values, part, "replicaCount") is not None:
                return values
    return None


def read_chart(values: Mapping[str, Any], path: Path) -> FoundFile:
    """Return the settings of the values of Bitnami's chart.

    Raises:
        InputError: none is a setting of Kafka.
    """
    taking = Taking(path, "values of Bitnami's chart")
    for name, value in entries(values):
        if name in _CHART_NAMES and value is not None:
            # The chart's numbers may have a `_` before them, so that Helm does not round them.
            text = str(value).removeprefix("_")
            taking.take("broker", _CHART_NAMES[name], text, name.line)
    for part in ("config", "extraConfig", "overrideConfiguration"):
        _chart_config(values.get(part), taking)
    for variable in items(values.get("extraEnvVars")):
        setting = property_of_variable(str(at(variable, "name")))
        if setting:
            taking.take("broker", setting, at(variable, "value"), line_of(at(variable, "value")))
    controllers = _number(at(values, "controller", "replicaCount"))
    brokers = _number(at(values, "broker", "replicaCount"))
    only = str(at(values, "controller", "controllerOnly") or "false") == "true"
    replicas = _number(values.get("replicaCount"))
    kept = _chart_volumes(at(values, "controller", "persistence") or values.get("persistence"))
    if controllers:
        roles = frozenset({"controller"} if only else {"broker", "controller"})
        taking.nodes.append(FoundNode("controller", controllers, roles, volumes=kept))
    if brokers or replicas:
        taking.nodes.append(FoundNode("broker", brokers or replicas or 1, volumes=kept))
    provisioning = mapping(values.get("provisioning"))
    for topic in items(provisioning.get("topics")):
        factor = at(topic, "replicationFactor") or provisioning.get("replicationFactor")
        taking.topics.append(
            FoundTopic(str(at(topic, "name")), _number(factor), _number(at(topic, "partitions")))
        )
        _config(at(topic, "config"), taking, "topic")
    return taking.found()


def _chart_config(value: object, taking: Taking) -> None:
    if isinstance(value, dict):
        _config(value, taking, "broker")
    elif value:
        for name, text in pairs_of(str(value), taking.path, line_of(value) or 1):
            taking.take("broker", name, text, name.line)


def _chart_volumes(persistence: object) -> tuple[str, ...] | None:
    enabled = at(persistence, "enabled")
    if enabled is None:
        return None
    return ("persistent",) if str(enabled) == "true" else ("ephemeral",)
