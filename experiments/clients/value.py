"""A record's value: who sent which record when, for which trial, and a checksum over all of it.

Little-endian, 40 bytes, then filler. A value is seen as 64-bit words; the last one is filled up with zeros.

| word | bytes | holds |
|---|---|---|
| 0 | 0-3, 4-5, 6-7 | magic u32, version u16, producer u16 |
| 1 | 8-15 | seq i64 |
| 2 | 16-23 | intended_ns i64 |
| 3 | 24-31 | the trial's token u64 |
| 4 | 32-39 | checksum u64 over the length and all words but this one |
| 5.. | 40.. | filler, which depends on seq: no compression can fold it away |

Each step of the checksum, `h = (h ^ word) * odd; h ^= h >> 29`, can be undone, so any change within one word is seen for
certain, and any other but once in 2**64. This module is the reference in plain Python; `value_compiled` is what runs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MAGIC: Final = 0x4B42_4341
"""`ACBK` as it stands in the bytes."""
VERSION: Final = 1
HEADER_BYTES: Final = 40
WORD_BYTES: Final = 8
MARK_WORD: Final = 0
SEQ_WORD: Final = 1
INTENDED_WORD: Final = 2
TOKEN_WORD: Final = 3
CHECKSUM_WORD: Final = 4
FIRST_FILLER_WORD: Final = 5

CHECKSUM_SEED: Final = 0x9E37_79B9_7F4A_7C15
CHECKSUM_FACTOR: Final = 0xD6E8_FEB8_6659_FD93
FILLER_SEQ_FACTOR: Final = 0xA076_1D64_78BD_642F
FILLER_WORD_FACTOR: Final = 0xE703_7ED1_A0B4_28DB
"""Odd 64-bit numbers: multiplying by one can be undone."""

MAX_PRODUCER: Final = 0xFFFF
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_HEADER: Final = struct.Struct("<IHHqqQQ")


class Origin(IntEnum):
    """What a value says of where it comes from."""

    OURS = 0
    """Our magic, version and token, and the checksum holds."""
    OTHER = 1
    """No magic, or whole and of another trial or version."""
    CORRUPT = 2
    """Our magic and a checksum that does not hold; what else the value says is not to be believed."""
    RUN_IN = 3
    """Ours, and sent before the schedule began; see `java_value`."""


@dataclass(frozen=True)
class Mark:
    """What a value carries, apart from filler."""

    producer: int
    seq: int
    intended_ns: int
    token: int


def encode(mark: Mark, size_bytes: int) -> bytes:
    """Return the value of one record.

    Raises:
        ValueError: the size does not hold the header.
        struct.error: a field is out of its range.
    """
    if size_bytes < HEADER_BYTES:
        raise ValueError(f"a value of {size_bytes} bytes does not hold the header of {HEADER_BYTES}")
    header = _HEADER.pack(MAGIC, VERSION, mark.producer, mark.seq, mark.intended_ns, mark.token, 0)
    filler = b"".join(struct.pack("<Q", filler_word(mark.seq, word)) for word in range(FIRST_FILLER_WORD, -(-size_bytes // WORD_BYTES)))
    value = (header + filler)[:size_bytes]
    at = CHECKSUM_WORD * WORD_BYTES
    return value[:at] + struct.pack("<Q", checksum(value)) + value[at + WORD_BYTES :]


def decode(value: bytes, token: int) -> tuple[Origin, Mark | None]:
    """Tell whose a value is, and what it says when it is ours."""
    if len(value) < 4 or int.from_bytes(value[:4], "little") != MAGIC:  # noqa: PLR2004 - a u32
        return Origin.OTHER, None
    if len(value) < HEADER_BYTES:
        return Origin.CORRUPT, None
    _, version, producer, seq, intended_ns, found, claimed = _HEADER.unpack_from(value)
    if claimed != checksum(value):
        return Origin.CORRUPT, None
    if version != VERSION or found != token:
        return Origin.OTHER, None
    return Origin.OURS, Mark(producer, seq, intended_ns, found)


def checksum(value: bytes) -> int:
    """Return the checksum over the length and all words but its own."""
    padded = value + bytes(-len(value) % WORD_BYTES)
    state = (len(value) * CHECKSUM_FACTOR & _MASK) ^ CHECKSUM_SEED
    for index, (word,) in enumerate(struct.iter_unpack("<Q", padded)):
        if index != CHECKSUM_WORD:
            state = (state ^ word) * CHECKSUM_FACTOR & _MASK
            state ^= state >> 29
    return state


def filler_word(seq: int, word: int) -> int:
    """Return one word of filler."""
    state = (seq * FILLER_SEQ_FACTOR + word * FILLER_WORD_FACTOR) & _MASK
    state ^= state >> 31
    state = state * CHECKSUM_FACTOR & _MASK
    return state ^ (state >> 29)
