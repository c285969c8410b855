"""The settings that a cell's clients are given, and whether the clients accept them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ackbench.experiments.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.planning.client_rules import ClientRules, rules_of
from ackbench.experiments.planning.settings import CellSettings
from ackbench.experiments.planning.workload import TRANSACTIONAL_ID
from ackbench.experiments.sweep.plan import PassedSettings
from ackbench.experiments.trial.clients.settings.librdkafka import copier_settings
from ackbench.experiments.trial.clients.settings.record_sizes import record_size_problem
from ackbench.experiments.trial.clients.settings.tokens import TOKEN_COMMAND


@dataclass(frozen=True)
class ClientSettings:
    """The effective settings of a cell's clients."""

    producer: dict[str, str]
    consumer: dict[str, str]
    passed: PassedSettings | None
    """With `client.defaults`: the settings that the clients are given. `None`: all of them."""
    refusal: str | None
    """The client's own message if it refuses these settings, or why it refuses every record.

    `None`: it accepts them.
    """


def client_settings(settings: CellSettings, librdkafka: ClientRules) -> ClientSettings:
    """Return the settings of a cell's clients.

    Args:
        settings: the settings that the cell requests.
        librdkafka: the rules of librdkafka.

    Raises:
        ExperimentError: the cell's client does not know a property or does not allow its value.
        InputError: two names of one property have different values.
    """
    client = settings.client
    rules = rules_of(client.kind, settings.cluster.version_of_java_clients, librdkafka)
    _refuse_invalid_properties(settings, rules)
    if not client.defaults:
        producer = rules.producer_settings(settings.producer)
        consumer = rules.consumer_settings(settings.consumer)
        refusal = _refusal(rules, settings, producer) or _too_large(settings, producer)
        return ClientSettings(producer, consumer, None, refusal)
    producer = client.producer_settings(settings.producer)
    consumer = client.consumer_settings(settings.consumer)
    passed = client.passed_settings(settings.producer, settings.consumer)
    checked = passed.producer if passed and rules.applies_defaults else producer
    refusal = _refusal(rules, settings, checked) or _too_large(settings, producer)
    return ClientSettings(producer, consumer, passed, refusal)


def _refuse_invalid_properties(settings: CellSettings, rules: ClientRules) -> None:
    for scope, requested, known in (
        ("producer", settings.producer, rules.producer),
        ("consumer", settings.consumer, rules.consumer),
    ):
        unknown = next((n for n in requested if n not in known and n != TOKEN_COMMAND), None)
        if unknown:
            raise ExperimentError(
                f"{scope} property {unknown} is unknown to client {rules.name}; "
                "allowed: in a cross product whose client knows it"
            )
        for name, text in requested.items():
            if (
                name != TOKEN_COMMAND
                and rules.value_check
                and (problem := rules.value_check(name, text))
            ):
                raise ExperimentError(f"{scope} property {name} is {format_value(text)}{problem}")


def _refusal(rules: ClientRules, settings: CellSettings, producer: Mapping[str, str]) -> str | None:
    """Return why the client refuses its producers' settings, or those of transactional copiers."""
    refusal = rules.refusal(producer)
    workload = settings.workload
    if refusal is None and workload.copies and workload.commits == "within":
        return rules.refusal(copier_settings(producer, TRANSACTIONAL_ID))
    return refusal


def _too_large(settings: CellSettings, producer: Mapping[str, str]) -> str | None:
    """Return why the cell's records are too large for its producers or its topic."""
    return record_size_problem(
        settings.client.kind,
        settings.workload,
        producer,
        settings.topic,
        settings.cluster.settings(),
    )
