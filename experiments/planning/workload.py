"""Rules between a cell's workload, its clients and its cluster. Pure.

Each function refuses combinations that no trial could run: of consumer groups and copiers, of keys
and partitions, and those beyond the limits of Java's clients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_list, shorten
from ackbench.experiments.sweep.client_kinds import ClientKind, traits_of
from ackbench.experiments.sweep.plan import ClusterNeed, Workload
from ackbench.experiments.sweep.workload import Copiers, GroupMembers, Members, ProducerLoad
from ackbench.experiments.trial.clients.record.layout import (
    IDENTITY_PLACE,
    MAX_TEXT_PRODUCERS,
    max_text_value_bytes,
    value_with_place,
)
from ackbench.experiments.trial.clients.settings.group_members import (
    AUTO_COMMIT,
    AUTO_COMMIT_INTERVAL,
    AUTO_COMMITS,
    AUTO_OFFSET_STORE,
    CLASSIC,
    CLASSIC_ONLY,
    INSTANCE,
    MAX_POLL_RECORDS,
    PROTOCOL,
)
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.clients.settings.librdkafka import is_true


def refuse_invalid_workload(
    client: ClientChoice, workload: Workload, consumer: Mapping[str, str], cluster: ClusterNeed
) -> None:
    """Check that consumer groups, copiers and keys fit the cell's clients and cluster.

    Args:
        client: the cell's clients.
        workload: the cell's load.
        consumer: consumer properties that the cell sets.
        cluster: the cell's cluster.

    Raises:
        ExperimentError: two settings contradict each other, or the client does not support one.
    """
    for problem in (
        *_group_problems(client, workload, consumer, cluster),
        *_key_problems(client, workload.keys),
    ):
        raise ExperimentError(problem)


# Transactions


PRODUCER_TRANSACTIONAL_ID: Final = "ackbench"
"""Prefix: each producer appends its trial's topic and its own number."""
_TRANSACTION_PROPERTIES: Final = frozenset({"transactional.id", "transaction.timeout.ms"})


def add_transactional_id(producer: Mapping[str, str], workload: Workload) -> dict[str, str]:
    """Return the producer's properties, with a `transactional.id` if it uses transactions."""
    return {
        **producer,
        **({"transactional.id": PRODUCER_TRANSACTIONAL_ID} if workload.transactions else {}),
    }


def add_auto_commit(
    consumer: Mapping[str, str], workload: Workload, kind: ClientKind
) -> dict[str, str]:
    """Return the consumer's properties, with those of a client that commits by itself."""
    if workload.commits != "auto":
        return dict(consumer)
    left_out = AUTO_OFFSET_STORE if traits_of(kind).reports_in_text else None
    added = {name: value for name, value in AUTO_COMMITS.items() if name != left_out}
    return {**added, **consumer}


def remove_transactions(
    producer: Mapping[str, str], workload: Workload
) -> tuple[dict[str, str], Workload]:
    """Return the producer's properties and the load without transactions and without copiers."""
    plain = {name: value for name, value in producer.items() if name not in _TRANSACTION_PROPERTIES}
    return plain, workload.model_copy(update={"transactions": None, "copies": None})


# Consumer groups, also of copiers


_KIP_848_SINCE: Final = (4, 0)
"""KIP-848's group protocol is production-ready from Kafka 4.0 on; 3.9 has a preview."""


def _group_problems(
    client: ClientChoice, workload: Workload, consumer: Mapping[str, str], cluster: ClusterNeed
) -> Iterator[str]:
    section = workload.of_members
    if section is None:
        return
    if workload.group and workload.copies:
        yield "group and copy are both there; allowed: one of them (copiers are a consumer group)"
    name, number = ("copy", "copiers") if workload.copies else ("group", "consumers")
    members = f"{name}.{number} is {section.members}"
    if section.slow_members > section.members:
        yield (
            f"{name}.slow_members is {section.slow_members}; "
            f"allowed: at most the members of a group, which are {section.members}"
        )
    if bool(section.slow_members) != bool(section.slow_records_per_s):
        yield (
            f"{name}.slow_members is {section.slow_members} and "
            f"{name}.slow_records_per_s is {section.slow_records_per_s:g}; "
            "allowed: both, or neither"
        )
    if consumer.get(PROTOCOL, CLASSIC) != CLASSIC:
        yield from _kip_848_problems(consumer, cluster)
    yield from _application_problems(client.kind, workload)
    if workload.copies and not traits_of(client.kind).has_copiers:
        yield f"{members} and client is {client.kind}; allowed: librdkafka or java"
    elif traits_of(client.kind).reports_in_text and not (
        workload.copies and workload.copies.command
    ):
        yield from _program_member_problems(client, name, section, consumer)
    yield from _commit_problems(workload, consumer, members)


def _commit_problems(
    workload: Workload, consumer: Mapping[str, str], members: str
) -> Iterator[str]:
    by_itself = workload.commits == "auto"
    decides = (
        "copy.delivery decides when a member commits"
        if workload.copies
        else f"group.commit is {workload.commits}; auto leaves commits to the client"
    )
    if is_true(consumer.get(AUTO_COMMIT, str(by_itself))) != by_itself:
        yield (
            f"{members} and {AUTO_COMMIT} is {consumer[AUTO_COMMIT]}; "
            f"allowed: {str(by_itself).lower()} ({decides})"
        )
    for name in (AUTO_COMMIT_INTERVAL, AUTO_OFFSET_STORE):
        if name in consumer and not by_itself:
            yield f"{members} and {name} is {consumer[name]}; allowed: leave it out ({decides})"
    if workload.group:
        group = workload.group
        yield from _member_commit_problems(group, "group", f"group.commit is {group.commit}")
        if group.after_failure != "seek" and not group.fail_every:
            yield (
                f"group.after_failure is {group.after_failure} and group.fail_every is 0; "
                "allowed: with a group.fail_every (no batch fails)"
            )
    elif workload.copies:
        copies = workload.copies
        yield from _member_commit_problems(copies, "copy", f"copy.delivery is {copies.delivery}")


def _member_commit_problems(
    section: GroupMembers | Copiers, place: str, decides: str
) -> Iterator[str]:
    """Yield what contradicts when members commit.

    A client that commits by itself does it its own way, and a transaction is committed as a whole.
    A member that commits before it processes has nothing left to commit on revocation.
    """
    if section.asynchronous_commits and section.commits in {"auto", "within"}:
        whose = "the client" if section.commits == "auto" else "a transaction"
        yield (
            f"{place}.asynchronous_commits is true and {decides}; "
            f"allowed: false ({whose} commits the offsets)"
        )
    if not section.commit_on_revocation and section.commits != "after":
        yield (
            f"{place}.commit_on_revocation is false and {decides}; allowed: true, or a commit "
            "after processing"
        )


def _program_member_problems(
    client: ClientChoice, place: str, section: GroupMembers | Copiers, consumer: Mapping[str, str]
) -> Iterator[str]:
    """Yield what a program does not do: it commits what it has reported, or its client does."""
    kind, traits = client.kind, traits_of(client.kind)
    polls = client.knows_of_consumer(MAX_POLL_RECORDS)
    after: tuple[str, ...] = ("after",) if traits.is_program else ("after", "auto")
    default = GroupMembers.model_fields["commit_every_records"].default
    reasons: dict[str, tuple[tuple[object, ...], str]] = {
        "commit": (after, "its program commits what it has processed"),
        "commit_every_records": (
            (section.commit_every_records if polls else default,),
            f"it has no {MAX_POLL_RECORDS}, and commits as it does",
        ),
        "static": ((False, client.knows_of_consumer(INSTANCE)), f"it has no {INSTANCE}"),
        "asynchronous_commits": ((False,), "its program commits in its own way"),
        "commit_on_revocation": ((True,), "its program has committed what it has processed"),
        "slow_members": ((0,), "its program processes as fast as it can"),
        "pause_while_processing": ((False,), "its program does not pause partitions"),
        "fail_every": ((0,), "its program fails at no record"),
        "auto_offset_reset": (("earliest", "latest"), "its program ends at the error"),
    }
    for name, (allowed, reason) in reasons.items():
        given = getattr(section, name, None)
        if name in type(section).model_fields and given not in allowed:
            value, *words = (str(each).lower() for each in (given, *dict.fromkeys(allowed)))
            yield (
                f"{place}.{name} is {value}; allowed with client {kind}: "
                f"{format_list(words, 'or')} ({reason})"
            )
    if MAX_POLL_RECORDS in consumer and section.commits != "auto":
        yield (
            f"{MAX_POLL_RECORDS} is {consumer[MAX_POLL_RECORDS]}; allowed with client {kind}: leave"
            f" it out (its program commits after each poll: {place}.commit_every_records decides)"
        )


def _application_problems(kind: ClientKind, workload: Workload) -> Iterator[str]:
    copies = workload.copies
    if copies is None:
        return
    if not copies.command:
        for name, value in (("identity", copies.identity), ("value", copies.value)):
            if value != Copiers.model_fields[name].default:
                yield (
                    f"copy.{name} is {shorten(str(value))}; allowed: with copy.command "
                    "(ackbench's copiers leave the value as it is)"
                )
        return
    yield from _identity_problems(kind, workload, copies)
    for name, value in copies.model_dump(include=set(Members.model_fields)).items():
        if value != Copiers.model_fields[name].default:
            yield (
                f"copy.{name} is {str(value).lower()} and copy.command is a program; allowed: "
                "leave it out (the program decides)"
            )


def _identity_problems(kind: ClientKind, workload: Workload, copies: Copiers) -> Iterator[str]:
    """Yield what contradicts `copy.identity`, of the values, keys and headers of the records."""
    identity = f"copy.identity is {copies.identity}"
    places = (copies.value or "").count(IDENTITY_PLACE)
    if copies.identity == "text" and places != 1:
        given = "not set" if copies.value is None else shorten(copies.value)
        yield f"{identity} and copy.value is {given}; allowed: a value with one {IDENTITY_PLACE}"
    if copies.identity == "value" and copies.value is not None:
        yield (
            f"copy.value is {shorten(copies.value)} and {identity}; "
            "allowed: header, key or text (the value is not ackbench's own)"
        )
    if copies.identity != "value" and traits_of(kind).reports_in_text:
        yield f"{identity} with client {kind}; allowed: value (its program writes its own values)"
    if copies.identity != "text" and places:
        yield f"{IDENTITY_PLACE} in copy.value and {identity}; allowed: with copy.identity text"
    if copies.identity == "key" and workload.keys.count:
        yield f"keys.count is {workload.keys.count} and {identity}; allowed: 0"
    if copies.identity != "value" and workload.headers:
        yield f"workload.headers is {workload.headers} and {identity}; allowed: 0"
    default = ProducerLoad.model_fields["record_size_bytes"].default
    if copies.value is not None and workload.record_size_bytes != default:
        yield (
            f"workload.record_size_bytes is {workload.record_size_bytes} and copy.value is set; "
            "allowed: leave it out (the value has its own size)"
        )


def workload_of_application(workload: Workload) -> Workload:
    """Return the load with the size of the value that an application is given, if there is one."""
    value = workload.copies.value if workload.copies else None
    if value is None:
        return workload
    content, _ = value_with_place(value)
    return workload.model_copy(update={"record_size_bytes": len(content)})


def _kip_848_problems(consumer: Mapping[str, str], cluster: ClusterNeed) -> Iterator[str]:
    protocol = f"{PROTOCOL} is {consumer[PROTOCOL]}"
    classic_only = next((name for name in CLASSIC_ONLY if name in consumer), None)
    if classic_only:
        yield (
            f"{classic_only} is {consumer[classic_only]} and {protocol}; "
            "allowed: leave it out (with KIP-848 the brokers' group.consumer.* settings decide)"
        )
    if not cluster.traits.planned:
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


def _key_problems(client: ClientChoice, keys: Keys) -> Iterator[str]:
    pairs = f"keys.pairs is {keys.pairs}"
    hot_key = f"keys.hot_key_share is {keys.hot_key_share:g}"
    round_robin = "keys.round_robin is true"
    requested = {
        pairs: keys.pairs != "none",
        hot_key: keys.hot_key_share > 0,
        round_robin: keys.round_robin,
    }
    for setting in (pairs, hot_key):
        if requested[setting] and keys.count < _MIN_KEYS:
            yield f"{setting} and keys.count is {keys.count}; allowed: 2 keys or more"
    if requested[pairs] and requested[hot_key]:
        yield f"{pairs} and {hot_key}; allowed: one of them, as each decides a record's key"
    if keys.round_robin and keys.count:
        yield (
            f"{round_robin} and keys.count is {keys.count}; "
            "allowed: 0 (a key would choose the partition)"
        )
    for setting, is_requested in requested.items():
        if traits_of(client.kind).reports_in_text and is_requested:
            yield (
                f"{setting} with client {client.kind}; allowed: leave it out "
                "(its program takes its keys in turn and names no partition)"
            )


# Clients that are programs


def workload_of_client(client: ClientChoice, workload: Workload, *, sweeps_size: bool) -> Workload:
    """Return the load as the cell's clients generate it.

    A program generates its own values, at a whole rate.

    Args:
        client: the cell's clients.
        workload: the cell's load.
        sweeps_size: whether an axis sweeps the size of the records.

    Raises:
        ExperimentError: the clients cannot generate this load.
    """
    if not traits_of(client.kind).reports_in_text:
        return workload
    rate = workload.rate_records_per_s / workload.producers
    for problem in _program_problems(client.kind, workload, rate, sweeps_size=sweeps_size):
        raise ExperimentError(problem)
    size_bytes = max_text_value_bytes(-(-workload.records // workload.producers), rate)
    return workload.model_copy(update={"record_size_bytes": size_bytes})


def _program_problems(
    kind: ClientKind, workload: Workload, rate: float, *, sweeps_size: bool
) -> Iterator[str]:
    if workload.transactions and not traits_of(kind).has_transactions:
        yield (
            f"transactions.records is {workload.transactions.records}; "
            f"allowed with client {kind}: no transactions (its program has none)"
        )
    if not rate.is_integer():
        yield (
            f"workload.rate_records_per_s is {rate:g} for each producer; "
            f"allowed with client {kind}: a whole number"
        )
    if workload.producers > MAX_TEXT_PRODUCERS:
        yield (
            f"workload.producers is {workload.producers}; "
            f"allowed with client {kind}: at most {MAX_TEXT_PRODUCERS}"
        )
    if workload.record_serving_brokers:
        yield (
            "workload.record_serving_brokers is true; "
            f"allowed with client {kind}: false (its program does not report the broker)"
        )
    if workload.headers:
        yield (
            f"workload.headers is {workload.headers}; "
            f"allowed with client {kind}: 0 (its program sends none)"
        )
    if sweeps_size:
        yield (
            "workload.record_size_bytes is an axis; "
            f"allowed with client {kind}: no such axis (its program generates its own values)"
        )
