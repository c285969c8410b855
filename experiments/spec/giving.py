"""What a cell's clients are given, and whether they take it."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.errors import ExperimentError
from experiments.plan import Passed
from experiments.spec.clients import ClientRules
from experiments.spec.java_rules import java_rules
from experiments.spec.settings import CellSettings


@dataclass(frozen=True)
class Given:
    """What holds of a cell's clients."""

    producer: dict[str, str]
    consumer: dict[str, str]
    passed: Passed | None
    """With their own defaults: what they are given of it. `None`: all of it."""
    refusal: str | None
    """The client's own reason for not being made with these settings; `None` when it can be."""


def given_to(settings: CellSettings, librdkafka: ClientRules) -> Given:
    """Return what a cell's clients are given.

    Args:
        settings: what the cell asks for.
        librdkafka: its rules.

    Raises:
        ExperimentError: the cell's client does not know a property.
        InputError: two names of one property say different things.
    """
    choice = settings.client
    rules = java_rules(settings.cluster.kafka_version) if choice.kind == "java" else librdkafka
    _refuse_what_the_client_lacks(settings, rules)
    if not choice.defaults:
        producer = rules.producer_settings(settings.producer)
        return Given(producer, rules.consumer_settings(settings.consumer), None, rules.refusal(producer))
    producer, passed = choice.producer(settings.producer), choice.passed(settings.producer, settings.consumer)
    asked = passed.producer if passed and choice.kind == "librdkafka" else producer
    return Given(producer, choice.consumer(settings.consumer), passed, rules.refusal(asked))


def _refuse_what_the_client_lacks(settings: CellSettings, rules: ClientRules) -> None:
    for scope, asked, known in (("producer", settings.producer, rules.producer), ("consumer", settings.consumer, rules.consumer)):
        unknown = next((name for name in asked if name not in known), None)
        if unknown:
            raise ExperimentError(f"{scope} property {unknown} is none that client {rules.name} knows; allowed: in a cross product whose client knows it")
