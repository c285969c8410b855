"""A record's value, compiled: the same as `value`, against which a property test holds it."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from experiments.clients import value
from experiments.clients.compiled import compiled
from experiments.errors import ClientLibraryError

if sys.byteorder != "little":
    raise ClientLibraryError("values are written as the machine's own words, and this machine is not little-endian")

_SEED: Final = np.uint64(value.CHECKSUM_SEED)
_FACTOR: Final = np.uint64(value.CHECKSUM_FACTOR)
_SEQ_FACTOR: Final = np.uint64(value.FILLER_SEQ_FACTOR)
_WORD_FACTOR: Final = np.uint64(value.FILLER_WORD_FACTOR)
_MAGIC: Final = np.uint64(value.MAGIC)
_LOW_32: Final = np.uint64(0xFFFF_FFFF)
_LOW_16: Final = np.uint64(0xFFFF)
_ONES: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_S16, _S29, _S31, _S32, _S48 = (np.uint64(bits) for bits in (16, 29, 31, 32, 48))
_EIGHT: Final = np.uint64(8)
Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
OURS, OTHER, CORRUPT, RUN_IN = (int(origin) for origin in (value.Origin.OURS, value.Origin.OTHER, value.Origin.CORRUPT, value.Origin.RUN_IN))


def words_for(size_bytes: int) -> Words:
    """Return room for a value: whole words of zeros."""
    return np.zeros(-(-size_bytes // value.WORD_BYTES), np.uint64)


def begin_value(size_bytes: int, producer: int, token: int) -> Words:
    """Return room for the values of one producer, with the words that all of them share written already."""
    words = words_for(size_bytes)
    words[value.MARK_WORD] = value.MAGIC | value.VERSION << 32 | producer << 48
    words[value.TOKEN_WORD] = token
    return words


@compiled("uint64(uint64[::1], int64)")
def checksum(words: Any, size_bytes: Any) -> Any:
    """Return the checksum of the value in `words`, whose bytes past `size_bytes` are zero."""
    state = (np.uint64(size_bytes) * _FACTOR) ^ _SEED
    for index in range((size_bytes + 7) // 8):
        if index != value.CHECKSUM_WORD:
            state = (state ^ words[index]) * _FACTOR
            state ^= state >> _S29
    return state


@compiled("void(uint64[::1], int64, int64, int64)")
def encode(words: Any, size_bytes: Any, seq: Any, intended_ns: Any) -> None:
    """Write one record's value of `size_bytes` into what `begin_value` returned."""
    words[value.SEQ_WORD], words[value.INTENDED_WORD] = np.uint64(seq), np.uint64(intended_ns)
    count = (size_bytes + 7) // 8
    for index in range(value.FIRST_FILLER_WORD, count):
        state = np.uint64(seq) * _SEQ_FACTOR + np.uint64(index) * _WORD_FACTOR
        state ^= state >> _S31
        state *= _FACTOR
        words[index] = state ^ (state >> _S29)
    past = np.uint64(count * 8 - size_bytes)
    if past > 0 and count > value.FIRST_FILLER_WORD:
        words[count - 1] &= _ONES >> (past * _EIGHT)
    words[value.CHECKSUM_WORD] = checksum(words, size_bytes)


@compiled("int64(uint64[::1], int64, uint64)")
def origin(words: Any, size_bytes: Any, token: Any) -> Any:
    """Tell whose the value in `words` is; its bytes past `size_bytes` are zero. See `value.Origin`."""
    if size_bytes < 4 or words[0] & _LOW_32 != _MAGIC:  # noqa: PLR2004 - the magic is a u32
        return OTHER
    if size_bytes < value.HEADER_BYTES or words[value.CHECKSUM_WORD] != checksum(words, size_bytes):
        return CORRUPT
    if (words[0] >> _S32) & _LOW_16 != np.uint64(value.VERSION) or words[value.TOKEN_WORD] != token:
        return OTHER
    return OURS


@compiled("int64(uint64)")
def producer_of(mark: Any) -> Any:
    """Return the producer's number in word 0."""
    return np.int64(mark >> _S48)
