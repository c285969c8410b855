"""Find the topics and groups of a sweep in an external cluster, and delete them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._group import ListConsumerGroupsResult

from experiments.clients.librdkafka.topics import (
    KafkaRequestFailed,
    admin_client,
    wait_for_result,
)
from infra.errors import WaitTimeout
from infra.process.waiting import wait_until

_TIMEOUT_S: Final = 15.0
_SESSION_S: Final = 60.0
"""Longer than the session of a member, whose default is 45 s (`session.timeout.ms`)."""
_RETRY_S: Final = 1.0
_NON_EMPTY: Final = KafkaError.NON_EMPTY_GROUP
_GONE: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})


@dataclass(frozen=True)
class Leftovers:
    """What was found of a sweep, and what became of it."""

    deleted: tuple[str, ...]
    refused: Mapping[str, str]
    """Names of what stays, each with Kafka's reason."""
    not_listed: tuple[str, ...]
    """Why groups may be unknown: of each broker that did not list those it coordinates."""


def delete_leftovers(servers: str, prefix: str) -> Leftovers:
    """Delete all topics and groups whose names begin with a prefix.

    Args:
        servers: the cluster's addresses.
        prefix: of the names; never empty.

    Raises:
        ValueError: the prefix is empty, which would be everything in the cluster.
        HarnessError: no broker answered.
    """
    if not prefix:
        raise ValueError("an empty prefix would delete everything")
    client = admin_client(servers)
    try:
        topics = client.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as error:
        raise KafkaRequestFailed("list the topics", error.args[0]) from error
    listed = _list_groups(servers)
    own_topics = sorted(name for name in topics if name.startswith(prefix))
    own_groups = sorted(
        group.group_id for group in listed.valid or () if group.group_id.startswith(prefix)
    )
    refused: dict[str, KafkaRequestFailed] = {}
    if own_topics:
        requests = client.delete_topics(
            own_topics, operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S
        )
        refused |= _refused(requests)
    refused |= _delete_groups(client, own_groups)
    names = [*own_groups, *own_topics]
    return Leftovers(
        tuple(name for name in names if name not in refused),
        {name: str(error) for name, error in refused.items()},
        tuple(
            str(KafkaRequestFailed("list the groups", error.args[0]))
            for error in listed.errors or ()
        ),
    )


def _list_groups(servers: str) -> ListConsumerGroupsResult:
    """Return all groups; with errors if, for long, a broker did not list those it coordinates.

    A broker that has just been started loads its groups first. One that has just died is asked as
    long as its client remembers it, which librdkafka's does: each request has a client of its own.
    """
    answers: list[ListConsumerGroupsResult] = []

    def by_all_brokers() -> bool:
        client = admin_client(servers)
        request = client.list_consumer_groups(request_timeout=_TIMEOUT_S)
        answers.append(wait_for_result("list the groups", request, _TIMEOUT_S))
        return not answers[-1].errors

    with suppress(WaitTimeout):
        wait_until(
            by_all_brokers,
            awaiting="each broker to list its groups",
            timeout_s=_SESSION_S,
            every_s=_RETRY_S,
        )
    return answers[-1]


def _delete_groups(client: AdminClient, groups: Sequence[str]) -> dict[str, KafkaRequestFailed]:
    """Delete groups and return those that stay.

    A member that was killed stays in its group until its session ends, and so long Kafka refuses.
    """
    left, refused = list(groups), dict[str, KafkaRequestFailed]()

    def delete() -> bool:
        if left:
            answers = client.delete_consumer_groups(left, request_timeout=_TIMEOUT_S)
            for name in left:
                refused.pop(name, None)
            refused.update(_refused(answers))
        left[:] = [name for name, error in refused.items() if error.code == _NON_EMPTY]
        return not left

    with suppress(WaitTimeout):
        wait_until(
            delete,
            awaiting="the groups to have no members",
            timeout_s=_SESSION_S,
            every_s=_RETRY_S,
        )
    return refused


def _refused(requests: Mapping[str, Future[Any]]) -> dict[str, KafkaRequestFailed]:
    refused = {}
    for name, future in requests.items():
        try:
            wait_for_result(f"delete {name}", future, _TIMEOUT_S)
        except KafkaRequestFailed as error:
            if error.code not in _GONE:
                refused[name] = error
    return refused
