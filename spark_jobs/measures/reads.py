"""What the concurrent consumer missed, and what it received again.

missed      = |ids in the log without the ids that the consumer received|
redelivered = reads of a (consumer, partition, offset) and record that the same consumer had
received there before: all but the earliest
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ackbench.spark_jobs.io.arrays import Reads
from ackbench.spark_jobs.io.columns import NO_NUMBER, BoolColumn, IntColumn
from ackbench.spark_jobs.measures.fates import RecordFates, fates_of, times_of
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.unit import MeasuredUnit


def is_missed(fates: RecordFates, times: IntColumn) -> BoolColumn:
    """Return which records are in the log and were never received."""
    missed: BoolColumn = (fates.copies > 0) & (times == 0)
    return missed


def is_first_read(reads: Reads, times: IntColumn) -> BoolColumn:
    """Return which reads are the first of their record; none without an id is.

    Args:
        reads: by the time of receipt.
        times: how often each record was received.
    """
    first: BoolColumn = reads.record != NO_NUMBER
    if (times > 1).any():
        again = np.flatnonzero(first & np.append(times > 1, False)[reads.record])
        _, earliest = np.unique(reads.record[again], return_index=True)
        first[again] = False
        first[again[earliest]] = True
    return first


def redelivered_rows(reads: Reads, times: IntColumn, *group: IntColumn) -> IntColumn:
    """Return the reads of a record at an offset where it was received before.

    A truncated log uses offsets again: another record at the same offset is no redelivery. Records
    without an id are compared by their place alone.

    Args:
        reads: by the time of receipt.
        times: how often each record was received.
        group: who received it; by default the consumer.
    """
    without_id = reads.record == NO_NUMBER
    rows = np.flatnonzero(without_id | np.append(times > 1, False)[reads.record])
    if not len(rows):
        return rows
    receiver = [column[rows] for column in group] or [reads.consumer[rows]]
    columns = (reads.partition, reads.offset, reads.producer, reads.seq)
    keys = [*receiver, *(column[rows] for column in columns)]
    order = np.lexsort([np.arange(len(rows)), *keys])
    again = np.ones(len(rows) - 1, bool)
    for key in keys:
        again &= key[order][1:] == key[order][:-1]
    return np.sort(rows[order[1:][again]])


def missed_of(unit: MeasuredUnit) -> BoolColumn:
    """Return which records of a unit the concurrent consumer never received."""
    return is_missed(unit.once(fates_of), unit.once(times_of))


def redelivered_of(unit: MeasuredUnit) -> IntColumn:
    """Return the reads of the concurrent consumer that repeat one."""
    return redelivered_rows(unit.received, unit.once(times_of))


@dataclass(frozen=True)
class ReadCounts(Measure):
    """Reads of the concurrent consumer, and the number of those of members of groups."""

    reads: int = 0
    read_records: int = 0
    """Distinct ids."""
    missed_records: int = 0
    redelivered_reads: int = 0
    member_reads: int = 0

    @classmethod
    def of(cls, unit: MeasuredUnit) -> ReadCounts:
        """Count what was received, missed and received again."""
        return cls(
            len(unit.received),
            int((unit.once(times_of) > 0).sum()),
            int(unit.once(missed_of).sum()),
            len(unit.once(redelivered_of)),
            len(unit.processed),
        )

    def __add__(self, other: ReadCounts) -> ReadCounts:
        """Return the counts of two units of a trial; a record is in one of them only."""
        return ReadCounts(
            self.reads + other.reads,
            self.read_records + other.read_records,
            self.missed_records + other.missed_records,
            self.redelivered_reads + other.redelivered_reads,
            self.member_reads + other.member_reads,
        )

    @property
    def written(self) -> int:
        """The reads of the concurrent consumer."""
        return self.reads

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's columns.

        A record counts as missed only if the concurrent consumer reached the end of the log.
        """
        return {
            "trials": [
                {
                    "missed_records": self.missed_records
                    if trial.ending and trial.ending.at_end
                    else None,
                    "redelivered_reads": self.redelivered_reads if self.reads else None,
                }
            ]
        }
