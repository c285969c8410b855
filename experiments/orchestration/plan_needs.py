"""Actions of a plan that need the permission of a file on this machine, and what a file permits.

`properties.protected` and the checks of commands refuse it when a sweep is planned. A plan that
this home has not made did not pass these checks here: whoever can write its store could have
changed it. So the plan itself is compared with a file of this machine, before anything of it runs.
Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.planning.axes import PROPERTY_SCOPES, SET_BY_ACKBENCH, Scope, known_names
from ackbench.experiments.planning.cells import axis_places
from ackbench.experiments.planning.clients.rules import librdkafka_rules
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.external_cluster import security_properties
from ackbench.experiments.planning.faults import fault_parameters
from ackbench.experiments.planning.planner import property_values
from ackbench.experiments.planning.properties.protected import code_problem
from ackbench.experiments.planning.settings import property_text
from ackbench.experiments.sweep.plan import PassedSettings, TrialSpec
from ackbench.experiments.trial.clients.settings.security import security_behind_relay
from ackbench.experiments.trial.clients.settings.tokens import TOKEN_COMMAND
from ackbench.experiments.trial.faults.operations.commands import COMMAND, CommandParameters
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.secrets import (
    is_literal_secret,
    is_reference,
    is_security_property,
    resolve_reference,
    variable_of,
)

_ADDRESSES: Final = frozenset({"bootstrap.servers", "metadata.broker.list"})
_SECURITY: Final = "security"
_BOOTSTRAP: Final = "bootstrap.servers"


@dataclass(frozen=True, order=True)
class Need:
    """An action that needs a permission: a property, an address or a command, with its value."""

    subject: str
    value: str
    why: str = field(compare=False)
    """What it does, as a clause; without the value, which may be anything."""


def needs_of(trial: TrialSpec) -> frozenset[Need]:
    """Return what a trial does only with permission; nothing for a usual one."""
    return frozenset(chain(_properties(trial), _connection(trial), _commands(trial)))


def _properties(trial: TrialSpec) -> Iterator[Need]:
    for scope, settings in _settings(trial):
        for name, text in settings.items():
            if why := _why(scope, name, text):
                yield _property(scope, name, text, why)


def _settings(trial: TrialSpec) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the properties that programs of the trial get, by their section."""
    passed = trial.passed or PassedSettings(producer={}, consumer={})
    yield from ((Scope.PRODUCER, trial.producer), (Scope.PRODUCER, passed.producer))
    yield from ((Scope.CONSUMER, trial.consumer), (Scope.CONSUMER, passed.consumer))
    yield (Scope.TOPIC, trial.topic)
    yield (_SECURITY, trial.cluster.security)
    if trial.cluster.traits.planned:  # else they are what the cluster has reported
        yield (Scope.BROKER, trial.cluster.broker)


def _property(scope: str, name: str, text: str, why: str) -> Need:
    return Need(f"{scope} property {name}", text, why)


def _why(scope: str, name: str, text: str) -> str | None:
    """Return what a property does that needs a permission; `None`: it needs none."""
    if name == TOKEN_COMMAND:
        return "runs a command"
    if is_literal_secret(name, text):
        return "is a secret that is written down"
    if code_problem(name, text):
        return "loads or runs code"
    if is_security_property(name):
        return "is about security"
    own = SET_BY_ACKBENCH[Scope.BROKER] if scope == Scope.BROKER else _ADDRESSES
    return "is set by ackbench itself" if name in own else None


def _connection(trial: TrialSpec) -> Iterator[Need]:
    if trial.cluster.external:
        yield Need(_BOOTSTRAP, trial.cluster.external.addresses, "names an external cluster")


def _commands(trial: TrialSpec) -> Iterator[Need]:
    for leaf in trial.fault.leaves():
        if leaf.kind == COMMAND:
            access = trial.cluster.external
            cluster_id = access.cluster_id if access else None
            yield Need(
                "allow_faults", cluster_id or "", "lets commands inject faults into the cluster"
            )
            yield from _commands_of(leaf.parameters)


def _commands_of(parameters: Mapping[str, Scalar]) -> Iterator[Need]:
    """Yield the commands of a fault.

    Raises:
        ExperimentError: the parameters are none of such a fault.
    """
    try:
        found = CommandParameters.model_validate(parameters)
    except ValidationError as error:
        raise ExperimentError(
            describe_validation_error(error, CommandParameters, f"fault {COMMAND}: ")
        ) from error
    for part, words in found.commands().items():
        yield Need(f"faults.{found.name}.{part}", json.dumps(words), "runs a command")


def granted_by(experiment: Experiment) -> frozenset[Need]:
    """Return what an experiment's file of this machine permits: what it says itself.

    Raises:
        InputError: the experiment is invalid, or the variable of its addresses is not set.
    """
    return frozenset(chain(_granted_properties(experiment), _granted_commands(experiment)))


def _granted_properties(experiment: Experiment) -> Iterator[Need]:
    rules = librdkafka_rules()
    known = known_names(experiment, rules)
    security = security_properties(experiment)
    behind_relay = security_behind_relay(security)
    given = [
        *((_SECURITY, name, text) for name, text in security.items()),
        *(
            (scope, name, text)
            for scope in (Scope.PRODUCER, Scope.CONSUMER)
            for name, text in (*security.items(), *behind_relay.items())
        ),
        *(
            (place.scope, place.name, property_text(value))
            for place, value in property_values(experiment, axis_places(experiment, known), known)
        ),
    ]
    for scope, name, text in given:
        loads_code = name != TOKEN_COMMAND and code_problem(name, text)
        may = experiment.allow_code or not loads_code
        if may and not is_literal_secret(name, text):
            yield _property(scope, name, text, "")
    if experiment.bootstrap_servers:
        servers = resolve_reference(_BOOTSTRAP, experiment.bootstrap_servers)
        yield Need(_BOOTSTRAP, servers, "")


def _granted_commands(experiment: Experiment) -> Iterator[Need]:
    if experiment.allow_faults is None:
        return
    yield Need("allow_faults", experiment.allow_faults, "")
    for name in experiment.commands():
        yield from _commands_of(fault_parameters(name, experiment.faults[name]))


def refuse_without_permission(
    trials: Iterable[TrialSpec], files: Iterable[Experiment], remedy: str
) -> None:
    """Check that one of this machine's files permits what trials do.

    Args:
        trials: of a plan that this home has not made.
        files: experiments of this machine; read only if a trial needs a permission.
        remedy: what a user can do, as a clause.

    Raises:
        ExperimentError: none does; one line with the first thing that is not permitted.
    """
    needed = {need: trial for trial in trials for need in needs_of(trial)}
    if not needed:
        return
    missing = min(
        (sorted(needed.keys() - granted) for granted in map(_granted_or_nothing, files)),
        key=len,
        default=sorted(needed),
    )
    if missing:
        need = missing[0]
        raise ExperimentError(
            f"trial {needed[need].trial_id}: {need.subject} {need.why}, and this home has not made "
            f"the plan; {remedy}"
        )


def _granted_or_nothing(experiment: Experiment) -> frozenset[Need]:
    """Return what a file permits; a file that cannot be planned permits nothing."""
    try:
        return granted_by(experiment)
    except InputError:
        return frozenset()


def references_of(trials: Iterable[TrialSpec]) -> tuple[str, ...]:
    """Return the names of the variables that the properties of trials refer to, each once."""
    named = (
        text
        for trial in trials
        for _, settings in _settings(trial)
        for name, text in settings.items()
        if is_reference(name, text)
    )
    return tuple(dict.fromkeys(filter(None, map(variable_of, named))))


def references_in(experiment: Experiment) -> tuple[str, ...]:
    """Return the names of the variables that an experiment's file refers to, each once.

    These are the values of security properties, and the addresses of an external cluster. Text of
    any other value is no reference, however it begins.
    """
    axes = chain.from_iterable(cross.items() for cross in experiment.axes)
    given: list[tuple[str, object]] = [
        *((_without_scope(axis), value) for axis, values in axes for value in values),
        *experiment.security.items(),
        *chain.from_iterable(getattr(experiment, scope).items() for scope in PROPERTY_SCOPES),
    ]
    servers = experiment.bootstrap_servers or ""
    named = [servers, *(str(value) for name, value in given if is_reference(name, str(value)))]
    return tuple(dict.fromkeys(filter(None, map(variable_of, named))))


def _without_scope(axis: str) -> str:
    prefix, _, name = axis.partition(".")
    return name if prefix in PROPERTY_SCOPES else axis
