"""Experiment -> cells -> trials. Pure: the same experiment gives the same plan, in the same order.

`load` reads an experiment by name or from a file, `override` lays the command line's wishes over it, `plan` makes the trials.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from experiments.clients.settings.librdkafka import copier_settings
from experiments.errors import ExperimentError
from experiments.ledger.record import Cell, Role, Scalar
from experiments.messages.phrases import format_value
from experiments.planning.axes import (
    PROPERTY_SCOPES,
    KnownNames,
    Scope,
    SettingPlace,
    section_place,
)
from experiments.planning.cells import axis_places, cell_key, cells_of
from experiments.planning.client_rules import ClientRules, client_rules, java_rules
from experiments.planning.controls import SettledCell, with_controls
from experiments.planning.experiment import Experiment, catalogue, load
from experiments.planning.external_cluster import check_whose
from experiments.planning.faults import fault_parameters
from experiments.planning.overrides import known_names, override, rules_of_all
from experiments.planning.settings import CellSettings, check_value, settings_of
from experiments.planning.workload import TRANSACTIONAL_ID
from experiments.sweep.cell_names import cell_label
from experiments.sweep.plan import PassedSettings, Plan, RefusedCell, TrialSpec, check_claim

# ---------- What a cell's clients are given, and whether they take it.


@dataclass(frozen=True)
class ClientSettings:
    """What holds of a cell's clients."""

    producer: dict[str, str]
    consumer: dict[str, str]
    passed: PassedSettings | None
    """With their own defaults: what they are given of it. `None`: all of it."""
    refusal: str | None
    """The client's own reason for not being made with these settings; `None` when it can be."""


def client_settings(settings: CellSettings, librdkafka: ClientRules) -> ClientSettings:
    """Return what a cell's clients are given.

    Args:
        settings: what the cell asks for.
        librdkafka: its rules.

    Raises:
        ExperimentError: the cell's client does not know a property, or does not take its value.
        InputError: two names of one property say different things.
    """
    choice = settings.client
    rules = java_rules(settings.cluster.kafka_version) if choice.kind == "java" else librdkafka
    _refuse_what_the_client_lacks(settings, rules)
    if not choice.defaults:
        producer = rules.producer_settings(settings.producer)
        return ClientSettings(
            producer,
            rules.consumer_settings(settings.consumer),
            None,
            _refusal(rules, settings, producer),
        )
    producer, passed = (
        choice.producer(settings.producer),
        choice.passed(settings.producer, settings.consumer),
    )
    asked = passed.producer if passed and choice.kind == "librdkafka" else producer
    return ClientSettings(
        producer, choice.consumer(settings.consumer), passed, _refusal(rules, settings, asked)
    )


def _refusal(rules: ClientRules, settings: CellSettings, producer: Mapping[str, str]) -> str | None:
    """Return why the client does not take what the producers are given, or what a copier's producer is given that has transactions of its own."""
    refusal = rules.refusal(producer)
    if (
        refusal is None
        and settings.workload.kind == "copy"
        and settings.workload.commits == "within"
    ):
        return rules.refusal(copier_settings(producer, TRANSACTIONAL_ID))
    return refusal


def _refuse_what_the_client_lacks(settings: CellSettings, rules: ClientRules) -> None:
    for scope, asked, known in (
        ("producer", settings.producer, rules.producer),
        ("consumer", settings.consumer, rules.consumer),
    ):
        unknown = next((name for name in asked if name not in known), None)
        if unknown:
            raise ExperimentError(
                f"{scope} property {unknown} is none that client {rules.name} knows; allowed: in a cross product whose client knows it"
            )
        for name, text in asked.items():
            if rules.judged and (objection := rules.judged(name, text)):
                raise ExperimentError(f"{scope} property {name} is {format_value(text)}{objection}")


MOST_TRIALS = 1024
"""What one Airflow task can be mapped to (`core.max_map_length`)."""
MOST_POSITIVE_CONTROLS = 2
"""Runs of an added positive control: one with loss is enough, and what must be lost is lost in nearly each."""

LEAST_CONTROLS = 2
"""Runs of an added control, where the cells are run as often."""


def plan(experiment: Experiment, sweep_id: str, rules: ClientRules | None = None) -> Plan:
    """Return the sweep that answers an experiment, its controls among the trials unless it wants none.

    The same repeat of every cell has the same seed, so cells are compared in pairs; the order is shuffled by the seed among the
    trials that can share a cluster. A cell that no client accepts is refused, with the client's own words.

    Args:
        experiment: the question, with every override in it.
        sweep_id: what the sweep will be called.
        rules: what the clients know and refuse; librdkafka's by default.

    Raises:
        ExperimentError: a name is unknown, a value impossible, or there are too many trials; one line, without the file's name.
    """
    rules = rules or client_rules()
    settled = _settled(experiment, rules)
    if experiment.claim:
        check_claim(
            experiment.claim, [run.cell for run in settled if not run.added], experiment.nodes
        )
    trials = tuple(
        _trials(experiment, sweep_id, [run for run in settled if run.reason is None], rules)
    )
    return Plan(
        sweep_id=sweep_id,
        experiment=experiment.name,
        question=experiment.question,
        claim=experiment.claim,
        seed=experiment.seed,
        repeats=experiment.repeats,
        trials=trials,
        refused=tuple(
            _refused(
                experiment.seed, [run for run in settled if run.reason is not None], len(trials)
            )
        ),
    )


def extended(planned: Plan, more: Mapping[str, int]) -> Plan:
    """Return the plan with more repeats of some cells behind its trials, in an order that the seed decides, as ever.

    A repeat has the seed that it would have had if it had been planned at first.

    Args:
        planned: the sweep as it is.
        more: how many repeats, by `cell_key`.

    Raises:
        KeyError: a key is of no cell that is run.
    """
    of_cell: dict[str, list[TrialSpec]] = {}
    for trial in planned.trials:
        of_cell.setdefault(cell_key(trial.cell), []).append(trial)
    added = [
        (of_cell[key][0], len(of_cell[key]) + number)
        for key, count in more.items()
        for number in range(count)
    ]
    clusters = [trial.cluster for trial in planned.trials]
    added.sort(
        key=lambda run: (
            clusters.index(run[0].cluster),
            run[0].needs_own_cluster,
            _digest(planned.seed, "order " + cell_key(run[0].cell), run[1]),
        )
    )
    trials = (
        _repeated(spec, planned, repeat, number)
        for number, (spec, repeat) in enumerate(added, len(planned.trials) + len(planned.refused))
    )
    return planned.model_copy(update={"trials": (*planned.trials, *trials)})


def _repeated(spec: TrialSpec, planned: Plan, repeat: int, number: int) -> TrialSpec:
    changes = {
        "trial_id": trial_id(number, planned.seed, spec.cell, repeat),
        "repeat": repeat,
        "order": number,
        "seed": trial_seed(planned.seed, repeat),
    }
    return spec.model_copy(update=changes)


def trial_id(number: int, seed: int, cell: Cell, repeat: int) -> str:
    """Return `007-a1b2c3`: the place in the order, and a digest that no other trial of this seed has there."""
    return f"{number:03d}-{_digest(seed, cell_key(cell), repeat)[:6]}"


def trial_seed(seed: int, repeat: int) -> int:
    """Return the seed that the trials of one repeat share, 63 bits."""
    return int(_digest(seed, "trial", repeat)[:16], 16) >> 1


def _checked(
    experiment: Experiment, rules: ClientRules
) -> tuple[dict[str, SettingPlace], tuple[Cell, ...]]:
    """Return the axes' places and the cells, once every name and every value by itself is known to be right."""
    known = known_names(experiment, rules)
    places = axis_places(experiment, known)
    check_whose(experiment, places, rules.producer.keys())
    for place, value in dict.fromkeys(_properties(experiment, places, known)):
        check_value(place, value, known, rules_of_all(experiment, rules))
    for kind, parameters in experiment.faults.items():
        fault_parameters(kind, parameters)
    _check_fault_axes(experiment, places, known)
    return places, cells_of(experiment, known)


def _properties(
    experiment: Experiment, places: Mapping[str, SettingPlace], known: KnownNames
) -> Iterator[tuple[SettingPlace, Scalar]]:
    for scope in PROPERTY_SCOPES:
        for name, value in getattr(experiment, scope).items():
            yield section_place(scope, name, known), value
    for axis, values in itertools.chain.from_iterable(cross.items() for cross in experiment.axes):
        if places[axis].scope in PROPERTY_SCOPES:
            yield from ((places[axis], value) for value in values)


def _check_fault_axes(
    experiment: Experiment, places: Mapping[str, SettingPlace], known: KnownNames
) -> None:
    kinds = {str(value) for cross in experiment.axes for value in cross.get("fault", ())}
    for axis, place in places.items():
        if place.scope is Scope.FAULT and not any(
            place.name in known.parameters_of(kind) for kind in kinds
        ):
            raise ExperimentError(
                f"axis {axis}: no fault of this experiment has a parameter {place.name}"
            )


def _settled(experiment: Experiment, rules: ClientRules) -> tuple[SettledCell, ...]:
    """Return the experiment's cells, and its controls."""

    def refusal(settings: CellSettings) -> str | None:
        return client_settings(settings, rules).refusal

    places, cells = _checked(experiment, rules)
    settled = [(cell, settings_of(experiment, cell, places)) for cell in cells]
    own = tuple(SettledCell(cell, settings, refusal(settings)) for cell, settings in settled)
    return (
        with_controls(experiment, own, places, known_names(experiment, rules), refusal)
        if experiment.controls
        else own
    )


def _trials(
    experiment: Experiment, sweep_id: str, accepted: Sequence[SettledCell], rules: ClientRules
) -> Iterator[TrialSpec]:
    if len(accepted) * experiment.repeats > MOST_TRIALS:
        added = sum(run.added for run in accepted)
        cells = f"{len(accepted) - added} cells" + (f" and {added} controls" if added else "")
        raise ExperimentError(
            f"{cells} x {experiment.repeats} repeats are more than {MOST_TRIALS} trials: ask less at once"
        )
    for order, (run, repeat) in enumerate(_in_order(experiment, accepted)):
        settings, given = run.settings, client_settings(run.settings, rules)
        yield TrialSpec(
            sweep_id=sweep_id,
            trial_id=trial_id(order, experiment.seed, run.cell, repeat),
            experiment=experiment.name,
            cell=run.cell,
            label=cell_label(run.cell),
            role=run.role,
            added=run.added,
            repeat=repeat,
            order=order,
            seed=trial_seed(experiment.seed, repeat),
            cluster=settings.cluster,
            needs_own_cluster=settings.needs_own_cluster,
            replication_factor=settings.replication_factor,
            partitions=settings.partitions,
            client=settings.client.kind,
            producer=given.producer,
            consumer=given.consumer,
            passed=given.passed,
            topic=settings.topic,
            workload=settings.workload,
            fault=settings.fault,
        )


def _refused(seed: int, refused: Sequence[SettledCell], after: int) -> Iterator[RefusedCell]:
    for number, run in enumerate(refused, after):
        yield RefusedCell(
            trial_id=trial_id(number, seed, run.cell, 0),
            cell=run.cell,
            label=cell_label(run.cell),
            reason=str(run.reason),
        )


def _in_order(
    experiment: Experiment, accepted: Sequence[SettledCell]
) -> list[tuple[SettledCell, int]]:
    """Return the trials grouped by cluster, those that share none behind, shuffled inside a group: sorted by a digest that the seed decides."""
    clusters = [run.settings.cluster for run in accepted]

    def place(run: tuple[SettledCell, int]) -> tuple[int, bool, str]:
        settings = run[0].settings
        return (
            clusters.index(settings.cluster),
            settings.needs_own_cluster,
            _digest(experiment.seed, "order " + cell_key(run[0].cell), run[1]),
        )

    return sorted(
        ((run, repeat) for run in accepted for repeat in range(_repeats(experiment, run))),
        key=place,
    )


def _repeats(experiment: Experiment, run: SettledCell) -> int:
    """Return how often a cell is run.

    A positive control that was added shows that loss is seen, and need not show how often. An added control is about the harness, which all cells of the
    sweep put to the test as well: it is run half as often as they are, and twice at least.
    """
    if not run.added:
        return experiment.repeats
    most = (
        MOST_POSITIVE_CONTROLS
        if run.role is Role.POSITIVE_CONTROL
        else max(LEAST_CONTROLS, ceil(experiment.repeats / 2))
    )
    return min(experiment.repeats, most)


def _digest(seed: int, what: str, repeat: int) -> str:
    return hashlib.blake2b(f"{seed}/{repeat}/{what}".encode(), digest_size=16).hexdigest()


__all__ = [
    "MOST_TRIALS",
    "Experiment",
    "catalogue",
    "extended",
    "load",
    "override",
    "plan",
    "trial_id",
    "trial_seed",
]
