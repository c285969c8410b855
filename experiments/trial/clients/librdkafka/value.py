"""Compiled code that writes and checks record values in the formats of `record.layout`.

Property tests compare it with the plain-Python reference, `tests/support/reference/values.py`.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from ackbench.experiments.messages.errors import ClientLibraryError
from ackbench.experiments.trial.clients.librdkafka.compiled import compiled, types
from ackbench.experiments.trial.clients.record import layout
from ackbench.experiments.trial.clients.record.layout import MAX_TEXT_PRODUCERS

if sys.byteorder != "little":
    raise ClientLibraryError(
        "record values need a little-endian machine, and this one is big-endian"
    )

_SEED: Final = np.uint64(layout.CHECKSUM_SEED)
_FACTOR: Final = np.uint64(layout.CHECKSUM_FACTOR)
_SEQ_FACTOR: Final = np.uint64(layout.FILLER_SEQ_FACTOR)
_WORD_FACTOR: Final = np.uint64(layout.FILLER_WORD_FACTOR)
_MAGIC: Final = np.uint64(layout.MAGIC)
_LOW_32: Final = np.uint64(0xFFFF_FFFF)
_LOW_16: Final = np.uint64(0xFFFF)
_ONES: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_S29, _S31, _S32, _S48 = (np.uint64(bits) for bits in (29, 31, 32, 48))
_EIGHT: Final = np.uint64(8)
Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
TRIAL, OTHER, CORRUPT, WARM_UP = (
    int(origin)
    for origin in (
        layout.Origin.TRIAL,
        layout.Origin.OTHER,
        layout.Origin.CORRUPT,
        layout.Origin.WARM_UP,
    )
)


def allocate_words(size_bytes: int) -> Words:
    """Return a zeroed array of words that holds a value of this size."""
    return np.zeros(-(-size_bytes // layout.WORD_BYTES), np.uint64)


def begin_value(size_bytes: int, producer: int, token: int) -> Words:
    """Return an array for one producer's values, with the words that all of them share."""
    words = allocate_words(size_bytes)
    words[layout.MAGIC_WORD] = layout.MAGIC | layout.VERSION << 32 | producer << 48
    words[layout.TOKEN_WORD] = token
    return words


@compiled("uint64(uint64[::1], int64)")
def checksum(words: Any, size_bytes: Any) -> Any:
    """Return the checksum of the value in `words`; its bytes past `size_bytes` are zero."""
    state = (np.uint64(size_bytes) * _FACTOR) ^ _SEED
    for index in range((size_bytes + 7) // 8):
        if index != layout.CHECKSUM_WORD:
            state = (state ^ words[index]) * _FACTOR
            state ^= state >> _S29
    return state


@compiled("void(uint64[::1], int64, int64, int64)")
def encode(words: Any, size_bytes: Any, seq: Any, intended_ns: Any) -> None:
    """Write a record's value of `size_bytes` into an array from `begin_value`."""
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
    """Return the `Origin` of the value in `words`; its bytes past `size_bytes` are zero."""
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
    return TRIAL


@compiled("int64(uint64)")
def producer_number(magic_word: Any) -> Any:
    """Return the producer's number from word 0."""
    return np.int64(magic_word >> _S48)


# Identities as text, in a header, a key or a value.

_DIGITS: Final = tuple(b"0123456789abcdef")
_MAGIC_TEXT: Final = tuple(layout.MAGIC.to_bytes(4, "little").hex().encode())
_LOW_4: Final = np.uint8(0xF)
_S4: Final = np.uint8(4)
_LETTERS_AFTER: Final = 87
"""The code of `a` less 10."""
_FIRST_LETTER: Final = 97


@compiled("void(uint64[::1], uint8[::1])")
def write_identity(words: Any, text: Any) -> None:
    """Write the value in `words`, of 40 bytes, as the text of an identity."""
    octets = words.view(np.uint8)
    for at in range(layout.HEADER_BYTES):
        text[2 * at] = _DIGITS[octets[at] >> _S4]
        text[2 * at + 1] = _DIGITS[octets[at] & _LOW_4]


@compiled("int64(uint8)")
def hexadecimal(letter: Any) -> Any:
    """Return what a lower-case hexadecimal digit stands for; -1: it is none."""
    if letter >= _FIRST_LETTER:
        return np.int64(letter) - _LETTERS_AFTER if letter < _FIRST_LETTER + 6 else -1
    return np.int64(letter) - 48 if 48 <= letter < 58 else -1  # noqa: PLR2004 - `0` to `9`


@compiled("boolean(uint8[::1], int64, uint64[::1])")
def read_identity(text: Any, at: Any, words: Any) -> Any:
    """Read the text at a position into `words`; return `False` if it is not hexadecimal."""
    octets = words.view(np.uint8)
    for number in range(layout.HEADER_BYTES):
        high, low = hexadecimal(text[at + 2 * number]), hexadecimal(text[at + 2 * number + 1])
        if high < 0 or low < 0:
            return False
        octets[number] = np.uint8(high * 16 + low)
    return True


@compiled("int64(uint8[::1], int64, uint64[::1], uint64)")
def find_identity(text: Any, size_bytes: Any, words: Any, token: Any) -> Any:
    """Find the identity in a text; return its `Origin`, and the value that it stands for.

    A text that begins like one and is not intact is corrupt, unless an intact one follows.

    Args:
        text: the content of a header, a key or a value, and possibly more.
        size_bytes: how much of it that is.
        words: five words, for the value.
        token: identifies the trial's records.
    """
    found = OTHER
    for at in range(size_bytes - len(_MAGIC_TEXT) + 1):
        begins = True
        for index in range(len(_MAGIC_TEXT)):
            begins = begins and text[at + index] == _MAGIC_TEXT[index]
        if begins:
            found = CORRUPT
            if at + 2 * layout.HEADER_BYTES <= size_bytes and read_identity(text, at, words):
                found = origin(words, layout.HEADER_BYTES, token)
            if found != CORRUPT:
                return found
    return found


# Text values of Kafka's VerifiableProducer: `<prefix>.<n>`.

_ZERO: Final = 48
_DOT: Final = 46
_PREFIX_DIGITS: Final = 10
_SEQ_DIGITS: Final = 18
INVALID: Final = -1


@compiled(types.int64(types.uint8[::1], types.int64, types.int64, types.int64))
def parse_number(text: Any, begin: Any, end: Any, most_digits: Any) -> Any:
    """Return the decimal number in `text[begin:end]`; -1: not a number, or leading zeros."""
    if not 0 < end - begin <= most_digits or (text[begin] == _ZERO and end - begin > 1):
        return INVALID
    number: Any = 0
    for at in range(begin, end):
        digit = np.int64(text[at]) - _ZERO
        if not 0 <= digit <= 9:  # noqa: PLR2004 - decimal
            return INVALID
        number = number * 10 + digit
    return number


@compiled(types.int64(types.uint8[::1], types.int64))
def find_dot(text: Any, size_bytes: Any) -> Any:
    """Return the position of the dot after the prefix; -1: there is none."""
    for at in range(min(size_bytes, _PREFIX_DIGITS + 1)):
        if text[at] == _DOT:
            return at
    return INVALID


@compiled("UniTuple(int64, 3)(uint8[::1], int64, int64, int64)")
def decode_text_value(text: Any, size_bytes: Any, tag: Any, warm_up_records: Any) -> Any:
    """Return a text value's `Origin`, producer and seq; the latter are -1 unless it is `TRIAL`.

    A value with this trial's prefix but without a valid number is corrupt.
    """
    dot = find_dot(text, size_bytes)
    prefix = parse_number(text, 0, dot, _PREFIX_DIGITS)
    if prefix < 0 or prefix // MAX_TEXT_PRODUCERS != tag:
        return OTHER, -1, -1
    seq = parse_number(text, dot + 1, size_bytes, _SEQ_DIGITS)
    if seq < 0:
        return CORRUPT, -1, -1
    if seq < warm_up_records:
        return WARM_UP, -1, -1
    return TRIAL, prefix % MAX_TEXT_PRODUCERS, seq - warm_up_records
