"""Features of a broker that is not ours: what does not answer as Kafka does tells nothing."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.servers import dripping, serving

from ackbench.infra.cluster import broker_features
from ackbench.infra.cluster.broker_features import fetch_features
from ackbench.infra.kafka.api_versions import BrokerFeatures

NO_FEATURES = struct.pack(">ihBiB", 1, 0, 1, 0, 0)
"""A response without APIs and without tagged fields."""


def framed(response: bytes) -> bytes:
    """Return a response with its size before it."""
    return struct.pack(">i", len(response)) + response


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Yield the port of a server that reads a request, sends this, and closes the connection."""
    with serving(lambda connected: connected.sendall(answer)) as port:
        yield port


def test_a_broker_without_features_has_none() -> None:
    """They are then at level 0, not unknown."""
    with answering(struct.pack(">i", len(NO_FEATURES)) + NO_FEATURES) as port:
        assert fetch_features("127.0.0.1", port, {}) == BrokerFeatures({}, {})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "it closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not Kafka's"),
        (struct.pack(">i", 100) + b"short", "it closed the connection"),
        (struct.pack(">i", 4) + bytes(4), "a Kafka response of 4 bytes is too short"),
        (framed(bytes(6) + b"\xff" * 1000), "a number of more than 5 bytes"),
        (
            framed(bytes(6) + b"\x01" + bytes(4) + b"\x01\x00\x04\x02\x03\xff\xfe" + bytes(5)),
            "a text that is not UTF-8",
        ),
    ],
)
def test_what_is_not_kafka_tells_nothing_and_the_reason_is_logged(
    answer: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The sweep goes on: guarantees that depend on a feature are unknown."""
    with answering(answer) as port, caplog.at_level(logging.INFO):
        assert fetch_features("127.0.0.1", port, {}) is None
    assert reason in caplog.text


@pytest.mark.parametrize(
    "connection",
    [
        {"security.protocol": "ssl"},
        {"security.protocol": "sasl_ssl", "ssl.ca.location": "/no/such/ca.pem"},
    ],
)
def test_tls_that_fails_tells_nothing(
    connection: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The server does not speak TLS, or the authorities cannot be read."""
    with caplog.at_level(logging.INFO):
        if "ssl.ca.location" in connection:
            assert fetch_features("127.0.0.1", 1, connection) is None
        else:
            with answering(b"no TLS") as port:
                assert fetch_features("127.0.0.1", port, connection) is None
    assert "does not tell its features" in caplog.text


def test_a_broker_that_sends_byte_by_byte_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its answer is complete after the deadline of the request, though no byte is late."""
    monkeypatch.setattr(broker_features, "_TIMEOUT_S", 0.3)
    with dripping(framed(NO_FEATURES)) as port, caplog.at_level(logging.INFO):
        assert fetch_features("127.0.0.1", port, {}) is None
    assert "does not tell its features: timed out" in caplog.text


@pytest.mark.parametrize(("host", "port"), [("a" * 300, 9092), ("localhost", -1)])
def test_an_address_that_is_none_tells_nothing(
    host: str, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A cluster may advertise anything."""
    with caplog.at_level(logging.INFO):
        assert fetch_features(host, port, {}) is None
    assert "is no address" in caplog.text
