"""What a cell settles: every setting of its trials, as the cluster, the topic and the clients want them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from experiments.clients.settings import producer_settings
from experiments.errors import ExperimentError
from experiments.faults.composing import outlives, standing_on
from experiments.faults.nature import Shape
from experiments.ledger.record import Cell, Scalar
from experiments.plan import ClusterNeed, FaultRequest, Workload
from experiments.properties import Property, kafka_properties, versions
from experiments.spec.axes import KnownNames, Place, Scope, first_name
from experiments.spec.clients import ClientRules
from experiments.spec.errors import sentence, shown
from experiments.spec.faults import asked_for, refuse_what_cannot_be
from experiments.spec.model import Experiment, WorkloadSection

MAJORITY = "majority"
"""As `min.insync.replicas`: the smallest majority of the cell's replication factor, so never above it."""

TOPIC_DEFAULTS: Mapping[str, str] = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}
"""Kafka's own, made explicit because they decide on loss (with ELR, KIP-966, a broker's min.insync.replicas is dropped)."""


@dataclass(frozen=True)
class CellSettings:
    """Everything a cell fixes; the properties hold what was asked for, not yet the clients' defaults."""

    cluster: ClusterNeed
    replication_factor: int
    partitions: int
    producer: dict[str, str]
    consumer: dict[str, str]
    topic: dict[str, str]
    workload: Workload
    fault: FaultRequest

    @property
    def fresh(self) -> bool:
        """Whether a trial of it needs a cluster that nobody shares: what its fault does can outlive it."""
        return outlives(self.fault)


def settings_of(experiment: Experiment, cell: Cell, places: Mapping[str, Place]) -> CellSettings:
    """Return what the cell's trials run with.

    Raises:
        ExperimentError: a value is impossible, by itself or beside the others.
    """
    given = _Given(experiment, cell, places)
    nodes, factor = given.whole("nodes", 1, 9), given.whole("replication.factor", 1, 32_767)
    if factor > nodes:
        raise ExperimentError(f"replication.factor is {factor}; allowed: at most the number of nodes, which is {nodes}")
    workload, producer = given.workload(), given.properties(Scope.PRODUCER)
    shape = Shape(nodes=nodes, partitions=given.whole("partitions", 1, 1000), replication_factor=factor)
    fault = given.fault(workload.duration_s, producer, shape)
    cluster = ClusterNeed(nodes=nodes, kafka_version=given.version(), broker=given.properties(Scope.BROKER))
    return CellSettings(
        cluster=standing_on(cluster, fault),
        replication_factor=factor,
        partitions=shape.partitions,
        producer=producer,
        consumer=given.properties(Scope.CONSUMER),
        topic=_topic(given.properties(Scope.TOPIC), factor),
        workload=workload,
        fault=fault,
    )


def as_text(value: Scalar) -> str:
    """Return a value as Kafka's and librdkafka's properties spell it."""
    return str(value).lower() if isinstance(value, bool) else str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def check_value(place: Place, value: Scalar, known: KnownNames, rules: ClientRules) -> None:
    """Judge a property's value by itself.

    Raises:
        ExperimentError: Kafka's definition, or librdkafka, does not take it.
    """
    text = as_text(value)
    if place.scope in {Scope.TOPIC, Scope.BROKER}:
        allowed = None if _is_majority(place, text) else _definition(place, known).refusal(text)
        objection = allowed and f"; allowed: {allowed}"
    elif place == Place(Scope.PRODUCER, "acks"):
        objection = None if text in {"0", "1", "all", "-1"} else "; allowed: 0, 1 or all"
    else:
        objection = rules.objection(place.name, text)
    if objection:
        raise ExperimentError(f"{place.scope} property {place.name} is {shown(value)}{objection}")


@dataclass(frozen=True)
class _Given:
    """An experiment's sections with a cell's axes laid over them."""

    experiment: Experiment
    cell: Cell
    places: Mapping[str, Place]

    def axes(self, scope: Scope) -> dict[str, Scalar]:
        return {self.places[axis].name: value for axis, value in self.cell.items() if self.places[axis].scope is scope and value is not None}

    def whole(self, name: str, least: int, most: int) -> int:
        value = self.axes(Scope.STRUCTURE).get(name, getattr(self.experiment, name, None))
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ExperimentError(f"{name} is {shown(value)}; allowed: a whole number from {least} to {most}")
        return value

    def version(self) -> str:
        version = self.axes(Scope.STRUCTURE).get("kafka.version", self.experiment.kafka_version)
        if version not in versions():
            raise ExperimentError(f"kafka.version is {shown(version)}; allowed: {', '.join(versions())}")
        return str(version)

    def properties(self, scope: Scope) -> dict[str, str]:
        section: Mapping[str, Scalar] = getattr(self.experiment, scope)
        return {first_name(scope, name): as_text(value) for name, value in [*section.items(), *self.axes(scope).items()]}

    def workload(self) -> Workload:
        together = self.experiment.workload.model_dump() | self.axes(Scope.WORKLOAD)
        try:
            workload = Workload(**WorkloadSection.model_validate(together).model_dump())
        except ValidationError as error:
            raise ExperimentError(sentence(error, WorkloadSection, "workload.")) from error
        if workload.records < workload.producers:
            raise ExperimentError(f"workload holds {workload.records} records; allowed: one a producer at least, so {workload.producers}")
        return workload

    def fault(self, duration_s: float, producer: Mapping[str, str], shape: Shape) -> FaultRequest:
        fault = asked_for(self.experiment, as_text(self.axes(Scope.STRUCTURE)["fault"]), self.axes(Scope.FAULT))
        refuse_what_cannot_be(fault, shape, duration_s, producer_settings(producer))
        return fault


def _topic(asked: Mapping[str, str], replication_factor: int) -> dict[str, str]:
    topic = {**TOPIC_DEFAULTS, **asked}
    if topic["min.insync.replicas"] == MAJORITY:
        topic["min.insync.replicas"] = str(replication_factor // 2 + 1)
    return topic


def _is_majority(place: Place, text: str) -> bool:
    return place == Place(Scope.TOPIC, "min.insync.replicas") and text == MAJORITY


def _definition(place: Place, known: KnownNames) -> Property:
    found = known.kafka.of_topic(place.name) if place.scope is Scope.TOPIC else known.kafka.of_broker(place.name)
    if found is None:  # the place was resolved from these names
        raise AssertionError(place)
    return found


__all__ = ["CellSettings", "as_text", "check_value", "kafka_properties", "settings_of"]
