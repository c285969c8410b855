"""The slots of latency histograms, log-linear as an HDR histogram's: 1 us wide below 256 us, and from there on at most 1/128 of the value.

Below zero they are the mirror image: -1 is to -2 what 0 is to 1.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

_EXACT_BITS: Final = 8
_BITS: Final = 63


def slot(us: str) -> Column:
    """Return the lower bound of the slot that a value lies in; both in whole microseconds."""
    width_bits = _width_bits(us)
    return sf.call_function("shiftleft", sf.call_function("shiftright", sf.col(us), width_bits), width_bits)


def slot_end(from_us: str) -> Column:
    """Return the upper bound, exclusive, of the slot with this lower bound."""
    return sf.col(from_us) + sf.call_function("shiftleft", sf.lit(1).cast("long"), _width_bits(from_us))


def _width_bits(us: str) -> Column:
    """The slot's width as a power of two: comparisons, because logarithms of floating-point numbers are wrong at the bounds."""
    magnitude = sf.when(sf.col(us) < 0, sf.bitwise_not(us)).otherwise(sf.col(us))
    steps = [(magnitude < 2**bits, bits - _EXACT_BITS) for bits in range(_EXACT_BITS, _BITS)]
    first, *others = steps
    chain = reduce(lambda chosen, step: chosen.when(step[0], step[1]), others, sf.when(*first))
    return chain.otherwise(_BITS - _EXACT_BITS)
