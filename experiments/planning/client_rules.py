"""The properties that each kind of client knows, the values it allows and what it refuses.

librdkafka's rules are read from the installed library, Java's from Kafka's own definitions of its
client settings (`experiments.planning.properties`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from ackbench.experiments.planning.properties import Property, kafka_properties, nearest_version
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.trial.clients.settings import java as java_settings
from ackbench.experiments.trial.clients.settings.librdkafka import CANONICAL_NAMES

SettingsBuilder = Callable[[Mapping[str, str]], dict[str, str]]


@dataclass(frozen=True)
class ClientRules:
    """What one kind of client knows and refuses."""

    producer: Mapping[str, str]
    """The producer's properties by canonical name, with the values that each allows.

    The notation is librdkafka's: `0 .. 900000`, `none, gzip`, or empty for any value.
    """
    consumer: Mapping[str, str]
    """The same for the consumer."""
    refusal: Callable[[Mapping[str, str]], str | None]
    """Returns the client's message if it refuses a producer with these settings, else `None`."""
    producer_settings: SettingsBuilder
    """Returns every setting that bears on correctness, from the overrides."""
    consumer_settings: SettingsBuilder
    name: ClientKind = "librdkafka"
    canonical_names: Mapping[str, str] = field(default_factory=dict)
    """The canonical name of each alias."""
    applies_defaults: bool = True
    """`True` if the client applies its own defaults to the settings that it checks."""
    value_check: Callable[[str, str], str | None] | None = None
    """Replaces the check of single values; as `value_problem`."""

    def canonical_name(self, name: str) -> str:
        """Return the canonical name of a property."""
        return self.canonical_names.get(name, name)

    def value_problem(self, name: str, text: str) -> str | None:
        """Return what is wrong with a single value as the end of a sentence; `None` if valid.

        Args:
            name: canonical name of a property.
            text: its value.
        """
        if self.value_check:
            return self.value_check(name, text)
        allowed = self.producer.get(name) or self.consumer.get(name)
        if allowed:
            if _is_allowed(name, allowed, text):
                return None
            return f"; allowed: {allowed.replace(' .. ', ' to ')}"
        reason = self.refusal({name: text})
        return None if reason is None else f"; the client reports: {' '.join(reason.split())}"


def acks_problem(text: str) -> str | None:
    """Return what is wrong with a value of acks as the end of a sentence; `None` if valid.

    librdkafka also knows numbers of replicas, which brokers refuse.
    """
    return None if text in {"0", "1", "all", "-1"} else "; allowed: 0, 1 or all"


_RANGE: Final = re.compile(r"^(-?\d+) \.\. (-?\d+)$")
_LIST_PROPERTIES: Final = frozenset({"debug"})
"""Properties whose value is a list of the allowed words."""
_FLOAT_PROPERTIES: Final = frozenset({"linger.ms"})
"""The only property with the type float in CONFIGURATION.md."""


def _is_allowed(name: str, allowed: str, text: str) -> bool:
    bounds = _RANGE.match(allowed)
    if bounds:
        number = r"-?\d+(\.\d+)?" if name in _FLOAT_PROPERTIES else r"-?\d+"
        if re.fullmatch(number, text) is None:
            return False
        return float(bounds[1]) <= float(text) <= float(bounds[2])
    allowed_words = allowed.split(", ")
    words = text.split(",") if name in _LIST_PROPERTIES else [text]
    return all(word in allowed_words for word in words)


_NOT_TEXT: Final = frozenset({"opaque", "interceptors", "builtin.features"})
"""Properties that cannot be set as text, as those with an underscore (callbacks, pointers)."""


def librdkafka_rules() -> ClientRules:
    """Return the rules of the installed librdkafka, or of the copy of its table of properties.

    Without the library, what only it can refuse is not refused: combinations of properties, and
    values of those that its table allows any value of.
    """
    from ackbench.experiments.trial.clients.librdkafka import library, properties, settings_check
    from ackbench.experiments.trial.clients.settings import librdkafka

    settable = [
        known
        for known in properties.known_properties().values()
        if "_" not in known.name and known.name not in _NOT_TEXT
    ]
    producer, consumer = (
        {
            CANONICAL_NAMES.get(known.name, known.name): known.allowed
            for known in settable
            if known.scope != other_scope
        }
        for other_scope in ("C", "P")
    )
    return ClientRules(
        producer,
        consumer,
        settings_check.refusal if library.is_installed() else lambda _: None,
        librdkafka.producer_settings,
        librdkafka.consumer_settings,
        canonical_names=CANONICAL_NAMES,
    )


PARTITIONER: Final = "partitioner"
"""librdkafka's property for what Java configures with a class.

Some of its values name Java's built-in partitioner.
"""


def java_rules(version: str) -> ClientRules:
    """Return the rules of the Java clients of a Kafka version, or of the nearest known one.

    Raises:
        InputError: the text is not a release from 3.9.0 on.
    """
    return _java_rules(nearest_version(version))


@cache
def _java_rules(version: str) -> ClientRules:
    kafka = kafka_properties(version)
    producer = {definition.name: definition for definition in kafka.producer}
    consumer = {definition.name: definition for definition in kafka.consumer}

    def value_check(name: str, text: str) -> str | None:
        if name == PARTITIONER:
            if text in java_settings.BUILT_IN_PARTITIONERS:
                return None
            allowed: str | None = ", ".join(sorted(java_settings.BUILT_IN_PARTITIONERS))
        else:
            java_name = java_settings.JAVA_NAMES.get(name, name)
            definition = producer.get(java_name) or consumer[java_name]
            allowed = definition.allowed_instead_of(text)
        return allowed and f"; allowed with client java: {allowed}"

    return ClientRules(
        producer={**_both_names(producer), PARTITIONER: ""},
        consumer=_both_names(consumer),
        refusal=java_settings.refusal,
        producer_settings=java_settings.producer_settings,
        consumer_settings=java_settings.consumer_settings,
        name="java",
        applies_defaults=False,
        value_check=value_check,
    )


def rules_of(
    kind: ClientKind, kafka_version: str, librdkafka: ClientRules | None = None
) -> ClientRules:
    """Return the rules of a kind of client.

    Args:
        kind: of the client.
        kafka_version: decides on Java's client.
        librdkafka: the rules of librdkafka, if they are known already.

    Raises:
        InputError: as `java_rules`.
    """
    if kind == "java":
        return java_rules(kafka_version)
    return librdkafka or librdkafka_rules()


def _both_names(properties: Mapping[str, Property]) -> dict[str, str]:
    """Return Java's names, and librdkafka's names for the same properties."""
    librdkafka_names = [
        name for name, java in java_settings.JAVA_NAMES.items() if java in properties
    ]
    return dict.fromkeys([*properties, *librdkafka_names], "")
