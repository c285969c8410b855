"""The kinds of client that an experiment can test, and the settings of each kind.

A client gets either explicit settings (every setting that affects correctness is passed) or its
library's defaults (only overrides and required settings are passed).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT, ClientKind
from ackbench.experiments.sweep.plan import PassedSettings, TrialSpec
from ackbench.experiments.trial.clients.adapters import Adapter, adapters
from ackbench.experiments.trial.clients.settings import java, librdkafka
from ackbench.experiments.trial.clients.settings.librdkafka import is_true
from ackbench.experiments.trial.clients.settings.programs import ProgramLibrary

ACKS: Final = "acks"
IDEMPOTENCE: Final = "enable.idempotence"


class ClientLibrary(Protocol):
    """The settings of one client library; implemented by the modules `java` and `librdkafka`.

    Overrides are the properties that an experiment sets, by any name that the library knows.
    Returned settings contain everything that affects correctness, without the addresses.
    """

    @property
    def REQUEST_TIMEOUT(self) -> str:  # noqa: N802 - a constant of the module
        """The property for how long the client waits for a broker's response, milliseconds."""

    @property
    def REQUIRED_PRODUCER_SETTINGS(self) -> Mapping[str, str]:  # noqa: N802 - the same
        """What a producer with default settings is passed nevertheless."""

    @property
    def REQUIRED_CONSUMER_SETTINGS(self) -> Mapping[str, str]:  # noqa: N802 - the same
        """What a consumer with default settings is passed nevertheless."""

    def canonical_names(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the overrides by the library's own names."""

    def producer_settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a producer with explicit settings."""

    def consumer_settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a consumer with explicit settings."""

    def default_producer_settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the effective settings of a producer with the library's defaults."""

    def default_consumer_settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the effective settings of a consumer with the library's defaults."""

    def is_idempotent(self, overrides: Mapping[str, str]) -> bool:
        """Return whether a producer with the library's defaults is idempotent."""


_LIBRARIES: Final[Mapping[ClientKind, ClientLibrary]] = MappingProxyType(
    {"librdkafka": librdkafka, "java": java}
)


def library_of(kind: ClientKind) -> ClientLibrary:
    """Return the settings of a kind of client."""
    return _LIBRARIES.get(kind) or ProgramLibrary(adapters().get(kind))


class ClientChoice(Frozen):
    """The clients of a cell, and whether they keep their library's defaults."""

    kind: ClientKind = DEFAULT_CLIENT
    version: str | None = None
    """As `TrialSpec.client_version`."""
    defaults: bool = False
    """Whether the clients keep their library's defaults; overrides take precedence over those."""
    command: tuple[str, ...] = ()
    """As `TrialSpec.client_command`."""

    @property
    def adapter(self) -> Adapter | None:
        """The adapter that the clients are; `None`: they are a library, or a user's program."""
        return None if self.command else adapters().get(self.kind)

    @property
    def _library(self) -> ClientLibrary:
        return ProgramLibrary(None) if self.command else library_of(self.kind)

    def producer_settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the effective settings of a producer, without its addresses.

        Raises:
            InputError: two names of one property have different values, or the client does not
                support an override.
        """
        if self.defaults:
            return self._library.default_producer_settings(overrides)
        return self._library.producer_settings(overrides)

    def consumer_settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the effective settings of a consumer, without its addresses.

        Raises:
            InputError: as `producer_settings`.
        """
        if self.defaults:
            return self._library.default_consumer_settings(overrides)
        return self._library.consumer_settings(overrides)

    def knows_of_consumer(self, name: str) -> bool:
        """Return whether a consumer has a property; what a user's own program has is unknown."""
        if self.adapter:
            return name in self.adapter.consumer
        return not self.command

    def passed_settings(
        self, producer: Mapping[str, str], consumer: Mapping[str, str]
    ) -> PassedSettings | None:
        """Return the settings that the clients are given; `None`: all effective settings.

        Every cell has values for acks and idempotence. A library is passed them only where they
        differ from its defaults, a program always.

        Args:
            producer: overrides of the producer.
            consumer: overrides of the consumer.
        """
        if not self.defaults:
            return None
        return PassedSettings(
            producer=self._passed_to_producer(producer),
            consumer={
                **self._library.REQUIRED_CONSUMER_SETTINGS,
                **self._library.canonical_names(consumer),
            },
        )

    def _passed_to_producer(self, producer: Mapping[str, str]) -> dict[str, str]:
        if isinstance(self._library, ProgramLibrary):
            return self._library.passed_producer(producer)
        overrides = self._library.canonical_names(producer)
        others = {name: overrides[name] for name in overrides if name not in {ACKS, IDEMPOTENCE}}
        acks = {} if overrides.get(ACKS, "all") in {"all", "-1"} else {ACKS: overrides[ACKS]}
        requested = is_true(overrides.get(IDEMPOTENCE, "false"))
        is_default = self._library.is_idempotent({**others, **acks}) == requested
        idempotence = (
            {}
            if is_default or IDEMPOTENCE not in overrides
            else {IDEMPOTENCE: overrides[IDEMPOTENCE]}
        )
        return {**self._library.REQUIRED_PRODUCER_SETTINGS, **others, **acks, **idempotence}

    def is_idempotent_by_default(self, producer: Mapping[str, str]) -> bool:
        """Return whether the producer is idempotent unless the experiment sets idempotence.

        With explicit settings it is not.
        """
        if not self.defaults:
            return False
        overrides = self._library.canonical_names(producer)
        overrides.pop(IDEMPOTENCE, None)
        return self._library.is_idempotent(overrides)

    def request_timeout_ms(self, settings: Mapping[str, str]) -> int:
        """Return how long the producer waits for a response, from its effective settings."""
        return int(settings[self._library.REQUEST_TIMEOUT])


def client_choice(spec: TrialSpec) -> ClientChoice:
    """Return the clients of a planned trial."""
    return ClientChoice(
        kind=spec.client,
        version=spec.client_version,
        defaults=spec.passed is not None,
        command=spec.client_command,
    )


def request_timeout_ms(spec: TrialSpec) -> int:
    """Return how long a planned trial's producers wait for a response, milliseconds."""
    client = client_choice(spec)
    return client.request_timeout_ms(client.producer_settings(spec.producer))
