"""The smallest change of settings that gives a guarantee under more faults. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.checkup.diagnosis import Diagnosis, diagnose
from ackbench.experiments.verdicts.guarantees import Guarantee

MOST_CHANGES: Final = 3
"""Changes that are proposed one after the other at most."""
_REPLICAS: Final = 3
_SAFER: Final = {
    "acks": "all",
    "enable.idempotence": "true",
    "retries": "2147483647",
    "max.in.flight.requests.per.connection": "1",
}
_DELIVERY_TIMEOUT_MS: Final = "120000"
"""Java's default, where a longer one than the expiration of producer IDs makes idempotence void."""
_FLUSH: Final = "flush.messages"
_TOPIC: Final = (
    ("min.insync.replicas", "1", "2"),
    ("unclean.leader.election.enable", "true", "false"),
    (_FLUSH, None, "1"),
)
"""Properties of a topic: the value that is weak (`None`: any), and the safer one."""
_FEATURES: Final = ("eligible.leader.replicas.version", "transaction.version")
Scope = Literal["producer", "consumer", "topic", "features", "cluster"]
"""All but `cluster` are fields of `Configuration`."""


@dataclass(frozen=True)
class Change:
    """One setting with another value."""

    scope: Scope
    name: str
    value: str

    def __str__(self) -> str:
        """Return the change as a setting: `topic min.insync.replicas=2`."""
        return f"{self.scope} {self.name}={self.value}"


@dataclass(frozen=True)
class Improvement:
    """One more change, and under which faults it gives a guarantee that was not given before."""

    changes: tuple[Change, ...]
    """One; several where only together they gain anything."""
    gained: tuple[str, ...]
    """Names of faults."""
    lost: tuple[tuple[Guarantee, str], ...]
    """Guarantees and faults that are not given any more: what the change costs."""

    @property
    def flushes(self) -> bool:
        """Whether it makes the broker flush each record: the last thing that the field advises."""
        return any(change.name == _FLUSH for change in self.changes)


class ChangeSearch:
    """Looks for changes, and remembers what it has found out about settings.

    Args:
        diagnosis: of the settings as they are.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._diagnosis = diagnosis
        self._known: dict[str, Diagnosis] = {}

    def improvements(self, guarantee: Guarantee) -> Iterator[Improvement]:
        """Yield the changes that give a guarantee under more faults, the most useful one first.

        Each adds to those before it. It ends when no further change gains anything.
        """
        diagnosis = self._diagnosis
        for _ in range(MOST_CHANGES):
            best = self._best(diagnosis, guarantee)
            if best is None:
                return
            improvement, diagnosis = best
            yield improvement

    def _best(
        self, diagnosis: Diagnosis, guarantee: Guarantee
    ) -> tuple[Improvement, Diagnosis] | None:
        """Return the change that gains most, and the diagnosis after it; pairs if none gains."""
        candidates = tuple(_candidates(diagnosis.configuration))
        for number in (1, 2):
            found = [
                (improvement, after)
                for changes in combinations(candidates, number)
                if (after := self._after(diagnosis, changes)) is not None
                and (improvement := _improvement(diagnosis, after, guarantee, changes)) is not None
            ]
            if found:
                # Of those that gain as much, the one that costs least. Replicas come before
                # flushes: Kafka's documentation advises against them (design, "Flush Management").
                return max(
                    found,
                    key=lambda one: (not one[0].flushes, len(one[0].gained), -len(one[0].lost)),
                )
        return None

    def _after(self, diagnosis: Diagnosis, changes: Sequence[Change]) -> Diagnosis | None:
        changed = apply_changes(diagnosis.configuration, changes)
        if changed is None:
            return None
        key = changed.model_dump_json()
        if key not in self._known:
            self._known[key] = diagnose(changed)
        return self._known[key]


def _improvement(
    before: Diagnosis, after: Diagnosis, guarantee: Guarantee, changes: Sequence[Change]
) -> Improvement | None:
    gained = (after.guaranteed(guarantee) & before.tested(guarantee)) - before.guaranteed(guarantee)
    if not gained or before.guaranteed(guarantee) - after.guaranteed(guarantee):
        return None
    lost = [
        (other, fault)
        for other in before.guarantees
        for fault in sorted(before.guaranteed(other) - after.guaranteed(other))
        if fault in after.possible()
    ]
    return Improvement(tuple(changes), tuple(sorted(gained)), tuple(lost))


def _candidates(configuration: Configuration) -> Iterator[Change]:
    """Yield the settings that decide about guarantees, with the values that are safer."""
    yield from _of_clients(configuration)
    yield from _of_topic(configuration)
    features = configuration.effective_features()
    for feature in configuration.kafka.features:
        if feature.name in _FEATURES and features[feature.name] < feature.highest:
            yield Change("features", feature.name, str(feature.highest))


def _of_clients(configuration: Configuration) -> Iterator[Change]:
    producer = configuration.effective_producer()
    for name, value in _SAFER.items():
        if producer.get(name) not in {value, "-1" if name == "acks" else value}:
            yield Change("producer", name, value)
    expiration_ms = configuration.effective_broker().get("producer.id.expiration.ms", "")
    timeout_ms = producer.get("delivery.timeout.ms", "")
    if (
        timeout_ms.isdecimal()
        and expiration_ms.isdecimal()
        # With librdkafka, 0 is no limit.
        and (int(timeout_ms) or math.inf) >= int(expiration_ms)
    ):
        yield Change("producer", "delivery.timeout.ms", _DELIVERY_TIMEOUT_MS)
    reset = configuration.effective_consumer()["auto.offset.reset"]
    if configuration.consumer is not None and reset != "earliest":
        yield Change("consumer", "auto.offset.reset", "earliest")


def _of_topic(configuration: Configuration) -> Iterator[Change]:
    topic = configuration.effective_topic()
    most = min(_REPLICAS, configuration.nodes)
    if configuration.replicas < most:
        yield Change("cluster", "replication.factor", str(most))
    for name, weak, strong in _TOPIC:
        if topic[name] != strong and weak in {None, topic[name]}:
            yield Change("topic", name, strong)


def apply_changes(configuration: Configuration, changes: Sequence[Change]) -> Configuration | None:
    """Return the settings with changes; `None`: the producer refuses them."""
    for change in changes:
        if change.scope == "cluster":
            update: dict[str, object] = {"replication_factor": int(change.value)}
        else:
            value = int(change.value) if change.scope == "features" else change.value
            settings = getattr(configuration, change.scope) or {}
            update = {change.scope: {**settings, change.name: value}}
        configuration = configuration.model_copy(update=update)
    return None if configuration.refusal() else configuration


def advised_changes(configuration: Configuration, guarantees: Collection[str]) -> Iterator[Change]:
    """Yield the changes that guarantees ask for, each with those before it done, but flushes.

    Args:
        configuration: the settings.
        guarantees: names.
    """
    for guarantee in diagnose(configuration).guarantees:
        if guarantee.name not in guarantees:
            continue
        for improvement in ChangeSearch(diagnose(configuration)).improvements(guarantee):
            if improvement.flushes:
                break
            yield from improvement.changes
            configuration = apply_changes(configuration, improvement.changes) or configuration
