"""Relays in front of a broker that advertises its own address, in plain text and with TLS."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.external_brokers import PASSWORD, public_part, write_certificate
from support.golden_files import Says

from ackbench.infra.errors import SupervisorError
from ackbench.infra.kafka.addresses import METADATA
from ackbench.infra.kafka.wire import ResponseReader, compact_array, compact_string
from ackbench.infra.network import external_relays
from ackbench.infra.network.external_relays import ExternalRelays
from ackbench.infra.network.impairment import PacketDrop, RelayAction
from ackbench.infra.network.tls import tls_context
from ackbench.infra.process.waiting import wait_until

TIMEOUT_S = 10.0
HOST = "localhost"
Broker = tuple[int, str, int]


def metadata_request(correlation_id: int) -> bytes:
    """Return a Metadata request in version 12; the broker here does not read its body."""
    body = struct.pack(">hhih", METADATA, 12, correlation_id, -1) + b"\x00"
    return struct.pack(">i", len(body)) + body


def metadata_response(correlation_id: int, brokers: Sequence[Broker]) -> bytes:
    """Return a Metadata response with these brokers and nothing else."""
    nodes = compact_array(
        struct.pack(">i", id_)
        + compact_string(host)
        + struct.pack(">i", port)
        + compact_string(None)
        + b"\x00"
        for id_, host, port in brokers
    )
    body = struct.pack(">i", correlation_id) + b"\x00" + struct.pack(">i", 0) + nodes
    return struct.pack(">i", len(body)) + body


def read_brokers(response: bytes) -> list[Broker]:
    """Return the brokers of a Metadata response."""

    def read(reader: ResponseReader) -> Broker:
        id_, host, port = reader.number(">i"), reader.compact_string(), reader.number(">i")
        reader.compact_string()
        reader.tags()
        return id_, str(host), port

    reader = ResponseReader(response)
    reader.skip(4 + 1 + 4)
    return reader.compact_array(read)


def receive(connected: socket.socket) -> bytes:
    """Return the next frame without its size; empty at the end of the connection."""
    with connected.makefile("rb") as stream:
        size = stream.read(4)
        return stream.read(int.from_bytes(size)) if size else b""


@dataclass
class AdvertisingBroker:
    """A broker that answers each request with the brokers of its cluster."""

    port: int
    brokers: list[Broker] = field(default_factory=list)
    connections: int = 0


@contextmanager
def running_broker(tls: ssl.SSLContext | None = None) -> Iterator[AdvertisingBroker]:
    """Run a broker, node 1 of its cluster."""
    server = socket.create_server(("127.0.0.1", 0))
    broker = AdvertisingBroker(server.getsockname()[1])
    broker.brokers.append((1, HOST, broker.port))

    def serve() -> None:
        while True:
            try:
                connected, _ = server.accept()
            except OSError:  # the server is closed
                return
            broker.connections += 1
            try:
                with tls.wrap_socket(connected, server_side=True) if tls else connected as stream:
                    while request := receive(stream):
                        correlation_id = int.from_bytes(request[4:8])
                        stream.sendall(metadata_response(correlation_id, broker.brokers))
            except OSError:  # the client has reset the connection, or refuses the certificate
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield broker
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(TIMEOUT_S)


@contextmanager
def relayed(
    broker: AdvertisingBroker, tls: ssl.SSLContext | None = None
) -> Iterator[ExternalRelays]:
    """Run relays in front of a broker."""
    with closing(ExternalRelays({1: (HOST, broker.port)}, tls)) as relays:
        yield relays


@contextmanager
def connected_to(address: str) -> Iterator[socket.socket]:
    """Connect to one of the addresses of relays."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), TIMEOUT_S) as client:
        yield client


def assert_is_reset(address: str) -> None:
    """Check that a connection is reset before anything is received.

    The reset can precede the end of `connect`, which raises it then.
    """
    with pytest.raises(ConnectionResetError), connected_to(address) as client:
        client.recv(1)


def ask(address: str) -> list[Broker]:
    """Return the brokers that a client learns of at an address."""
    with connected_to(address) as client:
        client.sendall(metadata_request(5))
        return read_brokers(receive(client))


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate with its key."""
    return write_certificate(tmp_path, "broker")


def server_side(certificate: Path) -> ssl.SSLContext:
    """Return TLS with this certificate, that requires one of the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, password=PASSWORD)
    context.load_verify_locations(public_part(certificate))
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_side(own: Path, trusted: Path) -> ssl.SSLContext:
    """Return the relay's TLS, as from librdkafka's properties."""
    context = tls_context(
        {
            "security.protocol": "SSL",
            "ssl.ca.location": str(public_part(trusted)),
            "ssl.certificate.location": str(public_part(own)),
            "ssl.key.location": str(own),
            "ssl.key.password": PASSWORD,
        }
    )
    assert context is not None
    return context


def test_a_client_learns_the_address_of_the_relay_and_the_broker_has_tls(certificate: Path) -> None:
    """The client has none; the relay presents the certificate."""
    with (
        running_broker(server_side(certificate)) as broker,
        relayed(broker, client_side(certificate, certificate)) as relays,
    ):
        ((id_, host, port),) = ask(relays.bootstrap_servers)
        assert (id_, f"{host}:{port}") == (1, relays.bootstrap_servers)


def test_a_broker_that_joins_later_gets_a_relay_as_well() -> None:
    """Its first address is in a response; a client must not see it."""
    with running_broker() as broker, running_broker() as joined, relayed(broker) as relays:
        broker.brokers.append((2, HOST, joined.port))
        (_, (id_, host, port)) = ask(relays.bootstrap_servers)
        assert id_ == 2
        assert port != joined.port
        assert ask(f"{host}:{port}")
        assert joined.connections == 1


def test_a_broker_that_comes_back_with_another_address_keeps_its_relay() -> None:
    """The relay connects to the address that was named last."""
    with running_broker() as broker, running_broker() as moved, relayed(broker) as relays:
        broker.brokers[0] = (1, HOST, moved.port)
        ask(relays.bootstrap_servers)
        ask(relays.bootstrap_servers)
        assert moved.connections == 1


def test_a_broker_with_an_unknown_certificate_is_not_connected_to(
    certificate: Path, tmp_path: Path
) -> None:
    """The client's connection is reset, as if the broker were down."""
    stranger = write_certificate(tmp_path, "stranger")
    with (
        running_broker(server_side(certificate)) as broker,
        relayed(broker, client_side(certificate, stranger)) as relays,
    ):
        assert_is_reset(relays.bootstrap_servers)


def test_a_client_of_another_user_cannot_use_the_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any user of the machine can connect to a port on loopback."""
    monkeypatch.setattr(external_relays, "is_of_this_user", lambda _peer: False)
    with running_broker() as broker, relayed(broker) as relays:
        assert_is_reset(relays.bootstrap_servers)
        assert broker.connections == 0


def test_what_is_not_kafkas_is_not_passed_on() -> None:
    """It might hold a broker's address."""
    with (
        running_broker() as broker,
        relayed(broker) as relays,
        connected_to(relays.bootstrap_servers) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_dropped_response_is_counted_and_its_connection_reset_at_the_heal() -> None:
    """The fault is planned by another thread than that of the relays."""
    with (
        running_broker() as broker,
        relayed(broker) as relays,
        connected_to(relays.bootstrap_servers) as client,
    ):
        relays.impair("fault", [RelayAction(1, "responses", "drop")])
        client.sendall(metadata_request(5))
        expected = len(metadata_response(5, [(1, *relay_of(relays))]))
        wait_until(
            lambda: relays.impairment_counts("fault")[0].bytes == expected,
            awaiting="the response",
            timeout_s=20,
        )
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        client.setblocking(True)
        (counts,) = relays.heal("fault")
        assert counts.connections == 1
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def relay_of(relays: ExternalRelays) -> tuple[str, int]:
    """Return host and port of the only relay."""
    host, port = relays.bootstrap_servers.split(":")
    return host, int(port)


def test_an_impairment_that_needs_namespaces_is_refused() -> None:
    """The error is raised in the thread that has asked for it."""
    with (
        running_broker() as broker,
        relayed(broker) as relays,
        pytest.raises(SupervisorError, match="needs namespaces"),
    ):
        relays.impair("cut", [PacketDrop(1, clients=True)])


def test_closed_relays_leave_no_thread_and_no_port() -> None:
    """Also with a client that is connected; a second time there is nothing to do."""
    with running_broker() as broker:
        relays = ExternalRelays({1: (HOST, broker.port)}, None)
        address = relay_of(relays)
        with socket.create_connection(address, TIMEOUT_S) as client:
            client.sendall(metadata_request(5))
            receive(client)
            relays.close()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        relays.close()
        assert not [one for one in threading.enumerate() if one.name.startswith("relays of")]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, TIMEOUT_S)


def test_a_failure_on_the_thread_of_the_relays_is_kept(says: Says) -> None:
    """A connection that fails closes, and the client sees nothing of the reason."""
    with closing(ExternalRelays({}, None)) as relays:
        assert relays.failures() == ()
        relays._loop.call_soon_threadsafe(_fail)
        wait_until(relays.failures, awaiting="the failure", timeout_s=TIMEOUT_S)
        (failure,) = relays.failures()
        says(str(failure))


def test_relays_whose_thread_has_ended_are_an_error() -> None:
    """An impairment cannot be requested any more, nor healed."""
    relays = ExternalRelays({}, None)
    relays.close()
    with pytest.raises(SupervisorError, match="the relays have ended: they were closed"):
        relays.heal("cut")


def _fail() -> None:
    raise ValueError("no such field")


def test_a_cluster_that_names_ever_more_nodes_gets_no_further_relays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each takes a socket of the trial, which has a thousand."""
    monkeypatch.setattr(external_relays, "MOST_RELAYS", 2)
    with running_broker() as broker, relayed(broker) as relays:
        broker.brokers += [(id_, HOST, broker.port) for id_ in (2, 3)]
        with connected_to(relays.bootstrap_servers) as client:
            client.sendall(metadata_request(5))
            with pytest.raises(ConnectionResetError):
                client.recv(1)


@pytest.mark.parametrize(("host", "port"), [("a" * 300, 9092), (HOST, -1), (HOST, 1 << 30)])
def test_a_node_without_an_address_resets_its_clients(host: str, port: int) -> None:
    """A cluster may advertise anything; the client sees a broker that is down."""
    with running_broker() as broker, relayed(broker) as relays:
        broker.brokers.append((2, host, port))
        (_, (_, relay_host, relay_port)) = ask(relays.bootstrap_servers)
        assert_is_reset(f"{relay_host}:{relay_port}")
