"""Connections to listeners that are kept, for small requests asked again and again; a node that owes an answer is not asked a second time."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

CONNECT_TIMEOUT_S: Final = 0.02
RECONNECT_AFTER_S: Final = 0.1
"""A dead node refuses at once; asking it a hundred times a second would cost more than asking the living."""
STALE_AFTER_S: Final = 1.0
"""An answer that took longer is thrown away: its node stood still, and may say what was before."""
_SIZE_BYTES: Final = 4
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Answer:
    """What a node answered, and when it had been asked, seconds of the monotonic clock."""

    node_id: int
    frame: bytes
    asked_s: float


class Link:
    """One request at a time."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
        """Know where; nothing is connected yet."""
        self.node_id = node_id
        self._at = (host, port)
        self._socket: socket.socket | None = None
        self._received = b""
        self._asked_s: float | None = None
        self._not_before_s = 0.0

    @property
    def owes(self) -> bool:
        """Whether a request was sent that is not answered yet."""
        return self._asked_s is not None

    def ask(self, request: bytes) -> None:
        """Send a request, unless the answer to the last one is still owed, or nobody listens."""
        if self.owes or not self._connected():
            return
        try:
            self._open.sendall(request)
        except OSError:
            self.close()
        else:
            self._asked_s = time.monotonic()

    def take(self) -> Answer | None:
        """Return the answer if it is whole with what has come by now; a stale one is thrown away."""
        if self._asked_s is None:
            return None
        if select.select([self._open], [], [], 0)[0]:
            self._receive()
        frame, asked_s = self._frame(), self._asked_s
        if frame is None or asked_s is None:
            return None
        self._asked_s = None
        return Answer(self.node_id, frame, asked_s) if time.monotonic() - asked_s < STALE_AFTER_S else None

    def fileno(self) -> int:
        """For select(2)."""
        return self._open.fileno()

    def close(self) -> None:
        """End the connection; the next request makes a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._received, self._asked_s = None, b"", None

    @property
    def _open(self) -> socket.socket:
        if self._socket is None:  # every caller has connected
            raise AssertionError(self._at)
        return self._socket

    def _connected(self) -> bool:
        if self._socket is None and time.monotonic() >= self._not_before_s:
            try:
                self._socket = socket.create_connection(self._at, timeout=CONNECT_TIMEOUT_S)
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


def first_answer(links: Sequence[Link], until_s: float) -> Answer | None:
    """Return the answer that is whole first, of those that are owed; `None` when none is by that moment of the monotonic clock."""
    while owing := [link for link in links if link.owes]:
        answer = next((answer for link in owing if (answer := link.take()) is not None), None)
        left_s = until_s - time.monotonic()
        if answer is not None or left_s <= 0:
            return answer
        select.select([link for link in owing if link.owes], [], [], left_s)
    return None
