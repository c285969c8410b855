"""librdkafka's mock brokers in the test's process.

They suit tests of clients, not tests of what Kafka stores.
"""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Self

from confluent_kafka import Producer
from support.reference.values import ValueFields, encode

from ackbench.experiments.trial.clients.group.groups import ConsumerGroup
from ackbench.experiments.trial.clients.librdkafka.client import Client
from ackbench.experiments.trial.clients.librdkafka.library import PRODUCER, library
from ackbench.infra.process.waiting import wait_until

SHORT_SESSION = {"session.timeout.ms": "4000", "heartbeat.interval.ms": "200"}
"""For a group member that is killed."""
LONG_SESSION = {"session.timeout.ms": "15000", "heartbeat.interval.ms": "200"}
"""For other members: they stay in the group on a busy machine.

After a member is late, the mock coordinator admits no member until a session has nearly expired.
"""


def wait_for_own_partitions(group: ConsumerGroup, partitions: int) -> None:
    """Wait until each member owns a partition, so that no rebalance is to come.

    The mock coordinator refuses commits during a rebalance. A member counts as accepted before it
    owns a partition, because there can be more members than partitions.
    """
    members = {member.name for member in group.members}
    wait_until(
        lambda: (
            {owner.name for owner in map(group.owner_of, range(partitions)) if owner} == members
        ),
        awaiting="each member to own a partition",
        timeout_s=60,
    )


class MockBrokers:
    """A context manager: a number of brokers on loopback; topics are created on request."""

    def __init__(self, brokers: int = 3) -> None:
        create = library().rd_kafka_mock_cluster_new
        servers = library().rd_kafka_mock_cluster_bootstraps
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]
        servers.restype, servers.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        self._owner = Client(PRODUCER, {})
        self._address = create(self._owner.address, brokers)
        self.bootstrap_servers: str = servers(self._address).decode()

    def __enter__(self) -> Self:
        """Return the brokers."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Destroy the brokers."""
        library().rd_kafka_mock_cluster_destroy(ctypes.c_void_p(self._address))
        self._owner.__exit__(kind, error, trace)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        assert (
            library().rd_kafka_mock_topic_create(
                ctypes.c_void_p(self._address), topic.encode(), partitions, 1
            )
            == 0
        )

    def write(self, topic: str, partitions: int, records: int, token: int) -> None:
        """Write records of producer 1 round-robin, and return when all are acknowledged."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        for seq in range(records):
            producer.produce(
                topic,
                encode(ValueFields(1, seq, 1_000 + seq, token), 60),
                partition=seq % partitions,
            )
        assert producer.flush(10) == 0

    def set_topic_error(self, topic: str, error: int) -> None:
        """Let the brokers report this error for a topic in their metadata; 0: none."""
        library().rd_kafka_mock_topic_set_error(
            ctypes.c_void_p(self._address), topic.encode(), error
        )

    def set_round_trip_ms(self, broker: int, milliseconds: int) -> None:
        """Delay the responses of a broker."""
        assert (
            library().rd_kafka_mock_broker_set_rtt(
                ctypes.c_void_p(self._address), broker, milliseconds
            )
            == 0
        )

    def fail_next_requests(self, api: int, *errors: int) -> None:
        """Let the next requests of an API (Produce is 0) fail with these errors, one each."""
        codes = (ctypes.c_int * len(errors))(*errors)
        library().rd_kafka_mock_push_request_errors_array(
            ctypes.c_void_p(self._address), ctypes.c_int16(api), ctypes.c_size_t(len(errors)), codes
        )

    def answer_requests(self, api: int) -> None:
        """Let no further request of an API fail."""
        library().rd_kafka_mock_clear_request_errors(
            ctypes.c_void_p(self._address), ctypes.c_int16(api)
        )
