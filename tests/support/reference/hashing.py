"""Partitioners and record digests in plain Python: references for the compiled code.

Partitioners use Kafka's `Utils.murmur2` or CRC-32 as zlib computes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from ackbench.experiments.trial.clients.librdkafka.interceptor_tables import (
    ABSENT,
    FNV_BASIS,
    FNV_PRIME,
)

_M, _MASK = 0x5BD1E995, 0xFFFF_FFFF
_MASK_64: Final = 0xFFFF_FFFF_FFFF_FFFF


def murmur2(data: bytes) -> int:
    """Return the hash as Java's client computes it, a signed int."""
    state = (0x9747B28C ^ len(data)) & _MASK
    full_words = len(data) // 4 * 4
    for begin in range(0, full_words, 4):
        word = int.from_bytes(data[begin : begin + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        state = (state * _M & _MASK) ^ word
    if data[full_words:]:
        state = (state ^ int.from_bytes(data[full_words:], "little")) * _M & _MASK
    state = (state ^ state >> 13) * _M & _MASK
    state ^= state >> 15
    return state - (1 << 32) if state >> 31 else state


def murmur2_partition(data: bytes, partitions: int) -> int:
    """Return the partition that Java's client chooses for a key."""
    return (murmur2(data) & 0x7FFFFFFF) % partitions


def crc32_partition(data: bytes, partitions: int) -> int:
    """Return the partition that librdkafka chooses for a key by default."""
    return zlib.crc32(data) % partitions


def key_bytes(key: int, *, text: bool) -> bytes:
    """Return a key's bytes as the clients write them."""
    return str(key).encode() if text else key.to_bytes(8, "big")


def digest(content: bytes | None, state: int = FNV_BASIS) -> int:
    """Return the digest of bytes, as a signed number of 64 bits."""
    if content is None:
        return ABSENT
    for byte in content:
        state = (state ^ byte) * FNV_PRIME & _MASK_64
    return signed(state)


def headers_digest(headers: Iterable[tuple[str, bytes]]) -> int:
    """Return the digest of headers in their order.

    Of each header: its name, the length of its value in 8 bytes (little-endian), and its value.
    """
    return digest(
        b"".join(
            name.encode() + len(value).to_bytes(8, "little") + value for name, value in headers
        )
    )


def signed(state: int) -> int:
    """Return the same 64 bits as a signed number."""
    return state - (1 << 64) if state >> 63 else state
