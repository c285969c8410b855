"""Frameworks that write Kafka's properties under names of their own: Spring, SmallRye, Connect.

Each is a `Framework`: patterns of names, the properties that they set, and what the framework sets
itself. A new one is one entry of `FRAMEWORKS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ackbench.experiments.planning.yaml_reader import number_of
from ackbench.experiments.results.checkup.files.found import (
    CLIENTS,
    FoundFile,
    FoundTopic,
    Scope,
    Taking,
)
from ackbench.experiments.results.checkup.files.names import decides_nothing, matches, names_of
from ackbench.experiments.results.checkup.files.trees import LineText

_PRODUCER: Final[tuple[Scope, ...]] = ("producer",)
_CONSUMER: Final[tuple[Scope, ...]] = ("consumer",)
_SPRING_NAMES: Final[Mapping[str, str]] = {
    "transaction-id-prefix": "transactional.id",
    "fetch-min-size": "fetch.min.bytes",
    "fetch-max-wait": "fetch.max.wait.ms",
    "heartbeat-interval": "heartbeat.interval.ms",
    "auto-commit-interval": "auto.commit.interval.ms",
    "max-poll-interval": "max.poll.interval.ms",
}
"""Names that are not Kafka's with `-` in place of `.`."""
_CLOUD: Final = "spring.cloud.stream.kafka.binder."
_BINDER: Final = r"spring\.cloud\.stream\.kafka\.binder\."
REPLICATION: Final = "replication factor"
PARTITIONS: Final = "partitions"
"""The shape of a topic, which the name of a pattern may be in place of a property."""


@dataclass(frozen=True)
class NamePattern:
    """Names of one form, and the properties that they set."""

    pattern: str
    """A regular expression for the whole name; its last group is the property."""
    scopes: tuple[Scope, ...]
    name: str | None = None
    """The property; `None`: the pattern's group."""


@dataclass(frozen=True)
class OwnOption:
    """An option of a framework itself that loses or repeats records."""

    pattern: str
    """A regular expression for its whole name."""
    value: str
    sentence: str
    """What it does, with the source."""
    unless: str | None = None
    """A regular expression for another option with which it does not."""


@dataclass(frozen=True)
class Framework:
    """A framework's names of Kafka's properties."""

    title: str
    source: str
    """Where the names and what the framework sets are documented."""
    recognised_by: tuple[str, ...]
    """Patterns of fnmatch(3); a file with such a name is one of this framework."""
    rules: tuple[NamePattern, ...]
    writes: Mapping[Scope, str]
    """The name with which it sets a property, with `{}` in place of Kafka's name."""
    writes_itself: Mapping[str, str] = field(default_factory=dict)
    """Names of its own for some properties, by scope and Kafka's name."""
    sets: Mapping[Scope, Mapping[str, str]] = field(default_factory=dict)
    """What it sets itself where the file does not, for the clients that the file has."""
    kebab: bool = False
    """Whether names are written with `-` or in camel case where Kafka has `.`."""
    has_own: bool = False
    """Whether a name that Kafka does not know is one of the framework's own."""
    always: tuple[Scope, ...] = ()
    """Clients that it always has, whatever the file sets."""
    note: str | None = None
    options: tuple[OwnOption, ...] = ()
    """Those of its own that lose or repeat records."""

    def spelling(self, scope: Scope, name: str, value: str) -> str | None:
        """Return a setting as its file has it; `None`: it has no clients of this scope."""
        if scope not in self.writes:
            return None
        written = self.writes_itself.get(f"{scope} {name}") or self.writes[scope].format(name)
        return f"{written}={value}"


_CONNECT_SETS: Final[Mapping[Scope, Mapping[str, str]]] = {
    "producer": {
        "acks": "all",
        "enable.idempotence": "false",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": "2147483647",
    },
    "consumer": {"auto.offset.reset": "earliest", "enable.auto.commit": "false"},
}
"""`Worker.baseProducerConfigs` and `baseConsumerConfigs` in Kafka's connect/runtime."""
_CONNECT_SOURCE: Final = (
    "github.com/apache/kafka/blob/trunk/connect/runtime/src/main/java/org/apache/kafka/connect/"
    "runtime/Worker.java"
)

FRAMEWORKS: Final = (
    Framework(
        title="Spring Cloud Stream",
        source="docs.spring.io/spring-cloud-stream/reference/kafka/kafka-binder/config-options.html",
        recognised_by=("spring.cloud.stream.kafka.*",),
        writes={
            "producer": f"{_CLOUD}producer-properties.{{}}",
            "consumer": f"{_CLOUD}consumer-properties.{{}}",
        },
        writes_itself={"producer acks": f"{_CLOUD}required-acks"},
        rules=(
            NamePattern(_BINDER + r"required-acks", _PRODUCER, "acks"),
            NamePattern(_BINDER + r"replication-factor", (), REPLICATION),
            NamePattern(_BINDER + r"min-partition-count", (), PARTITIONS),
            NamePattern(_BINDER + r"configuration\.(.+)", CLIENTS),
            NamePattern(_BINDER + r"producer-properties\.(.+)", _PRODUCER),
            NamePattern(_BINDER + r"consumer-properties\.(.+)", _CONSUMER),
            NamePattern(
                r"spring\.cloud\.stream\.kafka\.(?:bindings\.[^.]+|default)\.producer"
                r"\.configuration\.(.+)",
                _PRODUCER,
            ),
            NamePattern(
                r"spring\.cloud\.stream\.kafka\.(?:bindings\.[^.]+|default)\.consumer"
                r"\.configuration\.(.+)",
                _CONSUMER,
            ),
            NamePattern(
                _BINDER + r"transaction\.transaction-id-prefix", _PRODUCER, "transactional.id"
            ),
        ),
        sets={"producer": {"acks": "1"}, "consumer": {"enable.auto.commit": "false"}},
        kebab=True,
    ),
    Framework(
        title="Spring Boot",
        source="docs.spring.io/spring-boot/appendix/application-properties/index.html (kafka)",
        recognised_by=("spring.kafka.*",),
        writes={
            "producer": "spring.kafka.producer.properties.{}",
            "consumer": "spring.kafka.consumer.properties.{}",
        },
        writes_itself={
            "producer acks": "spring.kafka.producer.acks",
            "producer retries": "spring.kafka.producer.retries",
            "consumer auto.offset.reset": "spring.kafka.consumer.auto-offset-reset",
        },
        rules=(
            NamePattern(r"spring\.kafka\.producer\.properties\.(.+)", _PRODUCER),
            NamePattern(r"spring\.kafka\.consumer\.properties\.(.+)", _CONSUMER),
            NamePattern(r"spring\.kafka\.properties\.(.+)", CLIENTS),
            NamePattern(r"spring\.kafka\.producer\.(?!security|ssl)([^.]+)", _PRODUCER),
            NamePattern(r"spring\.kafka\.consumer\.(?!security|ssl)([^.]+)", _CONSUMER),
        ),
        # "Starting with version 2.3, the framework sets enable.auto.commit to false unless
        # explicitly set in the configuration" (docs.spring.io/spring-kafka, Committing Offsets).
        sets={"consumer": {"enable.auto.commit": "false"}},
        kebab=True,
    ),
    Framework(
        title="SmallRye Reactive Messaging (Quarkus)",
        source="smallrye.io/smallrye-reactive-messaging: Kafka connector, attributes",
        recognised_by=("mp.messaging.outgoing.*", "mp.messaging.incoming.*"),
        writes={
            "producer": "mp.messaging.outgoing.CHANNEL.{}",
            "consumer": "mp.messaging.incoming.CHANNEL.{}",
        },
        rules=(
            NamePattern(r"mp\.messaging\.outgoing\.[^.]+\.(.+)", _PRODUCER),
            NamePattern(r"mp\.messaging\.incoming\.[^.]+\.(.+)", _CONSUMER),
            NamePattern(r"mp\.messaging\.connector\.smallrye-kafka\.(.+)", CLIENTS),
            NamePattern(r"kafka\.(.+)", CLIENTS),
        ),
        sets={"producer": {"acks": "1"}, "consumer": {"enable.auto.commit": "false"}},
        has_own=True,
        options=(
            OwnOption(
                r"mp\.messaging\.incoming\.[^.]+\.failure-strategy",
                "ignore",
                "failure-strategy=ignore: a record whose processing fails is committed and lost "
                "[smallrye.io, Kafka connector, failure-strategy]",
            ),
        ),
    ),
    Framework(
        title="Micronaut",
        source="micronaut-projects.github.io/micronaut-kafka: kafkaConfiguration",
        recognised_by=("kafka.producers.*", "kafka.consumers.*"),
        writes={"producer": "kafka.producers.default.{}", "consumer": "kafka.consumers.default.{}"},
        rules=(
            NamePattern(r"kafka\.producers\.[^.]+\.(.+)", _PRODUCER),
            NamePattern(r"kafka\.consumers\.[^.]+\.(.+)", _CONSUMER),
            NamePattern(r"kafka\.(.+)", CLIENTS),
        ),
        has_own=True,
    ),
    Framework(
        title="Debezium Server",
        source="debezium.io/documentation/reference/operations/debezium-server.html (kafka)",
        recognised_by=("debezium.sink.kafka.*",),
        writes={"producer": "debezium.sink.kafka.producer.{}"},
        rules=(NamePattern(r"debezium\.sink\.kafka\.producer\.(.+)", _PRODUCER),),
    ),
    Framework(
        title="Kafka Connect, a connector",
        source=_CONNECT_SOURCE,
        recognised_by=("connector.class",),
        writes={"producer": "producer.override.{}", "consumer": "consumer.override.{}"},
        rules=(
            NamePattern(r"producer\.override\.(.+)", _PRODUCER),
            NamePattern(r"consumer\.override\.(.+)", _CONSUMER),
            NamePattern(r"topic\.creation\.default\.replication\.factor", (), REPLICATION),
            NamePattern(r"topic\.creation\.default\.partitions", (), PARTITIONS),
        ),
        sets=_CONNECT_SETS,
        options=(
            OwnOption(
                r"errors\.tolerance",
                "all",
                "errors.tolerance=all without a dead letter queue: a record that cannot be "
                "converted is skipped [KIP-298]",
                unless=r"errors\.deadletterqueue\.topic\.name",
            ),
        ),
        note="a worker's own producer.* and consumer.* come first: give its file too",
    ),
    Framework(
        title="Kafka Connect, a worker",
        source=_CONNECT_SOURCE,
        recognised_by=("offset.storage.*", "config.storage.topic", "plugin.path", "key.converter"),
        writes={"producer": "producer.{}", "consumer": "consumer.{}"},
        rules=(
            NamePattern(r"producer\.(.+)", _PRODUCER),
            NamePattern(r"consumer\.(.+)", _CONSUMER),
        ),
        sets=_CONNECT_SETS,
        always=CLIENTS,
    ),
)


def read_framework(pairs: Sequence[tuple[LineText, str]], path: Path) -> FoundFile | None:
    """Return the settings of a framework's file; `None`: the names are of none that is known.

    Raises:
        InputError: no setting of Kafka is in it.
    """
    framework = _framework_of(pairs)
    if framework is None:
        return None
    taking = Taking(path, framework.title)
    _take(pairs, taking, framework)
    return taking.found()


def take_framework(pairs: Sequence[tuple[LineText, str]], taking: Taking) -> bool:
    """Take the settings of a framework, with what it sets itself.

    Returns:
        `False`: the names are of none that is known, and nothing was taken.
    """
    framework = _framework_of(pairs)
    if framework:
        _take(pairs, taking, framework)
    return framework is not None


def _framework_of(pairs: Sequence[tuple[LineText, str]]) -> Framework | None:
    names = [spelled for name, _ in pairs for spelled in (name, _kebab(name))]
    return next(
        (one for one in FRAMEWORKS if any(matches(name, one.recognised_by) for name in names)), None
    )


def _take(pairs: Sequence[tuple[LineText, str]], taking: Taking, framework: Framework) -> None:
    clients = set(framework.always)
    taking.has_kafkas_names = False
    taking.spelling = framework.spelling
    shape: dict[str, int] = {}
    # A name with a profile of Quarkus comes after the same name without one, and counts.
    for name, text in sorted(pairs, key=lambda pair: pair[0].startswith("%")):
        plain = re.sub(r"^%[\w,-]+\.", "", name)
        rule, setting = _rule_of(plain, framework)
        if rule is None:
            continue
        value = text if decides_nothing(setting) else _resolved(plain, text, taking)
        if value is None:
            continue
        if rule.name in {REPLICATION, PARTITIONS}:
            shape |= {rule.name: int(value)} if value.isdecimal() else {}
            continue
        clients |= set(rule.scopes if len(rule.scopes) == 1 else ())
        _take_setting(taking, framework, rule, LineText(setting, name.line), value)
    if shape:
        taking.topics.append(
            FoundTopic("the topics that it makes", shape.get(REPLICATION), shape.get(PARTITIONS))
        )
    if "connector.class" in framework.recognised_by:
        clients |= _of_connector(pairs)
    for scope in (one for one in CLIENTS if one in clients):
        for setting, default in framework.sets.get(scope, {}).items():
            taking.default(scope, setting, default, framework.title)
    if framework.note:
        taking.note(framework.note)
    taking.sights += [
        one.sentence
        for one in framework.options
        if any(value == one.value and re.fullmatch(one.pattern, name) for name, value in pairs)
        and not any(one.unless and re.fullmatch(one.unless, name) for name, _ in pairs)
    ]


def _take_setting(
    taking: Taking, framework: Framework, rule: NamePattern, setting: LineText, value: str
) -> None:
    knowing = [scope for scope in rule.scopes if setting in names_of(scope)]
    if not knowing and framework.has_own:
        taking.leave(f"attributes of {framework.title}", [setting])
        return
    for scope in knowing or rule.scopes[:1]:
        taking.take(scope, setting, _plain_value(setting, value), setting.line)


def _resolved(name: str, value: str, taking: Taking) -> str | None:
    """Return a value with `${NAME:default}` as its default; `None`: it stands elsewhere."""
    if "${" not in value:
        return value
    found = re.fullmatch(r"\$\{[^:}]+:([^}]*)\}", value.strip())
    if found is None:
        taking.leave("values of variables that are not set here", [name])
        return None
    return found[1]


def _of_connector(pairs: Sequence[tuple[LineText, str]]) -> set[Scope]:
    """Return the client that a connector's tasks have: a producer of a source, else a consumer."""
    classes = [value for name, value in pairs if name.endswith("connector.class")]
    source = any("Source" in one or one.startswith("io.debezium.connector.") for one in classes)
    sink = any("Sink" in one for one in classes)
    return {"consumer"} if sink and not source else {"producer"}


def _rule_of(name: str, framework: Framework) -> tuple[NamePattern | None, str]:
    """Return the rule for a name and the property that it sets."""
    for rule in framework.rules:
        found = re.fullmatch(rule.pattern, _kebab(name) if framework.kebab else name)
        if found is None and framework.kebab:
            found = re.fullmatch(rule.pattern, name)
        if found is None:
            continue
        if rule.name:
            return rule, rule.name
        setting = found[1]
        if framework.kebab and "." not in setting:
            setting = _SPRING_NAMES.get(setting, setting.replace("-", "."))
        return rule, setting.strip("[]\"'")
    return None, ""


def _kebab(name: str) -> str:
    """Return a name as Spring's relaxed binding knows it: `requiredAcks` is `required-acks`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", name).lower().replace("_", "-")


def _plain_value(name: str, value: str) -> str:
    """Return a duration or a size as the number that the property is in.

    Java's durations may begin with `PT`, and Spring's KB has 1,024 bytes.
    """
    text = re.sub(r"^PT(?=\d)", "", value.strip(), flags=re.IGNORECASE)
    text = re.sub(r"(?<=\d)([KMG])B$", r"\1iB", text, flags=re.IGNORECASE)
    number = number_of(name, text)
    return value if number is text else str(number)
