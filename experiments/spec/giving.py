"""What a cell's clients are given, and whether they take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.clients.settings import copier_settings
from experiments.errors import ExperimentError
from experiments.plan import Passed
from experiments.spec.clients import ClientRules
from experiments.spec.errors import shown
from experiments.spec.java_rules import java_rules
from experiments.spec.settings import CellSettings
from experiments.spec.transactions import TRANSACTIONAL_ID


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
        ExperimentError: the cell's client does not know a property, or does not take its value.
        InputError: two names of one property say different things.
    """
    choice = settings.client
    rules = java_rules(settings.cluster.kafka_version) if choice.kind == "java" else librdkafka
    _refuse_what_the_client_lacks(settings, rules)
    if not choice.defaults:
        producer = rules.producer_settings(settings.producer)
        return Given(producer, rules.consumer_settings(settings.consumer), None, _refusal(rules, settings, producer))
    producer, passed = choice.producer(settings.producer), choice.passed(settings.producer, settings.consumer)
    asked = passed.producer if passed and choice.kind == "librdkafka" else producer
    return Given(producer, choice.consumer(settings.consumer), passed, _refusal(rules, settings, asked))


def _refusal(rules: ClientRules, settings: CellSettings, producer: Mapping[str, str]) -> str | None:
    """Return why the client does not take what the producers are given, or what a copier's producer is given that has transactions of its own."""
    refusal = rules.refusal(producer)
    if refusal is None and settings.workload.kind == "copy" and settings.workload.commits == "within":
        return rules.refusal(copier_settings(producer, TRANSACTIONAL_ID))
    return refusal


def _refuse_what_the_client_lacks(settings: CellSettings, rules: ClientRules) -> None:
    for scope, asked, known in (("producer", settings.producer, rules.producer), ("consumer", settings.consumer, rules.consumer)):
        unknown = next((name for name in asked if name not in known), None)
        if unknown:
            raise ExperimentError(f"{scope} property {unknown} is none that client {rules.name} knows; allowed: in a cross product whose client knows it")
        for name, text in asked.items():
            if rules.judged and (objection := rules.judged(name, text)):
                raise ExperimentError(f"{scope} property {name} is {shown(text)}{objection}")
