"""The two controls of a sweep: a cell that must lose nothing and a cell that must lose records.

They show whether the sweep's figures can be trusted: a loss in the control is the harness's own
error, and a harness that sees no loss in the positive control would see none anywhere. A cell of
the experiment that qualifies takes the role. Otherwise a cell is added: the first cell's cluster,
load and other axes, with the settings below. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell, Role, Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.planning.axes import FAULT_PLACE, KnownNames, Scope, SettingPlace
from ackbench.experiments.planning.cells import ACKS, IDEMPOTENCE
from ackbench.experiments.planning.client_settings import ClientSettings
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.faults import fault_request, scalar_parameter
from ackbench.experiments.planning.settings import (
    CellSettings,
    property_text,
    resolve_settings,
    with_fault,
)
from ackbench.experiments.planning.workload import remove_transactions
from ackbench.experiments.sweep.plan import FaultRequest, Workload
from ackbench.experiments.trial.faults.composition.composite import needs_load_s
from ackbench.experiments.trial.faults.core.effects import Topology

LOAD_AFTER_HEAL_S: Final = 2.0
"""Least time that the load of a positive control continues after the heal."""
MAX_REPLICAS: Final = 3

REPLICAS: Final = SettingPlace(Scope.STRUCTURE, "replication.factor")
PARTITIONS: Final = SettingPlace(Scope.STRUCTURE, "partitions")
TRANSACTIONS: Final = SettingPlace(Scope.TRANSACTIONS, "records")
ABORTS: Final = SettingPlace(Scope.TRANSACTIONS, "abort_every")
MIN_ISR: Final = SettingPlace(Scope.TOPIC, "min.insync.replicas")
CLEANUP: Final = SettingPlace(Scope.TOPIC, "cleanup.policy")


@dataclass(frozen=True)
class ResolvedCell:
    """A cell with its settings."""

    cell: Cell
    settings: CellSettings
    clients: ClientSettings
    role: Role = Role.CELL
    added: bool = False
    """Whether the cell was added as a control and is not one of the experiment's."""

    @property
    def refusal(self) -> str | None:
        """The client's own message if it refuses the settings; `None` if it accepts them."""
        return self.clients.refusal


ClientsOf = Callable[[CellSettings], ClientSettings]
"""Returns the settings of a cell's clients, which its client has accepted or refused."""


def add_controls(
    experiment: Experiment,
    cells: Sequence[ResolvedCell],
    places: Mapping[str, SettingPlace],
    known: KnownNames,
    clients_of: ClientsOf,
) -> tuple[ResolvedCell, ...]:
    """Return the cells with their roles, followed by the controls that are not among them.

    If the clients refuse every cell, no control is added.

    Args:
        experiment: the experiment.
        cells: its cells.
        places: the setting of each axis.
        known: the names that the experiment may use.
        clients_of: asks a cell's client whether it accepts the settings.

    Raises:
        ExperimentError: a control cannot run with the settings of these cells; the message says
            how to omit the controls.
    """
    accepted = [cell for cell in cells if cell.refusal is None]
    if not accepted:
        return tuple(cells)
    builder = _ControlBuilder(experiment, accepted[0], places, known, clients_of)
    # The control has idempotence unless other settings of the experiment do not allow it.
    controls = [
        builder.first_accepted(_control(accepted[0], idempotence) for idempotence in (True, False)),
        builder.first_accepted([_positive_control(accepted[0])]),
    ]
    requirements = [requirement for requirement, _ in controls]
    with_roles = tuple(replace(cell, role=_role(cell, requirements, places)) for cell in cells)
    taken = {cell.role for cell in with_roles}
    return (*with_roles, *(added for _, added in controls if added.role not in taken))


def _role(
    cell: ResolvedCell,
    requirements: Sequence[_ControlRequirements],
    places: Mapping[str, SettingPlace],
) -> Role:
    for requirement in requirements:
        if requirement.is_met_by(cell, places):
            return requirement.role
    return Role.CELL


@dataclass(frozen=True)
class _ControlRequirements:
    """What makes a cell a control."""

    role: Role
    values: Mapping[SettingPlace, Scalar]
    """Values that every such cell has."""
    min_replicas: int
    added_values: Mapping[SettingPlace, Scalar]
    """Further values of a cell that is added for this role."""

    def is_met_by(self, cell: ResolvedCell, places: Mapping[str, SettingPlace]) -> bool:
        has_values = all(
            property_text(cell.cell[axis]) == property_text(self.values[place])
            for axis, place in places.items()
            if place in self.values
        )
        return (
            has_values
            and cell.refusal is None
            and cell.settings.replication_factor >= self.min_replicas
        )


def _control(first: ResolvedCell, idempotence: bool) -> _ControlRequirements:
    """Return the requirements of the control: no fault, and settings that lose nothing."""
    values: dict[SettingPlace, Scalar] = {
        ACKS: "all",
        IDEMPOTENCE: idempotence,
        FAULT_PLACE: "none",
    }
    replicas = min(MAX_REPLICAS, first.settings.cluster.nodes)
    return _ControlRequirements(Role.CONTROL, values, 1, {REPLICAS: replicas})


def _positive_control(first: ResolvedCell) -> _ControlRequirements:
    """Return the requirements of the positive control, which must lose records.

    The leader crashes while its followers are behind: records that only the leader has are
    truncated. On one node, the crash loses the records in flight. An external cluster is not
    touched: relays drop what producers send to the leader without waiting for a response. There is
    one partition, so that the fault affects every record.
    """
    replicas = min(MAX_REPLICAS, first.settings.cluster.nodes)
    fault: dict[SettingPlace, Scalar]
    if not first.settings.cluster.traits.started_here:
        fault = {ACKS: 0, FAULT_PLACE: "relay-dropped(direction=requests)"}
    elif replicas > 1:
        fault = {ACKS: 1, FAULT_PLACE: "leader-crash-behind"}
    else:
        fault = {ACKS: 0, FAULT_PLACE: "leader-crash"}
    values = {**fault, IDEMPOTENCE: False, PARTITIONS: 1, TRANSACTIONS: 0, ABORTS: None}
    return _ControlRequirements(
        Role.POSITIVE_CONTROL,
        values,
        min(replicas, 2),
        # Of a compacted topic, a later record of the same key explains every absent one.
        {REPLICAS: replicas, MIN_ISR: 1, CLEANUP: "delete"},
    )


@dataclass(frozen=True)
class _ControlBuilder:
    """Builds a control from the settings of the first cell."""

    experiment: Experiment
    first: ResolvedCell
    places: Mapping[str, SettingPlace]
    known: KnownNames
    clients_of: ClientsOf

    def first_accepted(
        self, candidates: Iterable[_ControlRequirements]
    ) -> tuple[_ControlRequirements, ResolvedCell]:
        """Return the first candidate that the client accepts, with its cell.

        Raises:
            ExperimentError: the client refuses all candidates.
        """
        problems = []
        for requirements in candidates:
            control = self._build(requirements)
            if control.refusal is None:
                return requirements, control
            problems.append(
                _not_runnable(
                    requirements.role, f"the client refuses it: {one_line(control.refusal)}"
                )
            )
        raise problems[0]

    def _build(self, requirements: _ControlRequirements) -> ResolvedCell:
        values = {**requirements.values, **requirements.added_values}
        fault = str(values[FAULT_PLACE])
        cell = {
            axis: values[place] if place in values else self._inherited(place, fault, value)
            for axis, value in self.first.cell.items()
            for place in (self.places[axis],)
        }
        settings = self._resolve(requirements, cell, fault)
        return ResolvedCell(
            cell, settings, self.clients_of(settings), requirements.role, added=True
        )

    def _inherited(self, place: SettingPlace, fault: str, value: Scalar) -> Scalar:
        """Return the value of an axis that no requirement mentions.

        It is the first cell's value, and for a fault parameter that of the section `faults`.
        """
        if place.scope is not Scope.FAULT:
            return value
        if place.name not in self.known.parameters_of(fault):
            return None
        return scalar_parameter(self.experiment, fault, place.name)

    def _resolve(
        self, requirements: _ControlRequirements, cell: Cell, fault_kind: str
    ) -> CellSettings:
        """Return the control's settings, with a load that is long enough for its fault.

        The settings are first resolved without the fault, as the experiment's load may be too
        short for it.
        """
        without_fault = {
            axis: _remove_fault(self.places[axis], value) for axis, value in cell.items()
        }
        try:
            settings = resolve_settings(self.experiment, without_fault, self.places)
            fault = _fault_request(self.experiment, cell, self.places, fault_kind)
        except ExperimentError as error:
            raise _not_runnable(requirements.role, str(error)) from error
        if requirements.role is Role.POSITIVE_CONTROL:
            # Transactions need acks=all, which would not lose records.
            producer, workload = remove_transactions(settings.producer, settings.workload)
            settings = replace(settings, producer=producer, workload=workload)
        of_topic = {
            place.name: str(value)
            for place, value in requirements.added_values.items()
            if place == MIN_ISR or (place == CLEANUP and CLEANUP.name in settings.topic)
        }
        changed = replace(
            settings, topic={**settings.topic, **of_topic}, workload=_prolong(settings, fault)
        )
        return with_fault(changed, fault)


def _not_runnable(role: Role, problem: str) -> ExperimentError:
    return ExperimentError(
        f"the {role.replace('-', ' ')} cannot run: {problem}; "
        "`controls: false` in the file, or --no-controls, omits the controls"
    )


def _remove_fault(place: SettingPlace, value: Scalar) -> Scalar:
    if place == FAULT_PLACE:
        return "none"
    return None if place.scope is Scope.FAULT else value


def _fault_request(
    experiment: Experiment, cell: Cell, places: Mapping[str, SettingPlace], kind: str
) -> FaultRequest:
    axes = {
        places[axis].name: value
        for axis, value in cell.items()
        if places[axis].scope is Scope.FAULT and value is not None
    }
    return fault_request(experiment, kind, axes)


def _prolong(settings: CellSettings, fault: FaultRequest) -> Workload:
    """Return the load, long enough to continue after the fault has healed."""
    workload = settings.workload
    if fault.kind == "none":
        return workload
    topology = Topology.of_trial(
        settings.cluster,
        workload,
        partitions=settings.partitions,
        replication_factor=settings.replication_factor,
        client=settings.client.kind,
        consumer=settings.consumer,
    )
    duration_s = max(workload.duration_s, needs_load_s(fault, topology) + LOAD_AFTER_HEAL_S)
    return workload.model_copy(update={"duration_s": duration_s})
