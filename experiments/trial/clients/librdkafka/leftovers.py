"""Find the topics and groups of a sweep in an external cluster, and delete them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._group import ListConsumerGroupsResult

from ackbench.experiments.trial.clients.librdkafka.topics import (
    KafkaRequestFailed,
    admin_client,
    wait_for_result,
)
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.waiting import wait_until

_LOG: Final = logging.getLogger(__name__)
_TIMEOUT_S: Final = 15.0
_SESSION_S: Final = 60.0
"""Longer than the session of a member, whose default is 45 s (`session.timeout.ms`)."""
_LOOKS_S: Final = 3 * _SESSION_S
"""Topics and groups may take a session each at the first look."""
_RETRY_S: Final = 1.0
_PASSES: Final = frozenset({KafkaError.NON_EMPTY_GROUP, KafkaError._TRANSPORT})  # noqa: SLF001
"""Refusals that pass: a session ends, and a connection is made again."""
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
        WaitTimeout: a client creates topics or groups again after each deletion.
    """
    if not prefix:
        raise ValueError("an empty prefix would delete everything")
    client = admin_client(servers)
    found, refused, unlisted = list[str](), dict[str, str](), list[str]()

    def delete_topics(names: list[str]) -> Mapping[str, Future[Any]]:
        return client.delete_topics(names, operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)

    def delete_groups(names: list[str]) -> Mapping[str, Future[Any]]:
        return client.delete_consumer_groups(names, request_timeout=_TIMEOUT_S)

    def nothing_new() -> bool:
        topics, listed = _list_topics(client), _list_groups(servers)
        groups = (group.group_id for group in listed.valid or ())
        own_groups, own_topics = (
            [name for name in sorted(names) if name.startswith(prefix) and name not in refused]
            for names in (groups, topics)
        )
        refused.update(_delete(own_topics, delete_topics))
        refused.update(_delete(own_groups, delete_groups))
        found.extend((*own_groups, *own_topics))
        unlisted[:] = [
            str(KafkaRequestFailed("list the groups", error.args[0]))
            for error in listed.errors or ()
        ]
        return not own_groups and not own_topics

    # A broker with auto.create.topics.enable creates a deleted topic again when a client, such as
    # Java's producer, requests its metadata late: so the last look finds nothing.
    wait_until(
        nothing_new,
        awaiting=f"no topic or group {prefix}* to be made again after its deletion",
        timeout_s=_LOOKS_S,
        every_s=_RETRY_S,
    )
    return Leftovers(
        tuple(name for name in dict.fromkeys(found) if name not in refused),
        refused,
        tuple(unlisted),
    )


def _list_topics(client: AdminClient) -> Iterable[str]:
    try:
        topics: Mapping[str, object] = client.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as error:
        raise KafkaRequestFailed("list the topics", error.args[0]) from error
    return topics


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


def _delete(
    names: Sequence[str], request: Callable[[list[str]], Mapping[str, Future[Any]]]
) -> dict[str, str]:
    """Delete topics or groups and return those that stay, with Kafka's reasons.

    A member that was killed stays in its group until its session ends, and so long Kafka refuses.
    """
    left, refused = list(names), dict[str, KafkaRequestFailed]()

    def nothing_is_left() -> bool:
        if left:
            answers = request(left)
            for name in left:
                refused.pop(name, None)
            refused.update(_refused(answers))
        left[:] = [name for name, error in refused.items() if error.code in _PASSES]
        return not left

    if not nothing_is_left():
        reasons = "; ".join(str(refused[name]) for name in left)
        _LOG.warning("waiting up to %.0f s for Kafka to delete them: %s", _SESSION_S, reasons)
        with suppress(WaitTimeout):
            wait_until(
                nothing_is_left,
                awaiting="Kafka to delete them",
                timeout_s=_SESSION_S,
                every_s=_RETRY_S,
            )
    return {name: str(error) for name, error in refused.items()}


def _refused(requests: Mapping[str, Future[Any]]) -> dict[str, KafkaRequestFailed]:
    refused = {}
    for name, future in requests.items():
        try:
            wait_for_result(f"delete {name}", future, _TIMEOUT_S)
        except KafkaRequestFailed as error:
            if error.code not in _GONE:
                refused[name] = error
    return refused
