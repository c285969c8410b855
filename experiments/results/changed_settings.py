"""The settings of a sweep that differ from the defaults of the clients and of Kafka.

A figure holds for the settings it was measured with, and many of ackbench's are shortened so that
a trial takes seconds. Every table names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.planning.properties import KafkaProperties, defaults_of, kafka_properties
from ackbench.experiments.results.models import ChangedSetting
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice

COMBINED: Final = "broker,controller"
"""`process.roles` of a broker that is also a controller, which Kafka's documentation does not
recommend for critical deployments (https://kafka.apache.org/documentation/#kraft_role)."""
_NAMES_AND_LOGGING: Final = frozenset(
    {"client.id", "group.id", "debug", "enable.metrics.push", "enable.partition.eof"}
)
"""Properties that name a client or decide what it reports: no record depends on them."""
_DERIVES_OTHERS: Final[tuple[str, ...]] = ("acks", "enable.idempotence", "transactional.id")
"""Properties on which the defaults of others depend."""


def changed_settings(trials: Iterable[TrialSpec]) -> tuple[ChangedSetting, ...]:
    """Return the settings that differ from a default in at least one of the trials.

    Axes are left out, as the tables have a column for each. Trials that are only controls are left
    out as well.

    Args:
        trials: the planned trials of a sweep.
    """
    specs = [spec for spec in trials if not spec.added]
    several_clients = len({spec.client for spec in specs}) > 1
    values: dict[tuple[str, str], dict[str, None]] = {}
    defaults: dict[tuple[str, str], str | None] = {}
    for spec in specs:
        for scope, name, value, default in _changed(spec, several_clients):
            values.setdefault((scope, name), {})[value] = None
            defaults[scope, name] = default
    return tuple(
        ChangedSetting(scope=scope, name=name, values=tuple(found), default=defaults[scope, name])
        for (scope, name), found in values.items()
    )


def changed_setting_lines(settings: Sequence[ChangedSetting]) -> Iterator[str]:
    """Yield one line per scope: each setting with its value, and its default in brackets."""
    by_scope: dict[str, list[str]] = {}
    for setting in settings:
        default = "" if setting.default is None else f" ({setting.default})"
        text = f"{setting.name}={'/'.join(setting.values)}{default}"
        by_scope.setdefault(setting.scope, []).append(text)
    for scope, texts in by_scope.items():
        yield f"{scope}, not the default (default in brackets): {', '.join(texts)}"


def _changed(spec: TrialSpec, several_clients: bool) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield scope, name, value and default of the settings of a trial that are not the default."""
    prefix = f"{spec.client} " if several_clients else ""
    scopes: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = [
        (f"{prefix}producer", spec.producer, producer_defaults(spec)),
        (
            f"{prefix}consumer",
            spec.consumer,
            ClientChoice(kind=spec.client, defaults=True).consumer_settings({}),
        ),
    ]
    kafka = kafka_defaults(spec)
    if kafka is not None:
        scopes += [
            ("topic", spec.topic, defaults_of(kafka.topic)),
            ("brokers", spec.cluster.settings(), defaults_of(kafka.broker)),
            (
                "features",
                {name: str(level) for name, level in spec.cluster.features.items()},
                {feature.name: str(feature.usual) for feature in kafka.features},
            ),
        ]
    for scope, effective, defaults in scopes:
        for name, value in effective.items():
            default = defaults.get(name)
            if (
                name not in _NAMES_AND_LOGGING
                and not _is_axis(spec.cell, scope, name)
                and not _is_equal(value, default)
            ):
                yield scope, name, value, default
    if spec.cluster.traits.planned and "combined" in spec.cluster.spec().roles:
        yield "brokers", "process.roles", COMBINED, "broker"


def producer_defaults(spec: TrialSpec) -> dict[str, str]:
    """Return the defaults of a trial's producers, which depend on some of their settings."""
    kept = {name: spec.producer[name] for name in _DERIVES_OTHERS if name in spec.producer}
    return ClientChoice(kind=spec.client, defaults=True).producer_settings(kept)


def kafka_defaults(spec: TrialSpec) -> KafkaProperties | None:
    """Return the properties of a trial's brokers; `None`: their version is unknown on this machine.

    It is unknown of an external cluster, and may be of a sweep that another machine ran.
    """
    try:
        return kafka_properties(spec.cluster.kafka_version)
    except FileNotFoundError:
        return None


def _is_axis(cell: Cell, scope: str, name: str) -> bool:
    return name in cell or f"{scope.rpartition(' ')[2].removesuffix('s')}.{name}" in cell


def _is_equal(value: str, default: str | None) -> bool:
    if default is None:
        return False
    try:
        return float(value) == float(default)
    except ValueError:
        return value.lower() == default.lower()
