"""Which partition a key belongs to, in plain Python: Kafka's `Utils.murmur2`, and CRC-32 as zlib has it."""

from __future__ import annotations

import zlib

_M, _MASK = 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Java's value, as a signed int."""
    state = (0x9747B28C ^ len(data)) & _MASK
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        state = (state * _M & _MASK) ^ word
    if data[whole:]:
        state = (state ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    state = (state ^ state >> 13) * _M & _MASK
    state ^= state >> 15
    return state - (1 << 32) if state >> 31 else state


def murmur2_partition(data: bytes, partitions: int) -> int:
    """Return where Java's client puts a key."""
    return (murmur2(data) & 0x7FFFFFFF) % partitions


def crc32_partition(data: bytes, partitions: int) -> int:
    """Return where librdkafka puts a key by default."""
    return zlib.crc32(data) % partitions


def bytes_of(key: int, *, text: bool) -> bytes:
    """Return a key's bytes as the ledger's clients write it."""
    return str(key).encode() if text else key.to_bytes(8, "big")
