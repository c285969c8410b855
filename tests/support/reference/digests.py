"""Digests of records' fields in plain Python: the reference that the compiled code is compared with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from experiments.clients.librdkafka.interceptor_tables import ABSENT, FNV_BASIS, FNV_PRIME

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


def digest(content: bytes | None, state: int = FNV_BASIS) -> int:
    """Return the digest of bytes, as a signed number of 64 bits."""
    if content is None:
        return ABSENT
    for byte in content:
        state = (state ^ byte) * FNV_PRIME & _MASK
    return signed(state)


def headers_digest(headers: Iterable[tuple[str, bytes]]) -> int:
    """Return the digest of headers in their order: of each its name, the length of its value in 8 bytes, the lowest first, and its value."""
    return digest(
        b"".join(
            name.encode() + len(value).to_bytes(8, "little") + value for name, value in headers
        )
    )


def signed(state: int) -> int:
    """Return the same 64 bits as a signed number."""
    return state - (1 << 64) if state >> 63 else state
