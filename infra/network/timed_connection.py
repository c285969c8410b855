"""A TCP connection to a server that may be anybody's: all of its steps share one deadline.

A time-out per read is no limit: a server that sends one byte every three seconds is read for hours.
"""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any, Final, Self

from ackbench.infra.errors import HarnessError

_SIZE_BYTES: Final = 4
"""Of the size that precedes each response of Kafka's protocol."""
MOST_RESPONSE_BYTES: Final = 64 << 20
"""The metadata of a hundred thousand partitions take a sixth of that."""
_LAST_PORT: Final = 65_535
_READ_BYTES: Final = 1 << 16


class TimedConnection:
    """A context manager around a connection, with one deadline for its begin and for its use.

    Args:
        address: host and port.
        timeout_s: for all steps together.
        tls: `None`: in plain text.

    Raises:
        OSError: from each method: the server cannot be reached, or the time is up (`TimeoutError`).
    """

    def __init__(
        self, address: tuple[str, int], timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> None:
        """Connect."""
        self._deadline_s = time.monotonic() + timeout_s
        host, port = address
        if not 0 < port <= _LAST_PORT:  # getaddrinfo(3) takes the remainder
            raise OSError(f"{host}:{port} is no address")
        self._socket = self._connect(address, tls)

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send some bytes."""
        self._socket.settimeout(self._left_s())
        self._socket.sendall(data)

    def receive_response(self, most_bytes: int = MOST_RESPONSE_BYTES) -> bytes:
        """Return a response of Kafka's protocol without its size.

        Raises:
            HarnessError: its size is not one of Kafka's.
        """
        size_bytes = int.from_bytes(self._receive(_SIZE_BYTES), signed=True)
        if not 0 < size_bytes <= most_bytes:
            raise HarnessError(f"a response of {size_bytes} bytes is not Kafka's")
        return self._receive(size_bytes)

    def receive_all(self, most_bytes: int) -> bytes:
        """Return what the server sends until it closes the connection, at most so many bytes."""
        received = bytearray()
        while len(received) < most_bytes and (part := self._read(most_bytes - len(received))):
            received += part
        return bytes(received)

    def _receive(self, size_bytes: int) -> bytes:
        received = self.receive_all(size_bytes)
        if len(received) < size_bytes:
            raise ConnectionError("it closed the connection")
        return received

    def _read(self, most_bytes: int) -> bytes:
        self._socket.settimeout(self._left_s())
        return self._socket.recv(min(most_bytes, _READ_BYTES))

    def _connect(self, address: tuple[str, int], tls: ssl.SSLContext | None) -> socket.socket:
        """Connect to the first address that accepts; if it refuses TLS then, that is final."""
        opened = self._open(address)
        try:
            return tls.wrap_socket(opened, server_hostname=address[0]) if tls else opened
        except BaseException:
            opened.close()
            raise

    def _open(self, address: tuple[str, int]) -> socket.socket:
        failure = OSError(f"{address[0]} has no address")
        for family, kind, protocol, _, place in _places(address):
            opened = socket.socket(family, kind, protocol)
            try:
                opened.settimeout(self._left_s())
                opened.connect(place)
            except OSError as error:
                failure = error
                opened.close()
            except BaseException:
                opened.close()
                raise
            else:
                return opened
        raise failure

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        return left_s


def _places(address: tuple[str, int]) -> list[Any]:
    """Return the addresses of a host, as getaddrinfo(3) does."""
    try:
        return list(socket.getaddrinfo(*address, type=socket.SOCK_STREAM))
    except ValueError as error:  # no name of a host
        raise OSError(f"{address[0]}:{address[1]} is no address: {error}") from error
