"""Records' values in plain Python: the reference that the compiled code is compared with."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final

from experiments.clients.record.layout import (
    CHECKSUM_FACTOR,
    CHECKSUM_SEED,
    CHECKSUM_WORD,
    FILLER_SEQ_FACTOR,
    FILLER_WORD_FACTOR,
    FIRST_FILLER_WORD,
    HEADER_BYTES,
    MAGIC,
    PRODUCERS,
    VERSION,
    WORD_BYTES,
    Origin,
    TextValueFormat,
)

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_HEADER: Final = struct.Struct("<IHHqqQQ")
_FORM: Final = re.compile(rb"(?P<prefix>0|[1-9]\d{0,9})\.(?P<seq>.*)", re.DOTALL)
_NUMBER: Final = re.compile(rb"0|[1-9]\d{0,17}")


@dataclass(frozen=True)
class ValueFields:
    """What a value carries, apart from filler."""

    producer: int
    seq: int
    intended_ns: int
    token: int


def encode(mark: ValueFields, size_bytes: int) -> bytes:
    """Return the value of one record.

    Raises:
        ValueError: the size does not hold the header.
        struct.error: a field is out of its range.
    """
    if size_bytes < HEADER_BYTES:
        raise ValueError(
            f"a value of {size_bytes} bytes does not hold the header of {HEADER_BYTES}"
        )
    header = _HEADER.pack(MAGIC, VERSION, mark.producer, mark.seq, mark.intended_ns, mark.token, 0)
    filler = b"".join(
        struct.pack("<Q", filler_word(mark.seq, word))
        for word in range(FIRST_FILLER_WORD, -(-size_bytes // WORD_BYTES))
    )
    value = (header + filler)[:size_bytes]
    at = CHECKSUM_WORD * WORD_BYTES
    return value[:at] + struct.pack("<Q", checksum(value)) + value[at + WORD_BYTES :]


def decode(value: bytes, token: int) -> tuple[Origin, ValueFields | None]:
    """Tell whose a value is, and what it says when it is ours."""
    if len(value) < 4 or int.from_bytes(value[:4], "little") != MAGIC:
        return Origin.OTHER, None
    if len(value) < HEADER_BYTES:
        return Origin.CORRUPT, None
    _, version, producer, seq, intended_ns, found, claimed = _HEADER.unpack_from(value)
    if claimed != checksum(value):
        return Origin.CORRUPT, None
    if version != VERSION or found != token:
        return Origin.OTHER, None
    return Origin.OURS, ValueFields(producer, seq, intended_ns, found)


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


def decode_text_value(value: bytes, text: TextValueFormat) -> tuple[Origin, int, int]:
    """Tell whose a value is, and its producer and seq where it is ours; -1 and -1 where it is not.

    One that has our prefix, and then no number, is corrupt.
    """
    found = _FORM.fullmatch(value)
    if found is None or int(found["prefix"]) // PRODUCERS != text.tag:
        return Origin.OTHER, -1, -1
    if _NUMBER.fullmatch(found["seq"]) is None:
        return Origin.CORRUPT, -1, -1
    seq = int(found["seq"]) - text.run_in_records
    return (
        (Origin.OURS, int(found["prefix"]) % PRODUCERS, seq)
        if seq >= 0
        else (Origin.RUN_IN, -1, -1)
    )
