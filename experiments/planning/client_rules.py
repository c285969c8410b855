"""What the clients know and refuse, as far as planning needs it; taken from librdkafka itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from experiments.clients.settings import java as java_settings
from experiments.clients.settings.librdkafka import CANONICAL_NAMES
from experiments.planning.properties import Property, kafka_properties

Settings = Callable[[Mapping[str, str]], dict[str, str]]

_RANGE: Final = re.compile(r"^(-?\d+) \.\. (-?\d+)$")
_SEVERAL: Final = frozenset({"debug"})
"""The properties that take a list of their words."""
_FRACTIONS: Final = frozenset({"linger.ms"})
"""The one property that CONFIGURATION.md gives the type float."""
_OBJECTS: Final = frozenset({"opaque", "interceptors", "builtin.features"})
"""Names that no text can set; with those that hold an underscore (callbacks, pointers) they are left out."""


@dataclass(frozen=True)
class ClientRules:
    """A client's side of a plan."""

    producer: Mapping[str, str]
    """The producer's properties by first name, and what each allows, in the client's notation: `0 .. 900000`, `none, gzip`, or nothing."""
    consumer: Mapping[str, str]
    """The consumer's."""
    refusal: Callable[[Mapping[str, str]], str | None]
    """The client's own reason for not being made with these settings; `None` when it can be."""
    producer_settings: Settings
    """Overrides -> every setting that bears on correctness."""
    consumer_settings: Settings
    name: str = "librdkafka"
    judged: Callable[[str, str], str | None] | None = None
    """What is wrong with a value by itself, where the client has a way of its own to tell."""

    def objection(self, name: str, text: str) -> str | None:
        """Return what is wrong with a value by itself, as the end of a sentence; `None` when nothing is."""
        if self.judged:
            return self.judged(name, text)
        allowed = self.producer.get(name) or self.consumer.get(name)
        if allowed:
            return (
                None
                if _allows(name, allowed, text)
                else f"; allowed: {allowed.replace(' .. ', ' to ')}"
            )
        reason = self.refusal({name: text})
        return None if reason is None else f"; the client says: {' '.join(reason.split())}"


def client_rules() -> ClientRules:
    """Return librdkafka's rules, asked from the library that is installed."""
    from experiments.clients.librdkafka import properties
    from experiments.clients.settings import librdkafka

    usable = [
        known
        for known in properties.known_properties().values()
        if "_" not in known.name and known.name not in _OBJECTS
    ]
    producer = {
        CANONICAL_NAMES.get(known.name, known.name): known.allowed
        for known in usable
        if known.scope != "C"
    }
    consumer = {
        CANONICAL_NAMES.get(known.name, known.name): known.allowed
        for known in usable
        if known.scope != "P"
    }
    return ClientRules(
        producer,
        consumer,
        properties.refusal,
        librdkafka.producer_settings,
        librdkafka.consumer_settings,
    )


def _allows(name: str, allowed: str, text: str) -> bool:
    bounds = _RANGE.match(allowed)
    if bounds:
        number = r"-?\d+(\.\d+)?" if name in _FRACTIONS else r"-?\d+"
        return re.fullmatch(number, text) is not None and float(bounds[1]) <= float(text) <= float(
            bounds[2]
        )
    words = allowed.split(", ")
    return all(word in words for word in (text.split(",") if name in _SEVERAL else [text]))


# ---------- What Kafka's own Java clients know and refuse, as far as planning needs it; from Kafka's definitions of their settings.


PARTITIONER = "partitioner"
"""librdkafka's name for what Java has a class for; some of its values are Java's built-in partitioner."""


@cache
def java_rules(version: str) -> ClientRules:
    """Return the rules of the Java clients of a version of Kafka.

    Raises:
        FileNotFoundError: nothing is known of that version.
    """
    known = kafka_properties(version)
    producer, consumer = (
        {one.name: one for one in scope} for scope in (known.producer, known.consumer)
    )

    def objection(name: str, text: str) -> str | None:
        if name == PARTITIONER:
            return (
                None
                if text in java_settings.BUILT_IN_PARTITIONERS
                else f"; allowed with client java: {', '.join(sorted(java_settings.BUILT_IN_PARTITIONERS))}"
            )
        java = java_settings.JAVA_NAMES.get(name, name)
        allowed = (producer.get(java) or consumer[java]).refusal(text)
        return None if allowed is None else f"; allowed with client java: {allowed}"

    return ClientRules(
        producer={**_names(producer), PARTITIONER: ""},
        consumer=_names(consumer),
        refusal=java_settings.refusal,
        producer_settings=java_settings.producer_settings,
        consumer_settings=java_settings.consumer_settings,
        name="java",
        judged=objection,
    )


def _names(properties: Mapping[str, Property]) -> dict[str, str]:
    """Return Java's names, and those of librdkafka's for the same thing."""
    others = {name: "" for name, java in java_settings.JAVA_NAMES.items() if java in properties}
    return dict.fromkeys(properties, "") | others
