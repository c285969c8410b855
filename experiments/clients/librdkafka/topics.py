"""Topics: made, seen whole, asked for their ends, deleted. All of it is rare, so it is confluent-kafka's Python interface."""

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

from experiments.clients.settings.librdkafka import admin_settings
from experiments.clients.settings.security import connecting
from infra.errors import HarnessError
from infra.process.waiting import wait_until

TIMEOUT_S: Final = 30.0
_ASK_S: Final = 5.0
"""For one question; a broker that is paused does not answer, and the next question goes to another."""
_MARGIN_S: Final = 2.0
"""librdkafka settles every future by itself, a little after its time is up."""
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())

Answer = TypeVar("Answer")


def create_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Make a topic, and return when every partition has a leader and a full ISR, as a broker's metadata tells.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
        WaitTimeout: a partition has no leader or no full ISR.
    """
    client = client_of(bootstrap_servers)
    wanted = NewTopic(topic, partitions, replication_factor, config=dict(config or {}))
    made = client.create_topics([wanted], operation_timeout=timeout_s, request_timeout=timeout_s)[
        topic
    ]
    result_of(f"making topic {topic}", made, timeout_s)
    _wait_until_in_sync(client, topic, partitions, replication_factor, timeout_s)


def ensure_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Make a topic unless it is there, and return when it is whole. One that is there is left with the config it has.

    Raises:
        HarnessError: Kafka refused, did not answer, or has the topic with another number of partitions.
        WaitTimeout: a partition has no leader or no full ISR.
    """
    client = client_of(bootstrap_servers)
    if _metadata(client, topic) is None:
        try:
            create_topic(
                bootstrap_servers,
                topic,
                partitions=partitions,
                replication_factor=replication_factor,
                config=config,
                timeout_s=timeout_s,
            )
        except KafkaRequestFailed as refused:
            if (
                refused.code != KafkaError.TOPIC_ALREADY_EXISTS
            ):  # the broker that was asked had not heard of it yet
                raise
    _wait_until_in_sync(client, topic, partitions, replication_factor, timeout_s)


def delete_topic(bootstrap_servers: str, topic: str, *, timeout_s: float = TIMEOUT_S) -> None:
    """Delete a topic; nothing, when it is not there.

    Raises:
        HarnessError: Kafka refused, with its text, or did not answer.
    """
    client = client_of(
        bootstrap_servers
    )  # a client that is not kept is destroyed, and its questions with it
    deleted = client.delete_topics([topic], operation_timeout=timeout_s, request_timeout=timeout_s)[
        topic
    ]
    try:
        result_of(f"deleting topic {topic}", deleted, timeout_s)
    except KafkaRequestFailed as refused:
        if refused.code != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


def end_offsets(
    bootstrap_servers: str,
    topic: str,
    *,
    read_committed: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> dict[int, int]:
    """Return the high watermark of each partition: the offset after the last record that consumers may see.

    For `read_committed` consumers that is the last stable offset: no transaction below it is still open.
    Asked from the leaders (ListOffsets, KIP-396), and again while one of them is moving.

    Raises:
        HarnessError: there is no such topic.
        WaitTimeout: a leader did not answer, with Kafka's text for each.
    """
    client, refused = client_of(bootstrap_servers), dict[int, str]()

    def ask() -> dict[int, int] | None:
        refused.clear()
        isolation = (
            IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        )
        return _ask_offsets(client, topic, OffsetSpec.latest(), refused, isolation)  # type: ignore[no-untyped-call]

    return wait_until(
        ask,
        awaiting=f"the end offsets of {topic}",
        timeout_s=timeout_s,
        seen=lambda: refused or "no answer",
    )


def begin_offsets(
    bootstrap_servers: str, topic: str, *, timeout_s: float = TIMEOUT_S
) -> dict[int, int]:
    """Return where each partition's log begins now; see `end_offsets`.

    Raises:
        HarnessError: there is no such topic.
        WaitTimeout: a leader did not answer, with Kafka's text for each.
    """
    client, refused = client_of(bootstrap_servers), dict[int, str]()

    def ask() -> dict[int, int] | None:
        refused.clear()
        return _ask_offsets(client, topic, OffsetSpec.earliest(), refused)  # type: ignore[no-untyped-call]

    return wait_until(
        ask,
        awaiting=f"the first offsets of {topic}",
        timeout_s=timeout_s,
        seen=lambda: refused or "no answer",
    )


class KafkaRequestFailed(HarnessError):
    """Kafka's own refusal."""

    def __init__(self, doing: str, error: KafkaError) -> None:
        super().__init__(f"{doing}: {error.name()} ({error.str()})")
        self.code = error.code()


def client_of(bootstrap_servers: str) -> AdminClient:
    """Return a client that asks and changes; one that is not kept takes its questions with it."""
    return AdminClient({**admin_settings(), **connecting(bootstrap_servers)}, logger=_LOG)


def result_of(doing: str, future: Future[Answer], timeout_s: float) -> Answer:
    """Wait for what was asked.

    Args:
        doing: what, for the message.
        future: the client's.
        timeout_s: what the client was given for it.

    Raises:
        HarnessError: Kafka's text, or nothing came.
    """
    try:
        return future.result(timeout_s + _MARGIN_S)
    except KafkaException as error:
        raise KafkaRequestFailed(doing, error.args[0]) from error
    except TimeoutError as error:
        raise HarnessError(f"{doing}: no answer within {timeout_s:g} s") from error


def _ask_offsets(
    client: AdminClient,
    topic: str,
    which: OffsetSpec,
    refused: dict[int, str],
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[int, int] | None:
    try:
        found = _metadata(client, topic)
    except KafkaRequestFailed as error:
        refused[-1] = str(error)
        return None
    if found is None:
        raise HarnessError(f"there is no topic {topic}")
    asked = dict.fromkeys((TopicPartition(topic, number) for number in found.partitions), which)
    futures: Mapping[TopicPartition, Future[ListOffsetsResultInfo]] = client.list_offsets(
        asked, isolation_level=isolation, request_timeout=_ASK_S
    )
    ends: dict[int, int] = {}
    for place, future in futures.items():
        try:
            ends[place.partition] = result_of("its offset", future, _ASK_S).offset
        except HarnessError as error:
            refused[place.partition] = str(error)
    return ends if not refused else None


def _metadata(client: AdminClient, topic: str) -> TopicMetadata | None:
    """Return what a broker says of a topic; `None` when it knows none of that name.

    Raises:
        HarnessError: no broker answered, or the topic is in error.
    """
    try:
        found: TopicMetadata = client.list_topics(topic, timeout=_ASK_S).topics[topic]
    except KafkaException as error:
        raise KafkaRequestFailed(f"asking for topic {topic}", error.args[0]) from error
    if found.error is None:
        return found
    if found.error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}:  # noqa: SLF001 - librdkafka's name of it
        return None
    if found.error.code() == KafkaError.LEADER_NOT_AVAILABLE:
        return found
    raise KafkaRequestFailed(f"asking for topic {topic}", found.error)


def _wait_until_in_sync(
    client: AdminClient, topic: str, partitions: int, replication_factor: int, timeout_s: float
) -> None:
    flaws: list[str] = []

    def whole() -> bool:
        try:
            flaws[:] = _flaws(_metadata(client, topic), partitions, replication_factor)
        except KafkaRequestFailed as error:
            flaws[:] = [str(error)]
        return not flaws

    wait_until(
        whole,
        awaiting=f"{partitions} partitions of {topic} with a leader and {replication_factor} replicas in sync",
        timeout_s=timeout_s,
        seen=lambda: flaws,
    )


def _flaws(found: TopicMetadata | None, partitions: int, replication_factor: int) -> list[str]:
    """Say what a topic lacks, as this broker sees it."""
    if found is None:
        return ["no such topic"]
    if len(found.partitions) != partitions:
        return [f"{len(found.partitions)} partitions"]
    lacking = [
        p for p in found.partitions.values() if p.leader < 0 or len(p.isrs) != replication_factor
    ]
    return [f"partition {p.id} led by {p.leader}, in sync {p.isrs}" for p in lacking]
