"""librdkafka's own mock brokers, in the test's process: good for what clients do, never for what Kafka keeps."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Self

from confluent_kafka import Producer
from support.reference.values import ValueFields, encode

from experiments.clients.librdkafka.client import Client
from experiments.clients.librdkafka.library import PRODUCER, library

IMPATIENT = {"session.timeout.ms": "4000", "heartbeat.interval.ms": "200"}
"""For a member of a group that is killed."""
PATIENT = {"session.timeout.ms": "15000", "heartbeat.interval.ms": "200"}
"""For others: they are not thrown out where the machine is busy. Where one comes late the mock lets nobody in until a session is nearly over."""


class MockBrokers:
    """A context manager: so many brokers on loopback, each topic made on request."""

    def __init__(self, brokers: int = 3) -> None:
        make, servers = (
            library().rd_kafka_mock_cluster_new,
            library().rd_kafka_mock_cluster_bootstraps,
        )
        make.restype, make.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]
        servers.restype, servers.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        self._owner = Client(PRODUCER, {})
        self._address = make(self._owner.address, brokers)
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
        """End them."""
        library().rd_kafka_mock_cluster_destroy(ctypes.c_void_p(self._address))
        self._owner.__exit__(kind, error, trace)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic."""
        assert (
            library().rd_kafka_mock_topic_create(
                ctypes.c_void_p(self._address), topic.encode(), partitions, 1
            )
            == 0
        )

    def write(self, topic: str, partitions: int, records: int, token: int) -> None:
        """Write records of producer 1 to a topic's partitions in turn; return when all are acknowledged."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        for seq in range(records):
            producer.produce(
                topic,
                encode(ValueFields(1, seq, 1_000 + seq, token), 60),
                partition=seq % partitions,
            )
        assert producer.flush(10) == 0

    def set_topic_error(self, topic: str, error: int) -> None:
        """Have the brokers report this error for a topic in their metadata; 0: none."""
        library().rd_kafka_mock_topic_set_error(
            ctypes.c_void_p(self._address), topic.encode(), error
        )

    def round_trip_ms(self, broker: int, milliseconds: int) -> None:
        """Let a broker answer this late."""
        assert (
            library().rd_kafka_mock_broker_set_rtt(
                ctypes.c_void_p(self._address), broker, milliseconds
            )
            == 0
        )

    def answer_with(self, api: int, *errors: int) -> None:
        """Let the next requests of a kind (Produce is 0) fail with these errors, one each."""
        codes = (ctypes.c_int * len(errors))(*errors)
        library().rd_kafka_mock_push_request_errors_array(
            ctypes.c_void_p(self._address), ctypes.c_int16(api), ctypes.c_size_t(len(errors)), codes
        )
