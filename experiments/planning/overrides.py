"""Laying wishes over an experiment: axes, repeats and seed of the command line or of the trigger form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from experiments.errors import ExperimentError
from experiments.faults import FAULTS
from experiments.faults.composition.notation import parse_fault
from experiments.ledger.record import Scalar
from experiments.messages.phrases import format_value
from experiments.messages.validation import describe_validation_error
from experiments.planning.axes import (
    FAULT,
    PROPERTY_SCOPES,
    KnownNames,
    Scope,
    SettingPlace,
    place_of,
)
from experiments.planning.client_rules import ClientRules, client_rules
from experiments.planning.clients import all_rules
from experiments.planning.experiment import Experiment
from experiments.planning.properties import merged, versions
from experiments.planning.settings import as_text, check_value
from experiments.planning.yaml_reader import parse_values
from experiments.sweep.cell_names import CORE_AXES


def known_names(experiment: Experiment, rules: ClientRules) -> KnownNames:
    """Return the names that an experiment may use.

    Raises:
        ExperimentError: its version of Kafka is not known.
    """
    asked = versions_asked_for(experiment)
    unknown = next((version for version in asked if version not in versions()), None)
    if unknown:
        raise ExperimentError(
            f"kafka.version is {format_value(unknown)}; allowed: {', '.join(versions())}"
        )
    faults = {
        kind: frozenset(fault.parameters.model_fields)
        for kind, fault in FAULTS.items()
        if kind != "none"
    }
    clients = rules_of_all(experiment, rules)
    producer, consumer = (
        frozenset[str]().union(*(getattr(one, scope) for one in clients))
        for scope in ("producer", "consumer")
    )
    return KnownNames(producer, consumer, merged(asked), faults)


def rules_of_all(experiment: Experiment, rules: ClientRules) -> tuple[ClientRules, ...]:
    """Return the rules of every client that a cell of the experiment may have; the versions are known by now."""
    return tuple(all_rules(experiment, versions_asked_for(experiment), rules))


def versions_asked_for(experiment: Experiment) -> tuple[str, ...]:
    """Return the versions of Kafka that an experiment's cells have, as it says them."""
    axes = [cross["kafka.version"] for cross in experiment.axes if "kafka.version" in cross]
    everywhere = len(axes) == len(experiment.axes)
    return tuple(
        dict.fromkeys(
            [
                *(str(version) for values in axes for version in values),
                *(() if everywhere else (experiment.kafka_version,)),
            ]
        )
    )


@dataclass(frozen=True)
class Overrides:
    """What is to be other than the experiment's file has it."""

    axes: Mapping[str, Sequence[Scalar]] = field(default_factory=dict)
    """The values by the axis's name: `{"acks": (0, 1), "workload.duration_s": (5,)}`."""
    repeats: int | None = None
    """How often each cell is run."""
    seed: int | None = None
    controls: bool | None = None
    """Whether the sweep holds controls."""


def override(
    experiment: Experiment, overrides: Overrides, rules: ClientRules | None = None
) -> Experiment:
    """Return the experiment with other values.

    An axis that the experiment sweeps takes the new values in every cross product. A single value of anything else becomes what
    holds for all cells; several values become a new axis.

    Args:
        experiment: the experiment as its file has it.
        overrides: what is to be other.
        rules: what the clients know and refuse; librdkafka's by default.

    Raises:
        ExperimentError: a name or a value is not possible; one line that names it.
    """
    rules = rules or client_rules()
    for axis, values in overrides.axes.items():
        experiment = _with_axis(experiment, axis, tuple(values), rules)
    others = {"repeats": overrides.repeats, "seed": overrides.seed, "controls": overrides.controls}
    return _with(
        experiment, {name: wish for name, wish in others.items() if wish is not None}, "--"
    )


def parse_override(text: str) -> tuple[str, tuple[Scalar, ...]]:
    """Return the axis and the values of `axis=v1,v2`.

    Raises:
        ExperimentError: it is not of that form.
    """
    axis, equals, listed = text.partition("=")
    values = parse_values(listed, f"--set {text}") if equals else ()
    if not axis or not values or not all(isinstance(value, (str, int, float)) for value in values):
        raise ExperimentError(f"--set {text}: write --set axis=value or --set axis=value1,value2")
    return axis.strip(), values


def _with_axis(
    experiment: Experiment, axis: str, values: tuple[Scalar, ...], rules: ClientRules
) -> Experiment:
    known = known_names(experiment, rules)
    try:
        place = place_of(axis, known)
        _check(experiment, place, values, known, rules)
    except ExperimentError as error:
        raise ExperimentError(f"--set {axis}: {error}") from error
    named = next(
        (name for cross in experiment.axes for name in cross if place_of(name, known) == place),
        None,
    )
    if named or axis in CORE_AXES or len(values) > 1 or place.scope is Scope.FAULT:
        return _with(
            experiment,
            {"axes": [{**cross, named or axis: list(values)} for cross in experiment.axes]},
            "--set ",
        )
    return _with(experiment, _section(experiment, place, values[0]), "--set ")


def _check(
    experiment: Experiment,
    place: SettingPlace,
    values: tuple[Scalar, ...],
    known: KnownNames,
    rules: ClientRules,
) -> None:
    for value in values:
        if place.scope in PROPERTY_SCOPES:
            check_value(place, value, known, rules_of_all(experiment, rules))
        elif place == FAULT:
            parse_fault(as_text(value))


def _section(experiment: Experiment, place: SettingPlace, value: Scalar) -> dict[str, object]:
    if place.scope is Scope.STRUCTURE:
        return {place.name: as_text(value) if place.name == "kafka.version" else value}
    section = getattr(experiment, place.scope)
    return {
        place.scope.value: {
            **(section if isinstance(section, Mapping) else section.model_dump()),
            place.name: value,
        }
    }


def _with(experiment: Experiment, changes: Mapping[str, object], said_by: str) -> Experiment:
    try:
        return Experiment.model_validate({**experiment.model_dump(by_alias=True), **changes})
    except ValidationError as error:
        raise ExperimentError(f"{said_by}{describe_validation_error(error, Experiment)}") from error
