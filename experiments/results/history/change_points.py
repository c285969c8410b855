"""At which places of a series its level changed, with a known rate of false alarms. Pure.

A series is searched for the part whose mean rank differs most from that of the rest (circular
binary segmentation, Olshen et al. 2004, Biostatistics 5:557). The part may begin or end within the
series, so that a level that rises and falls again is seen as well as one that stays. Its
significance is that of a permutation test of the entire search: in which share of the orders of the
same values is the largest difference at least as large? If it is significant, the parts are
searched in turn. So nothing is assumed about the distribution of the values, only that without a
change any order of them is equally likely. docs/statistics.md has the measured rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Numbers = NDArray[np.float64]

MIN_PART: Final = 2
"""The fewest values of a level: one value is an outlier."""
_NEAR: Final = 3
_SCREENED: Final = 199
"""Orders that are tried first; most series end here."""
_SCREENED_LIMIT: Final = 5
"""With as many of them at or above the difference, its p-value is no longer of interest."""
_BATCH: Final = 2_000
_MOST_ORDERS: Final = 200_000
_FIRST_AT_ONCE, _AT_ONCE = 10, 200
"""Orders that are tried together: of the first ones few, as most series end there."""
_NEVER: Final = 1e-9
"""No order is tried if it is less probable than this that any of them reaches the limit."""
_SEED: Final = 20_260_101
"""A fixed seed, so that equal series have equal changes."""
_MOST_ENDS: Final = 200
"""A longer series is searched only at so many places."""
_COARSER: Final = 5
"""The first orders are searched at every fifth place: one that reaches a limit there reaches it."""


@dataclass(frozen=True)
class Shift:
    """A change of level."""

    place: int
    """The index of the first value of the new level."""
    p_value: float
    """Of the permutation test, for this series alone."""


def find_shifts(values: Sequence[float], significance: float) -> tuple[Shift, ...]:
    """Return the changes of level of a series, in its order.

    Args:
        values: the series, in the order of time.
        significance: a series without a change has a shift in at most this share of cases.
    """
    import numpy as np

    found = _search(np.asarray(values, dtype=float), 0, significance)
    return tuple(sorted(found, key=lambda shift: shift.place))


def _search(values: _Numbers, offset: int, significance: float) -> Iterator[Shift]:
    """Yield the shifts of a part of a series that begins at an offset."""
    length = len(values)
    if length < 2 * MIN_PART or values.min() == values.max():
        return
    begin, end, largest = _most_different_part(values)
    p_value = _p_value(values, largest, significance)
    if p_value > significance:
        return
    places = [place for place in (begin, end) if 0 < place < length]
    if len(places) > 1:
        # Either end of a part in the middle may be due to chance.
        sides = ((values[:begin], values[begin:end]), (values[begin:end], values[end:]))
        kept = [difference_p(*both) <= significance for both in sides]
        places = [place for place, is_kept in zip(places, kept, strict=True) if is_kept] or places
    borders = [0, *places, length]
    for number in range(1, len(borders) - 1):
        borders[number] = _refined(values, *borders[number - 1 : number + 2])
    places = borders[1:-1]
    yield from (Shift(offset + place, p_value) for place in places)
    for first, last in zip(borders, borders[1:], strict=False):  # noqa: RUF007 - indexes of parts
        yield from _search(values[first:last], offset + first, significance)


def _refined(values: _Numbers, begin: int, place: int, end: int) -> int:
    """Return the place near a place at which two levels fit best: their medians, by distance.

    Ranks say that there is a change. But they spread the values of one level as far apart as those
    of two, so that the most different part may have one sweep too many.
    """
    import numpy as np

    def misfit(at: int) -> float:
        parts = values[begin:at], values[at:end]
        return float(sum(np.abs(part - np.median(part)).sum() for part in parts))

    near = range(max(begin + MIN_PART, place - _NEAR), min(end - MIN_PART, place + _NEAR) + 1)
    best: int = min((place, *near), key=misfit)
    return best


def difference_p(before: Sequence[float] | _Numbers, after: Sequence[float] | _Numbers) -> float:
    """Return the p-value of Mann and Whitney's test, exact unless values are equal."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(before, after).pvalue)


def _most_different_part(values: _Numbers) -> tuple[int, int, float]:
    """Return the begin and the end of a part, and its difference from the rest."""
    sums, step = _sums(_ranks(values)[None, :]), _step(len(values))
    found = [
        (float(differences.max()), begin, begin + MIN_PART + step * int(differences.argmax()))
        for begin, differences in _differences(sums, step)
    ]
    largest, begin, end = max(found, key=lambda one: one[0])
    return begin, min(end, len(values)), largest


def _p_value(values: _Numbers, largest: float, significance: float) -> float:
    """Return the share of orders with a difference at least as large, the observed one included.

    Of a share above the significance only that is certain.
    """
    ranks, step = _ranks(values), _step(len(values))
    limit = largest * (1 - 1e-9)
    # With so many among the first orders, the share is above the significance.
    enough = max(_SCREENED_LIMIT, int(significance * (_SCREENED + 1)))
    coarse = _Orders(ranks, limit, _COARSER * step)
    if coarse.at_least(_SCREENED, enough, _FIRST_AT_ONCE) >= enough:
        return (enough + 1) / (_SCREENED + 1)
    orders = _Orders(ranks, limit, step)
    found, tried = orders.at_least(_SCREENED, enough, _FIRST_AT_ONCE), _SCREENED
    if found >= _SCREENED_LIMIT:
        return (found + 1) / (tried + 1)
    needed = min(int(5 / significance), _MOST_ORDERS)
    if not found and needed * _most_probable(ranks, limit) < _NEVER:
        batches = -(-max(needed - tried, 0) // _BATCH)
        return 1 / (tried + batches * _BATCH + 1)
    while tried < needed and found <= significance * needed:
        found, tried = found + orders.at_least(_BATCH, _BATCH + 1, _AT_ONCE), tried + _BATCH
    return (found + 1) / (tried + 1)


class _Orders:
    """Random orders of the same ranks; equal ones in each process."""

    def __init__(self, ranks: _Numbers, limit: float, step: int) -> None:
        import numpy as np

        self._ranks, self._limit, self._step = ranks, limit, step
        self._random = np.random.default_rng(_SEED)

    def at_least(self, orders: int, enough: int, at_once: int) -> int:
        """Return how many of the next reach the limit; once `enough` do, others are not tried."""
        import numpy as np

        found = 0
        for begin in range(0, orders, at_once):
            count = min(at_once, orders - begin)
            sums = _sums(self._random.permuted(np.tile(self._ranks, (count, 1)), axis=1))
            most = np.zeros(count)
            for _, differences in _differences(sums, self._step):
                np.maximum(most, differences.max(axis=0), out=most)
            found += int((most >= self._limit).sum())
            if found >= enough:
                break
        return found


def _most_probable(ranks: _Numbers, limit: float) -> float:
    """Return a bound of the probability that an order reaches a limit.

    It is that of Serfling (1974, Ann. Stat. 2:39) for the sum of a sample without replacement. By
    its weight it is nearly the same for each part; those of all parts are added up.
    """
    parts, rest = len(ranks) ** 2, len(ranks) / 2  # of a part or of its rest, the smaller one
    spread = float(ranks.max() - ranks.min())
    return 2 * parts * math.exp(-2 * (limit / spread) ** 2 * rest / (rest + 1))


def _ranks(values: _Numbers) -> _Numbers:
    """Return the ranks of the values minus their mean; equal values have equal ranks."""
    import numpy as np  # `scipy.stats.rankdata` does the same, and takes a second to load

    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: _Numbers = (np.cumsum(counts) - (counts - 1) / 2)[places]
    centred: _Numbers = ranks - ranks.mean()
    return centred


def _sums(ranks: _Numbers) -> _Numbers:
    """Return the sums of the first ranks of each row: a column per row, a row per number."""
    import numpy as np

    sums = np.zeros((ranks.shape[1] + 1, ranks.shape[0]))
    np.cumsum(ranks.T, axis=0, out=sums[1:])
    return sums


def _step(length: int) -> int:
    """Return the distance of the places at which a part may begin."""
    return -(-length // _MOST_ENDS)


def _differences(sums: _Numbers, step: int) -> Iterator[tuple[int, _Numbers]]:
    """Yield the differences of the parts with one begin, by their ends and by column.

    A difference is that of the mean rank of a part and of the rest, divided by its standard
    deviation but for a constant. Parts, and what is before and after them, have `MIN_PART` values
    or none.

    Yields:
        The begin and the differences; the first end is `MIN_PART` after the begin, the others
        follow at the distance of a step.
    """
    import numpy as np

    for begin, weights in _weights(len(sums) - 1, step):
        found = sums[begin + MIN_PART :: step] - sums[begin]
        np.abs(found, out=found)
        found *= weights
        yield begin, found


@lru_cache(maxsize=8)
def _weights(length: int, step: int) -> tuple[tuple[int, _Numbers], ...]:
    """Return by begin how much the sum of a part weighs, for each end; 0: it is no part."""
    import numpy as np

    found = []
    for begin in range(0, length - MIN_PART + 1, step):
        if 0 < begin < MIN_PART:
            continue
        ends = np.arange(begin + MIN_PART, length + 1, step)
        sizes = ends - begin
        rests = length - sizes
        weights = np.zeros(len(ends))
        allowed = (rests >= MIN_PART) & ((ends == length) | (ends <= length - MIN_PART))
        weights[allowed] = 1 / np.sqrt(sizes[allowed] * rests[allowed] / length)
        found.append((begin, weights[:, None]))
    return tuple(found)
