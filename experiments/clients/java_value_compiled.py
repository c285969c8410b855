"""The values of Kafka's own VerifiableProducer, told apart by compiled code: the same as `java_value`, against which a test holds it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from experiments.clients.compiled import compiled, types
from experiments.clients.java_value import PRODUCERS
from experiments.clients.value_compiled import CORRUPT, OTHER, OURS, RUN_IN

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
