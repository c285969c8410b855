"""Servers of one connection that answer as no broker does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

HOST: Final = "127.0.0.1"
_BETWEEN_BYTES_S: Final = 0.1


@contextmanager
def serving(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """Yield the port of a server that reads a request, answers, and closes the connection."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            connected, _ = server.accept()
            with connected, suppress(OSError):
                connected.recv(4096)
                answer(connected)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


@contextmanager
def dripping(answer: bytes) -> Iterator[int]:
    """Yield the port of a server that sends an answer byte by byte, until its client gives up."""
    given_up = threading.Event()

    def drip(connected: socket.socket) -> None:
        for byte in answer:
            connected.sendall(bytes([byte]))
            if given_up.wait(_BETWEEN_BYTES_S):
                return

    with serving(drip) as port:
        try:
            yield port
        finally:
            given_up.set()
