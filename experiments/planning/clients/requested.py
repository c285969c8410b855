"""The clients that a cell requests: their kind, and whether they keep their own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell, Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.planning.clients.programs import found_command
from ackbench.experiments.planning.clients.rules import ClientRules, rules_of
from ackbench.experiments.planning.experiment import ClientProgram, Experiment
from ackbench.experiments.sweep.client_kinds import CLIENT_AXIS, LIBRARIES, VERSION_AXIS, traits_of
from ackbench.experiments.trial.clients.adapters import adapters, check_release
from ackbench.experiments.trial.clients.librdkafka import versions as librdkafka_versions
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.infra.errors import InputError
from ackbench.infra.kafka import versions as kafka_versions

KIND: Final = CLIENT_AXIS
VERSION: Final = VERSION_AXIS
DEFAULTS: Final = "client.defaults"
CLIENT_AXES: Final = (KIND, VERSION, DEFAULTS)
"""Keys of an experiment that choose its clients; each can also be an axis."""


def client_values(experiment: Experiment, axes: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the value of each of `CLIENT_AXES` in a cell.

    Args:
        experiment: supplies the values that the cell does not have.
        axes: the cell's values; null counts as absent.
    """
    file = _file_values(experiment)
    return {name: file[name] if axes.get(name) is None else axes[name] for name in CLIENT_AXES}


def _file_values(experiment: Experiment) -> dict[str, Scalar]:
    return {
        KIND: experiment.client_name,
        VERSION: experiment.client_version,
        DEFAULTS: experiment.client_defaults,
    }


def resolve_client(
    values: Mapping[str, Scalar], programs: Mapping[str, ClientProgram]
) -> ClientChoice:
    """Return the clients of a cell.

    Args:
        values: the value of each of `CLIENT_AXES`.
        programs: the experiment's own, by name.

    Raises:
        ExperimentError: a value is not allowed.
    """
    kinds = dict.fromkeys([*LIBRARIES, *adapters(), *programs])
    kind = next((known for known in kinds if known == values[KIND]), None)
    if kind is None:
        raise ExperimentError(
            f"client is {format_value(values[KIND])}; allowed: {', '.join(kinds)}, or a program: "
            "{name: my-client, command: [...]}"
        )
    if not isinstance(values[DEFAULTS], bool):
        raise ExperimentError(
            f"client.defaults is {format_value(values[DEFAULTS])}; allowed: true or false"
        )
    version = None if values[VERSION] is None else str(values[VERSION])
    if program := programs.get(kind):
        if version is not None:
            raise ExperimentError(
                f"client.version is {format_value(version)} and client {kind} is a program; "
                "allowed: `version` of the program, and one program for each release"
            )
        return ClientChoice(
            kind=kind,
            version=program.version,
            defaults=True,
            command=found_command(program.command, f"client {kind}"),
        )
    if version is not None:
        _check_version(kind, version)
    is_program = traits_of(kind).is_program
    return ClientChoice(kind=kind, version=version, defaults=is_program or bool(values[DEFAULTS]))


def _check_version(kind: str, version: str) -> None:
    if traits_of(kind).is_program:
        check_release(kind, version)
        return
    if not traits_of(kind).comes_with_kafka:
        librdkafka_versions.parse_client_version(version)
        return
    try:
        kafka_versions.parse_client_version(version)
    except InputError as error:
        raise ExperimentError(f"{error}, with client {kind}") from error


def rules_of_all_clients(
    experiment: Experiment, librdkafka: ClientRules
) -> tuple[ClientRules, ...]:
    """Return the rules of every client that a cell of the experiment can have.

    Args:
        experiment: its Kafka versions must be known.
        librdkafka: the rules of librdkafka.
    """
    _check_names(experiment)
    rules: list[ClientRules] = []
    for client in clients_of(experiment):
        if traits_of(client.kind).comes_with_kafka:
            rules += [rules_of(client, kafka) for kafka in experiment.kafka_versions()]
        else:
            rules.append(rules_of(client, experiment.kafka_version, librdkafka))
    return tuple(rules)


def _check_names(experiment: Experiment) -> None:
    names = [program.name for program in experiment.all_programs()]
    for name in names:
        if name in LIBRARIES:
            raise ExperimentError(
                f"a program has the name {name}; allowed: any but {' and '.join(LIBRARIES)}"
            )
        if names.count(name) > 1:
            raise ExperimentError(f"two programs have the name {name}; allowed: one")


def clients_of(experiment: Experiment) -> tuple[ClientChoice, ...]:
    """Return every kind and version of clients that a cell of the experiment can have.

    Raises:
        ExperimentError: a value is not allowed.
    """
    file = _file_values(experiment)
    pairs = dict.fromkeys(
        (kind, version)
        for cross in experiment.axes
        for kind in cross.get(KIND, (file[KIND],))
        for version in cross.get(VERSION, (file[VERSION],))
    )
    return tuple(
        resolve_client({KIND: kind, VERSION: version, DEFAULTS: False}, experiment.programs())
        for kind, version in pairs
    )


def default_idempotence(experiment: Experiment, cell: Cell, producer: Mapping[str, str]) -> bool:
    """Return whether a cell's producer is idempotent if the experiment does not set idempotence.

    Args:
        experiment: the experiment.
        cell: the cell, with all other axes filled in.
        producer: the producer's properties in this cell, without idempotence.
    """
    client = resolve_client(client_values(experiment, cell), experiment.programs())
    return client.is_idempotent_by_default(producer)
