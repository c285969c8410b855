"""Rules between a cell's workload, its clients and its cluster. Pure.

Each function refuses combinations that no trial could run: transactions, consumer groups,
consume-process-produce (copiers), keys and partitions, and the limits of Java's clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ackbench.experiments.errors import ExperimentError
from ackbench.experiments.sweep.client_kinds import CLIENTS
from ackbench.experiments.sweep.plan import ClusterNeed, Workload
from ackbench.experiments.trial.clients.record.layout import (
    MAX_JAVA_PRODUCERS,
    max_text_value_bytes,
)
from ackbench.experiments.trial.clients.settings.group_members import (
    CLASSIC,
    CLASSIC_ONLY,
    PROTOCOL,
)
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.clients.settings.librdkafka import is_true


def refuse_invalid_workload(
    client: ClientChoice, workload: Workload, consumer: Mapping[str, str], cluster: ClusterNeed
) -> None:
    """Check that copiers, consumer groups and keys fit the cell's clients and cluster.

    Args:
        client: the cell's clients.
        workload: the cell's load.
        consumer: consumer properties that the cell sets.
        cluster: the cell's cluster.

    Raises:
        ExperimentError: two settings contradict each other, or the client does not support one.
    """
    for problem in (
        *_copier_problems(client, workload),
        *_group_problems(client, workload, consumer, cluster),
        *_key_problems(client, workload),
    ):
        raise ExperimentError(problem)


# Transactions


TRANSACTIONAL_ID: Final = "ackbench"
"""Prefix: each producer appends its trial's topic and its own number."""
_TRANSACTION_PROPERTIES: Final = frozenset({"transactional.id", "transaction.timeout.ms"})


def add_transactional_id(producer: Mapping[str, str], workload: Workload) -> dict[str, str]:
    """Return the producer's properties, with a `transactional.id` if it uses transactions.

    Raises:
        ExperimentError: transactions are to be aborted, but there are none.
    """
    if workload.abort_every and not workload.transaction_records:
        raise ExperimentError(
            f"workload.abort_every is {workload.abort_every} and workload.transaction_records is "
            "0; allowed: 1 record per transaction or more"
        )
    if workload.transaction_records:
        return {**producer, "transactional.id": TRANSACTIONAL_ID}
    return dict(producer)


def remove_transactions(
    producer: Mapping[str, str], workload: Workload
) -> tuple[dict[str, str], Workload]:
    """Return the producer's properties and the load without transactions and without copiers."""
    plain = {name: value for name, value in producer.items() if name not in _TRANSACTION_PROPERTIES}
    return plain, workload.model_copy(
        update={"transaction_records": 0, "abort_every": 0, "kind": "produce", "copiers": 0}
    )


# Consume-process-produce


_DEFAULT_DELIVERY: Final = Workload.model_fields["delivery"].default


def _copier_problems(client: ClientChoice, workload: Workload) -> Iterator[str]:
    kind = f"workload.kind is {workload.kind}"
    if workload.kind == "copy":
        if not CLIENTS[client.kind].has_members:
            yield (
                f"{kind} and client is {client.kind}; "
                "allowed: librdkafka (a copier decodes the values that its producers write)"
            )
        if not workload.copiers:
            yield f"{kind} and workload.copiers is 0; allowed: 1 copier or more"
        if workload.consumers:
            yield (
                f"{kind} and workload.consumers is {workload.consumers}; "
                "allowed: 0 (the copiers are the consumer group)"
            )
        if workload.commit == "before":
            yield (
                f"{kind} and workload.commit is before; "
                "allowed: leave it out (workload.delivery decides when a copier commits)"
            )
    else:
        if workload.copiers:
            yield (
                f"{kind} and workload.copiers is {workload.copiers}; "
                "allowed: 0, or workload.kind copy"
            )
        if workload.delivery != _DEFAULT_DELIVERY:
            yield (
                f"{kind} and workload.delivery is {workload.delivery}; "
                "allowed: leave it out, or workload.kind copy"
            )


# Consumer groups


_KIP_848_SINCE: Final = (4, 0)
"""KIP-848's group protocol is production-ready from Kafka 4.0 on; 3.9 has a preview."""
_AUTO_COMMIT: Final = "enable.auto.commit"


def _group_problems(
    client: ClientChoice, workload: Workload, consumer: Mapping[str, str], cluster: ClusterNeed
) -> Iterator[str]:
    if workload.groups > 1 and not workload.consumers:
        yield (
            f"workload.groups is {workload.groups} and workload.consumers is 0; "
            "allowed: 1 consumer per group or more"
        )
    if workload.slow_members > workload.members:
        yield (
            f"workload.slow_members is {workload.slow_members}; "
            f"allowed: at most the members of a group, which are {workload.members}"
        )
    if bool(workload.slow_members) != bool(workload.slow_records_per_s):
        yield (
            f"workload.slow_members is {workload.slow_members} and "
            f"workload.slow_records_per_s is {workload.slow_records_per_s:g}; "
            "allowed: both, or neither"
        )
    if not workload.members:
        return
    if consumer.get(PROTOCOL, CLASSIC) != CLASSIC:
        yield from _kip_848_problems(consumer, cluster)
    copies = workload.kind == "copy"
    members = f"workload.{'copiers' if copies else 'consumers'} is {workload.members}"
    if not CLIENTS[client.kind].has_members:
        yield (
            f"{members} and client is {client.kind}; "
            "allowed: librdkafka, whose members can be held between processing and commit"
        )
    if is_true(consumer.get(_AUTO_COMMIT, "false")):
        decides = f"workload.{'delivery' if copies else 'commit'}"
        yield (
            f"{members} and {_AUTO_COMMIT} is true; "
            f"allowed: false ({decides} decides when a member commits)"
        )


def _kip_848_problems(consumer: Mapping[str, str], cluster: ClusterNeed) -> Iterator[str]:
    protocol = f"{PROTOCOL} is {consumer[PROTOCOL]}"
    classic_only = next((name for name in CLASSIC_ONLY if name in consumer), None)
    if classic_only:
        yield (
            f"{classic_only} is {consumer[classic_only]} and {protocol}; "
            "allowed: leave it out (with KIP-848 the brokers' group.consumer.* settings decide)"
        )
    if cluster.external:
        return
    version = tuple(int(part) for part in cluster.kafka_version.split(".")[:2])
    if version < _KIP_848_SINCE:
        yield (
            f"{protocol} and kafka.version is {cluster.kafka_version}; "
            f"allowed: 4.0 or newer, or {PROTOCOL} {CLASSIC}"
        )
    if cluster.features.get("group.version", 1) < 1:
        yield f"{protocol} and group.version is 0; allowed: 1, or {PROTOCOL} {CLASSIC}"


# Keys and partitions


_MIN_KEYS: Final = 2


def _key_problems(client: ClientChoice, workload: Workload) -> Iterator[str]:
    pairs = f"workload.pairs is {workload.pairs}"
    hot_key = f"workload.hot_key_share is {workload.hot_key_share:g}"
    round_robin = "workload.round_robin is true"
    requested = {
        pairs: workload.pairs != "none",
        hot_key: workload.hot_key_share > 0,
        round_robin: workload.round_robin,
    }
    for setting in (pairs, hot_key):
        if requested[setting] and workload.keys < _MIN_KEYS:
            yield f"{setting} and workload.keys is {workload.keys}; allowed: 2 keys or more"
    if requested[pairs] and requested[hot_key]:
        yield f"{pairs} and {hot_key}; allowed: one of them, as each decides a record's key"
    if workload.round_robin and workload.keys:
        yield (
            f"{round_robin} and workload.keys is {workload.keys}; "
            "allowed: 0 (a key would choose the partition)"
        )
    for setting, is_requested in requested.items():
        if CLIENTS[client.kind].reports_in_text and is_requested:
            yield (
                f"{setting} with client {client.kind}; allowed: leave it out "
                "(VerifiableProducer takes its keys in turn and names no partition)"
            )


# Java's clients


def workload_of_client(client: ClientChoice, workload: Workload, *, sweeps_size: bool) -> Workload:
    """Return the load as the cell's clients generate it.

    Java's VerifiableProducer generates its own values, at a whole rate, without transactions.

    Args:
        client: the cell's clients.
        workload: the cell's load.
        sweeps_size: whether an axis sweeps the size of the records.

    Raises:
        ExperimentError: the clients cannot generate this load.
    """
    if not CLIENTS[client.kind].reports_in_text:
        return workload
    rate = workload.rate_records_per_s / workload.producers
    for problem in _java_problems(workload, rate, sweeps_size=sweeps_size):
        raise ExperimentError(problem)
    size_bytes = max_text_value_bytes(-(-workload.records // workload.producers), rate)
    return workload.model_copy(update={"record_size_bytes": size_bytes})


def _java_problems(workload: Workload, rate: float, *, sweeps_size: bool) -> Iterator[str]:
    if not rate.is_integer():
        yield (
            f"workload.rate_records_per_s is {rate:g} for each producer; "
            "allowed with client java: a whole number"
        )
    if workload.producers > MAX_JAVA_PRODUCERS:
        yield (
            f"workload.producers is {workload.producers}; "
            f"allowed with client java: at most {MAX_JAVA_PRODUCERS}"
        )
    if workload.record_serving_brokers:
        yield (
            "workload.record_serving_brokers is true; "
            "allowed with client java: false (Kafka's own programs do not report the broker)"
        )
    if workload.headers:
        yield (
            f"workload.headers is {workload.headers}; "
            "allowed with client java: 0 (VerifiableProducer sends none)"
        )
    if sweeps_size:
        yield (
            "workload.record_size_bytes is an axis; "
            "allowed with client java: no such axis (VerifiableProducer generates its own values)"
        )
