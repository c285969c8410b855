"""The settings of clients that are programs: their library's own defaults, and what is passed.

Of an adapter, the library's defaults are in its description. What is unknown of a program has the
value by which the contract promises least.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ackbench.experiments.trial.clients.adapters import Adapter
from ackbench.experiments.trial.clients.settings import java
from ackbench.experiments.trial.clients.settings.librdkafka import is_true

_PRODUCER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "acks": "all",
        "enable.idempotence": "false",
        "retries": "2147483647",
        "max.in.flight.requests.per.connection": "5",
        "delivery.timeout.ms": "120000",
        "request.timeout.ms": "30000",
        "linger.ms": "0",
        "socket.connection.setup.timeout.ms": "30000",
        "retry.backoff.max.ms": "1000",
        "metadata.max.age.ms": "300000",
    }
)
_CONSUMER: Final[Mapping[str, str]] = MappingProxyType(
    {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
)
_ALWAYS_PASSED: Final = ("acks", "enable.idempotence")


class ProgramLibrary:
    """Implements `kinds.ClientLibrary` for a program.

    Args:
        adapter: its description; `None`: a program of the experiment's own, of which nothing is
            known.
    """

    REQUEST_TIMEOUT = java.REQUEST_TIMEOUT

    def __init__(self, adapter: Adapter | None) -> None:
        self._adapter = adapter
        known = adapter.consumer if adapter else _CONSUMER
        self.REQUIRED_PRODUCER_SETTINGS: Mapping[str, str] = {}
        self.REQUIRED_CONSUMER_SETTINGS: Mapping[str, str] = {
            name: text for name, text in _CONSUMER.items() if name in known
        }

    @staticmethod
    def canonical_names(overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the overrides by Java's names; see `java.canonical_names`."""
        return java.canonical_names(overrides)

    def producer_settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that the contract judges a producer by.

        Args:
            overrides: by Java's or librdkafka's names; they take precedence.
        """
        own = _given(self._adapter.producer) if self._adapter else {}
        return {**_PRODUCER, **own, **self.canonical_names(overrides)}

    def consumer_settings(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return the settings that a consumer is given, and its library's defaults."""
        own = _given(self._adapter.consumer) if self._adapter else {}
        return {**own, **self.REQUIRED_CONSUMER_SETTINGS, **self.canonical_names(overrides)}

    default_producer_settings = producer_settings
    default_consumer_settings = consumer_settings

    def is_idempotent(self, overrides: Mapping[str, str]) -> bool:
        """Return whether a producer with the library's defaults is idempotent."""
        return is_true(self.producer_settings(overrides)["enable.idempotence"])

    def passed_producer(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return what a producer is given: always `_ALWAYS_PASSED`, and the overrides."""
        settings = self.producer_settings(overrides)
        return {name: settings[name] for name in _ALWAYS_PASSED} | self.canonical_names(overrides)

    @staticmethod
    def refusal(settings: Mapping[str, str]) -> str | None:
        """Return why no client can have these settings, else `None` (KIP-98)."""
        if is_true(settings["enable.idempotence"]) and settings["acks"] not in {"all", "-1"}:
            return "an idempotent producer needs acks=all (KIP-98)"
        return None


def _given(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in properties.items() if text}
