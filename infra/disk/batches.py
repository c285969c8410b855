"""Record batches as they lie in a segment: https://kafka.apache.org/documentation/#recordbatch. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_HEAD: Final = struct.Struct(">qiibIhiqq")
"""Base offset, length of what follows, partition leader epoch, magic, CRC, attributes, last offset delta, base timestamp, max timestamp."""
_LENGTH_ENDS: Final = 12
"""Where the length field ends and what it counts begins."""
_CHECKED_FROM: Final = 21
"""The CRC covers all from the attributes on."""
HEADER_BYTES: Final = 61
MAGIC: Final = 2
_POLYNOMIAL: Final = 0x82F6_3B78
"""CRC-32C, reflected (RFC 3720, B.4)."""
_BYTE: Final = 0xFF


@dataclass(frozen=True)
class Batch:
    """One batch; positions are bytes from the segment's start."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    crc: int
    """As its header says."""
    max_timestamp_ms: int
    """Of its records the latest, since the epoch."""

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.position + self.size_bytes


def batches_in(segment: bytes) -> Iterator[Batch]:
    """Give the batches of a segment, up to its end or to what is no whole batch."""
    at = 0
    while at + HEADER_BYTES <= len(segment):
        base, length, _, magic, crc, _, last_delta, _, latest_ms = _HEAD.unpack_from(segment, at)
        size = _LENGTH_ENDS + length
        if magic != MAGIC or size < HEADER_BYTES or at + size > len(segment):
            return
        yield Batch(at, size, base, base + last_delta, crc, latest_ms)
        at += size


def is_sound(segment: bytes, batch: Batch) -> bool:
    """Whether a batch's bytes are those that its CRC was made of."""
    return crc32c(segment[batch.position + _CHECKED_FROM : batch.end]) == batch.crc


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes; for single batches, it is slow."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & _BYTE] ^ (crc >> 8)
    return crc ^ 0xFFFF_FFFF


def _table() -> Sequence[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE: Final = _table()
