"""The clients that a cell requests: their kind, and whether they keep their own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from ackbench.experiments.errors import ExperimentError
from ackbench.experiments.ledger.trial_manifest import Cell, Scalar
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.planning.client_rules import ClientRules, rules_of
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.sweep.client_kinds import CLIENTS, ClientKind
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice

KIND: Final = "client"
DEFAULTS: Final = "client.defaults"
CLIENT_AXES: Final = (KIND, DEFAULTS)
"""Keys of an experiment that choose its clients; each can also be an axis."""


def client_values(experiment: Experiment, axes: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the value of each of `CLIENT_AXES` in a cell.

    Args:
        experiment: supplies the values that the cell does not have.
        axes: the cell's values; null counts as absent.
    """
    file: dict[str, Scalar] = {KIND: experiment.client, DEFAULTS: experiment.client_defaults}
    return {name: file[name] if axes.get(name) is None else axes[name] for name in CLIENT_AXES}


def resolve_client(values: Mapping[str, Scalar]) -> ClientChoice:
    """Return the clients of a cell.

    Args:
        values: the value of each of `CLIENT_AXES`.

    Raises:
        ExperimentError: a value is not allowed.
    """
    kinds: tuple[ClientKind, ...] = get_args(ClientKind)
    kind = next((known for known in kinds if known == values[KIND]), None)
    if kind is None:
        raise ExperimentError(
            f"client is {format_value(values[KIND])}; allowed: {' or '.join(kinds)}"
        )
    if not isinstance(values[DEFAULTS], bool):
        raise ExperimentError(
            f"client.defaults is {format_value(values[DEFAULTS])}; allowed: true or false"
        )
    return ClientChoice(kind=kind, defaults=bool(values[DEFAULTS]))


def rules_of_all_clients(
    experiment: Experiment, librdkafka: ClientRules
) -> tuple[ClientRules, ...]:
    """Return the rules of every client that a cell of the experiment can have.

    Args:
        experiment: its Kafka versions must be known.
        librdkafka: the rules of librdkafka.
    """
    kinds = {
        str(value) for cross in experiment.axes for value in cross.get(KIND, (experiment.client,))
    }
    of_kafka = [kind for kind in CLIENTS if kind in kinds and CLIENTS[kind].comes_with_kafka]
    return (
        *([librdkafka] if kinds.difference(of_kafka) else []),
        *(rules_of(kind, version) for kind in of_kafka for version in experiment.kafka_versions()),
    )


def default_idempotence(experiment: Experiment, cell: Cell, producer: Mapping[str, str]) -> bool:
    """Return whether a cell's producer is idempotent if the experiment does not set idempotence.

    Args:
        experiment: the experiment.
        cell: the cell, with all other axes filled in.
        producer: the producer's properties in this cell, without idempotence.
    """
    client = resolve_client(client_values(experiment, cell))
    return client.is_idempotent_by_default(producer)
