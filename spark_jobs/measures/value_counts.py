"""How often each value occurs: what quantiles, histograms and counts over time are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ackbench.spark_jobs.io.columns import IntColumn

_MAX_EMPTY: Final = 2
"""Values are counted by index, without sorting, in a range of up to so many times their number."""


def _none() -> IntColumn:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class ValueCounts:
    """Distinct values, and how many records have each."""

    values: IntColumn = field(default_factory=_none)
    """Ascending."""
    records: IntColumn = field(default_factory=_none)

    @classmethod
    def of(cls, values: IntColumn) -> ValueCounts:
        """Return the distribution of some values, in any order."""
        if not len(values):
            return cls()
        low, high = int(values.min()), int(values.max())
        if high - low <= _MAX_EMPTY * len(values):
            counts = np.bincount(values - low)
            present = np.flatnonzero(counts)
            return cls(present + low, counts[present])
        if np.iinfo(np.int32).min <= low and high <= np.iinfo(np.int32).max:
            values = values.astype(np.int32)  # sorted in half the time
        ordered = np.sort(values)
        begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        return cls(ordered[begins].astype(np.int64), np.diff(begins, append=len(ordered)))

    def merge(self, other: ValueCounts) -> ValueCounts:
        """Return the distribution of both: exact, in whatever parts the values come."""
        if not len(self.values) or not len(other.values):
            return self if len(self.values) else other
        values = np.concatenate([self.values, other.values])
        order = np.argsort(values, kind="stable")
        return add_equal(values[order], np.concatenate([self.records, other.records])[order])

    def quantile(self, thousandths: int) -> int:
        """Return a quantile by nearest rank, in integers; there is at least one value."""
        up_to = np.cumsum(self.records)
        return int(self.values[np.searchsorted(up_to * 1000, int(up_to[-1]) * thousandths)])


def add_equal(values: IntColumn, records: IntColumn) -> ValueCounts:
    """Add up the records of equal values, which are next to each other."""
    begins = np.flatnonzero(np.diff(values, prepend=values[:1] - 1))
    return ValueCounts(values[begins], np.add.reduceat(records, begins) if len(values) else records)
