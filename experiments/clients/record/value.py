"""A record's value, compiled: the same as `value`, against which a property test holds it."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from experiments.clients.librdkafka.compiled import compiled, types
from experiments.clients.record import layout
from experiments.clients.record.layout import PRODUCERS
from experiments.errors import ClientLibraryError

if sys.byteorder != "little":
    raise ClientLibraryError(
        "values are written as the machine's own words, and this machine is not little-endian"
    )

_SEED: Final = np.uint64(layout.CHECKSUM_SEED)
_FACTOR: Final = np.uint64(layout.CHECKSUM_FACTOR)
_SEQ_FACTOR: Final = np.uint64(layout.FILLER_SEQ_FACTOR)
_WORD_FACTOR: Final = np.uint64(layout.FILLER_WORD_FACTOR)
_MAGIC: Final = np.uint64(layout.MAGIC)
_LOW_32: Final = np.uint64(0xFFFF_FFFF)
_LOW_16: Final = np.uint64(0xFFFF)
_ONES: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_S16, _S29, _S31, _S32, _S48 = (np.uint64(bits) for bits in (16, 29, 31, 32, 48))
_EIGHT: Final = np.uint64(8)
Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
OURS, OTHER, CORRUPT, RUN_IN = (
    int(origin)
    for origin in (
        layout.Origin.OURS,
        layout.Origin.OTHER,
        layout.Origin.CORRUPT,
        layout.Origin.RUN_IN,
    )
)


def words_for(size_bytes: int) -> Words:
    """Return room for a value: whole words of zeros."""
    return np.zeros(-(-size_bytes // layout.WORD_BYTES), np.uint64)


def begin_value(size_bytes: int, producer: int, token: int) -> Words:
    """Return room for the values of one producer, with the words that all of them share written already."""
    words = words_for(size_bytes)
    words[layout.MARK_WORD] = layout.MAGIC | layout.VERSION << 32 | producer << 48
    words[layout.TOKEN_WORD] = token
    return words


@compiled("uint64(uint64[::1], int64)")
def checksum(words: Any, size_bytes: Any) -> Any:
    """Return the checksum of the value in `words`, whose bytes past `size_bytes` are zero."""
    state = (np.uint64(size_bytes) * _FACTOR) ^ _SEED
    for index in range((size_bytes + 7) // 8):
        if index != layout.CHECKSUM_WORD:
            state = (state ^ words[index]) * _FACTOR
            state ^= state >> _S29
    return state


@compiled("void(uint64[::1], int64, int64, int64)")
def encode(words: Any, size_bytes: Any, seq: Any, intended_ns: Any) -> None:
    """Write one record's value of `size_bytes` into what `begin_value` returned."""
    words[layout.SEQ_WORD], words[layout.INTENDED_WORD] = np.uint64(seq), np.uint64(intended_ns)
    count = (size_bytes + 7) // 8
    for index in range(layout.FIRST_FILLER_WORD, count):
        state = np.uint64(seq) * _SEQ_FACTOR + np.uint64(index) * _WORD_FACTOR
        state ^= state >> _S31
        state *= _FACTOR
        words[index] = state ^ (state >> _S29)
    past = np.uint64(count * 8 - size_bytes)
    if past > 0 and count > layout.FIRST_FILLER_WORD:
        words[count - 1] &= _ONES >> (past * _EIGHT)
    words[layout.CHECKSUM_WORD] = checksum(words, size_bytes)


@compiled("int64(uint64[::1], int64, uint64)")
def origin(words: Any, size_bytes: Any, token: Any) -> Any:
    """Tell whose the value in `words` is; its bytes past `size_bytes` are zero. See `value.Origin`."""
    if size_bytes < 4 or words[0] & _LOW_32 != _MAGIC:  # noqa: PLR2004 - the magic is a u32
        return OTHER
    if size_bytes < layout.HEADER_BYTES or words[layout.CHECKSUM_WORD] != checksum(
        words, size_bytes
    ):
        return CORRUPT
    if (words[0] >> _S32) & _LOW_16 != np.uint64(layout.VERSION) or words[
        layout.TOKEN_WORD
    ] != token:
        return OTHER
    return OURS


@compiled("int64(uint64)")
def producer_of(mark: Any) -> Any:
    """Return the producer's number in word 0."""
    return np.int64(mark >> _S48)


# ---------- The values of Kafka's own VerifiableProducer, told apart by compiled code: the same as `java_value`, against which a test holds it.


_ZERO: Final = 48
_DOT: Final = 46
_PREFIX_DIGITS: Final = 10
_SEQ_DIGITS: Final = 18
BAD: Final = -1


@compiled(types.int64(types.uint8[::1], types.int64, types.int64, types.int64))
def number_in(text: Any, begin: Any, end: Any, most_digits: Any) -> Any:
    """Return the decimal number between two places, without needless zeros; -1: there is none."""
    if not 0 < end - begin <= most_digits or (text[begin] == _ZERO and end - begin > 1):
        return BAD
    number: Any = 0
    for at in range(begin, end):
        digit = np.int64(text[at]) - _ZERO
        if not 0 <= digit <= 9:  # noqa: PLR2004 - decimal
            return BAD
        number = number * 10 + digit
    return number


@compiled(types.int64(types.uint8[::1], types.int64))
def dot_in(text: Any, size_bytes: Any) -> Any:
    """Return where the first dot is that a prefix can end at; -1: nowhere."""
    for at in range(min(size_bytes, _PREFIX_DIGITS + 1)):
        if text[at] == _DOT:
            return at
    return BAD


@compiled("UniTuple(int64, 3)(uint8[::1], int64, int64, int64)")
def decode(text: Any, size_bytes: Any, tag: Any, run_in_records: Any) -> Any:
    """Tell whose the value in `text` is, and its producer and seq; see `java_value.decode`."""
    dot = dot_in(text, size_bytes)
    prefix = number_in(text, 0, dot, _PREFIX_DIGITS)
    if prefix < 0 or prefix // PRODUCERS != tag:
        return OTHER, -1, -1
    seq = number_in(text, dot + 1, size_bytes, _SEQ_DIGITS)
    if seq < 0:
        return CORRUPT, -1, -1
    if seq < run_in_records:
        return RUN_IN, -1, -1
    return OURS, prefix % PRODUCERS, seq - run_in_records
