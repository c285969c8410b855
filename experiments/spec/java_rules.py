"""What Kafka's own Java clients know and refuse, as far as planning needs it; from Kafka's definitions of their settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from experiments.clients import java_settings
from experiments.properties import Property, kafka_properties
from experiments.spec.clients import ClientRules

PARTITIONER = "partitioner"
"""librdkafka's name for what Java has a class for; some of its values are Java's built-in partitioner."""


@cache
def java_rules(version: str) -> ClientRules:
    """Return the rules of the Java clients of a version of Kafka.

    Raises:
        FileNotFoundError: nothing is known of that version.
    """
    known = kafka_properties(version)
    producer, consumer = ({one.name: one for one in scope} for scope in (known.producer, known.consumer))

    def objection(name: str, text: str) -> str | None:
        if name == PARTITIONER:
            return None if text in java_settings.BUILT_IN else f"; allowed with client java: {', '.join(sorted(java_settings.BUILT_IN))}"
        java = java_settings.SAME_THING.get(name, name)
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
    others = {name: "" for name, java in java_settings.SAME_THING.items() if java in properties}
    return dict.fromkeys(properties, "") | others
