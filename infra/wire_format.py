"""How Kafka's protocol lays out requests and answers, in both its forms: https://kafka.apache.org/protocol#protocol_types. Pure.

The older form has arrays and texts of fixed-size lengths; the flexible one (KIP-482) has variable lengths, one more than they are, and tagged fields,
of which we send none and skip those that come.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from infra.errors import HarnessError

Item = TypeVar("Item")

NO_TAGS: Final = b"\x00"
_CLIENT_ID: Final = b"ackbench"
_CORRELATION_ID: Final = 1
_LAST_BYTE: Final = 0x80


def request(api: tuple[int, int], body: bytes, *, flexible: bool) -> bytes:
    """Return a whole request: its size, its header and its body.

    Args:
        api: the key and the version.
        body: as `api` lays it out.
        flexible: whether that version is of the flexible form.
    """
    header = struct.pack(">hhih", *api, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID + (NO_TAGS if flexible else b"")
    return struct.pack(">i", len(header) + len(body)) + header + body


def varint(number: int) -> bytes:
    """Return an unsigned number in as few bytes as it needs."""
    low, high = number & 0x7F, number >> 7
    return bytes([low | _LAST_BYTE]) + varint(high) if high else bytes([low])


def compact_text(text: str | None) -> bytes:
    """Return a text of the flexible form; `None` is its null."""
    raw = b"" if text is None else text.encode()
    return varint(0 if text is None else len(raw) + 1) + raw


def compact_array(items: Iterable[bytes] | None) -> bytes:
    """Return an array of the flexible form; `None` is its null."""
    laid_out = None if items is None else list(items)
    return varint(0) if laid_out is None else varint(len(laid_out) + 1) + b"".join(laid_out)


class Reader:
    """Takes an answer apart from its start to its end.

    Raises:
        HarnessError: from every method, when the answer ends too soon.
    """

    def __init__(self, answer: bytes) -> None:
        """Begin at the first byte."""
        self._answer, self._at = answer, 0

    def number(self, kind: str) -> int:
        """Return a number of a format of `struct`."""
        try:
            (number,) = struct.unpack_from(kind, self._answer, self._at)
        except struct.error as error:
            raise HarnessError(f"an answer of {len(self._answer)} bytes ended too soon") from error
        self._at += struct.calcsize(kind)
        return int(number)

    def skip(self, size_bytes: int) -> None:
        """Pass over some bytes."""
        self._at += size_bytes

    def text(self) -> str | None:
        """Return a text of the older form."""
        size_bytes = self.number(">h")
        return None if size_bytes < 0 else self._bytes(size_bytes).decode()

    def array(self, read: Callable[[Reader], Item]) -> list[Item]:
        """Return an array of the older form; null is an empty one."""
        return [read(self) for _ in range(self.number(">i"))]

    def varint(self) -> int:
        """Return an unsigned number of variable size."""
        byte = self.number(">B")
        return byte if byte < _LAST_BYTE else (byte & ~_LAST_BYTE) | (self.varint() << 7)

    def compact_text(self) -> str | None:
        """Return a text of the flexible form."""
        size_bytes = self.varint() - 1
        return None if size_bytes < 0 else self._bytes(size_bytes).decode()

    def compact_array(self, read: Callable[[Reader], Item]) -> list[Item]:
        """Return an array of the flexible form; null is an empty one."""
        return [read(self) for _ in range(self.varint() - 1)]

    def uuid(self) -> uuid.UUID:
        """Return an id of 16 bytes."""
        return uuid.UUID(bytes=self._bytes(16))

    def tags(self) -> None:
        """Pass over tagged fields, which nobody here asks for."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())

    def _bytes(self, size_bytes: int) -> bytes:
        begin = self._at
        self.skip(size_bytes)
        if self._at > len(self._answer):
            raise HarnessError(f"an answer of {len(self._answer)} bytes ended too soon")
        return self._answer[begin : self._at]
