"""What Kafka guarantees with given settings, under each fault of the catalogue. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen, Scalar
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.sweep.plan import (
    NO_FAULT,
    ClusterNeed,
    FaultRequest,
    PassedSettings,
    TrialSpec,
)
from ackbench.experiments.sweep.workload import GroupMembers, Transactions, Workload
from ackbench.experiments.trial.faults import FAULTS, FaultKind
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.verdicts.contract import ContractClause, clauses_of
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.guarantees.circumstances import (
    Circumstances,
    circumstances_of,
    topology_of,
)

_TRANSACTION_RECORDS = 100
"""Records per transaction, where the producer has a `transactional.id`."""
_MEMBERS = 2
_RESTART = "restart_after_s"
_LONG_S = 3600.0
_CONTROLLERS = 3
"""Dedicated controllers, where no broker is one."""


class FaultDiagnosis(Frozen):
    """What is guaranteed under one fault."""

    fault: str
    clauses: tuple[ContractClause, ...]


class Diagnosis(Frozen):
    """What is guaranteed with these settings, under each fault that is possible with them."""

    configuration: Configuration
    faults: tuple[FaultDiagnosis, ...]

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees that these settings are about."""
        found = {clause.guarantee for one in self.faults for clause in one.clauses}
        return tuple(guarantee for guarantee in GUARANTEES if guarantee in found)

    def of(self, guarantee: Guarantee) -> Iterator[tuple[str, ContractClause]]:
        """Yield each fault with its clause of a guarantee."""
        for one in self.faults:
            for clause in one.clauses:
                if clause.guarantee is guarantee:
                    yield one.fault, clause

    def guaranteed(self, guarantee: Guarantee) -> frozenset[str]:
        """Return the faults under which a guarantee is given."""
        return frozenset(fault for fault, clause in self.of(guarantee) if clause.guaranteed)


def diagnose(configuration: Configuration) -> Diagnosis:
    """Return what is guaranteed with these settings, without a fault and under each fault."""
    spec = _template(configuration)
    base = circumstances_of(spec)
    # An application's members crash at any step, also where no fault could hold ours.
    topology = topology_of(spec).model_copy(update={"holds_members": True})
    faults = [
        FaultDiagnosis(fault=kind, clauses=clauses)
        for kind in FAULTS
        if (clauses := _clauses(base, topology, kind)) is not None
    ]
    return Diagnosis(configuration=configuration, faults=tuple(faults))


_OF_TIME: Final = tuple(one for one in GUARANTEES if one.of_time)
_OF_RECORDS: Final = tuple(one for one in GUARANTEES if not one.of_time)


def _clauses(
    base: Circumstances, topology: Topology, kind: str
) -> tuple[ContractClause, ...] | None:
    """Return the clauses under a fault; those of availability only if a node is down for an hour.

    Whether a topic is available again before the heal depends on when that is. Here it means that
    the other brokers take over. `None`: the fault is not possible.
    """
    fault = FAULTS[kind]
    parameters = fault.parameters()
    if kind != NO_FAULT and parameters.impossible_reason(topology):
        return None
    clauses = clauses_of(_under(base, topology, fault, {}), _OF_RECORDS)
    if _RESTART in type(parameters).model_fields:
        lasting = _under(base, topology, fault, {_RESTART: _LONG_S})
        clauses += clauses_of(lasting, _OF_TIME)
    return clauses


def _under(
    base: Circumstances, topology: Topology, fault: FaultKind, given: dict[str, Scalar]
) -> Circumstances:
    return base.model_copy(update={"fault": fault.effects_of(given, topology)})


def _template(configuration: Configuration) -> TrialSpec:
    """Return the trial that would test the settings without a fault."""
    return TrialSpec(
        sweep_id="checked",
        trial_id="000-checked",
        experiment="checked",
        cell={},
        label="checked",
        repeat=0,
        order=0,
        seed=0,
        cluster=_cluster(configuration),
        replication_factor=configuration.replicas,
        partitions=configuration.partitions,
        client=configuration.client,
        producer=configuration.effective_producer(),
        consumer=configuration.effective_consumer(),
        # Present, so that all other settings have the library's defaults.
        passed=PassedSettings(
            producer=configuration.producer, consumer=configuration.consumer or {}
        ),
        topic=configuration.topic,
        workload=_workload(configuration),
        fault=FaultRequest(kind=NO_FAULT),
    )


def _cluster(configuration: Configuration) -> ClusterNeed:
    zookeepers = configuration.zookeepers
    controllers = configuration.controllers or _CONTROLLERS
    return ClusterNeed(
        nodes=configuration.nodes,
        kafka_version=configuration.kafka_version,
        broker=configuration.effective_broker(),
        coordination="zookeeper" if zookeepers else "kraft",
        controllers=0 if zookeepers or configuration.has_combined_nodes else controllers,
        zookeepers=zookeepers,
        features=configuration.effective_features(),
    )


def _workload(configuration: Configuration) -> Workload:
    transactional = configuration.effective_producer().get("transactional.id")
    group = None
    if configuration.consumer is not None:
        reset = configuration.effective_consumer()["auto.offset.reset"]
        group = GroupMembers.model_validate({"consumers": _MEMBERS, "auto_offset_reset": reset})
    return Workload(
        transactions=Transactions(records=_TRANSACTION_RECORDS) if transactional else None,
        group=group,
    )
