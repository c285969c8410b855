"""What a name in an experiment belongs to: the cluster, the topic, a client, the workload or the fault."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from experiments.clients.settings.librdkafka import CANONICAL_NAMES
from experiments.errors import ExperimentError
from experiments.faults.composition.notation import parse_fault
from experiments.messages.phrases import did_you_mean
from experiments.planning.clients import NAMES as OF_CLIENTS
from experiments.planning.cluster import NAMES as OF_CLUSTER
from experiments.planning.experiment import WorkloadSection
from experiments.planning.properties import KafkaProperties


class Scope(StrEnum):
    """Where a setting lives; the values of the last six are also prefixes that say so (`producer.compression.type`)."""

    STRUCTURE = "structure"
    WORKLOAD = "workload"
    FAULT = "fault"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    TOPIC = "topic"
    BROKER = "broker"


STRUCTURE: Final = ("replication.factor", "partitions", "fault", *OF_CLUSTER, *OF_CLIENTS)
"""Axes that are no property of Kafka's or librdkafka's."""

PROPERTY_SCOPES: Final = (Scope.PRODUCER, Scope.CONSUMER, Scope.TOPIC, Scope.BROKER)

OWNED: Final = {
    Scope.PRODUCER: frozenset(
        {
            "bootstrap.servers",
            "client.id",
            "transactional.id",
            "delivery.report.only.error",
            "produce.offset.report",
        }
    ),
    Scope.CONSUMER: frozenset(
        {
            "bootstrap.servers",
            "client.id",
            "group.id",
            "group.instance.id",
            "auto.offset.reset",
            "enable.partition.eof",
        }
    ),
    Scope.TOPIC: frozenset[str](),
    Scope.BROKER: frozenset(
        {
            "node.id",
            "broker.id",
            "zookeeper.connect",
            "process.roles",
            "listeners",
            "advertised.listeners",
            "listener.security.protocol.map",
            "inter.broker.listener.name",
            "controller.listener.names",
            "controller.quorum.bootstrap.servers",
            "controller.quorum.voters",
            "log.dir",
            "log.dirs",
            "metadata.log.dir",
        }
    ),
}
"""Properties that ackbench sets itself, because the trial depends on them."""

READING: Final = frozenset({"client.rack"})
"""Properties that librdkafka takes from any client, and that mean something to a consumer alone (KIP-392)."""


@dataclass(frozen=True)
class SettingPlace:
    """A setting: where it lives and its name there."""

    scope: Scope
    name: str


FAULT: Final = SettingPlace(Scope.STRUCTURE, "fault")


@dataclass(frozen=True)
class KnownNames:
    """The names that each scope knows."""

    producer: AbstractSet[str]
    consumer: AbstractSet[str]
    kafka: KafkaProperties
    faults: Mapping[str, AbstractSet[str]]
    """The parameters of each kind of fault."""

    def parameters_of(self, fault: str) -> AbstractSet[str]:
        """Return the parameters that a fault takes, or one of several joined, and does not fix in its own brackets.

        Raises:
            ExperimentError: there is no such fault.
        """
        return frozenset().union(
            *(
                self.faults.get(leaf.kind, frozenset()) - leaf.parameters.keys()
                for leaf in parse_fault(fault).leaves()
            )
        )

    def of(self, scope: Scope) -> AbstractSet[str]:
        """Return the names a scope knows."""
        names: dict[Scope, AbstractSet[str]] = {
            Scope.STRUCTURE: frozenset(STRUCTURE),
            Scope.WORKLOAD: WorkloadSection.model_fields.keys(),
            Scope.FAULT: frozenset().union(*self.faults.values()),
            Scope.PRODUCER: self.producer,
            Scope.CONSUMER: self.consumer,
            Scope.TOPIC: {known.name for known in self.kafka.topic},
            Scope.BROKER: {known.name for known in self.kafka.broker},
        }
        return names[scope]


def place_of(axis: str, known: KnownNames) -> SettingPlace:
    """Return what an axis's name means.

    A bare property belongs to the producer under test before the consumer, but for those of `READING`, and to the topic before the
    broker, as the topic's value is the one that Kafka takes. One that a client and the cluster both know needs a prefix.

    Raises:
        ExperimentError: the name is unknown, ambiguous, or one that ackbench sets itself.
    """
    bare = _bare(CANONICAL_NAMES.get(axis, axis), known)
    if bare:
        return _free(bare)
    prefix, _, name = axis.partition(".")
    if name and prefix in set(Scope) - {Scope.STRUCTURE}:
        return section_place(Scope(prefix), name, known)
    raise ExperimentError(f"unknown axis {axis}{did_you_mean(axis, _all_names(known))}")


def section_place(scope: Scope, name: str, known: KnownNames) -> SettingPlace:
    """Return the place of a name that stands in a section, or behind its prefix.

    Raises:
        ExperimentError: the section does not know it, or ackbench sets it itself.
    """
    name = first_name(scope, name)
    if name not in known.of(scope):
        elsewhere = [
            other.value
            for other in PROPERTY_SCOPES
            if other is not scope and name in known.of(other)
        ]
        hint = (
            f"; it belongs to {' and '.join(elsewhere)}"
            if elsewhere
            else did_you_mean(name, known.of(scope))
        )
        raise ExperimentError(
            f"unknown {scope} {'property' if scope in PROPERTY_SCOPES else 'setting'} {name}{hint}"
        )
    return _free(SettingPlace(scope, name))


def first_name(scope: Scope, name: str) -> str:
    """Return the one of librdkafka's two names for a property that we use."""
    return CANONICAL_NAMES.get(name, name) if scope in {Scope.PRODUCER, Scope.CONSUMER} else name


def _bare(axis: str, known: KnownNames) -> SettingPlace | None:
    if axis in STRUCTURE:
        return SettingPlace(Scope.STRUCTURE, axis)
    clients = (Scope.CONSUMER,) if axis in READING else (Scope.PRODUCER, Scope.CONSUMER)
    client = next((scope for scope in clients if axis in known.of(scope)), None)
    server = next((scope for scope in (Scope.TOPIC, Scope.BROKER) if axis in known.of(scope)), None)
    if client and server:
        raise ExperimentError(f"ambiguous axis {axis}: write {client}.{axis} or {server}.{axis}")
    found = client or server
    return SettingPlace(found, axis) if found else None


def _free(place: SettingPlace) -> SettingPlace:
    if place.name in OWNED.get(place.scope, ()):
        raise ExperimentError(
            f"{place.scope} property {place.name} is set by ackbench itself: leave it out"
        )
    return place


def _all_names(known: KnownNames) -> list[str]:
    prefixed = [
        f"{scope}.{name}" for scope in (Scope.WORKLOAD, Scope.FAULT) for name in known.of(scope)
    ]
    return [*STRUCTURE, *prefixed, *(name for scope in PROPERTY_SCOPES for name in known.of(scope))]
