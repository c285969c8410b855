"""Find the topics and groups of a sweep in an external cluster, and delete them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from experiments.clients.librdkafka.topics import (
    KafkaRequestFailed,
    admin_client,
    wait_for_result,
)

_TIMEOUT_S: Final = 15.0
_GONE: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})


@dataclass(frozen=True)
class Leftovers:
    """What was found of a sweep, and what became of it."""

    deleted: tuple[str, ...]
    refused: Mapping[str, str]
    """Names of what stays, each with Kafka's reason."""


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
    listed = wait_for_result(
        "list the groups", client.list_consumer_groups(request_timeout=_TIMEOUT_S), _TIMEOUT_S
    )
    own_topics = sorted(name for name in topics if name.startswith(prefix))
    own_groups = sorted(
        group.group_id for group in listed.valid or () if group.group_id.startswith(prefix)
    )
    requests: dict[str, Future[Any]] = {}
    if own_groups:
        requests |= client.delete_consumer_groups(own_groups, request_timeout=_TIMEOUT_S)
    if own_topics:
        requests |= client.delete_topics(
            own_topics, operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S
        )
    refused = dict(_refused(requests))
    return Leftovers(tuple(name for name in requests if name not in refused), refused)


def _refused(requests: Mapping[str, Future[Any]]) -> Iterator[tuple[str, str]]:
    for name, future in requests.items():
        try:
            wait_for_result(f"delete {name}", future, _TIMEOUT_S)
        except KafkaRequestFailed as error:
            if error.code not in _GONE:
                yield name, str(error)
