"""A connection to one listener that is kept, for small requests asked again and again; a node that does not answer is not asked twice."""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Final

from infra.kraft import LOOPBACK

CONNECT_TIMEOUT_S: Final = 0.02
RECONNECT_AFTER_S: Final = 0.1
"""A dead node refuses at once; asking it a hundred times a second would cost more than asking the living."""
_SIZE_BYTES: Final = 4
_READ_BYTES: Final = 1 << 16


class Link:
    """One request at a time; what was not answered in time is owed, and thrown away when it comes."""

    def __init__(self, port: int) -> None:
        """Know where; nothing is connected yet."""
        self._port = port
        self._socket: socket.socket | None = None
        self._received = b""
        self._owes = False
        self._not_before_s = 0.0

    def ask(self, request: bytes) -> bool:
        """Send a request; `False` when nobody listens, or the answer to the last one is still owed."""
        if self._owes and self._owed() is None:
            return False
        if not self._connected():
            return False
        try:
            self._open.sendall(request)
        except OSError:
            self.close()
            return False
        self._owes = True
        return True

    def answer(self, until_s: float) -> bytes | None:
        """Return the answer, or `None` when it is not whole by that moment of the monotonic clock, or the connection ended."""
        while self._owes:
            frame = self._frame()
            if frame is not None:
                self._owes = False
                return frame
            left_s = max(0.0, until_s - time.monotonic())
            if not select.select([self._open], [], [], left_s)[0]:
                return None
            self._receive()
        return None

    def close(self) -> None:
        """End the connection; the next request makes a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._received, self._owes = None, b"", False

    @property
    def _open(self) -> socket.socket:
        if self._socket is None:  # every caller has connected
            raise AssertionError(self._port)
        return self._socket

    def _owed(self) -> bytes | None:
        """What a late answer says is not told on: it may be from before a pause. One that will never come is owed no longer."""
        late = self.answer(until_s=0.0)
        return late if late is not None or self._owes else b""

    def _connected(self) -> bool:
        if self._socket is None and time.monotonic() >= self._not_before_s:
            try:
                self._socket = socket.create_connection((LOOPBACK, self._port), timeout=CONNECT_TIMEOUT_S)
            except OSError:
                self._not_before_s = time.monotonic() + RECONNECT_AFTER_S
        return self._socket is not None

    def _receive(self) -> None:
        try:
            received = self._open.recv(_READ_BYTES)
        except OSError:
            received = b""
        self._received += received
        if not received:
            self.close()

    def _frame(self) -> bytes | None:
        """A size in four bytes, and so many bytes."""
        if len(self._received) < _SIZE_BYTES:
            return None
        (size_bytes,) = struct.unpack_from(">i", self._received)
        if len(self._received) < _SIZE_BYTES + size_bytes:
            return None
        frame, self._received = self._received[_SIZE_BYTES : _SIZE_BYTES + size_bytes], self._received[_SIZE_BYTES + size_bytes :]
        return frame
