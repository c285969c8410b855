"""The clients that a cell asks for: of which kind, with which defaults, and that they know what they are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, get_args

from experiments.clients.record.layout import MAX_JAVA_PRODUCERS, max_text_value_bytes
from experiments.clients.settings.kinds import ClientChoice
from experiments.errors import ExperimentError
from experiments.ledger.record import Cell, Scalar
from experiments.messages.phrases import format_value
from experiments.planning.client_rules import ClientRules, java_rules
from experiments.planning.experiment import Experiment
from experiments.sweep.plan import ClientKind, Workload

NAMES: Final = ("client", "client.defaults")
"""What an experiment says of its clients that is no property of theirs, each also an axis."""
KIND, DEFAULTS = NAMES


def said_of_clients(experiment: Experiment, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return what is said of a cell's clients, by `NAMES`: by its axes, or by the experiment.

    Args:
        experiment: the experiment.
        given: what the cell's axes say; what is null there is not said.
    """
    own: dict[str, Scalar] = {KIND: experiment.client, DEFAULTS: experiment.client_defaults}
    return {name: own[name] if given.get(name) is None else given[name] for name in NAMES}


def clients_of(said: Mapping[str, Scalar]) -> ClientChoice:
    """Return the clients.

    Raises:
        ExperimentError: there are no such clients.
    """
    kinds: tuple[ClientKind, ...] = get_args(ClientKind)
    kind = next((known for known in kinds if known == said[KIND]), None)
    if kind is None:
        raise ExperimentError(f"client is {format_value(said[KIND])}; allowed: {' or '.join(kinds)}")
    if not isinstance(said[DEFAULTS], bool):
        raise ExperimentError(f"client.defaults is {format_value(said[DEFAULTS])}; allowed: true or false")
    return ClientChoice(kind=kind, defaults=bool(said[DEFAULTS]))


def all_rules(
    experiment: Experiment, versions: tuple[str, ...], librdkafka: ClientRules
) -> Iterator[ClientRules]:
    """Yield the rules of every client that a cell of the experiment may have.

    Args:
        experiment: the experiment.
        versions: of Kafka, that its cells have.
        librdkafka: its rules.
    """
    kinds = {
        str(value) for cross in experiment.axes for value in cross.get(KIND, (experiment.client,))
    }
    if kinds - {"java"}:
        yield librdkafka
    if "java" in kinds:
        yield from map(java_rules, versions)


def load_of(choice: ClientChoice, workload: Workload, *, sized: bool) -> Workload:
    """Return the load as the clients make it: VerifiableProducer makes its own values, at whole rates, in no transactions.

    Args:
        choice: the cell's clients.
        workload: its load.
        sized: whether an axis sweeps the records' size.

    Raises:
        ExperimentError: it cannot be had.
    """
    if choice.kind != "java":
        return workload
    rate = workload.rate_records_per_s / workload.producers
    if not rate.is_integer():
        raise ExperimentError(
            f"workload.rate_records_per_s is {rate:g} for each producer; allowed with client java: a whole number"
        )
    if workload.producers > MAX_JAVA_PRODUCERS:
        raise ExperimentError(
            f"workload.producers is {workload.producers}; allowed with client java: {MAX_JAVA_PRODUCERS} at most"
        )
    if workload.transaction_records:
        raise ExperimentError(
            f"workload.transaction_records is {workload.transaction_records}; allowed with client java: 0, VerifiableProducer sends in none"
        )
    if workload.record_serving_brokers:
        raise ExperimentError(
            "workload.tells_serving is true; allowed with client java: false, Kafka's own programs do not tell it"
        )
    if workload.headers:
        raise ExperimentError(
            f"workload.headers is {workload.headers}; allowed with client java: 0, VerifiableProducer sends none"
        )
    if sized:
        raise ExperimentError(
            "workload.record_size_bytes is swept; allowed with client java: not at all, VerifiableProducer makes its own values"
        )
    size_bytes = max_text_value_bytes(-(-workload.records // workload.producers), rate)
    return workload.model_copy(update={"record_size_bytes": size_bytes})


def idempotence_unasked(experiment: Experiment, cell: Cell, producer: Mapping[str, str]) -> bool:
    """Return what a cell says of idempotence where the experiment does not: what its clients do by themselves.

    Args:
        experiment: the experiment.
        cell: with all else filled in.
        producer: the producer's properties that it asks for, idempotence apart.
    """
    return clients_of(said_of_clients(experiment, cell)).is_idempotent_unasked(producer)
