"""What Kafka guarantees with given settings, under each fault of the catalogue. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache, cached_property
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.sweep.plan import (
    NO_FAULT,
    ClusterNeed,
    FaultRequest,
    PassedSettings,
    TrialSpec,
)
from ackbench.experiments.sweep.workload import GroupMembers, Transactions, Workload
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.verdicts.contract import ContractClause, clauses_of, deciding_rule
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


class Diagnosis:
    """The guarantees that these settings have, under each fault that is possible with them.

    It is worked out when it is asked for: a search for better settings asks about one guarantee of
    many configurations.

    Args:
        configuration: the settings.
        under: for each possible fault, what is known of a trial with it, and of one in which nodes
            stay down for an hour; `None`: it takes no node down.
    """

    def __init__(
        self,
        configuration: Configuration,
        under: Mapping[str, tuple[Circumstances, Circumstances | None]],
    ) -> None:
        self.configuration = configuration
        self._under = under
        self._guaranteed: dict[Guarantee, frozenset[str]] = {}

    @cached_property
    def faults(self) -> tuple[FaultDiagnosis, ...]:
        """The clauses under each possible fault; those of availability only if a node is down."""
        return tuple(
            FaultDiagnosis(
                fault=fault,
                clauses=(
                    *clauses_of(usual, _OF_RECORDS),
                    *(clauses_of(lasting, _OF_TIME) if lasting else ()),
                ),
            )
            for fault, (usual, lasting) in self._under.items()
        )

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantees that these settings are about."""
        return tuple(guarantee for guarantee in GUARANTEES if any(self._judged(guarantee)))

    def of(self, guarantee: Guarantee) -> Iterator[tuple[str, ContractClause]]:
        """Yield each fault with its clause of a guarantee."""
        for one in self.faults:
            for clause in one.clauses:
                if clause.guarantee is guarantee:
                    yield one.fault, clause

    def possible(self) -> Collection[str]:
        """Return the faults that are possible with these settings."""
        return self._under.keys()

    def tested(self, guarantee: Guarantee) -> frozenset[str]:
        """Return the faults under which a guarantee is in question."""
        return frozenset(fault for fault, _ in self._judged(guarantee))

    def guaranteed(self, guarantee: Guarantee) -> frozenset[str]:
        """Return the faults under which a guarantee is given."""
        if guarantee not in self._guaranteed:
            self._guaranteed[guarantee] = frozenset(
                fault
                for fault, circumstances in self._judged(guarantee)
                if deciding_rule(guarantee, circumstances).guaranteed
            )
        return self._guaranteed[guarantee]

    def _judged(self, guarantee: Guarantee) -> Iterator[tuple[str, Circumstances]]:
        for fault, (usual, lasting) in self._under.items():
            circumstances = lasting if guarantee.of_time else usual
            if circumstances and guarantee.applies_to(circumstances):
                yield fault, circumstances


def diagnose(configuration: Configuration) -> Diagnosis:
    """Return what is guaranteed with these settings, without a fault and under each fault.

    Whether a topic is available again before the heal depends on when that is. Here it means that
    the other brokers take over: the nodes are down for an hour.
    """
    spec = _template(configuration)
    base = circumstances_of(spec)
    # An application's members crash at any step, also where no fault could hold ours.
    topology = topology_of(spec).model_copy(update={"holds_members": True})
    return Diagnosis(
        configuration,
        {
            fault: (_with(base, usual), _with(base, lasting) if lasting else None)
            for fault, usual, lasting in _possible_effects(topology)
        },
    )


_OF_TIME: Final = tuple(one for one in GUARANTEES if one.of_time)
_OF_RECORDS: Final = tuple(one for one in GUARANTEES if not one.of_time)


@cache
def _possible_effects(
    topology: Topology,
) -> tuple[tuple[str, FaultEffects, FaultEffects | None], ...]:
    """Return each possible fault with its effects, and those for an hour if it takes nodes down."""
    found = []
    for kind, fault in FAULTS.items():
        parameters = fault.parameters()
        if kind == NO_FAULT or not parameters.impossible_reason(topology):
            can_last = _RESTART in type(parameters).model_fields
            lasting = fault.effects_of({_RESTART: _LONG_S}, topology) if can_last else None
            found.append((kind, fault.effects_of({}, topology), lasting))
    return tuple(found)


def _with(base: Circumstances, effects: FaultEffects) -> Circumstances:
    return base.model_copy(update={"fault": effects})


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
