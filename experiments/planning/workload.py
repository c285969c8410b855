"""What transactions ask of a cell's settings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from experiments.clients.settings.group_members import CLASSIC, CLASSIC_ONLY, PROTOCOL
from experiments.clients.settings.kinds import ClientChoice
from experiments.errors import ExperimentError
from experiments.sweep.plan import ClusterNeed, Workload

TRANSACTIONAL_ID: Final = "ackbench"
"""Each producer puts its trial's topic and its own number behind it."""
_OF_TRANSACTIONS: Final = frozenset({"transactional.id", "transaction.timeout.ms"})


def with_transactions(producer: Mapping[str, str], workload: Workload) -> dict[str, str]:
    """Return the producer's properties with the `transactional.id` that its transactions need; without transactions as they are.

    Raises:
        ExperimentError: transactions are to be aborted, and there are none.
    """
    if workload.abort_every and not workload.transaction_records:
        raise ExperimentError(
            f"workload.abort_every is {workload.abort_every} and workload.transaction_records is 0; allowed: transactions to abort"
        )
    return (
        {**producer, "transactional.id": TRANSACTIONAL_ID}
        if workload.transaction_records
        else dict(producer)
    )


def without_transactions(
    producer: Mapping[str, str], workload: Workload
) -> tuple[dict[str, str], Workload]:
    """Return the same producer and load, and nothing of it in transactions, nor copied in any."""
    plain = {name: value for name, value in producer.items() if name not in _OF_TRANSACTIONS}
    return plain, workload.model_copy(
        update={"transaction_records": 0, "abort_every": 0, "kind": "produce", "copiers": 0}
    )


# ---------- What a consumer group asks of a cell's settings. Pure.


_GROUPS_PROTOCOL_SINCE: Final = (4, 0)
"""KIP-848's protocol is there for production from Kafka 4.0 on; 3.9 has it as a preview."""
_AUTO_COMMIT: Final = "enable.auto.commit"
_TRUE: Final = frozenset({"true", "t", "1"})


def refuse_what_groups_lack(
    client: ClientChoice, workload: Workload, consumer: Mapping[str, str], cluster: ClusterNeed
) -> None:
    """See that there can be such groups.

    Raises:
        ExperimentError: there are no members for what is said of them; or they are not librdkafka's, would commit by themselves, or ask for a protocol
            that the cluster, or a setting of theirs, does not know.
    """
    _refuse_what_nobody_is(workload)
    if not workload.members:
        return
    if consumer.get(PROTOCOL, CLASSIC) != CLASSIC:
        _refuse_what_kip_848_lacks(consumer, cluster)
    kind, says = ("copiers", "delivery") if workload.kind == "copy" else ("consumers", "commit")
    members = f"workload.{kind} is {workload.members}"
    if client.kind != "librdkafka":
        raise ExperimentError(
            f"{members} and client is {client.kind}; allowed: members of librdkafka's, which can be held between processing and committing"
        )
    if consumer.get(_AUTO_COMMIT, "false").lower() in _TRUE:
        raise ExperimentError(
            f"{members} and {_AUTO_COMMIT} is true; allowed: false, as when a member commits is workload.{says}"
        )


def _refuse_what_nobody_is(workload: Workload) -> None:
    """See that who is said to be slow is there, and that several groups have members."""
    if workload.groups > 1 and not workload.consumers:
        raise ExperimentError(
            f"workload.groups is {workload.groups} and workload.consumers is 0; allowed: 1 member a group or more"
        )
    if workload.slow_members > workload.members:
        raise ExperimentError(
            f"workload.slow_members is {workload.slow_members}; allowed: at most the members of a group, which are {workload.members}"
        )
    if bool(workload.slow_members) != bool(workload.slow_records_per_s):
        said = f"workload.slow_members is {workload.slow_members} and workload.slow_records_per_s is {workload.slow_records_per_s:g}"
        raise ExperimentError(f"{said}; allowed: both, or neither")


def _refuse_what_kip_848_lacks(consumer: Mapping[str, str], cluster: ClusterNeed) -> None:
    asked = f"{PROTOCOL} is {consumer[PROTOCOL]}"
    forbidden = next((name for name in CLASSIC_ONLY if name in consumer), None)
    if forbidden:
        raise ExperimentError(
            f"{forbidden} is {consumer[forbidden]} and {asked}; allowed: none, for with KIP-848 the brokers decide (group.consumer.*)"
        )
    if cluster.external:
        return
    version = tuple(int(part) for part in cluster.kafka_version.split(".")[:2])
    if version < _GROUPS_PROTOCOL_SINCE:
        raise ExperimentError(
            f"{asked} and kafka.version is {cluster.kafka_version}; allowed: 4.0 or newer, or {PROTOCOL} {CLASSIC}"
        )
    if cluster.features.get("group.version", 1) < 1:
        raise ExperimentError(
            f"{asked} and group.version is 0; allowed: 1, or {PROTOCOL} {CLASSIC}"
        )


# ---------- What keys, pairs and the naming of partitions ask of a cell's settings. Pure.


_TWO: Final = 2


def refuse_what_keys_lack(client: ClientChoice, workload: Workload) -> None:
    """See that there can be such keys.

    Raises:
        ExperimentError: there are too few keys, two wishes exclude each other, or the client makes its own keys.
    """
    for objection in _objections(client, workload):
        raise ExperimentError(objection)


def _objections(client: ClientChoice, workload: Workload) -> Iterator[str]:
    drawn = {
        "workload.pairs": workload.pairs != "none",
        "workload.hot_key_share": workload.hot_key_share > 0,
    }
    for name in (name for name, is_asked in drawn.items() if is_asked and workload.keys < _TWO):
        yield f"{name} is asked for and workload.keys is {workload.keys}; allowed: 2 keys or more"
    if all(drawn.values()):
        yield "workload.pairs and workload.hot_key_share are both asked for; allowed: one of them, as each says which key a record has"
    if workload.round_robin and workload.keys:
        yield f"workload.round_robin is true and workload.keys is {workload.keys}; allowed: 0, as a key is there to choose the partition"
    own = [
        *(name for name, is_asked in drawn.items() if is_asked),
        *(["workload.round_robin"] if workload.round_robin else []),
    ]
    if client.kind == "java" and own:
        yield f"{own[0]} is asked for; allowed with client java: not at all, VerifiableProducer draws its keys in turn and names no partition"


# ---------- What consume-process-produce asks of a cell's settings. Pure.


_ALONE: Final = Workload.model_fields["delivery"].default


def refuse_what_copies_lack(client: ClientChoice, workload: Workload) -> None:
    """See that there can be such copiers, or that nothing is asked of copiers where there are none.

    Raises:
        ExperimentError: something is asked of nobody, said twice, or is none of the client's.
    """
    for objection in (
        _of_copies(client, workload) if workload.kind == "copy" else _of_none(workload)
    ):
        raise ExperimentError(objection)


def _of_copies(client: ClientChoice, workload: Workload) -> Iterator[str]:
    copies = "workload.kind is copy"
    if client.kind != "librdkafka":
        yield f"{copies} and client is {client.kind}; allowed: librdkafka, of whose records a copier knows what they hold"
    if not workload.copiers:
        yield f"{copies} and workload.copiers is 0; allowed: 1 copier or more"
    if workload.consumers:
        yield f"{copies} and workload.consumers is {workload.consumers}; allowed: 0, as the copiers are the consumer group"
    if workload.commit == "before":
        yield f"{copies} and workload.commit is before; allowed: left out, as when a copier commits is workload.delivery"


def _of_none(workload: Workload) -> Iterator[str]:
    none = "workload.kind is produce"
    if workload.copiers:
        yield f"{none} and workload.copiers is {workload.copiers}; allowed: 0, or workload.kind copy"
    if workload.delivery != _ALONE:
        yield f"{none} and workload.delivery is {workload.delivery}; allowed: left out, or workload.kind copy"
