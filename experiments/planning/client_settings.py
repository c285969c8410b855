"""The settings that a cell's clients are given, and whether the clients accept them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.planning.clients.rules import ClientRules, rules_of
from ackbench.experiments.planning.settings import CellSettings
from ackbench.experiments.planning.workload import PRODUCER_TRANSACTIONAL_ID
from ackbench.experiments.sweep.plan import PassedSettings
from ackbench.experiments.trial.clients.librdkafka.library import (
    MEMBERS_NEED,
    TRANSACTIONAL_COPIERS_NEED,
)
from ackbench.experiments.trial.clients.librdkafka.versions import parse_client_version
from ackbench.experiments.trial.clients.settings.librdkafka import copier_settings
from ackbench.experiments.trial.clients.settings.record_sizes import record_size_problem
from ackbench.experiments.trial.clients.settings.tokens import TOKEN_COMMAND
from ackbench.infra.kafka.versions import parse_version


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
    rules = rules_of(client, settings.cluster.version_of_java_clients, librdkafka)
    _refuse_invalid_properties(settings, rules)
    if not client.defaults:
        producer = rules.producer_settings(settings.producer)
        consumer = rules.consumer_settings(settings.consumer)
        refusal = _refusal(rules, settings, producer) or _too_large(settings, producer)
        return ClientSettings(producer, consumer, None, refusal)
    producer = _of_version(rules, client.producer_settings(settings.producer))
    consumer = _of_version(rules, client.consumer_settings(settings.consumer))
    passed = client.passed_settings(settings.producer, settings.consumer)
    if passed:
        # What the experiment and ackbench set stands; of the rest, the version's own defaults.
        producer |= passed.producer
        consumer |= passed.consumer
    checked = passed.producer if passed and rules.applies_defaults else producer
    refusal = _refusal(rules, settings, checked) or _too_large(settings, producer)
    return ClientSettings(producer, consumer, passed, refusal)


def _of_version(rules: ClientRules, settings: Mapping[str, str]) -> dict[str, str]:
    """Return a client's default settings with the defaults of its version, if that has others."""
    if not rules.defaults:
        return dict(settings)
    return {
        name: rules.defaults[name] or text
        for name, text in settings.items()
        if name in rules.defaults
    }


def _refuse_invalid_properties(settings: CellSettings, rules: ClientRules) -> None:
    for scope, requested, known in (
        ("producer", settings.producer, rules.producer),
        ("consumer", settings.consumer, rules.consumer),
    ):
        unknown = next((n for n in requested if n not in known and n != TOKEN_COMMAND), None)
        if unknown:
            raise ExperimentError(
                f"{scope} property {unknown} is unknown to client {rules.title}; "
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
    needed = TRANSACTIONAL_COPIERS_NEED if settings.workload.commits == "within" else MEMBERS_NEED
    if settings.workload.members and (lacking := needed.intersection(rules.lacks)):
        who = "copiers in transactions" if needed - MEMBERS_NEED else "members of consumer groups"
        return f"{rules.title} has no {min(lacking)}, which {who} need"
    refusal = _needs_newer(rules, settings) or rules.refusal(producer)
    workload = settings.workload
    if refusal is None and workload.copies and workload.commits == "within":
        return rules.refusal(copier_settings(producer, PRODUCER_TRANSACTIONAL_ID))
    return refusal


OLDEST_FOR_KAFKA_4: Final = (1, 8, 2)
"""The first librdkafka whose consumer reads from Kafka 4.

Tried with 4.3.1: 1.6.1 and 1.7.0 produce, and their consumers get "Required feature not supported
by broker" when they ask for the begin of a partition. KIP-896 removed the versions of requests by
which they recognize features (librdkafka issue 4948).
"""


def _needs_newer(rules: ClientRules, settings: CellSettings) -> str | None:
    """Return why a release of librdkafka cannot be tested with the cell's brokers."""
    if rules.name != "librdkafka" or rules.version is None:
        return None
    cluster = settings.cluster
    if not cluster.traits.planned or parse_version(cluster.kafka_version) < (4, 0, 0):
        return None
    if parse_client_version(rules.version) >= OLDEST_FOR_KAFKA_4:
        return None
    return (
        f"the consumer of {rules.title} does not find the begin of a partition of Kafka "
        f"{cluster.kafka_version} (KIP-896); allowed: kafka.version 3.9"
    )


def _too_large(settings: CellSettings, producer: Mapping[str, str]) -> str | None:
    """Return why the cell's records are too large for its producers or its topic."""
    return record_size_problem(
        settings.client.kind,
        settings.workload,
        producer,
        settings.topic,
        settings.cluster.settings(),
    )
