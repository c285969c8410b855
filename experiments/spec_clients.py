"""What the clients know and refuse, as far as planning needs it; taken from librdkafka itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

Settings = Callable[[Mapping[str, str]], dict[str, str]]


@dataclass(frozen=True)
class ClientRules:
    """A client's side of a plan."""

    producer_names: AbstractSet[str]
    consumer_names: AbstractSet[str]
    refusal: Callable[[Mapping[str, str]], str | None]
    """The client's own reason for not being made with these settings; `None` when it can be."""
    producer_settings: Settings
    """Overrides -> every setting that bears on correctness."""
    consumer_settings: Settings


def client_rules() -> ClientRules:
    """Return librdkafka's rules, asked from the library that is installed."""
    from experiments.clients import acceptance, settings

    names = frozenset(acceptance.known_properties())
    return ClientRules(names, names, acceptance.refusal, settings.producer_settings, settings.consumer_settings)
