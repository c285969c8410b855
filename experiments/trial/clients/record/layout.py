"""The layout of a record's value: its origin, sequence number, intended time and checksum.

Values of librdkafka producers are binary: little-endian, with a header of 40 bytes, followed by
filler. A value is processed as 64-bit words; the last word is padded with zeros.

| word | bytes | content |
|---|---|---|
| 0 | 0-3, 4-5, 6-7 | magic u32, version u16, producer u16 |
| 1 | 8-15 | seq i64 |
| 2 | 16-23 | intended_ns i64 |
| 3 | 24-31 | the trial's token u64 |
| 4 | 32-39 | checksum u64 over the length and all other words |
| 5.. | 40.. | filler, derived from seq so that it does not compress |

Each step of the checksum, `h = (h ^ word) * odd; h ^= h >> 29`, is invertible. So any change
within one word is detected for certain, and any other change except with probability 2**-64. The
code is in `experiments.trial.clients.librdkafka.value`.

Values of Kafka's VerifiableProducer, and of any program in its place, are text, `<prefix>.<n>`,
with n counting from 0. The prefix is a Java int, so it carries a part of the trial's token and the
producer's number: `tag * 64 + producer`. Such a value has no checksum of its own. The consumer
verifies Kafka's CRC of each batch (`check.crcs`), and the value is checked for its format only. The
producer's first records are its warm-up, because the program has no other way to warm up. They do
not belong to the trial; seq counts from the first record after them.

A program that changes the values that it copies has a record's identity elsewhere, as it was asked:
in a header, as the key, or somewhere in the value. It is a text of 80 characters: a binary value of
40 bytes in lower-case hexadecimal digits, so it carries a checksum. Programs of any language and
formats like JSON keep such a text as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

MAGIC: Final = 0x4B42_4341
"""`ACBK` in the order of the bytes."""
VERSION: Final = 1
HEADER_BYTES: Final = 40
WORD_BYTES: Final = 8
MAGIC_WORD: Final = 0
SEQ_WORD: Final = 1
INTENDED_WORD: Final = 2
TOKEN_WORD: Final = 3
CHECKSUM_WORD: Final = 4
FIRST_FILLER_WORD: Final = 5

CHECKSUM_SEED: Final = 0x9E37_79B9_7F4A_7C15
CHECKSUM_FACTOR: Final = 0xD6E8_FEB8_6659_FD93
FILLER_SEQ_FACTOR: Final = 0xA076_1D64_78BD_642F
FILLER_WORD_FACTOR: Final = 0xE703_7ED1_A0B4_28DB
"""The factors are odd, so multiplying by them modulo 2**64 is invertible."""

MAX_PRODUCER: Final = 0xFFFF
"""The highest producer number of a binary value."""

MAX_TEXT_PRODUCERS: Final = 64
"""The most producers that a prefix can distinguish."""
WARM_UP_S: Final = 2.0
"""A new JVM lags for a second or two on a machine that also runs the brokers.

See `docs/performance.md`.
"""
_TAG_BITS: Final = 25
"""Together with the producer's 6 bits, the prefix is a positive Java int."""


IDENTITY_BYTES: Final = 2 * HEADER_BYTES
"""Of an identity as text."""
IDENTITY_HEADER: Final = b"ackbench-id"
"""The name of the header that has it."""
IDENTITY_PLACE: Final = "{id}"
"""Stands for the identity of a record in a value that an experiment gives."""


class Origin(IntEnum):
    """Where a record's value comes from."""

    TRIAL = 0
    """Sent by this trial's producers; the checksum is valid."""
    OTHER = 1
    """No magic, or an intact value of another trial or version."""
    CORRUPT = 2
    """The magic with an invalid checksum. The other fields of the value are unreliable."""
    WARM_UP = 3
    """Sent by this trial's programs before their schedule began."""


@dataclass(frozen=True)
class TextValueFormat:
    """The format of the text values in a trial whose producers are programs."""

    tag: int
    warm_up_records: int
    """Records per producer before its schedule begins."""


def value_with_place(value: str) -> tuple[bytes, int]:
    """Return a value that an experiment gives, with zeros for its identity, and where that begins.

    Without a place for an identity, the latter is the value's size.
    """
    before, place, after = value.partition(IDENTITY_PLACE)
    identity = "0" * IDENTITY_BYTES if place else ""
    return f"{before}{identity}{after}".encode(), len(before.encode())


def trial_tag(token: int) -> int:
    """Return the part of a trial's token that its prefixes carry; never 0."""
    return token % ((1 << _TAG_BITS) - 1) + 1


def value_prefix(token: int, producer: int) -> int:
    """Return the value of VerifiableProducer's option `--value-prefix`."""
    return trial_tag(token) * MAX_TEXT_PRODUCERS + producer


def warm_up_records(rate_records_per_s: float) -> int:
    """Return the number of warm-up records of a program with this rate."""
    return round(rate_records_per_s * WARM_UP_S)


def max_text_value_bytes(records: int, rate_records_per_s: float) -> int:
    """Return the maximum size of a text value, for a producer of this many records."""
    return len(str(2**31 - 1)) + 1 + len(str(records + warm_up_records(rate_records_per_s)))
