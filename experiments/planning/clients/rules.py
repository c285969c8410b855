"""The properties that each kind of client knows, the values it allows and what it refuses.

librdkafka's rules are read from the library, installed or fetched, Java's from Kafka's own
definitions of its client settings (`experiments.planning.properties`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from ackbench.experiments.planning.properties import (
    KafkaProperties,
    Property,
    kafka_properties,
    nearest_version,
)
from ackbench.experiments.sweep.client_kinds import ClientKind, traits_of
from ackbench.experiments.trial.clients.settings import java as java_settings
from ackbench.experiments.trial.clients.settings import librdkafka as librdkafka_settings
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.clients.settings.librdkafka import CANONICAL_NAMES
from ackbench.experiments.trial.clients.settings.programs import ProgramLibrary
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from ackbench.experiments.trial.clients.librdkafka.properties import LibrdkafkaProperty

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
    version: str | None = None
    """Of the client, if the cell sets it."""
    lacks: tuple[str, ...] = ()
    """Functions that this version does not have, and the installed one has."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """This version's own defaults by canonical name; empty: as in the settings of its kind."""
    canonical_names: Mapping[str, str] = field(default_factory=dict)
    """The canonical name of each alias."""
    applies_defaults: bool = True
    """`True` if the client applies its own defaults to the settings that it checks."""
    value_check: Callable[[str, str], str | None] | None = None
    """Replaces the check of single values; as `value_problem`."""

    @property
    def title(self) -> str:
        """The client in a message: `librdkafka`, or `librdkafka 2.4.0`."""
        return " ".join(filter(None, (self.name, self.version)))

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


def canonical_acks(text: str) -> str:
    """Return a value of acks with `-1` as `all`; any other as it is."""
    return "all" if text == "-1" else text


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


def librdkafka_rules(version: str | None = None) -> ClientRules:
    """Return the rules of a release of librdkafka.

    Args:
        version: the release; until it is in the home's cache, what the installed one knows counts.
            `None`: the installed one, or the copy of its table of properties. Without the library,
            what only it can refuse is not refused: combinations of properties, and values of those
            that its table allows any value of.

    Raises:
        ClientLibraryError: the library in the cache cannot be used.
    """
    from ackbench.experiments.trial.clients.librdkafka import (
        library_file,
        properties,
        settings_check,
    )

    if version is None:
        refusal = settings_check.refusal if library_file.is_installed() else lambda _: None
        return _rules_from(properties.known_properties().values(), refusal)
    from ackbench.experiments.trial.clients.librdkafka import versions

    cache = Home.from_environment().cache
    if not versions.is_fetched(cache, version):
        return replace(librdkafka_rules(), version=version)
    known = versions.library_version(cache, version)
    path = versions.library_path_of(cache, version)
    rows = properties.by_name(properties.LibrdkafkaProperty(*row) for row in known.properties)
    rules = _rules_from(rows.values(), partial(settings_check.refusal, library=path))
    names = rules.producer.keys() | rules.consumer.keys()

    def without_unknown(build: SettingsBuilder) -> SettingsBuilder:
        def settings(overrides: Mapping[str, str]) -> dict[str, str]:
            return {name: text for name, text in build(overrides).items() if name in names}

        return settings

    return replace(
        rules,
        producer_settings=without_unknown(rules.producer_settings),
        consumer_settings=without_unknown(rules.consumer_settings),
        version=version,
        lacks=known.lacks,
        defaults={CANONICAL_NAMES.get(row.name, row.name): row.default for row in rows.values()},
    )


def _rules_from(
    rows: Iterable[LibrdkafkaProperty], refusal: Callable[[Mapping[str, str]], str | None]
) -> ClientRules:
    settable = [row for row in rows if "_" not in row.name and row.name not in _NOT_TEXT]
    producer, consumer = (
        {
            CANONICAL_NAMES.get(row.name, row.name): row.allowed
            for row in settable
            if row.scope != other_scope
        }
        for other_scope in ("C", "P")
    )
    return ClientRules(
        producer,
        consumer,
        refusal,
        librdkafka_settings.producer_settings,
        librdkafka_settings.consumer_settings,
        canonical_names=CANONICAL_NAMES,
    )


PARTITIONER: Final = "partitioner"
"""librdkafka's property for what Java configures with a class.

Some of its values name Java's built-in partitioner.
"""


def java_rules(version: str) -> ClientRules:
    """Return the rules of the Java clients of a Kafka version, or of the nearest known one.

    Raises:
        InputError: the text is not a release from 2.8.0 on.
    """
    return _java_rules(nearest_version(version))


@cache
def _java_rules(version: str) -> ClientRules:
    kafka = kafka_properties(version)
    return ClientRules(
        producer={**_both_names(_by_name(kafka.producer)), PARTITIONER: ""},
        consumer=_both_names(_by_name(kafka.consumer)),
        refusal=java_settings.refusal,
        producer_settings=java_settings.producer_settings,
        consumer_settings=java_settings.consumer_settings,
        name="java",
        applies_defaults=False,
        value_check=_value_check(kafka, "java"),
    )


_KAFKA_VERSION: Final = ClusterSpec.kafka_version
"""Its definitions of clients' properties are those of programs."""


@cache
def _program_rules(kind: ClientKind, command: tuple[str, ...]) -> ClientRules:
    """Return the rules of a program: an adapter's own properties, or all of Java's.

    Java's names of properties are Kafka's; their values are checked as those of Java's client.
    """
    kafka = kafka_properties(nearest_version(_KAFKA_VERSION))
    adapter = ClientChoice(kind=kind, command=command).adapter
    library = ProgramLibrary(adapter)
    return ClientRules(
        producer=_both_names(adapter.producer if adapter else _by_name(kafka.producer)),
        consumer=_both_names(adapter.consumer if adapter else _by_name(kafka.consumer)),
        refusal=library.refusal,
        producer_settings=library.producer_settings,
        consumer_settings=library.consumer_settings,
        name=kind,
        applies_defaults=False,
        value_check=_value_check(kafka, kind),
    )


def _value_check(kafka: KafkaProperties, kind: ClientKind) -> Callable[[str, str], str | None]:
    """Return the check of single values by Kafka's definitions; of others, each is allowed."""
    definitions = {**_by_name(kafka.consumer), **_by_name(kafka.producer)}

    def check(name: str, text: str) -> str | None:
        if name == PARTITIONER:
            if text in java_settings.BUILT_IN_PARTITIONERS:
                return None
            allowed: str | None = ", ".join(sorted(java_settings.BUILT_IN_PARTITIONERS))
        else:
            definition = definitions.get(java_settings.JAVA_NAMES.get(name, name))
            allowed = definition.allowed_instead_of(text) if definition else None
        return allowed and f"; allowed with client {kind}: {allowed}"

    return check


def _by_name(properties: Iterable[Property]) -> dict[str, Property]:
    return {definition.name: definition for definition in properties}


def _both_names(names: Mapping[str, object]) -> dict[str, str]:
    """Return Java's names, and librdkafka's for the same properties."""
    librdkafka = [one for one, java in java_settings.JAVA_NAMES.items() if java in names]
    return dict.fromkeys([*names, *librdkafka], "")


def rules_of(
    client: ClientChoice, kafka_version: str, librdkafka: ClientRules | None = None
) -> ClientRules:
    """Return the rules of a cell's client.

    Args:
        client: the client.
        kafka_version: decides on Java's client.
        librdkafka: the rules of the installed librdkafka, if they are known already.

    Raises:
        InputError, ClientLibraryError: as `java_rules` and `librdkafka_rules`.
    """
    if traits_of(client.kind).is_program:
        rules = _program_rules(client.kind, client.command)
        return replace(rules, version=client.version)
    if client.kind == "java":
        rules = java_rules(client.version or kafka_version)
        return replace(rules, version=client.version)
    if client.version is None:
        return librdkafka or librdkafka_rules()
    return librdkafka_rules(client.version)
