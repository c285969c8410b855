"""Requests to the controller and how errors are handled, with a fake controller."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from ackbench.experiments.trial.clients.librdkafka import topics
from ackbench.experiments.trial.clients.librdkafka.admin import add_partitions
from ackbench.infra.errors import HarnessError


class FakeController:
    """Answers every CreatePartitions request with one error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def create_partitions(
        self, requests: list[object], **_timeouts: float
    ) -> dict[str, Future[None]]:
        """Return a future with the error."""
        assert len(requests) == 1
        future = Future[None]()
        future.set_exception(KafkaException(KafkaError(self.code)))
        return {"trial": future}


def test_partitions_that_already_exist_are_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated request can be refused because the first succeeded. Other errors are raised."""
    monkeypatch.setattr(
        topics, "admin_client", lambda _servers: FakeController(KafkaError.INVALID_PARTITIONS)
    )
    add_partitions("nowhere", "trial", 12)
    monkeypatch.setattr(
        topics,
        "admin_client",
        lambda _servers: FakeController(KafkaError.TOPIC_AUTHORIZATION_FAILED),
    )
    with pytest.raises(
        HarnessError,
        match="cannot increase topic trial to 12 partitions: TOPIC_AUTHORIZATION_FAILED",
    ):
        add_partitions("nowhere", "trial", 12)
