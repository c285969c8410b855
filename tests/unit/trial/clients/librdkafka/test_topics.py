"""A topic that is said to exist may be the one that was just created."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from ackbench.experiments.trial.clients.librdkafka import topics


@pytest.fixture
def topic_exists(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have the request to create a topic answered by: it exists; and no broker known it before."""

    class Client:
        def create_topics(self, _new: list[object], **_timeouts: float) -> dict[str, Future[None]]:
            future = Future[None]()
            future.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))
            return {"orders": future}

    monkeypatch.setattr(topics, "admin_client", lambda _servers: Client())
    monkeypatch.setattr(topics, "_topic_metadata", lambda _client, _topic: None)
    monkeypatch.setattr(topics, "_wait_until_in_sync", lambda *_: None)
    monkeypatch.setattr(topics, "end_offsets", lambda *_, **__: {0: 0, 1: 0})
    return monkeypatch


def create() -> None:
    """Create it."""
    topics.create_topic("localhost:1", "orders", partitions=2, replication_factor=3)


@pytest.mark.usefixtures("topic_exists")
def test_an_empty_topic_that_nobody_knew_is_the_one_that_was_created() -> None:
    """The broker has sent the request to the controller twice."""
    create()


def test_a_topic_with_records_is_not_the_one_that_was_created(
    topic_exists: pytest.MonkeyPatch,
) -> None:
    """The broker that was asked before did not know it yet."""
    topic_exists.setattr(topics, "end_offsets", lambda *_, **__: {0: 0, 1: 7})
    with pytest.raises(topics.KafkaRequestFailed, match="TOPIC_ALREADY_EXISTS"):
        create()


def test_a_topic_that_was_known_before_is_not_the_one_that_was_created(
    topic_exists: pytest.MonkeyPatch,
) -> None:
    """Even if it has no records."""
    topic_exists.setattr(topics, "_topic_metadata", lambda _client, _topic: object())
    with pytest.raises(topics.KafkaRequestFailed, match="TOPIC_ALREADY_EXISTS"):
        create()
