"""What a name in an experiment belongs to: cluster, topic, client, workload or fault."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from ackbench.experiments.ledger.moved import moved_axis
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.planning.clients.requested import CLIENT_AXES, rules_of_all_clients
from ackbench.experiments.planning.clients.rules import ClientRules
from ackbench.experiments.planning.cluster import CLUSTER_AXES
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.properties import KafkaProperties, merge_versions
from ackbench.experiments.sweep.cell_names import axis_named
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.sweep.workload import LOAD_SECTIONS
from ackbench.experiments.trial.clients.settings.librdkafka import CANONICAL_NAMES
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.composition.notation import parse_fault
from ackbench.experiments.trial.faults.operations.commands import SWEPT_PARAMETERS
from ackbench.infra.errors import InputError


class Scope(StrEnum):
    """Where a setting belongs.

    All but `structure` are also prefixes of axis names, as in `producer.compression.type`.
    """

    STRUCTURE = "structure"
    WORKLOAD = "workload"
    KEYS = "keys"
    TRANSACTIONS = "transactions"
    GROUP = "group"
    COPY = "copy"
    FAULT = "fault"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    TOPIC = "topic"
    BROKER = "broker"


PROPERTY_SCOPES: Final = (Scope.PRODUCER, Scope.CONSUMER, Scope.TOPIC, Scope.BROKER)

LOAD_SCOPES: Final[Mapping[Scope, AbstractSet[str]]] = MappingProxyType(
    {Scope(name): section.model_fields.keys() for name, section in LOAD_SECTIONS.items()}
)
"""The sections of the load, with their settings."""

STRUCTURE_AXES: Final = ("replication.factor", "partitions", "fault", *CLUSTER_AXES, *CLIENT_AXES)
"""Axes that are neither properties of Kafka nor of librdkafka."""

SET_BY_ACKBENCH: Final = {
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
            "offset.store.method",
            "offset.store.path",
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

CONSUMER_ONLY: Final = frozenset({"client.rack"})
"""Properties that librdkafka accepts for any client but only a consumer uses (KIP-392)."""


@dataclass(frozen=True)
class SettingPlace:
    """A setting: the scope that it belongs to, and its name there."""

    scope: Scope
    name: str


FAULT_PLACE: Final = SettingPlace(Scope.STRUCTURE, "fault")


@dataclass(frozen=True)
class KnownNames:
    """The names that each scope knows, and the rules of those who know them."""

    clients: tuple[ClientRules, ...]
    """The rules of every client that a cell can have."""
    producer: AbstractSet[str]
    consumer: AbstractSet[str]
    kafka: KafkaProperties
    faults: Mapping[str, AbstractSet[str]]
    """The parameters of each fault."""

    commands: tuple[str, ...] = ()
    """The experiment's own faults, which are commands; `faults` has them too."""

    def parse_fault(self, text: str) -> FaultRequest:
        """Return the faults that a text requests.

        Raises:
            ExperimentError: as `experiments.trial.faults.composition.notation.parse_fault`.
        """
        return parse_fault(text, self.commands)

    def parameters_of(self, fault: str) -> AbstractSet[str]:
        """Return the parameters of a fault, or of all parts of a composed fault.

        Parameters that a part fixes in its own brackets are left out.

        Raises:
            ExperimentError: a fault is unknown.
        """
        return frozenset().union(
            *(
                self.faults.get(leaf.kind, frozenset()) - leaf.parameters.keys()
                for leaf in self.parse_fault(fault).leaves()
            )
        )

    def in_scope(self, scope: Scope) -> AbstractSet[str]:
        """Return the names that a scope knows."""
        names: dict[Scope, AbstractSet[str]] = {
            Scope.STRUCTURE: frozenset(STRUCTURE_AXES),
            **LOAD_SCOPES,
            Scope.FAULT: frozenset().union(*self.faults.values()),
            Scope.PRODUCER: self.producer,
            Scope.CONSUMER: self.consumer,
            Scope.TOPIC: {known.name for known in self.kafka.topic},
            Scope.BROKER: {known.name for known in self.kafka.broker},
        }
        return names[scope]


def known_names(experiment: Experiment, librdkafka: ClientRules) -> KnownNames:
    """Return the names that an experiment may use, with its clients and Kafka versions.

    Args:
        experiment: the experiment.
        librdkafka: the rules of librdkafka.

    Raises:
        ExperimentError: one of its Kafka versions is not a release from 3.9.0 on.
    """
    try:
        kafka = merge_versions(experiment.kafka_versions())
    except InputError as error:
        raise ExperimentError(str(error)) from error
    clients = rules_of_all_clients(experiment, librdkafka)
    return KnownNames(
        clients=clients,
        producer=frozenset[str]().union(*(rules.producer for rules in clients)),
        consumer=frozenset[str]().union(*(rules.consumer for rules in clients)),
        kafka=kafka,
        faults={
            kind: frozenset(fault.parameters.model_fields)
            for kind, fault in FAULTS.items()
            if kind != "none"
        }
        | dict.fromkeys(experiment.commands(), frozenset(SWEPT_PARAMETERS)),
        commands=experiment.commands(),
    )


def resolve_axis(axis: str, known: KnownNames) -> SettingPlace:
    """Return the setting that an axis sweeps.

    A property without a prefix belongs to the producer rather than to the consumer (except
    `CONSUMER_ONLY`), and to the topic rather than to the broker, because Kafka uses the topic's
    value if both are set. A property that a client and the cluster both know needs a prefix.

    Raises:
        ExperimentError: the name is unknown, ambiguous, or one that ackbench sets itself.
    """
    axis = full_name(axis)
    place = _without_prefix(axis, known)
    if place:
        return _refuse_set_by_ackbench(place)
    if moved := moved_axis(axis):
        raise ExperimentError(moved)
    prefix, _, name = axis.partition(".")
    if name and prefix in set(Scope) - {Scope.STRUCTURE}:
        return resolve_name(Scope(prefix), name, known)
    raise ExperimentError(f"unknown axis {axis}{did_you_mean(axis, _all_names(known))}")


def full_name(setting: str) -> str:
    """Return the name of a setting that people write in a short form or as librdkafka does."""
    axis = axis_named(setting)
    return CANONICAL_NAMES.get(axis, axis)


def resolve_name(scope: Scope, name: str, known: KnownNames) -> SettingPlace:
    """Return the setting of a name in a section of the file, or after the prefix of an axis.

    Raises:
        ExperimentError: the scope does not know the name, or ackbench sets it itself.
    """
    name = canonical_name(scope, name)
    if name not in known.in_scope(scope):
        kind = "property" if scope in PROPERTY_SCOPES else "setting"
        others = [
            other.value
            for other in PROPERTY_SCOPES
            if other is not scope and name in known.in_scope(other)
        ]
        hint = (
            f"; it belongs to {' and '.join(others)}"
            if others
            else did_you_mean(name, known.in_scope(scope) | _names_after(f"{scope}.", known))
        )
        raise ExperimentError(f"unknown {scope} {kind} {name}{hint}")
    return _refuse_set_by_ackbench(SettingPlace(scope, name))


def _names_after(prefix: str, known: KnownNames) -> AbstractSet[str]:
    """Return the rest of all names with a prefix: Kafka's `group.protocol` is none of `group`."""
    return {name.removeprefix(prefix) for name in _all_names(known) if name.startswith(prefix)}


def canonical_name(scope: Scope, name: str) -> str:
    """Return the name that ackbench uses for a property; librdkafka has two names for some."""
    if scope in {Scope.PRODUCER, Scope.CONSUMER}:
        return CANONICAL_NAMES.get(name, name)
    return name


def _without_prefix(axis: str, known: KnownNames) -> SettingPlace | None:
    if axis in STRUCTURE_AXES:
        return SettingPlace(Scope.STRUCTURE, axis)
    client_scopes = (Scope.CONSUMER,) if axis in CONSUMER_ONLY else (Scope.PRODUCER, Scope.CONSUMER)
    client = next((scope for scope in client_scopes if axis in known.in_scope(scope)), None)
    server = next(
        (scope for scope in (Scope.TOPIC, Scope.BROKER) if axis in known.in_scope(scope)), None
    )
    if client and server:
        raise ExperimentError(f"ambiguous axis {axis}: write {client}.{axis} or {server}.{axis}")
    scope = client or server
    return SettingPlace(scope, axis) if scope else None


def _refuse_set_by_ackbench(place: SettingPlace) -> SettingPlace:
    if place.name in SET_BY_ACKBENCH.get(place.scope, ()):
        raise ExperimentError(
            f"{place.scope} property {place.name} is set by ackbench itself: leave it out"
        )
    return place


def _all_names(known: KnownNames) -> list[str]:
    prefixed = [
        f"{scope}.{name}" for scope in (*LOAD_SCOPES, Scope.FAULT) for name in known.in_scope(scope)
    ]
    properties = [name for scope in PROPERTY_SCOPES for name in known.in_scope(scope)]
    return [*STRUCTURE_AXES, *prefixed, *properties]
