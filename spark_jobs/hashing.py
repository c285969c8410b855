"""Which partition a key belongs to by the formulas of the two clients, as Spark's columns: 32-bit arithmetic in longs, which never overflows.

- Java (`BuiltInPartitioner.partitionForKey`): `(murmur2(key) & 0x7fffffff) % partitions`; librdkafka's `murmur2` and `murmur2_random` are the same.
- librdkafka's `consistent` and `consistent_random`, its default: `crc32(key) % partitions`.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
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
_STATE: Final = "_murmur2_state"
_WORD_OF: Final = "_murmur2_word"


def with_hashes(keys: DataFrame) -> DataFrame:
    """Add what each formula takes the rest of, when divided by the number of partitions: `murmur2` and `crc32`, from 0 up.

    It is done in steps, each a column: an expression that holds another one twice has Spark compute that twice, and the four mixings in one would
    be a method too long for the JVM to compile.

    Args:
        keys: key (a number, from 0 to 2**31 - 1), text (whether its bytes are its decimal digits; else they are 8, the highest first).
    """
    key, text, state = sf.col("key"), sf.col("text"), sf.col(_STATE)
    size = sf.when(text, sf.length(key.cast("string"))).otherwise(sf.lit(_INT64_BYTES)).cast("long")
    mixed = keys.withColumn(_STATE, size.bitwiseXOR(_lit(_SEED)))
    for place in range(_MOST_WORDS):
        word = sf.when(text, _text_word(key.cast("string"), place)).otherwise(_int64_word(key, place))
        mixed = mixed.withColumn(_WORD_OF, word).withColumn(_STATE, _mixed(state, sf.col(_WORD_OF), size, place * _WORD))
    folded = mixed.withColumn(_STATE, _times(state.bitwiseXOR(sf.shiftright(state, 13))))
    murmur2 = state.bitwiseXOR(sf.shiftright(state, 15)).bitwiseAND(_lit(_POSITIVE))
    return folded.withColumns({"murmur2": murmur2, "crc32": sf.crc32(_key_bytes(key, text))}).drop(_STATE, _WORD_OF)


def _key_bytes(key: Column, text: Column) -> Column:
    """Return a key's bytes."""
    return sf.when(text, sf.encode(key.cast("string"), "US-ASCII")).otherwise(sf.unhex(sf.lpad(sf.hex(key), 2 * _INT64_BYTES, "0")))


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
