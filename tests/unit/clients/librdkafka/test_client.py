"""What a client asks brokers for. They are librdkafka's mock."""

from __future__ import annotations

import pytest
from support.fakes.mock_brokers import MockBrokers

from experiments.clients.librdkafka.client import Client
from experiments.clients.librdkafka.library import PRODUCER
from infra.errors import HarnessError, WaitTimeout

UNKNOWN_TOPIC_OR_PART, TOPIC_AUTHORIZATION_FAILED = 3, 29


def test_a_topic_that_a_broker_does_not_know_yet_is_waited_for() -> None:
    """A broker that was let in a moment ago may not, though the others do: that is no reason to fail a trial."""
    with (
        MockBrokers() as brokers,
        Client(PRODUCER, {"bootstrap.servers": brokers.bootstrap_servers}) as client,
    ):
        brokers.create_topic("trial", 4)
        brokers.say_of_topic("trial", UNKNOWN_TOPIC_OR_PART)
        with pytest.raises(WaitTimeout, match="the broker that answers to know topic trial"):
            client.leaders("trial", 1)
        brokers.say_of_topic("trial", 0)
        assert len(client.leaders("trial", 10)) == 4


def test_any_other_error_of_a_topic_is_told_at_once() -> None:
    """Waiting would not change it."""
    with (
        MockBrokers() as brokers,
        Client(PRODUCER, {"bootstrap.servers": brokers.bootstrap_servers}) as client,
    ):
        brokers.create_topic("trial", 1)
        brokers.say_of_topic("trial", TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(HarnessError, match="topic trial: TOPIC_AUTHORIZATION_FAILED"):
            client.leaders("trial", 10)
