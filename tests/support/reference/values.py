"""Record values in plain Python: the reference that compiled code is compared with."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.trial.clients.record.layout import (
    CHECKSUM_FACTOR,
    CHECKSUM_SEED,
    CHECKSUM_WORD,
    FILLER_SEQ_FACTOR,
    FILLER_WORD_FACTOR,
    FIRST_FILLER_WORD,
    HEADER_BYTES,
    MAGIC,
    MAX_TEXT_PRODUCERS,
    VERSION,
    WORD_BYTES,
    Origin,
    TextValueFormat,
)

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_HEADER: Final = struct.Struct("<IHHqqQQ")
_TEXT_VALUE: Final = re.compile(rb"(?P<prefix>0|[1-9]\d{0,9})\.(?P<seq>.*)", re.DOTALL)
_NUMBER: Final = re.compile(rb"0|[1-9]\d{0,17}")


@dataclass(frozen=True)
class ValueFields:
    """The fields of a binary value, without its filler."""

    producer: int
    seq: int
    intended_ns: int
    token: int


def encode(fields: ValueFields, size_bytes: int) -> bytes:
    """Return the binary value of one record.

    Raises:
        ValueError: the size is below the size of the header.
        struct.error: a field is out of its range.
    """
    if size_bytes < HEADER_BYTES:
        raise ValueError(
            f"a value of {size_bytes} bytes does not hold the header of {HEADER_BYTES}"
        )
    header = _HEADER.pack(
        MAGIC, VERSION, fields.producer, fields.seq, fields.intended_ns, fields.token, 0
    )
    filler = b"".join(
        struct.pack("<Q", filler_word(fields.seq, word))
        for word in range(FIRST_FILLER_WORD, -(-size_bytes // WORD_BYTES))
    )
    value = (header + filler)[:size_bytes]
    at = CHECKSUM_WORD * WORD_BYTES
    return value[:at] + struct.pack("<Q", checksum(value)) + value[at + WORD_BYTES :]


def decode(value: bytes, token: int) -> tuple[Origin, ValueFields | None]:
    """Return a binary value's origin and, if it belongs to the trial, its fields."""
    if len(value) < 4 or int.from_bytes(value[:4], "little") != MAGIC:
        return Origin.OTHER, None
    if len(value) < HEADER_BYTES:
        return Origin.CORRUPT, None
    _, version, producer, seq, intended_ns, value_token, stored = _HEADER.unpack_from(value)
    if stored != checksum(value):
        return Origin.CORRUPT, None
    if version != VERSION or value_token != token:
        return Origin.OTHER, None
    return Origin.TRIAL, ValueFields(producer, seq, intended_ns, value_token)


def checksum(value: bytes) -> int:
    """Return the checksum over the length and all words except its own."""
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
    """Return a text value's origin, producer and seq; the latter are -1 unless it is the trial's.

    A value with the trial's prefix but without a valid number is corrupt.
    """
    found = _TEXT_VALUE.fullmatch(value)
    if found is None or int(found["prefix"]) // MAX_TEXT_PRODUCERS != text.tag:
        return Origin.OTHER, -1, -1
    if _NUMBER.fullmatch(found["seq"]) is None:
        return Origin.CORRUPT, -1, -1
    seq = int(found["seq"]) - text.warm_up_records
    return (
        (Origin.TRIAL, int(found["prefix"]) % MAX_TEXT_PRODUCERS, seq)
        if seq >= 0
        else (Origin.WARM_UP, -1, -1)
    )
