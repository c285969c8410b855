"""Metadata requests of a client, on mock brokers."""

from __future__ import annotations

import pytest
from support.fakes.mock_brokers import MockBrokers

from experiments.clients.librdkafka.client import Client
from experiments.clients.librdkafka.library import PRODUCER
from infra.errors import HarnessError, WaitTimeout

UNKNOWN_TOPIC_OR_PART, TOPIC_AUTHORIZATION_FAILED = 3, 29


def test_a_client_waits_for_a_topic_that_a_broker_does_not_know_yet() -> None:
    """A broker that was just unfenced may not know it although the others do."""
    with (
        MockBrokers() as brokers,
        Client(PRODUCER, {"bootstrap.servers": brokers.bootstrap_servers}) as client,
    ):
        brokers.create_topic("trial", 4)
        brokers.set_topic_error("trial", UNKNOWN_TOPIC_OR_PART)
        with pytest.raises(WaitTimeout, match="a broker's metadata to include topic trial"):
            client.leaders("trial", 1)
        brokers.set_topic_error("trial", 0)
        assert len(client.leaders("trial", 10)) == 4


def test_any_other_error_of_a_topic_is_raised_at_once() -> None:
    """Waiting would not resolve it."""
    with (
        MockBrokers() as brokers,
        Client(PRODUCER, {"bootstrap.servers": brokers.bootstrap_servers}) as client,
    ):
        brokers.create_topic("trial", 1)
        brokers.set_topic_error("trial", TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(HarnessError, match="topic trial: TOPIC_AUTHORIZATION_FAILED"):
            client.leaders("trial", 10)
