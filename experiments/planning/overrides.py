"""Overrides of an experiment from the command line or Airflow's trigger form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import shorten
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.planning.axes import (
    FAULT_PLACE,
    LOAD_SCOPES,
    PROPERTY_SCOPES,
    KnownNames,
    Scope,
    SettingPlace,
    canonical_name,
    known_names,
    resolve_axis,
)
from ackbench.experiments.planning.cells import replace_axis
from ackbench.experiments.planning.clients.requested import CLIENT_AXES
from ackbench.experiments.planning.clients.rules import ClientRules, librdkafka_rules
from ackbench.experiments.planning.cluster import CLUSTER_AXES, check_whole_number
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.field_types import ExpectSection
from ackbench.experiments.planning.properties.protected import refuse_in_form, refuse_literal_secret
from ackbench.experiments.planning.settings import TOPIC_SIZES, check_property_value, property_text
from ackbench.experiments.planning.yaml_reader import number_of, parse_values, parse_yaml
from ackbench.experiments.sweep.cell_names import CORE_AXES
from ackbench.infra.kafka.secrets import is_secret

_TUNING: Final = frozenset(
    {Scope.BROKER, Scope.PRODUCER, Scope.CONSUMER, *LOAD_SCOPES, Scope.FAULT}
)


@dataclass(frozen=True)
class Overrides:
    """Values that replace those in the experiment's file."""

    axes: Mapping[str, Sequence[Scalar]] = field(default_factory=dict)
    """Values by the name of the axis: `{"acks": (0, 1), "workload.duration_s": (5,)}`."""
    repeats: int | None = None
    """Trials per cell."""
    seed: int | None = None
    controls: bool | None = None
    """Whether controls are added to the sweep."""
    expect: tuple[ExpectSection, ...] = ()
    """Bounds in addition to those in the file."""
    from_form: bool = False
    """Whether a form or an API sent them, which may not load code or use this machine's secrets."""


def parse_override(text: str) -> tuple[str, tuple[Scalar, ...]]:
    """Return the axis and the values of `axis=value1,value2`.

    Raises:
        ExperimentError: the text is not of that form, or it holds a secret; the message does not.
    """
    axis, equals, listed = text.partition("=")
    subject = f"--set {shorten(text)}"
    if is_secret(axis):
        subject = f"--set {shorten(axis)}=..."
        for value in listed.split(","):
            refuse_literal_secret(f"--set {shorten(axis)}", axis, value.strip())
    values = parse_values(listed, subject) if equals else ()
    if not axis or not values or not all(isinstance(value, (str, int, float)) for value in values):
        raise ExperimentError(f"{subject}: write --set axis=value or --set axis=value1,value2")
    axis = axis.strip()
    return axis, tuple(number_of(axis, value) for value in values)


def apply_overrides(
    experiment: Experiment, overrides: Overrides, librdkafka: ClientRules | None = None
) -> Experiment:
    """Return the experiment with overrides applied.

    An axis that the experiment sweeps takes the new values in every cross product; cells that
    become equal but for what tunes the cluster to the old values are kept once. For any other
    setting, a single value applies to all cells, and several values become a new axis.

    Args:
        experiment: the experiment in its file.
        overrides: the values that replace those in the file.
        librdkafka: the rules of librdkafka; by default those of the installed library.

    Raises:
        ExperimentError: a name is unknown or a value not allowed; one line that starts with the
            override.
    """
    librdkafka = librdkafka or librdkafka_rules()
    for axis, values in overrides.axes.items():
        experiment = _override_axis(
            experiment, axis, tuple(values), librdkafka, from_form=overrides.from_form
        )
    others = {
        "repeats": overrides.repeats,
        "seed": overrides.seed,
        "controls": overrides.controls,
        "expect": (*experiment.expect, *overrides.expect) if overrides.expect else None,
    }
    changes = {name: value for name, value in others.items() if value is not None}
    return _replace_keys(experiment, changes, "--")


def _override_axis(
    experiment: Experiment,
    axis: str,
    values: tuple[Scalar, ...],
    librdkafka: ClientRules,
    *,
    from_form: bool,
) -> Experiment:
    known = known_names(experiment, librdkafka)
    try:
        place = resolve_axis(axis, known)
        if from_form and place.scope in PROPERTY_SCOPES:
            refuse_in_form(place.scope, place.name)
        _check_values(experiment, place, values, known)
    except ExperimentError as error:
        raise ExperimentError(f"--set {axis}: {error}") from error
    existing = next(
        (name for cross in experiment.axes for name in cross if resolve_axis(name, known) == place),
        None,
    )
    if existing or axis in CORE_AXES or len(values) > 1 or place.scope is Scope.FAULT:
        axes = replace_axis(
            experiment.axes, existing or axis, values, lambda name: _is_tuning(name, known)
        )
        changes = {"axes": axes, **_section_without(experiment, place)}
        return _replace_keys(experiment, changes, "--set ")
    return _replace_keys(experiment, _changed_section(experiment, place, values[0]), "--set ")


def _is_tuning(axis: str, known: KnownNames) -> bool:
    """Return whether an axis tunes cluster, clients or load and is not what cells are named by."""
    return axis not in CORE_AXES and resolve_axis(axis, known).scope in _TUNING


def _check_values(
    experiment: Experiment, place: SettingPlace, values: tuple[Scalar, ...], known: KnownNames
) -> None:
    for value in values:
        if place.scope in PROPERTY_SCOPES:
            check_property_value(place, value, known, allow_code=experiment.allow_code)
        elif place == FAULT_PLACE:
            known.parse_fault(property_text(value))
        elif place.name in TOPIC_SIZES:
            check_whole_number(place.name, value, *TOPIC_SIZES[place.name])


def refuse_value(experiment: Experiment, name: str, text: str) -> None:
    """Refuse a value of a setting that `--set` would refuse in every scope that knows the name.

    Args:
        experiment: has the versions and clients whose definitions count.
        name: without a prefix; one that no scope knows has any value.
        text: the value.

    Raises:
        ExperimentError: the value is not allowed.
    """
    known = known_names(experiment, librdkafka_rules())
    value = number_of(name, parse_yaml(text, name))
    problems = []
    scopes = [one for one in (Scope.STRUCTURE, *PROPERTY_SCOPES) if name in known.in_scope(one)]
    for scope in scopes:
        place = SettingPlace(scope, name)
        try:
            _check_values(experiment, place, (value,), known)
            if name in {*CLUSTER_AXES, *CLIENT_AXES}:
                _replace_keys(experiment, _changed_section(experiment, place, value), "")
        except ExperimentError as error:
            problems.append(error)
    if scopes and len(problems) == len(scopes):
        raise problems[0]


def _changed_section(
    experiment: Experiment, place: SettingPlace, value: Scalar
) -> dict[str, object]:
    """Return the key of the experiment that holds a setting, with the setting's new value."""
    if place.scope is Scope.STRUCTURE:
        return {place.name: property_text(value) if place.name == "kafka.version" else value}
    if place.scope in LOAD_SCOPES:
        return {place.scope.value: experiment.load_values(place.scope, {place.name: value})}
    section = _section_without(experiment, place)[place.scope.value]
    return {place.scope.value: {**section, place.name: value}}


def _section_without(experiment: Experiment, place: SettingPlace) -> dict[str, dict[str, Scalar]]:
    """Return the section of a property by its key, without the property under any of its names."""
    if place.scope not in PROPERTY_SCOPES:
        return {}
    section: Mapping[str, Scalar] = getattr(experiment, place.scope)
    return {
        place.scope.value: {
            name: value
            for name, value in section.items()
            if canonical_name(place.scope, name) != place.name
        }
    }


def _replace_keys(experiment: Experiment, changes: Mapping[str, object], option: str) -> Experiment:
    """Return the experiment with other keys; `option` starts the error message."""
    try:
        return Experiment.model_validate({**experiment.model_dump(by_alias=True), **changes})
    except ValidationError as error:
        raise ExperimentError(f"{option}{describe_validation_error(error, Experiment)}") from error
