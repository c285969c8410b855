"""What a cell settles: every setting of its trials, as the cluster, the topic and the clients want them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from experiments.clients.settings.kinds import ClientChoice
from experiments.errors import ExperimentError
from experiments.faults.composition.composite import cluster_for_fault, needs_own_cluster
from experiments.faults.core.effects import Topology
from experiments.ledger.record import Cell, Scalar
from experiments.messages.phrases import format_value
from experiments.messages.validation import describe_validation_error
from experiments.planning.axes import KnownNames, Scope, SettingPlace, first_name
from experiments.planning.client_rules import ClientRules
from experiments.planning.clients import clients_of, load_of, said_of_clients
from experiments.planning.cluster import cluster_of, said_of_cluster
from experiments.planning.code_loading import refuse_code
from experiments.planning.experiment import Experiment, WorkloadSection
from experiments.planning.external_cluster import external_need, refuse_from_outside, security_of
from experiments.planning.faults import asked_for, refuse_what_cannot_be
from experiments.planning.properties import Property
from experiments.planning.workload import (
    refuse_what_copies_lack,
    refuse_what_groups_lack,
    refuse_what_keys_lack,
    with_transactions,
)
from experiments.sweep.plan import ClusterNeed, FaultRequest, Workload

MAJORITY = "majority"
"""As `min.insync.replicas`: the smallest majority of the cell's replication factor, so never above it."""

TOPIC_DEFAULTS: Mapping[str, str] = {
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
}
"""Kafka's own, made explicit because they decide on loss (with ELR, KIP-966, a broker's min.insync.replicas is dropped)."""


@dataclass(frozen=True)
class CellSettings:
    """Everything a cell fixes; the properties hold what was asked for, not yet the clients' defaults."""

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
        """Whether a trial of it needs a cluster that nobody shares: what its fault does can outlive it."""
        return needs_own_cluster(self.fault)


def settings_of(
    experiment: Experiment, cell: Cell, places: Mapping[str, SettingPlace]
) -> CellSettings:
    """Return what the cell's trials run with.

    Raises:
        ExperimentError: a value is impossible, by itself or beside the others.
    """
    given = _CellInput(experiment, cell, places)
    topic = _topic(
        given.properties(Scope.TOPIC), factor := given.whole("replication.factor", 1, 32_767)
    )
    cluster = _cluster(
        experiment,
        said_of_cluster(experiment, given.axes(Scope.STRUCTURE)),
        topic,
        given.properties(Scope.BROKER),
    )
    nodes = cluster.nodes
    if factor > nodes:
        raise ExperimentError(
            f"replication.factor is {factor}; allowed: at most the number of nodes, which is {nodes}"
        )
    workload = given.workload()
    producer = with_transactions(given.properties(Scope.PRODUCER), workload)
    client = clients_of(said_of_clients(experiment, given.axes(Scope.STRUCTURE)))
    consumer = given.properties(Scope.CONSUMER)
    refuse_what_copies_lack(client, workload)
    refuse_what_groups_lack(client, workload, consumer, cluster)
    refuse_what_keys_lack(client, workload)
    topology = Topology.of_trial(
        cluster,
        workload,
        partitions=given.whole("partitions", 1, 1000),
        replication_factor=factor,
        client=client.kind,
        consumer=consumer,
    )
    workload = load_of(client, workload, sized="record_size_bytes" in given.axes(Scope.WORKLOAD))
    fault = given.fault(workload.duration_s, client, producer, topology)
    return CellSettings(
        cluster=cluster_for_fault(cluster, fault),
        replication_factor=factor,
        partitions=topology.partitions,
        client=client,
        producer=producer,
        consumer=consumer,
        topic=topic,
        workload=workload,
        fault=fault,
    )


def as_text(value: Scalar) -> str:
    """Return a value as Kafka's and librdkafka's properties spell it."""
    return (
        str(value).lower()
        if isinstance(value, bool)
        else str(int(value))
        if isinstance(value, float) and value.is_integer()
        else str(value)
    )


def check_value(
    place: SettingPlace, value: Scalar, known: KnownNames, rules: Iterable[ClientRules]
) -> None:
    """Judge a property's value by itself.

    Args:
        place: whose it is, and its name.
        value: as the experiment has it.
        known: what cluster and topic know.
        rules: of all clients that the experiment has.

    Raises:
        ExperimentError: it loads code, or Kafka's definition, or every client that knows the property, does not take it.
    """
    text = as_text(value)
    refuse_code(place.scope, place.name, text)
    if place.scope in {Scope.TOPIC, Scope.BROKER}:
        allowed = None if _is_majority(place, text) else _definition(place, known).refusal(text)
        objection = allowed and f"; allowed: {allowed}"
    elif place == SettingPlace(Scope.PRODUCER, "acks"):
        objection = None if text in {"0", "1", "all", "-1"} else "; allowed: 0, 1 or all"
    else:
        knowing = [
            one
            for one in rules
            if place.name in (one.producer if place.scope is Scope.PRODUCER else one.consumer)
        ]
        objections = [one.objection(place.name, text) for one in knowing]
        objection = (
            objections[0] if objections and all(objections) else None
        )  # what one of them takes may be of its cells alone
    if objection:
        raise ExperimentError(f"{place.scope} property {place.name} is {format_value(value)}{objection}")


@dataclass(frozen=True)
class _CellInput:
    """An experiment's sections with a cell's axes laid over them."""

    experiment: Experiment
    cell: Cell
    places: Mapping[str, SettingPlace]

    def axes(self, scope: Scope) -> dict[str, Scalar]:
        return {
            self.places[axis].name: value
            for axis, value in self.cell.items()
            if self.places[axis].scope is scope and value is not None
        }

    def whole(self, name: str, least: int, most: int) -> int:
        value = self.axes(Scope.STRUCTURE).get(name, getattr(self.experiment, name, None))
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ExperimentError(
                f"{name} is {format_value(value)}; allowed: a whole number from {least} to {most}"
            )
        return value

    def properties(self, scope: Scope) -> dict[str, str]:
        section: Mapping[str, Scalar] = getattr(self.experiment, scope)
        security = security_of(self.experiment) if scope in {Scope.PRODUCER, Scope.CONSUMER} else {}
        return security | {
            first_name(scope, name): as_text(value)
            for name, value in [*section.items(), *self.axes(scope).items()]
        }

    def workload(self) -> Workload:
        together = self.experiment.workload.model_dump() | self.axes(Scope.WORKLOAD)
        try:
            workload = Workload(**WorkloadSection.model_validate(together).model_dump())
        except ValidationError as error:
            raise ExperimentError(describe_validation_error(error, WorkloadSection, "workload.")) from error
        if workload.records < workload.producers:
            raise ExperimentError(
                f"workload holds {workload.records} records; allowed: one a producer at least, so {workload.producers}"
            )
        return workload

    def fault(
        self, duration_s: float, client: ClientChoice, producer: Mapping[str, str], shape: Topology
    ) -> FaultRequest:
        fault = asked_for(
            self.experiment, as_text(self.axes(Scope.STRUCTURE)["fault"]), self.axes(Scope.FAULT)
        )
        holds = client.producer(producer)
        if self.experiment.cluster == "external":
            refuse_from_outside(fault)
        refuse_what_cannot_be(
            fault, shape, duration_s, client.answer_timeout_ms(holds), holds["acks"]
        )
        return fault


def _cluster(
    experiment: Experiment,
    said: Mapping[str, Scalar],
    topic: dict[str, str],
    broker: dict[str, str],
) -> ClusterNeed:
    if experiment.cluster == "external":
        return external_need(experiment, topic)
    return cluster_of(said, {"topic": topic, "broker": broker})


def _topic(asked: Mapping[str, str], replication_factor: int) -> dict[str, str]:
    topic = {**TOPIC_DEFAULTS, **asked}
    if topic["min.insync.replicas"] == MAJORITY:
        topic["min.insync.replicas"] = str(replication_factor // 2 + 1)
    return topic


def _is_majority(place: SettingPlace, text: str) -> bool:
    return place == SettingPlace(Scope.TOPIC, "min.insync.replicas") and text == MAJORITY


def _definition(place: SettingPlace, known: KnownNames) -> Property:
    found = (
        known.kafka.of_topic(place.name)
        if place.scope is Scope.TOPIC
        else known.kafka.of_broker(place.name)
    )
    if found is None:  # the place was resolved from these names
        raise AssertionError(place)
    return found


__all__ = ["CellSettings", "as_text", "check_value", "settings_of"]
