"""What is asked of a cluster's controller, and what its refusal means. Its answers are made here."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from experiments.clients.librdkafka import topics
from experiments.clients.librdkafka.admin import add_partitions
from infra.errors import HarnessError


class Controller:
    """Answers every request for more partitions with one error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def create_partitions(self, asked: list[object], **_timeouts: float) -> dict[str, Future[None]]:
        """Refuse."""
        assert len(asked) == 1
        refused = Future[None]()
        refused.set_exception(KafkaException(KafkaError(self.code)))
        return {"trial": refused}


def test_partitions_that_are_there_already_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose answer was late was sent again, and refused then; one that nobody may make is a failure."""
    monkeypatch.setattr(
        topics, "admin_client", lambda _servers: Controller(KafkaError.INVALID_PARTITIONS)
    )
    add_partitions("nowhere", "trial", 12)
    monkeypatch.setattr(
        topics, "admin_client", lambda _servers: Controller(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    )
    with pytest.raises(
        HarnessError,
        match="cannot increase topic trial to 12 partitions: TOPIC_AUTHORIZATION_FAILED",
    ):
        add_partitions("nowhere", "trial", 12)
