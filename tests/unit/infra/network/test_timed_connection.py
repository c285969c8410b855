"""A connection with one deadline: a server decides neither how long nor how much is read."""

from __future__ import annotations

import socket
import ssl
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from support.external_brokers import PASSWORD, public_part, write_certificate
from support.servers import HOST, dripping, serving

from ackbench.infra.cluster.health import send_kafka_request, zookeeper_mode
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import NodeStatus
from ackbench.infra.network.timed_connection import TimedConnection

TIMEOUT_S = 0.3
ENOUGH_S = 30.0


def test_a_server_that_sends_byte_by_byte_does_not_postpone_the_deadline() -> None:
    """Each byte is in time, and their sum is not."""
    with (
        dripping(struct.pack(">i", 30) + bytes(30)) as port,
        TimedConnection((HOST, port), TIMEOUT_S) as connection,
    ):
        connection.send(b"?")
        with pytest.raises(TimeoutError, match="timed out"):
            connection.receive_response()


def test_a_request_to_a_node_that_answers_byte_by_byte_has_no_response() -> None:
    """As one to a node that does not answer."""
    with dripping(struct.pack(">i", 30) + bytes(30)) as port:
        assert send_kafka_request((HOST, port), b"?", TIMEOUT_S) is None


def test_a_zookeeper_server_that_answers_byte_by_byte_has_no_mode() -> None:
    """Its answer ends where it closes the connection."""
    with dripping(b"Zookeeper version: 3\nMode: leader\n") as port:
        node = NodeStatus(1, "running", 1, 1, 1, port, port, HOST, "zookeeper")
        assert zookeeper_mode(node, TIMEOUT_S) is None


@pytest.mark.parametrize("size_bytes", [-1, 0, 11, (1 << 31) - 1])
def test_a_size_that_is_not_kafkas_is_an_error(size_bytes: int) -> None:
    """Nothing of that size is read, or waited for."""
    with (
        serving(lambda connected: connected.sendall(struct.pack(">i", size_bytes))) as port,
        TimedConnection((HOST, port), ENOUGH_S) as connection,
    ):
        connection.send(b"?")
        with pytest.raises(HarnessError, match=f"a response of {size_bytes} bytes is not Kafka's"):
            connection.receive_response(most_bytes=10)


def test_an_answer_without_an_end_is_read_up_to_a_size() -> None:
    """The server would send for ever."""

    def send_for_ever(connected: socket.socket) -> None:
        while True:
            connected.sendall(bytes(1000))

    with serving(send_for_ever) as port, TimedConnection((HOST, port), ENOUGH_S) as connection:
        connection.send(b"?")
        assert len(connection.receive_all(12_345)) == 12_345


@pytest.mark.parametrize("address", [("a" * 300, 9092), ("localhost", -1), ("localhost", 1 << 40)])
def test_what_is_no_address_is_an_error_of_the_connection(address: tuple[str, int]) -> None:
    """A cluster may advertise anything."""
    with pytest.raises(OSError, match="is no address"):
        TimedConnection(address, ENOUGH_S)


def test_a_refusal_of_tls_is_not_hidden_by_the_hosts_next_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of `localhost`, the address of the other protocol version often has no listener."""
    with socket.create_server((HOST, 0)) as unused:
        closed = unused.getsockname()[1]
    with serving(lambda connected: connected.sendall(b"HTTP/1.1 400 \r\n")) as port:
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (HOST, each)) for each in (port, closed)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with pytest.raises(ssl.SSLError):
            TimedConnection(("localhost", port), 5, ssl.create_default_context())


def test_a_certificate_that_is_refused_is_an_error_of_its_own_kind(tmp_path: Path) -> None:
    """It is a `ValueError` as well, as is a name that no host can have."""
    expired = write_certificate(tmp_path, "expired", valid_days=-1)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(expired, password=PASSWORD)
    trusting = ssl.create_default_context(cafile=public_part(expired))
    with socket.create_server((HOST, 0)) as server, ThreadPoolExecutor(1) as serving_one:

        def accept() -> None:
            with suppress(OSError):
                tls.wrap_socket(server.accept()[0], server_side=True).close()

        serving_one.submit(accept)
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            TimedConnection(("localhost", server.getsockname()[1]), 5, trusting)
