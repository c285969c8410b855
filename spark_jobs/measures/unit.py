"""A unit as its measures see it: the outcomes that count, and what several measures need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from ackbench.experiments.ledger.trial_manifest import Phases, TrialManifest
from ackbench.spark_jobs.io.arrays import Reads, UnitArrays, to_arrays
from ackbench.spark_jobs.io.columns import BoolColumn, IntColumn
from ackbench.spark_jobs.io.units import UnitRows
from ackbench.spark_jobs.measures import (
    compaction,
    consumed,
    consumers,
    expiry,
    fates,
    order,
    reads,
    transactions,
)


@dataclass(frozen=True)
class MeasuredUnit:
    """A unit whose arrays have the outcomes as a `read_committed` application sees them.

    What several measures need is computed once, when the first of them asks.
    """

    arrays: UnitArrays

    @classmethod
    def of(cls, rows: UnitRows) -> MeasuredUnit:
        """Return a unit of its rows."""
        return cls(as_read_committed(to_arrays(rows)))

    @property
    def manifest(self) -> TrialManifest:
        """The trial's manifest."""
        return self.arrays.rows.ledger.manifest

    @property
    def phases(self) -> Phases:
        """The trial's phases."""
        return self.manifest.phases

    @property
    def events(self) -> pa.Table:
        """The trial's events."""
        return self.arrays.rows.tables["events"]

    @cached_property
    def ending(self) -> consumers.ConsumerEnding | None:
        """The end of the concurrent consumer; `None`: there is no such event."""
        return consumers.consumer_ending(self.events)

    @cached_property
    def groups(self) -> tuple[consumers.GroupOffsets, ...]:
        """The trial's consumer groups at their end."""
        return consumers.groups_of(self.events)

    @cached_property
    def _by_members(self) -> BoolColumn:
        return consumers.by_members(self.arrays.reads, self.groups)

    @cached_property
    def received(self) -> Reads:
        """The reads of the concurrent consumer."""
        return self.arrays.reads.where(~self._by_members)

    @cached_property
    def processed(self) -> Reads:
        """The reads of the groups' members."""
        return self.arrays.reads.where(self._by_members)

    @cached_property
    def fates(self) -> fates.RecordFates:
        """Outcome and copies of each record."""
        return fates.record_fates(self.arrays.attempts, self.arrays.log, self.arrays.ids)

    @cached_property
    def times(self) -> IntColumn:
        """The number of times that the concurrent consumer received each record."""
        return fates.count_rows(self.received.record, len(self.arrays.ids))

    @cached_property
    def reordered(self) -> IntColumn:
        """The rows of the log that are out of order."""
        return order.reordered_rows(
            self.arrays.log, self.arrays.rows.later_offsets, self.fates.copies
        )

    @cached_property
    def missed(self) -> BoolColumn:
        """Which records the concurrent consumer never received."""
        return reads.is_missed(self.fates, self.times)

    @cached_property
    def redelivered(self) -> IntColumn:
        """The reads of the concurrent consumer that repeat one."""
        return reads.redelivered_rows(self.received, self.times)

    @cached_property
    def compacted(self) -> compaction.CompactedRecords | None:
        """The records that compaction removed or lost; `None`: the topic is not compacted."""
        if not self.manifest.compacted:
            return None
        return compaction.compacted_records(self.arrays.attempts, self.arrays.log, self.fates)

    @cached_property
    def judged(self) -> consumed.JudgedReads:
        """The reads that the log or another consumer contradicts."""
        return consumed.judged_reads(self.arrays)


def as_read_committed(stored: UnitArrays) -> UnitArrays:
    """Return a unit with the outcomes that count for the guarantees.

    A record's outcome follows from its transaction's; it is unknown if the record expired before
    any consumer received it.
    """
    attempts = replace(
        stored.attempts,
        outcome=transactions.transactional_outcomes(
            stored.attempts, stored.rows.tables["transactions"]
        ),
    )
    begins = stored.rows.ledger.manifest.begin_offsets
    if begins:
        copies_of = fates.record_fates(attempts, stored.log, stored.ids).copies
        attempts = replace(
            attempts,
            outcome=expiry.outcomes_after_expiry(
                attempts, stored.log, copies_of, stored.rows.expired_places, begins
            ),
        )
    return replace(stored, attempts=attempts)
