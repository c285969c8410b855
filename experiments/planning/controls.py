"""The two cells that say whether a sweep's figures can be believed: one in which nothing may be lost, and one in which something must.

A cell of the experiment that already is such a cell takes the role, and nothing is added. Otherwise the first cell's circumstances
(its cluster, its load and its other axes) are run with the settings below. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from experiments.errors import ExperimentError
from experiments.faults.composition.composite import heals_at_s, cluster_for_fault
from experiments.ledger.record import Cell, Role, Scalar
from experiments.messages.phrases import one_line
from experiments.planning.axes import FAULT, KnownNames, Scope, SettingPlace
from experiments.planning.experiment import Experiment
from experiments.planning.faults import asked_for
from experiments.planning.settings import CellSettings, as_text, settings_of
from experiments.planning.workload import without_transactions
from experiments.sweep.plan import FaultRequest, Workload

AFTERMATH_S: Final = 2.0
"""How long the load of a positive control goes on after the heal, at least."""
MOST_REPLICAS: Final = 3
_LEFT_OUT: Final = "; `controls: false` in the file, or --no-controls, leaves the controls out"

ACKS: Final = SettingPlace(Scope.PRODUCER, "acks")
IDEMPOTENCE: Final = SettingPlace(Scope.PRODUCER, "enable.idempotence")
REPLICAS: Final = SettingPlace(Scope.STRUCTURE, "replication.factor")
PARTITIONS: Final = SettingPlace(Scope.STRUCTURE, "partitions")
TRANSACTIONS: Final = SettingPlace(Scope.WORKLOAD, "transaction_records")
ABORTS: Final = SettingPlace(Scope.WORKLOAD, "abort_every")
MIN_ISR: Final = SettingPlace(Scope.TOPIC, "min.insync.replicas")


@dataclass(frozen=True)
class SettledCell:
    """A cell, what it runs with, and why no client accepts it, if none does."""

    cell: Cell
    settings: CellSettings
    reason: str | None
    role: Role = Role.CELL
    added: bool = False
    """Not of the experiment's axes."""


Refusal = Callable[[CellSettings], str | None]
"""The client's own reason for not being made with a cell's settings; `None` when it can be."""


@dataclass(frozen=True)
class _ControlRequirements:
    """What makes a cell a control."""

    role: Role
    values: Mapping[SettingPlace, Scalar]
    """Such a cell has these."""
    least_replicas: int
    filled: Mapping[SettingPlace, Scalar]
    """One that is added has these too."""

    def is_met_by(self, run: SettledCell, places: Mapping[str, SettingPlace]) -> bool:
        alike = all(
            as_text(run.cell[axis]) == as_text(self.values[place])
            for axis, place in places.items()
            if place in self.values
        )
        return (
            alike and run.reason is None and run.settings.replication_factor >= self.least_replicas
        )


def with_controls(
    experiment: Experiment,
    cells: Sequence[SettledCell],
    places: Mapping[str, SettingPlace],
    known: KnownNames,
    refusal: Refusal,
) -> tuple[SettledCell, ...]:
    """Return the cells with their roles, and behind them the controls that are not among them.

    Nothing is added to an experiment of which no client accepts any cell.

    Raises:
        ExperimentError: a control cannot be run beside these cells; says how to leave it out.
    """
    accepted = [run for run in cells if run.reason is None]
    if not accepted:
        return tuple(cells)
    makes = _ControlBuilder(experiment, accepted[0], places, known, refusal)
    wanted = [
        makes.runnable(_no_fault(accepted[0], idempotence) for idempotence in (True, False)),
        makes.runnable([_must_lose(accepted[0])]),
    ]
    named = tuple(_in_its_role(run, [control for control, _ in wanted], places) for run in cells)
    taken = {run.role for run in named}
    return (*named, *(made for control, made in wanted if control.role not in taken))


def _in_its_role(
    run: SettledCell, wanted: Sequence[_ControlRequirements], places: Mapping[str, SettingPlace]
) -> SettledCell:
    role = next((control.role for control in wanted if control.is_met_by(run, places)), Role.CELL)
    return replace(run, role=role)


def _no_fault(first: SettledCell, idempotence: bool) -> _ControlRequirements:
    """No fault, and settings that lose nothing; idempotence where the experiment's other settings allow it."""
    values: dict[SettingPlace, Scalar] = {ACKS: "all", IDEMPOTENCE: idempotence, FAULT: "none"}
    return _ControlRequirements(
        Role.CONTROL, values, 1, {REPLICAS: min(MOST_REPLICAS, first.settings.cluster.nodes)}
    )


def _must_lose(first: SettledCell) -> _ControlRequirements:
    """What only the leader had is cut off when its followers are behind; on one node, what was on its way is gone with the process.

    One partition, so that every record is exposed.
    """
    replicas = min(MOST_REPLICAS, first.settings.cluster.nodes)
    crash: dict[SettingPlace, Scalar] = (
        {ACKS: 1, FAULT: "leader-crash-behind"}
        if replicas > 1
        else {ACKS: 0, FAULT: "leader-crash"}
    )
    values = {**crash, IDEMPOTENCE: False, PARTITIONS: 1, TRANSACTIONS: 0, ABORTS: 0}
    return _ControlRequirements(
        Role.POSITIVE_CONTROL, values, min(replicas, 2), {REPLICAS: replicas, MIN_ISR: 1}
    )


@dataclass(frozen=True)
class _ControlBuilder:
    """Makes a control from the first cell's circumstances."""

    experiment: Experiment
    first: SettledCell
    places: Mapping[str, SettingPlace]
    known: KnownNames
    refusal: Refusal

    def runnable(
        self, candidates: Iterable[_ControlRequirements]
    ) -> tuple[_ControlRequirements, SettledCell]:
        """Return the first of the candidates that the client accepts.

        Raises:
            ExperimentError: it accepts none of them.
        """
        reasons = []
        for wanted in candidates:
            made = self._made(wanted)
            if made.reason is None:
                return wanted, made
            reasons.append(
                f"the {wanted.role} cannot be run: the client says: {one_line(made.reason)}{_LEFT_OUT}"
            )
        raise ExperimentError(reasons[0])

    def _made(self, wanted: _ControlRequirements) -> SettledCell:
        values = {**wanted.values, **wanted.filled}
        cell = {
            axis: values[place]
            if (place := self.places[axis]) in values
            else self._beside(place, str(values[FAULT]), value)
            for axis, value in self.first.cell.items()
        }
        settings = self._settled(wanted, cell, values)
        return SettledCell(cell, settings, self.refusal(settings), wanted.role, added=True)

    def _beside(self, place: SettingPlace, fault: str, value: Scalar) -> Scalar:
        """Return what an axis that makes no control has in one: the first cell's value; of a fault's parameter, the section's."""
        if place.scope is not Scope.FAULT:
            return value
        return (
            self.experiment.faults.get(fault, {}).get(place.name)
            if place.name in self.known.parameters_of(fault)
            else None
        )

    def _settled(
        self, wanted: _ControlRequirements, cell: Cell, values: Mapping[SettingPlace, Scalar]
    ) -> CellSettings:
        """Settle it as a cell without its fault, whose time may be too short for it; then give it the fault and the time it takes."""
        calm = {axis: _calm(self.places[axis], value) for axis, value in cell.items()}
        try:
            settings = settings_of(self.experiment, calm, self.places)
            fault = _fault(self.experiment, cell, self.places, str(values[FAULT]))
        except ExperimentError as error:
            raise ExperimentError(f"the {wanted.role} cannot be run: {error}{_LEFT_OUT}") from error
        if (
            wanted.role is Role.POSITIVE_CONTROL
        ):  # a transaction needs acks=all, and that does not lose
            producer, workload = without_transactions(settings.producer, settings.workload)
            settings = replace(settings, producer=producer, workload=workload)
        least = {
            place.name: str(value) for place, value in wanted.filled.items() if place == MIN_ISR
        }
        cluster, topic = cluster_for_fault(settings.cluster, fault), {**settings.topic, **least}
        return replace(
            settings,
            cluster=cluster,
            topic=topic,
            workload=_long_enough(settings.workload, fault),
            fault=fault,
        )


def _calm(place: SettingPlace, value: Scalar) -> Scalar:
    return "none" if place == FAULT else None if place.scope is Scope.FAULT else value


def _fault(
    experiment: Experiment, cell: Cell, places: Mapping[str, SettingPlace], kind: str
) -> FaultRequest:
    axes = {
        places[axis].name: value
        for axis, value in cell.items()
        if places[axis].scope is Scope.FAULT and value is not None
    }
    return asked_for(experiment, kind, axes)


def _long_enough(workload: Workload, fault: FaultRequest) -> Workload:
    """Return the experiment's own load, going on until the fault is healed and over."""
    if fault.kind == "none":
        return workload
    return workload.model_copy(
        update={"duration_s": max(workload.duration_s, heals_at_s(fault) + AFTERMATH_S)}
    )
