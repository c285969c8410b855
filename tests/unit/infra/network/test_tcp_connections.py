"""Connections as the kernel lists them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ackbench.infra.network import tcp_connections
from ackbench.infra.network.tcp_connections import TcpConnection, is_of_this_user


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_ends_of_a_connection_are_listed_with_their_user_and_socket(host: str) -> None:
    """With IPv4 and IPv6."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        served, _ = server.accept()
        with served:
            listed = list(tcp_connections.tcp_connections())
            for one, other in ((client, served), (served, client)):
                assert (
                    TcpConnection(
                        one.getsockname()[:2],
                        other.getsockname()[:2],
                        os.geteuid(),
                        os.fstat(one.fileno()).st_ino,
                    )
                    in listed
                )


def test_an_ipv4_address_of_an_ipv6_socket_is_written_as_ipv4(tmp_path: Path) -> None:
    """The JVM opens such sockets."""
    (tmp_path / "net").mkdir()
    words = (
        "0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000200007F:1F91 01"
        " 00000000:00000000 00:00000000 00000000 1000 0 4711 1"
    )
    (tmp_path / "net" / "tcp6").write_text(f"the header\n{words}\n")
    assert list(tcp_connections.tcp_connections(tmp_path)) == [
        TcpConnection(("127.0.0.1", 8080), ("127.0.0.2", 8081), 1000, 4711)
    ]


def test_a_client_of_another_user_is_recognized(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that nobody has is of no user."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        peer = client.getsockname()
        assert is_of_this_user(peer)
        assert not is_of_this_user(("127.0.0.3", peer[1]))
        monkeypatch.setattr(os, "geteuid", lambda: 4242)
        assert not is_of_this_user(peer)
