"""Create and delete topics, and read the offsets of their partitions.

These requests are rare, so they use confluent-kafka's Python interface.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec
from confluent_kafka.admin._metadata import TopicMetadata
from confluent_kafka.cimpl import NewTopic

from ackbench.experiments.trial.clients.settings.librdkafka import admin_settings
from ackbench.experiments.trial.clients.settings.security import connection_settings
from ackbench.experiments.trial.clients.settings.tokens import confluent_settings
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.waiting import wait_until

TIMEOUT_S: Final = 30.0
BROKER_DEFAULT: Final = -1
"""A replication factor: the brokers' `default.replication.factor` (KIP-464)."""
_REQUEST_TIMEOUT_S: Final = 5.0
"""For one request. A paused broker does not answer; the next request can go to another broker."""
_FUTURE_MARGIN_S: Final = 2.0
"""librdkafka completes every future on its own, a little after the request's timeout."""
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())

Response = TypeVar("Response")


class KafkaRequestFailed(HarnessError):
    """Kafka, or the client library, answered a request with an error."""

    def __init__(self, action: str, error: KafkaError) -> None:
        super().__init__(f"cannot {action}: {error.name()} ({error.str()})")
        self.code = error.code()


def create_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Create a topic and wait until every partition has a leader and a full ISR in the metadata.

    A broker forwards the request to the controller (KIP-590), and again if that connection closes:
    the answer is then that the topic exists, which the first request has made. So it is taken for
    created if no broker knew it before, and it has no record.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
        WaitTimeout: a partition has no leader or no full ISR.
    """
    client = admin_client(bootstrap_servers)
    known_before = _topic_metadata(client, topic) is not None
    new_topic = NewTopic(topic, partitions, replication_factor, config=dict(config or {}))
    created = client.create_topics(
        [new_topic], operation_timeout=timeout_s, request_timeout=timeout_s
    )
    exists: KafkaRequestFailed | None = None
    try:
        wait_for_result(f"create topic {topic}", created[topic], timeout_s)
    except KafkaRequestFailed as error:
        if known_before or error.code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        exists = error
    _wait_until_in_sync(client, topic, partitions, replication_factor, timeout_s)
    if exists and any(end_offsets(bootstrap_servers, topic, timeout_s=timeout_s).values()):
        raise exists


def ensure_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Create a topic unless it exists, and wait until it is healthy.

    An existing topic keeps its own config.

    Raises:
        HarnessError: Kafka refused, did not answer, or the topic has another number of partitions.
        WaitTimeout: a partition has no leader or no full ISR.
    """
    client = admin_client(bootstrap_servers)
    if _topic_metadata(client, topic) is None:
        try:
            create_topic(
                bootstrap_servers,
                topic,
                partitions=partitions,
                replication_factor=replication_factor,
                config=config,
                timeout_s=timeout_s,
            )
        except KafkaRequestFailed as error:
            # The broker that returned the metadata may not know an existing topic yet.
            if error.code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    _wait_until_in_sync(client, topic, partitions, replication_factor, timeout_s)


def delete_topic(bootstrap_servers: str, topic: str, *, timeout_s: float = TIMEOUT_S) -> None:
    """Delete a topic; do nothing if it does not exist.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    # Without this reference the client would be destroyed, and its requests with it.
    client = admin_client(bootstrap_servers)
    deleted = client.delete_topics([topic], operation_timeout=timeout_s, request_timeout=timeout_s)
    try:
        wait_for_result(f"delete topic {topic}", deleted[topic], timeout_s)
    except KafkaRequestFailed as error:
        if error.code != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


def end_offsets(
    bootstrap_servers: str,
    topic: str,
    *,
    read_committed: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> dict[int, int]:
    """Return the high watermark of each partition; with `read_committed`, the last stable offset.

    The last stable offset is the end for `read_committed` consumers: no transaction is open below
    it. The request goes to the leaders (ListOffsets, KIP-396), repeatedly while a leader moves.

    Raises:
        HarnessError: the topic does not exist.
        WaitTimeout: a leader did not answer; the message has Kafka's text per partition.
    """
    isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return _offsets(
        bootstrap_servers, topic, latest, isolation, f"end offsets of {topic}", timeout_s
    )


def begin_offsets(
    bootstrap_servers: str, topic: str, *, timeout_s: float = TIMEOUT_S
) -> dict[int, int]:
    """Return the log start offset of each partition; see `end_offsets`.

    Raises:
        HarnessError: the topic does not exist.
        WaitTimeout: a leader did not answer; the message has Kafka's text per partition.
    """
    earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    isolation = IsolationLevel.READ_UNCOMMITTED
    return _offsets(
        bootstrap_servers, topic, earliest, isolation, f"begin offsets of {topic}", timeout_s
    )


def admin_client(bootstrap_servers: str) -> AdminClient:
    """Return a client for metadata and admin requests.

    The caller keeps a reference until all results are in: a client that is garbage-collected takes
    its requests with it.
    """
    settings: dict[str, str | int | float | bool] = {
        **admin_settings(),
        **connection_settings(bootstrap_servers),
    }
    return AdminClient(confluent_settings(settings), logger=_LOG)


def wait_for_result(action: str, future: Future[Response], timeout_s: float) -> Response:
    """Wait for the result of a request.

    Args:
        action: what was requested, for messages: `create topic orders`.
        future: the request's future.
        timeout_s: the timeout of the request.

    Raises:
        HarnessError: Kafka refused, with its text, or there was no result in time.
    """
    try:
        return future.result(timeout_s + _FUTURE_MARGIN_S)
    except KafkaException as error:
        raise KafkaRequestFailed(action, error.args[0]) from error
    except TimeoutError as error:
        raise HarnessError(f"cannot {action}: no answer within {timeout_s:g} s") from error


def _offsets(
    bootstrap_servers: str,
    topic: str,
    spec: OffsetSpec,
    isolation: IsolationLevel,
    awaiting: str,
    timeout_s: float,
) -> dict[int, int]:
    """Return an offset of each partition, once all leaders have answered."""
    client, errors = admin_client(bootstrap_servers), dict[int, str]()

    def list_offsets() -> dict[int, int] | None:
        errors.clear()
        return _list_offsets(client, topic, spec, isolation, errors)

    return wait_until(
        list_offsets, awaiting=awaiting, timeout_s=timeout_s, seen=lambda: errors or "no answer"
    )


def _list_offsets(
    client: AdminClient,
    topic: str,
    spec: OffsetSpec,
    isolation: IsolationLevel,
    errors: dict[int, str],
) -> dict[int, int] | None:
    """Request the offsets once; `None`, with `errors` by partition, if any is missing.

    An error of the topic itself is recorded for partition -1.
    """
    try:
        metadata = _topic_metadata(client, topic)
    except KafkaRequestFailed as error:
        errors[-1] = str(error)
        return None
    if metadata is None:
        raise HarnessError(f"topic {topic} does not exist")
    requests = dict.fromkeys(
        (TopicPartition(topic, number) for number in metadata.partitions), spec
    )
    futures: Mapping[TopicPartition, Future[ListOffsetsResultInfo]] = client.list_offsets(
        requests, isolation_level=isolation, request_timeout=_REQUEST_TIMEOUT_S
    )
    offsets: dict[int, int] = {}
    for partition, future in futures.items():
        try:
            result = wait_for_result("list offsets", future, _REQUEST_TIMEOUT_S)
            offsets[partition.partition] = result.offset
        except HarnessError as error:
            errors[partition.partition] = str(error)
    return offsets if not errors else None


def _topic_metadata(client: AdminClient, topic: str) -> TopicMetadata | None:
    """Return a broker's metadata of a topic; `None` if that broker does not know the topic.

    Raises:
        HarnessError: no broker answered, or the topic has an error.
    """
    action = f"read metadata of topic {topic}"
    try:
        metadata: TopicMetadata = client.list_topics(topic, timeout=_REQUEST_TIMEOUT_S).topics[
            topic
        ]
    except KafkaException as error:
        raise KafkaRequestFailed(action, error.args[0]) from error
    if metadata.error is None:
        return metadata
    unknown = {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's name
    }
    if metadata.error.code() in unknown:
        return None
    if metadata.error.code() == KafkaError.LEADER_NOT_AVAILABLE:
        return metadata
    raise KafkaRequestFailed(action, metadata.error)


def _wait_until_in_sync(
    client: AdminClient, topic: str, partitions: int, replication_factor: int, timeout_s: float
) -> None:
    flaws: list[str] = []

    def is_in_sync() -> bool:
        try:
            flaws[:] = _flaws(_topic_metadata(client, topic), partitions, replication_factor)
        except KafkaRequestFailed as error:
            flaws[:] = [str(error)]
        return not flaws

    replicas = "all" if replication_factor == BROKER_DEFAULT else replication_factor
    wait_until(
        is_in_sync,
        awaiting=(
            f"{partitions} partitions of {topic} with a leader and {replicas} replicas in sync"
        ),
        timeout_s=timeout_s,
        seen=lambda: flaws,
    )


def _flaws(metadata: TopicMetadata | None, partitions: int, replication_factor: int) -> list[str]:
    """Return what a topic lacks according to one broker's metadata; empty if it is healthy."""
    if metadata is None:
        return ["no such topic"]
    if len(metadata.partitions) != partitions:
        return [f"{len(metadata.partitions)} partitions"]
    return [
        f"partition {partition.id}: leader {partition.leader}, ISR {partition.isrs}"
        for partition in metadata.partitions.values()
        if partition.leader < 0
        or len(partition.isrs)
        != (len(partition.replicas) if replication_factor == BROKER_DEFAULT else replication_factor)
    ]
