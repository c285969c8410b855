"""The settings of a cell's trials: the values of its axes over the sections of the experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pydantic import ValidationError

from ackbench.experiments.ledger.trial_manifest import Cell, Frozen, Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.planning.axes import KnownNames, Scope, SettingPlace
from ackbench.experiments.planning.clients.programs import with_found_application
from ackbench.experiments.planning.clients.requested import client_values, resolve_client
from ackbench.experiments.planning.clients.rules import ClientRules, acks_problem
from ackbench.experiments.planning.cluster import (
    check_whole_number,
    cluster_values,
    resolve_cluster,
)
from ackbench.experiments.planning.experiment import Experiment, WorkloadSection
from ackbench.experiments.planning.external_cluster import (
    external_cluster,
    refuse_command_on_local_cluster,
    refuse_fault_on_external_cluster,
    security_properties,
)
from ackbench.experiments.planning.faults import fault_request, refuse_invalid_fault
from ackbench.experiments.planning.properties import Property
from ackbench.experiments.planning.properties.protected import refuse_protected
from ackbench.experiments.planning.workload import (
    add_auto_commit,
    add_transactional_id,
    refuse_invalid_workload,
    workload_of_application,
    workload_of_client,
)
from ackbench.experiments.sweep.client_kinds import ClientKind, traits_of
from ackbench.experiments.sweep.plan import NO_FAULT, ClusterNeed, FaultRequest, Workload
from ackbench.experiments.sweep.workload import LOAD_SECTIONS
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.clients.settings.librdkafka import canonical_names
from ackbench.experiments.trial.clients.settings.security import (
    refuse_unrelayable,
    security_behind_relay,
)
from ackbench.experiments.trial.faults.composition.composite import (
    cluster_for_fault,
    needs_own_cluster,
)
from ackbench.experiments.trial.faults.core.effects import Topology

MAJORITY = "majority"
"""A value of `min.insync.replicas`: the smallest majority of the cell's replication factor."""

TOPIC_SIZES: Mapping[str, tuple[int, int]] = {
    "replication.factor": (1, 32_767),
    "partitions": (1, 1000),
}
"""The least and the most of what a topic is created with."""

TOPIC_DEFAULTS: Mapping[str, str] = {
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
}
"""Kafka's defaults, set explicitly because they decide about loss.

(With ELR, KIP-966, Kafka ignores a broker's min.insync.replicas.)
"""


@dataclass(frozen=True)
class CellSettings:
    """All settings of a cell; clients' properties are those requested, without defaults."""

    cluster: ClusterNeed
    replication_factor: int
    partitions: int
    client: ClientChoice
    producer: dict[str, str]
    consumer: dict[str, str]
    topic: dict[str, str]
    workload: Workload
    fault: FaultRequest

    @property
    def needs_own_cluster(self) -> bool:
        """Whether each trial needs a cluster of its own, as effects of its fault can outlast it."""
        return needs_own_cluster(self.fault)


def resolve_settings(
    experiment: Experiment, cell: Cell, places: Mapping[str, SettingPlace]
) -> CellSettings:
    """Return the settings of a cell's trials.

    Args:
        experiment: the experiment.
        cell: one of its cells.
        places: the setting of each axis.

    Raises:
        ExperimentError: a value is not allowed, or not together with the others.
    """
    given = _CellInput(experiment, cell, places)
    structure = given.axes(Scope.STRUCTURE)
    replication_factor = given.whole_number("replication.factor")
    topic = _topic_properties(given.properties(Scope.TOPIC), replication_factor)
    cluster = _resolve_cluster(
        experiment, cluster_values(experiment, structure), topic, given.properties(Scope.BROKER)
    )
    if replication_factor > cluster.nodes:
        raise ExperimentError(
            f"replication.factor is {replication_factor}; "
            f"allowed: at most the number of nodes, which is {cluster.nodes}"
            f"{'' if cluster.traits.planned else ' (the brokers that run now)'}"
        )
    workload = with_found_application(given.workload())
    client = resolve_client(client_values(experiment, structure), experiment.programs())
    producer = add_transactional_id(given.client_properties(Scope.PRODUCER, client.kind), workload)
    consumer = given.client_properties(Scope.CONSUMER, client.kind)
    refuse_invalid_workload(client, workload, consumer, cluster)
    consumer = add_auto_commit(consumer, workload, client.kind)
    topology = Topology.of_trial(
        cluster,
        workload,
        partitions=given.whole_number("partitions"),
        replication_factor=replication_factor,
        client=client.kind,
        consumer=consumer,
    )
    sweeps_size = "record_size_bytes" in given.axes(Scope.WORKLOAD)
    workload = workload_of_client(client, workload, sweeps_size=sweeps_size)
    workload = workload_of_application(workload)
    fault = given.fault(workload.duration_s, client, producer, topology)
    settings = CellSettings(
        cluster=cluster,
        replication_factor=replication_factor,
        partitions=topology.partitions,
        client=client,
        producer=producer,
        consumer=consumer,
        topic=topic,
        workload=workload,
        fault=FaultRequest(kind=NO_FAULT),
    )
    return with_fault(settings, fault)


def with_fault(settings: CellSettings, fault: FaultRequest) -> CellSettings:
    """Return settings of a cell without a fault, with the cluster and the clients that it needs.

    Raises:
        InputError: it needs relays in front of an external cluster, whose security does not allow
            them.
    """
    cluster = cluster_for_fault(settings.cluster, fault)
    changed = replace(settings, cluster=cluster, fault=fault)
    if cluster.traits.started_here or not cluster.has_relays:
        return changed
    refuse_unrelayable(cluster.security)
    return replace(
        changed,
        producer=security_behind_relay(settings.producer),
        consumer=security_behind_relay(settings.consumer),
    )


@dataclass(frozen=True)
class _CellInput:
    """An experiment's sections, overridden by a cell's axes."""

    experiment: Experiment
    cell: Cell
    places: Mapping[str, SettingPlace]

    def axes(self, scope: Scope) -> dict[str, Scalar]:
        """Return the cell's values in a scope that are not null, by the name of the setting."""
        return {
            self.places[axis].name: value
            for axis, value in self.cell.items()
            if self.places[axis].scope is scope and value is not None
        }

    def whole_number(self, name: str) -> int:
        value = self.axes(Scope.STRUCTURE).get(name, getattr(self.experiment, name, None))
        return check_whole_number(name, value, *TOPIC_SIZES[name])

    def properties(self, scope: Scope) -> dict[str, str]:
        section: Mapping[str, Scalar] = getattr(self.experiment, scope)
        given, axes = (
            {name: property_text(value) for name, value in properties.items()}
            for properties in (section, self.axes(scope))
        )
        if scope not in {Scope.PRODUCER, Scope.CONSUMER}:
            return given | axes
        return canonical_names(given) | canonical_names(axes)

    def client_properties(self, scope: Scope, client: ClientKind) -> dict[str, str]:
        """Return a client's properties, with those of security if it gets them with the others."""
        is_planned = traits_of(client).planned_security
        security = security_properties(self.experiment) if is_planned else {}
        return security | self.properties(scope)

    def workload(self) -> Workload:
        load = self._section(Scope.WORKLOAD, WorkloadSection) or {}
        sections = {
            name: self._section(Scope(name), model)
            for name, model in LOAD_SECTIONS.items()
            if name != Scope.WORKLOAD
        }
        workload = Workload.model_validate({**load, **sections})
        if workload.records < workload.producers:
            raise ExperimentError(
                f"the workload has {workload.records} records; "
                f"allowed: at least one per producer, so {workload.producers}"
            )
        return workload

    def _section(self, scope: Scope, model: type[Frozen]) -> dict[str, Scalar] | None:
        values = self.experiment.load_values(scope, self.axes(scope))
        try:
            return None if values is None else model.model_validate(values).model_dump()
        except ValidationError as error:
            raise ExperimentError(describe_validation_error(error, model, f"{scope}.")) from error

    def fault(
        self,
        duration_s: float,
        client: ClientChoice,
        producer: Mapping[str, str],
        topology: Topology,
    ) -> FaultRequest:
        text = property_text(self.axes(Scope.STRUCTURE)["fault"])
        fault = fault_request(self.experiment, text, self.axes(Scope.FAULT))
        effective = client.producer_settings(producer)
        if self.experiment.cluster_traits.started_here:
            refuse_command_on_local_cluster(fault)
        else:
            refuse_fault_on_external_cluster(fault)
        request_timeout_ms = client.request_timeout_ms(effective)
        refuse_invalid_fault(fault, topology, duration_s, request_timeout_ms, effective["acks"])
        return fault


def _resolve_cluster(
    experiment: Experiment,
    values: Mapping[str, Scalar],
    topic: dict[str, str],
    broker: dict[str, str],
) -> ClusterNeed:
    if experiment.cluster_traits.planned:
        return resolve_cluster(values, {"topic": topic, "broker": broker})
    return external_cluster(experiment, topic)


def _topic_properties(requested: Mapping[str, str], replication_factor: int) -> dict[str, str]:
    topic = {**TOPIC_DEFAULTS, **requested}
    if topic["min.insync.replicas"] == MAJORITY:
        topic["min.insync.replicas"] = str(replication_factor // 2 + 1)
    return topic


def property_text(value: Scalar) -> str:
    """Return a value as text in the spelling of Kafka's and librdkafka's properties."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def check_property_value(
    place: SettingPlace, value: Scalar, known: KnownNames, *, allow_code: bool
) -> None:
    """Check a property's value on its own, without the other settings of a cell.

    Args:
        place: the property.
        value: the value in the experiment.
        known: the names that the experiment may use.
        allow_code: whether the experiment's file has `allow_code: true`.

    Raises:
        ExperimentError: the property loads code or writes down a secret, Kafka's definition does
            not allow the value, or every client that knows the property refuses it.
    """
    text = property_text(value)
    refuse_protected(place.scope, place.name, text, allow_code=allow_code)
    if place.scope in {Scope.TOPIC, Scope.BROKER}:
        problem = _cluster_value_problem(place, text, known)
    else:
        problem = _client_value_problem(place, text, known.clients)
    if problem:
        raise ExperimentError(
            f"{place.scope} property {place.name} is {format_value(value)}{problem}"
        )


def _cluster_value_problem(place: SettingPlace, text: str, known: KnownNames) -> str | None:
    if place == SettingPlace(Scope.TOPIC, "min.insync.replicas") and text == MAJORITY:
        return None
    allowed = _definition(place, known).allowed_instead_of(text)
    return allowed and f"; allowed: {allowed}"


def _client_value_problem(
    place: SettingPlace, text: str, rules: Iterable[ClientRules]
) -> str | None:
    if place == SettingPlace(Scope.PRODUCER, "acks"):
        return acks_problem(text)
    problems = [
        client.value_problem(place.name, text)
        for client in rules
        if place.name in (client.producer if place.scope is Scope.PRODUCER else client.consumer)
    ]
    # A value that one client accepts may belong to this client's cells only.
    return problems[0] if problems and all(problems) else None


def _definition(place: SettingPlace, known: KnownNames) -> Property:
    if place.scope is Scope.TOPIC:
        definition = known.kafka.topic_property(place.name)
    else:
        definition = known.kafka.broker_property(place.name)
    if definition is None:  # the place was resolved from these names
        raise AssertionError(place)
    return definition
