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
certain, and any other but once in 2**64. `value_compiled` reads and writes it.
"""

from __future__ import annotations

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


# ---------- The values that Kafka's own VerifiableProducer writes: the text `<prefix>.<n>`, n from 0 in its order. Pure.
#
# The prefix is a Java int, so it carries a part of the trial's token and the producer's number: `tag * 64 + producer`. There is no checksum
# of ours in such a value. Kafka's own, of each batch, is checked by the client that reads (`check.crcs`); what is told from the value is its form.
#
# The first records are the run-in: the program cannot warm up otherwise than by sending. They are no part of the trial, and seq counts from behind them.


PRODUCERS: Final = 64
"""How many producers a prefix tells apart."""
RUN_IN_S: Final = 2.0
"""A JVM that has just started falls behind for a second or two on a machine that also runs the brokers (`docs/performance.md`)."""
_TAG_BITS: Final = 25
"""With the producer's 6 bits a prefix is a positive Java int."""


def tag_of(token: int) -> int:
    """Return the part of a trial's token that its prefixes carry; never 0."""
    return token % ((1 << _TAG_BITS) - 1) + 1


def prefix_of(token: int, producer: int) -> int:
    """Return what `--value-prefix` is given."""
    return tag_of(token) * PRODUCERS + producer


@dataclass(frozen=True)
class TextValueFormat:
    """What the values of a trial look like."""

    tag: int
    run_in_records: int
    """Of each producer, before its schedule begins."""


def run_in_records(rate_records_per_s: float) -> int:
    """Return how many records a producer of that rate runs in with."""
    return round(rate_records_per_s * RUN_IN_S)


def most_bytes(records: int, rate_records_per_s: float) -> int:
    """Return how long a value can be, of a producer of so many records."""
    return len(str(2**31 - 1)) + 1 + len(str(records + run_in_records(rate_records_per_s)))
