"""Make the settings to check of what was found in files, of options and of a running cluster.

A name that no Kafka knows is what Kafka makes of it: ignored, with a warning here. A value that
Kafka refuses is an error.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ackbench.experiments.messages.phrases import did_you_mean, format_list, list_some
from ackbench.experiments.planning.clients.rules import ClientRules, acks_problem, rules_of
from ackbench.experiments.planning.properties import (
    KafkaProperties,
    kafka_properties,
    known_versions,
    nearest_properties,
    resolve_version,
)
from ackbench.experiments.planning.properties.definitions import Property
from ackbench.experiments.results.checkup.configuration import (
    DEFAULT_NODES,
    LATEST,
    OF_BROKER,
    Configuration,
    ReportedCluster,
)
from ackbench.experiments.results.checkup.files.found import (
    CLIENTS,
    SCOPES,
    FoundFile,
    FoundSetting,
    Scope,
)
from ackbench.experiments.results.checkup.files.names import (
    REMOVED,
    decides_nothing,
    names_of,
    product_of,
    property_of_variable,
)
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.trial.clients.settings.kinds import ACKS, ClientChoice, library_of
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.versions import parse_version

OLDEST: Final = known_versions()[0]
_LEFT_ALONE: Final = ("listener.", "config.providers", "allow.everyone.if.no.acl.found")
"""Names with a listener's or a plugin's prefix are in no table, nor are an authorizer's."""
_ELSEWHERE: Final = ("${", "$(", "{{", "<")
"""How a value begins that stands somewhere else."""
_TRIED: Final[Sequence[ClientKind]] = ("java", "librdkafka")
"""Most names are known to both; without others the files are taken for those of Java's client."""

Given = dict[Scope, dict[str, FoundSetting]]


class _Shape(NamedTuple):
    """The cluster that files describe."""

    brokers: int | None
    controllers: int | None
    combined: bool | None
    replication_factor: int | None
    partitions: int | None


def configuration_of(
    found: Sequence[FoundFile],
    *,
    kafka_version: str | None = None,
    client: ClientKind | None = None,
    nodes: int | None = None,
    replication_factor: int | None = None,
    cluster: ReportedCluster | None = None,
    strict: bool = False,
) -> Configuration:
    """Return the settings of the files.

    Args:
        found: what the files have; of two that set the same, the later one counts.
        kafka_version: of brokers and Java's clients; `None`: the one that a file names, else the
            newest that knows all names of brokers and topic.
        client: whose names the files have; `None`: the one that knows most of them.
        nodes: brokers; `None`: those of the files, else three.
        replication_factor: of the topic; `None`: that of the files' topics, else the brokers'
            default.
        cluster: a running cluster; replaces brokers, features, and if it has a topic, the topic.
        strict: refuse names that Kafka does not know.

    Raises:
        InputError: a property has a value that is not allowed, the client refuses the producer's
            settings, the topic has more replicas than brokers, or `strict` refuses a name.
    """
    if found and not any(file.is_about_something for file in found):
        left_out = [name for file in found for names in file.left_out.values() for name in names]
        raise InputError(
            f"{format_list([str(file.path) for file in found])}: nothing in it decides about "
            f"guarantees ({list_some(left_out)})"
        )
    warnings = [f"{file.path.name}: {note}" for file in found for note in file.notes]
    given = _merged(found, warnings)
    shape = _shape_of(found, warnings)
    if cluster:
        given["broker"] = _reported("broker", cluster.broker, cluster)
        shape = _Shape(cluster.nodes, None, None, cluster.replication_factor, cluster.partitions)
        if cluster.topic:
            given["topic"] = _reported("topic", _deciding(cluster.topic), cluster)
    kafka_version = _resolved_version(kafka_version, found, given, warnings)
    kafka = nearest_properties(kafka_version)
    if kafka.version != kafka_version:
        warnings.append(f"names and defaults are those of Kafka {kafka.version}")
    named = client or next((one.client for one in found if one.client), None)
    rules = _rules(given, kafka_version, named)
    unknown = [*_unknown_of_servers(given, kafka), *_unknown_of_clients(given, rules)]
    if unknown and strict:
        raise InputError(unknown[0])
    warnings += [f"{one}; Kafka ignores it" for one in unknown]
    _require_allowed(given, kafka, rules)
    values = {scope: {one.name: one.value for one in given[scope].values()} for scope in SCOPES}
    factor = replication_factor or shape.replication_factor
    configuration = Configuration(
        kafka_version=kafka_version,
        client=rules.name,
        nodes=nodes or shape.brokers or max(DEFAULT_NODES, shape.replication_factor or 0),
        replication_factor=factor,
        partitions=shape.partitions or 1,
        broker=_known(values["broker"], {one.name for one in kafka.broker}),
        topic=_known(values["topic"], {one.name for one in kafka.topic}),
        producer=_of_client(rules, values["producer"], rules.producer),
        consumer=_of_client(rules, values["consumer"], rules.consumer)
        if _has_consumer(found)
        else None,
        controllers=shape.controllers,
        combined=shape.combined,
        features=_known_levels(cluster.features, kafka) if cluster else {},
        warnings=tuple(dict.fromkeys(warnings)),
    )
    if replication_factor and replication_factor > configuration.nodes:
        raise InputError(
            f"replication factor {replication_factor} with {configuration.nodes} brokers; "
            "allowed: at most one replica per broker"
        )
    refusal = configuration.refusal()
    if refusal:
        raise InputError(f"the producer refuses these settings: {refusal}")
    return configuration


def _has_consumer(found: Sequence[FoundFile]) -> bool:
    """Return whether a file has a consumer: names that both clients have do not say so."""
    for file in found:
        names = [one.name for one in file.settings if one.scope == "consumer"]
        has_producer = any(one.scope == "producer" for one in file.settings)
        if names and (not has_producer or not set(names) <= names_of("producer")):
            return True
    return False


def _merged(found: Sequence[FoundFile], warnings: list[str]) -> Given:
    """Return the settings by scope and name that may decide something.

    Those of a product are left out with a warning, and values that stand elsewhere too.
    """
    given: Given = {scope: {} for scope in SCOPES}
    for file in found:
        products: dict[str, list[str]] = {}
        elsewhere = []
        for setting in file.settings:
            product = product_of(setting.name)
            if product:
                products.setdefault(product, []).append(setting.name)
            elif decides_nothing(setting.name):
                continue
            elif setting.value.startswith(_ELSEWHERE):
                elsewhere.append(setting.name)
            else:
                earlier = given[setting.scope].get(setting.name)
                if earlier and earlier.value != setting.value and earlier.line is not None:
                    warnings.append(
                        f"{setting.scope} {setting.name} is {earlier.value} in {earlier.where} and "
                        f"{setting.value} in {setting.where}: the latter counts"
                    )
                given[setting.scope][setting.name] = setting
        name = file.path.name
        warnings += [
            f"{name}: {format_list(names)} of {product} left out"
            for product, names in products.items()
        ]
        if elsewhere:
            warnings.append(f"{name}: {list_some(elsewhere)} left out: the value is elsewhere")
        warnings += [
            f"{name}: {list_some(names)} left out: {reason}"
            for reason, names in file.left_out.items()
        ]
    return given


def _reported(
    scope: Scope, values: Mapping[str, str], cluster: ReportedCluster
) -> dict[str, FoundSetting]:
    return {
        name: FoundSetting(scope, name, value, cluster.servers, None)
        for name, value in values.items()
    }


def _deciding(topic: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in effect of a topic that decide about guarantees."""
    names = {*OF_BROKER, "retention.ms", "retention.bytes"}
    return {name: value for name, value in topic.items() if name in names}


def _shape_of(found: Sequence[FoundFile], warnings: list[str]) -> _Shape:
    nodes = [node for file in found for node in file.nodes]
    brokers = sum(node.count for node in nodes if "broker" in node.roles)
    controllers = sum(node.count for node in nodes if node.roles == {"controller"})
    combined = any({"broker", "controller"} <= node.roles for node in nodes)
    if not nodes:
        brokers, combined = _voters(found)
    topics = [topic for file in found for topic in file.topics]
    factors = {topic.replication_factor for topic in topics if topic.replication_factor}
    if len(factors) > 1:
        least = [one.name for one in topics if one.replication_factor == min(factors)]
        warnings.append(
            f"topics have {format_list([str(one) for one in sorted(factors)], 'or')} replicas: "
            f"judged is {list_some(least, 2)} with {min(factors)}"
        )
    partitions = [topic.partitions for topic in topics if topic.partitions]
    return _Shape(
        brokers=brokers or None,
        controllers=controllers or None,
        combined=combined if combined or controllers else None,
        replication_factor=min(factors) if factors else None,
        partitions=max(partitions) if partitions else None,
    )


def _voters(found: Sequence[FoundFile]) -> tuple[int, bool]:
    """Return how many brokers a file of one of them says that there are, if all vote."""
    broker = {one.name: one.value for file in found for one in file.settings}
    roles = {role.strip() for role in broker.get("process.roles", "").split(",")}
    voters = broker.get("controller.quorum.voters", "").split(",")
    if {"broker", "controller"} <= roles and all("@" in one for one in voters):
        return len(voters), True
    return 0, False


def _known_levels(features: Mapping[str, int], kafka: KafkaProperties) -> dict[str, int]:
    known = {feature.name for feature in kafka.features}
    return {name: level for name, level in features.items() if name in known}


def _known(values: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in values.items()
        if name in names or name.startswith(_LEFT_ALONE)
    }


def _of_client(
    rules: ClientRules, values: Mapping[str, str], known: Collection[str]
) -> dict[str, str]:
    kept = {name: value for name, value in values.items() if rules.canonical_name(name) in known}
    return dict(library_of(rules.name).canonical_names(kept))


def _resolved_version(
    asked: str | None, found: Sequence[FoundFile], given: Given, warnings: list[str]
) -> str:
    """Return the version to judge by: the one that is asked for, or that the files name."""
    if asked:
        return resolve_version(asked)
    for file in found:
        if file.kafka_version is None:
            continue
        try:
            return resolve_version(file.kafka_version)
        except InputError:
            numbers = re.findall(r"\d+", file.kafka_version)
            is_old = tuple(map(int, numbers)) < parse_version(OLDEST)
            nearest = OLDEST if is_old else _version_of(given, [])
            warnings.append(
                f"{file.path.name} is of Kafka {file.kafka_version}, which is not known here: "
                f"judged by Kafka {nearest}"
            )
            return resolve_version(nearest)
    return resolve_version(_version_of(given, warnings))


def _version_of(given: Given, warnings: list[str]) -> str:
    """Return the newest version that knows the most names of brokers and topic."""
    scopes: tuple[Scope, ...] = ("broker", "topic")

    def unknown(version: str) -> dict[str, FoundSetting]:
        kafka = kafka_properties(version)
        known = {scope: {one.name for one in getattr(kafka, scope)} for scope in scopes}
        return {
            name: setting
            for scope in scopes
            for name, setting in given[scope].items()
            if name not in known[scope]
        }

    version = max(known_versions(), key=lambda one: (-len(unknown(one)), parse_version(one)))
    removed = [one for name, one in unknown(LATEST).items() if name not in unknown(version)]
    warnings += [
        f"{setting.file} is a {version.partition('.')[0]}.x file ({setting.name}): judged by "
        f"Kafka {version}"
        for setting in removed[:1]
    ]
    return version


def _rules(given: Given, kafka_version: str, client: ClientKind | None) -> ClientRules:
    """Return the rules of the client that knows most of the names."""
    tried = [
        rules_of(ClientChoice(kind=kind), kafka_version)
        for kind in _TRIED
        if client in {None, kind}
    ]

    def problems(rules: ClientRules) -> int:
        return len(list(_unknown_of_clients(given, rules))) + len(list(_refused(given, rules)))

    return min(tried, key=problems)


def _unknown_of_servers(given: Given, kafka: KafkaProperties) -> Iterator[str]:
    """Yield a line for each name that the version does not have."""
    for scope, definitions in _of_servers(kafka):
        known = {one.name for one in definitions}
        for name, setting in given[scope].items():
            if name in known or name.startswith(_LEFT_ALONE):
                continue
            reason = _why_unknown(scope, name, kafka.version) or did_you_mean(
                property_of_variable(name) or name, known
            )
            yield f"{setting.where}: unknown {scope} property {name}{reason}"


def _why_unknown(scope: Scope, name: str, kafka_version: str) -> str | None:
    if name in REMOVED:
        return f", removed in {REMOVED[name]}"
    having = [
        version
        for version in known_versions()
        if any(one.name == name for one in getattr(kafka_properties(version), scope))
    ]
    if having:
        return f": Kafka {kafka_version} does not have it, Kafka {having[-1]} has it"
    elsewhere = [other for other in SCOPES if other != scope and name in names_of(other)]
    return f": it is one of a {elsewhere[0]}" if elsewhere else None


def _unknown_of_clients(given: Given, rules: ClientRules) -> Iterator[str]:
    """Yield a line for each name that the client does not have."""
    for scope, known in _of_clients(rules):
        for name, setting in given[scope].items():
            if rules.canonical_name(name) in known:
                continue
            other = next((one for one in SCOPES if one != scope and name in names_of(one)), None)
            if name in names_of(scope):
                reason = f" of {rules.title}"
            elif other:
                reason = f": it is one of a {other}"
            else:
                reason = did_you_mean(name, known)
            yield f"{setting.where}: unknown {scope} property {name}{reason}"


def _of_servers(kafka: KafkaProperties) -> Sequence[tuple[Scope, Sequence[Property]]]:
    return ("broker", kafka.broker), ("topic", kafka.topic)


def _of_clients(rules: ClientRules) -> Sequence[tuple[Scope, Mapping[str, str]]]:
    return tuple(zip(CLIENTS, (rules.producer, rules.consumer), strict=True))


def _refused(given: Given, rules: ClientRules) -> Iterator[str]:
    """Yield a line for each value that the client does not allow."""
    for scope, known in _of_clients(rules):
        for name, setting in given[scope].items():
            canonical = rules.canonical_name(name)
            if canonical not in known or not setting.value:
                continue
            if canonical == ACKS:
                problem = acks_problem(setting.value)
            else:
                problem = rules.value_problem(canonical, setting.value)
            if problem:
                yield f"{setting.where}: {scope} property {name} is {setting.value}{problem}"


def _require_allowed(given: Given, kafka: KafkaProperties, rules: ClientRules) -> None:
    for line in _refused(given, rules):
        raise InputError(line)
    for scope, definitions in _of_servers(kafka):
        known = {one.name: one for one in definitions}
        for name, setting in given[scope].items():
            problem = known[name].allowed_instead_of(setting.value) if name in known else None
            if problem:
                raise InputError(
                    f"{setting.where}: {scope} property {name} is {setting.value}; "
                    f"allowed: {problem}"
                )
