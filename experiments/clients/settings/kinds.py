"""The kinds of client that can be under test, and what each is set to: everything explicitly, or its own defaults. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from experiments.clients.settings import java, librdkafka
from experiments.ledger.record import Frozen
from experiments.sweep.plan import ClientKind, PassedSettings, TrialSpec

Settings = Callable[[Mapping[str, str]], dict[str, str]]
ACKS: Final = "acks"
IDEMPOTENCE: Final = "enable.idempotence"
_TRUE: Final = frozenset({"true", "t", "1"})


@dataclass(frozen=True)
class ClientKindSettings:
    """One kind of client. Each function takes what was asked for, and returns all that then holds and bears on correctness."""

    name: ClientKind
    producer: Settings
    consumer: Settings
    """With everything passed explicitly."""
    own_producer: Settings
    own_consumer: Settings
    """With the client's own defaults."""
    named: Settings
    """What was asked for, by the names that this client has for it."""
    needed_producer: Mapping[str, str]
    needed_consumer: Mapping[str, str]
    """What it is passed all the same: the trial cannot do without."""
    is_idempotent: Callable[[Mapping[str, str]], bool]
    """Whether it is, by its own defaults, with what was asked for."""
    answer_timeout: str
    """The property that says how long it gives a request to be answered, milliseconds."""


KINDS: Final[Mapping[str, ClientKindSettings]] = MappingProxyType(
    {
        "librdkafka": ClientKindSettings(
            "librdkafka",
            librdkafka.producer_settings,
            librdkafka.consumer_settings,
            librdkafka.own_producer_settings,
            librdkafka.own_consumer_settings,
            librdkafka.resolved,
            librdkafka.NEEDED_OF_PRODUCER,
            librdkafka.NEEDED_OF_CONSUMER,
            lambda asked: asked.get(IDEMPOTENCE, "false").lower() in _TRUE,
            "socket.timeout.ms",
        ),
        "java": ClientKindSettings(
            "java",
            java.producer_settings,
            java.consumer_settings,
            java.own_producer_settings,
            java.own_consumer_settings,
            java.translated,
            java.NEEDED_OF_PRODUCER,
            java.NEEDED_OF_CONSUMER,
            java.is_idempotent,
            "request.timeout.ms",
        ),
    }
)


class ClientChoice(Frozen):
    """Which clients a cell asks for, and how they are set."""

    kind: ClientKind = "librdkafka"
    defaults: bool = False
    """They keep their own defaults; what the experiment says wins over those."""

    @property
    def _kind(self) -> ClientKindSettings:
        return KINDS[self.kind]

    def producer(self, asked: Mapping[str, str]) -> dict[str, str]:
        """Return all that holds of the producer.

        Raises:
            InputError: two names of one property say different things, or the client has no such thing.
        """
        return self._kind.own_producer(asked) if self.defaults else self._kind.producer(asked)

    def consumer(self, asked: Mapping[str, str]) -> dict[str, str]:
        """Return all that holds of the consumer.

        Raises:
            InputError: as `producer`.
        """
        return self._kind.own_consumer(asked) if self.defaults else self._kind.consumer(asked)

    def passed(
        self, producer: Mapping[str, str], consumer: Mapping[str, str]
    ) -> PassedSettings | None:
        """Return what the clients are given of it, from what was asked for; `None`: all of it.

        Acks and idempotence stand in every cell: what is the client's own default anyway is not passed.
        """
        if not self.defaults:
            return None
        asked = self._kind.named(producer)
        rest = {name: value for name, value in asked.items() if name not in {ACKS, IDEMPOTENCE}}
        acks = {} if asked.get(ACKS, "all") in {"all", "-1"} else {ACKS: asked[ACKS]}
        alike = self._kind.is_idempotent({**rest, **acks}) == (
            asked.get(IDEMPOTENCE, "false").lower() in _TRUE
        )
        idempotence = {} if alike or IDEMPOTENCE not in asked else {IDEMPOTENCE: asked[IDEMPOTENCE]}
        own = {**self._kind.needed_producer, **rest, **acks, **idempotence}
        return PassedSettings(
            producer=own, consumer={**self._kind.needed_consumer, **self._kind.named(consumer)}
        )

    def is_idempotent_unasked(self, producer: Mapping[str, str]) -> bool:
        """Whether the producer is idempotent where nobody says so: by its own defaults, or as we have it."""
        return self.defaults and self._kind.is_idempotent(
            {
                name: value
                for name, value in self._kind.named(producer).items()
                if name != IDEMPOTENCE
            }
        )

    def answer_timeout_ms(self, producer: Mapping[str, str]) -> int:
        """Return how long the producer gives a request to be answered, from all that holds of it."""
        return int(producer[self._kind.answer_timeout])


def choice_of(spec: TrialSpec) -> ClientChoice:
    """Return which clients a planned trial has."""
    return ClientChoice(kind=spec.client, defaults=spec.passed is not None)


def answer_timeout_ms(spec: TrialSpec) -> int:
    """Return how long a planned trial's producers give a request to be answered."""
    choice = choice_of(spec)
    return choice.answer_timeout_ms(choice.producer(spec.producer))
