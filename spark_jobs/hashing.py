"""Which partition a key belongs to by the formulas of the two clients, as Spark's columns: 32-bit arithmetic in longs, which never overflows.

- Java (`BuiltInPartitioner.partitionForKey`): `(murmur2(key) & 0x7fffffff) % partitions`; librdkafka's `murmur2` and `murmur2_random` are the same.
- librdkafka's `consistent` and `consistent_random`, its default: `crc32(key) % partitions`.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

_M: Final = 0x5BD1_E995
"""Below 2**31: with any 32-bit number the product fits a signed long."""
_SEED: Final = 0x9747_B28C
_LOW_32: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF
_WORD: Final = 4
_INT64_BYTES: Final = 8
_MOST_WORDS: Final = 3
"""A key's number has ten digits at most (`workload.keys` is an int), and as bytes eight."""


def murmur2_partition(key: Column, text: Column, partitions: Column) -> Column:
    """Return the partition by Java's formula.

    Args:
        key: the key's number, from 0 to 2**31 - 1.
        text: whether its bytes are its decimal digits; else they are 8, the highest first.
        partitions: how many there are.
    """
    return (murmur2(key, text).bitwiseAND(_lit(_POSITIVE)) % partitions).cast("int")


def crc32_partition(key: Column, text: Column, partitions: Column) -> Column:
    """Return the partition by librdkafka's default formula; arguments as `murmur2_partition`."""
    return (sf.crc32(key_bytes(key, text)) % partitions).cast("int")


def key_bytes(key: Column, text: Column) -> Column:
    """Return a key's bytes."""
    return sf.when(text, sf.encode(key.cast("string"), "US-ASCII")).otherwise(sf.unhex(sf.lpad(sf.hex(key), 2 * _INT64_BYTES, "0")))


def murmur2(key: Column, text: Column) -> Column:
    """Return Kafka's `Utils.murmur2` of the key's bytes, as an unsigned 32-bit number."""
    digits = key.cast("string")
    size = sf.when(text, sf.length(digits)).otherwise(sf.lit(_INT64_BYTES)).cast("long")
    words = [sf.when(text, _text_word(digits, place)).otherwise(_int64_word(key, place)) for place in range(_MOST_WORDS)]
    state = reduce(lambda state, placed: _mixed(state, placed[1], size, placed[0] * _WORD), enumerate(words), size.bitwiseXOR(_lit(_SEED)))
    state = _times(state.bitwiseXOR(sf.shiftright(state, 13)))
    return state.bitwiseXOR(sf.shiftright(state, 15))


def _mixed(state: Column, word: Column, size: Column, begin: int) -> Column:
    """Mix four bytes in, or the one to three that are left, or none."""
    whole, rest = size >= begin + _WORD, (size > begin) & (size < begin + _WORD)
    scrambled = _times(word)
    scrambled = _times(scrambled.bitwiseXOR(sf.shiftright(scrambled, 24)))
    tailed = state.bitwiseXOR(sf.when(rest, word).otherwise(_lit(0)))
    grown = (tailed * sf.when(size > begin, _lit(_M)).otherwise(_lit(1))).bitwiseAND(_lit(_LOW_32))
    return grown.bitwiseXOR(sf.when(whole, scrambled).otherwise(_lit(0)))


def _times(value: Column) -> Column:
    return (value * _lit(_M)).bitwiseAND(_lit(_LOW_32))


def _text_word(digits: Column, place: int) -> Column:
    """Return four characters as a number, the first one lowest; what is past the end is 0."""
    return _little_endian([sf.ascii(sf.substring(digits, place * _WORD + at, 1)).cast("long") for at in range(1, _WORD + 1)])


def _int64_word(key: Column, place: int) -> Column:
    """Return the four bytes of a big-endian long that begin at 4 * place, the first one lowest; past its end 0."""
    shifts = [8 * (_INT64_BYTES - 1 - place * _WORD - at) for at in range(_WORD)]
    return _little_endian([sf.shiftright(key, shift).bitwiseAND(_lit(0xFF)) if shift >= 0 else _lit(0) for shift in shifts])


def _little_endian(parts: list[Column]) -> Column:
    return reduce(lambda one, other: one + other, (part * _lit(1 << (8 * at)) for at, part in enumerate(parts)))


def _lit(number: int) -> Column:
    return sf.lit(number).cast("long")
