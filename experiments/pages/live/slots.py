"""Counts per tenth of a second since the begin of the load, as in the ledger's table `timeline`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ackbench.experiments.ledger.result_terms import TIMELINE_SLOT_NS
from ackbench.experiments.trial.clients.process.mapped_file import Column

_GROW_SLOTS: Final = 1024
MOST_SLOTS: Final = 1_000_000
"""More than a day of slots."""


@dataclass(frozen=True, eq=False)
class SlotCounts:
    """How many records of a kind there were, in all and per slot.

    The arrays do not change later.
    """

    records: int
    slots: Column
    """By slot, `TIMELINE_SLOT_NS` each. Slot 0 begins with the load; the last one has a record."""


class SlotCounter:
    """Counts times per slot; keeps one number per slot, whatever the number of records."""

    def __init__(self) -> None:
        self._slots: Column = np.zeros(_GROW_SLOTS, np.int64)
        self._used, self._records = 0, 0

    def add(self, at_ns: Column, begin_ns: int) -> None:
        """Count times.

        Args:
            at_ns: nanoseconds since the epoch, in any order. Times before the begin count in the
                first slot: clients report some in milliseconds, rounded down. Times more than a
                day later, after the clock was stepped, have no slot.
            begin_ns: when the load began.
        """
        if not at_ns.size:
            return
        slots = np.maximum((at_ns - begin_ns) // TIMELINE_SLOT_NS, 0)
        counted = np.bincount(slots[slots < MOST_SLOTS], minlength=1)
        if counted.size > self._slots.size:
            room = counted.size - self._slots.size + _GROW_SLOTS
            self._slots = np.concatenate([self._slots, np.zeros(room, np.int64)])
        self._slots[: counted.size] += counted
        self._used = max(self._used, counted.size)
        self._records += int(at_ns.size)

    def counts(self) -> SlotCounts:
        """Return the counts so far."""
        return SlotCounts(self._records, self._slots[: self._used].copy())


LATENCY_BOUNDS_S: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0),
)
"""Upper ends, inclusive, of the buckets of a latency histogram, seconds; one more has the rest."""


@dataclass(frozen=True)
class RecentLatency:
    """Quantiles of the latencies that were added last, milliseconds."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class LatencyCounts:
    """Latencies from the intended send time to the acknowledgement."""

    buckets: tuple[int, ...]
    """Records per bucket of `LATENCY_BOUNDS_S`, and those above."""
    sum_s: float
    recent: RecentLatency | None
    """Of the last addition that had records."""


class LatencyCounter:
    """Counts latencies per bucket."""

    def __init__(self) -> None:
        self._bounds_ns = np.array([round(bound * 1e9) for bound in LATENCY_BOUNDS_S], np.int64)
        self._buckets: Column = np.zeros(self._bounds_ns.size + 1, np.int64)
        self._sum_ns = 0
        self._recent: RecentLatency | None = None

    def add(self, latency_ns: Column) -> None:
        """Count latencies, nanoseconds."""
        if not latency_ns.size:
            return
        self._buckets += np.bincount(
            np.searchsorted(self._bounds_ns, latency_ns), minlength=self._buckets.size
        )
        self._sum_ns += int(latency_ns.sum())
        p50, p99 = np.percentile(latency_ns, [50, 99], method="inverted_cdf") / 1e6
        self._recent = RecentLatency(float(p50), float(p99))

    def counts(self) -> LatencyCounts:
        """Return the counts so far."""
        return LatencyCounts(tuple(self._buckets.tolist()), self._sum_ns / 1e9, self._recent)
