"""From an experiment to its trials. Pure: an experiment always gives the same plan.

`plan` expands the axes into cells, resolves each cell's settings, adds the controls, separates
the cells that their clients refuse, and repeats and orders the others as trials.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell, Role, Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.axes import (
    PROPERTY_SCOPES,
    KnownNames,
    Scope,
    SettingPlace,
    known_names,
    resolve_name,
)
from ackbench.experiments.planning.catalog.loading import check_finding
from ackbench.experiments.planning.cells import axis_places, cell_key, expand_cells
from ackbench.experiments.planning.client_settings import client_settings
from ackbench.experiments.planning.clients.rules import ClientRules, librdkafka_rules
from ackbench.experiments.planning.controls import ResolvedCell, add_controls
from ackbench.experiments.planning.expectations import expectations
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.external_cluster import check_cluster_access
from ackbench.experiments.planning.faults import fault_parameters
from ackbench.experiments.planning.settings import check_property_value, resolve_settings
from ackbench.experiments.sweep.cell_names import cell_label
from ackbench.experiments.sweep.plan import ClusterNeed, Plan, RefusedCell, TrialSpec, check_claim

MAX_TRIALS: Final = 1024
"""Largest number of trials in a sweep: one Airflow task maps to 1024 (`core.max_map_length`)."""


MAX_BROKERS: Final = 9
"""More brokers of an external cluster than this make no difference to a plan."""


def plan(
    experiment: Experiment,
    sweep_id: str,
    librdkafka: ClientRules | None = None,
    brokers: int | None = None,
) -> Plan:
    """Return the sweep that answers an experiment, with its controls unless it omits them.

    The same repeat of every cell has the same seed, so cells are compared in pairs. The seed also
    decides the order of the trials that share a cluster. Cells that their client refuses are not
    run; they are listed with the client's own message.

    Args:
        experiment: the experiment, with overrides applied.
        sweep_id: the id of the new sweep.
        librdkafka: the rules of librdkafka; by default those of the installed library.
        brokers: how many an external cluster has; by default as many as the experiment says.

    Raises:
        ExperimentError: a name is unknown, a value not allowed, or there are too many trials; one
            line, without the name of the file.
    """
    librdkafka = librdkafka or librdkafka_rules()
    known = known_names(experiment, librdkafka)
    places = axis_places(experiment, known)
    _check_names_and_values(experiment, places, known, librdkafka)
    if brokers is not None:
        experiment = experiment.model_copy(update={"nodes": brokers})
    cells = _resolve_cells(experiment, places, known, librdkafka)
    if experiment.claim:
        check_finding(experiment.claim.finding)
        own = [cell.cell for cell in cells if not cell.added]
        check_claim(experiment.claim, own, experiment.nodes)
    accepted = [cell for cell in cells if cell.refusal is None]
    own_cells = [cell.cell for cell in accepted if not cell.added]
    expected = tuple(expectations(experiment.expect, own_cells, places, known))
    trials = tuple(_trials(experiment, sweep_id, accepted))
    refused = (cell for cell in cells if cell.refusal is not None)
    return Plan(
        sweep_id=sweep_id,
        experiment=experiment.name,
        title=experiment.title,
        question=experiment.question,
        construction=experiment.construction,
        claim=experiment.claim,
        expectations=expected,
        seed=experiment.seed,
        repeats=experiment.repeats,
        trials=trials,
        refused=tuple(
            _refused_cell(experiment.seed, cell, number)
            for number, cell in enumerate(refused, len(trials))
        ),
    )


# Cells


def _resolve_cells(
    experiment: Experiment,
    places: Mapping[str, SettingPlace],
    known: KnownNames,
    librdkafka: ClientRules,
) -> tuple[ResolvedCell, ...]:
    """Return the experiment's cells with their settings, followed by added controls."""
    clients_of = partial(client_settings, librdkafka=librdkafka)
    resolved = [
        (cell, resolve_settings(experiment, cell, places))
        for cell in expand_cells(experiment, known)
    ]
    cells = tuple(ResolvedCell(cell, settings, clients_of(settings)) for cell, settings in resolved)
    if not experiment.controls:
        return cells
    return add_controls(experiment, cells, places, known, clients_of)


def _check_names_and_values(
    experiment: Experiment,
    places: Mapping[str, SettingPlace],
    known: KnownNames,
    librdkafka: ClientRules,
) -> None:
    """Check every name, and every value on its own, before cells combine them."""
    check_cluster_access(experiment, places, librdkafka.producer.keys())
    for place, value in dict.fromkeys(property_values(experiment, places, known)):
        check_property_value(place, value, known, allow_code=experiment.allow_code)
    for kind, parameters in experiment.faults.items():
        fault_parameters(kind, parameters)
    _check_fault_axes(experiment, places, known)


def property_values(
    experiment: Experiment, places: Mapping[str, SettingPlace], known: KnownNames
) -> Iterator[tuple[SettingPlace, Scalar]]:
    """Yield every property of an experiment's sections and axes with each of its values.

    Args:
        experiment: the experiment.
        places: the setting of each axis.
        known: the names that the experiment may use.
    """
    for scope in PROPERTY_SCOPES:
        for name, value in getattr(experiment, scope).items():
            yield resolve_name(scope, name, known), value
    for axis, values in itertools.chain.from_iterable(cross.items() for cross in experiment.axes):
        if places[axis].scope in PROPERTY_SCOPES:
            yield from ((places[axis], value) for value in values)


def _check_fault_axes(
    experiment: Experiment, places: Mapping[str, SettingPlace], known: KnownNames
) -> None:
    faults = {str(value) for cross in experiment.axes for value in cross.get("fault", ())}
    for axis, place in places.items():
        if place.scope is Scope.FAULT and not any(
            place.name in known.parameters_of(fault) for fault in faults
        ):
            raise ExperimentError(
                f"axis {axis}: no fault of this experiment has a parameter {place.name}"
            )


def _refused_cell(seed: int, cell: ResolvedCell, number: int) -> RefusedCell:
    return RefusedCell(
        trial_id=trial_id(number, seed, cell.cell, 0),
        cell=cell.cell,
        label=cell_label(cell.cell),
        reason=str(cell.refusal),
    )


# Trials


def _trials(
    experiment: Experiment, sweep_id: str, cells: Sequence[ResolvedCell]
) -> Iterator[TrialSpec]:
    if len(cells) * experiment.repeats > MAX_TRIALS:
        added = sum(cell.added for cell in cells)
        counts = f"{len(cells) - added} cells" + (f" and {added} controls" if added else "")
        raise ExperimentError(
            f"{counts} x {experiment.repeats} repeats are more than {MAX_TRIALS} trials: "
            "reduce the axes or the repeats"
        )
    for order, (cell, repeat) in enumerate(_in_order(experiment, cells)):
        settings, clients = cell.settings, cell.clients
        yield TrialSpec(
            sweep_id=sweep_id,
            trial_id=trial_id(order, experiment.seed, cell.cell, repeat),
            experiment=experiment.name,
            cell=cell.cell,
            label=cell_label(cell.cell),
            role=cell.role,
            added=cell.added,
            repeat=repeat,
            order=order,
            seed=trial_seed(experiment.seed, repeat),
            cluster=settings.cluster,
            needs_own_cluster=settings.needs_own_cluster,
            replication_factor=settings.replication_factor,
            partitions=settings.partitions,
            client=settings.client.kind,
            client_version=settings.client.version,
            client_command=settings.client.command,
            producer=clients.producer,
            consumer=clients.consumer,
            passed=clients.passed,
            topic=settings.topic,
            workload=settings.workload,
            fault=settings.fault,
        )


def _in_order(
    experiment: Experiment, cells: Sequence[ResolvedCell]
) -> list[tuple[ResolvedCell, int]]:
    """Return each repeat of each cell in the order of the trials."""
    clusters = [cell.settings.cluster for cell in cells]
    runs = [(cell, repeat) for cell in cells for repeat in range(_repeats(experiment, cell))]
    return sorted(
        runs,
        key=lambda run: _order_key(
            clusters,
            run[0].settings.cluster,
            run[0].settings.needs_own_cluster,
            _order_digest(experiment.seed, run[0].cell, run[1]),
        ),
    )


def _order_key(
    clusters: Sequence[ClusterNeed], cluster: ClusterNeed, needs_own_cluster: bool, digest: str
) -> tuple[int, bool, str]:
    """Return the sort key of a trial.

    Trials are grouped by cluster; those that need a cluster of their own come last in the group.
    Within a group, the digest shuffles them.
    """
    return clusters.index(cluster), needs_own_cluster, digest


def _order_digest(seed: int, cell: Cell, repeat: int) -> str:
    return _digest(seed, "order " + cell_key(cell), repeat)


MAX_POSITIVE_CONTROL_REPEATS: Final = 2
"""Largest number of repeats of an added positive control.

One with loss is enough, and nearly every one loses records.
"""
MIN_CONTROL_REPEATS: Final = 2
"""Smallest number of repeats of an added control, if the cells have as many."""


def _repeats(experiment: Experiment, cell: ResolvedCell) -> int:
    """Return how often a cell is run.

    An added positive control shows that loss is seen; how often does not matter. Half as many
    repeats are enough for an added control: it tests the harness, as all cells of the sweep do.
    """
    if not cell.added:
        return experiment.repeats
    if cell.role is Role.POSITIVE_CONTROL:
        return min(experiment.repeats, MAX_POSITIVE_CONTROL_REPEATS)
    return min(experiment.repeats, max(MIN_CONTROL_REPEATS, ceil(experiment.repeats / 2)))


def trial_id(number: int, seed: int, cell: Cell, repeat: int) -> str:
    """Return an id such as `007-a1b2c3`: the place in the order and a digest of cell and repeat."""
    return f"{number:03d}-{_digest(seed, cell_key(cell), repeat)[:6]}"


def trial_seed(seed: int, repeat: int) -> int:
    """Return the seed that the trials of one repeat share, 63 bits."""
    return int(_digest(seed, "trial", repeat)[:16], 16) >> 1


def _digest(seed: int, text: str, repeat: int) -> str:
    return hashlib.blake2b(f"{seed}/{repeat}/{text}".encode(), digest_size=16).hexdigest()


# More repeats


def extend_plan(planned: Plan, repeats: Mapping[str, int]) -> Plan:
    """Return the plan with further repeats of some cells after its trials, in the usual order.

    A repeat has the seed that it would have had in the original plan.

    Args:
        planned: the plan to extend.
        repeats: the number of further repeats, by `cell_key`.

    Raises:
        KeyError: a key belongs to no cell of the plan's trials.
    """
    trials_of: dict[str, list[TrialSpec]] = {}
    for trial in planned.trials:
        trials_of.setdefault(cell_key(trial.cell), []).append(trial)
    clusters = [trial.cluster for trial in planned.trials]
    runs = [
        (trials_of[key][0], len(trials_of[key]) + number)
        for key, count in repeats.items()
        for number in range(count)
    ]
    runs.sort(
        key=lambda run: _order_key(
            clusters,
            run[0].cluster,
            run[0].needs_own_cluster,
            _order_digest(planned.seed, run[0].cell, run[1]),
        )
    )
    first = len(planned.trials) + len(planned.refused)
    added = (
        _repeat_trial(planned, spec, repeat, number)
        for number, (spec, repeat) in enumerate(runs, first)
    )
    return planned.model_copy(update={"trials": (*planned.trials, *added)})


def _repeat_trial(planned: Plan, spec: TrialSpec, repeat: int, number: int) -> TrialSpec:
    changes = {
        "trial_id": trial_id(number, planned.seed, spec.cell, repeat),
        "repeat": repeat,
        "order": number,
        "seed": trial_seed(planned.seed, repeat),
    }
    return spec.model_copy(update=changes)
