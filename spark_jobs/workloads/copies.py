"""Copiers: the records that they missed or copied repeatedly, and the copies that the output lost.

    copied      = |ids visible in the output|
    missed      = |ids in the log below the group's committed offset, not visible in the output, and
                   whose copy was not reported to a copier as stored, or committed|
    output_lost = |ids reported so, and not visible in the output|
    repeated    = sum over ids of max(0, visible copies in the output - max(1, copies in the log))

A copy carries the id of its original. The output is what Kafka stores at the end. That a copy is
stored, or its transaction committed, is what Kafka reported to the copier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ackbench.spark_jobs.io.arrays import OutputRows, UnitArrays
from ackbench.spark_jobs.io.columns import NO_NUMBER
from ackbench.spark_jobs.measures.consumers import GroupOffsets
from ackbench.spark_jobs.measures.fates import count_rows
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.unit import MeasuredUnit


@dataclass(frozen=True)
class CopiedCounts(Measure):
    """Records on their way from the log to the copiers' output, counted."""

    copied_records: int
    missed_records: int
    output_lost_records: int
    repeated_copies: int
    hidden_copies: int

    @classmethod
    def of(cls, unit: MeasuredUnit) -> CopiedCounts | None:
        """Count the records that were copied, missed, lost, repeated and hidden by copiers."""
        output = unit.arrays.output
        return None if output is None else count_copies(unit.arrays, output, unit.groups)

    def __add__(self, other: CopiedCounts) -> CopiedCounts:
        """Return the sum of two units of a trial; a record is in one of them only."""
        theirs = vars(other)
        return CopiedCounts(**{name: mine + theirs[name] for name, mine in vars(self).items()})

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's row of `COPIES`, and its columns of the group.

        Records that a copier missed and copies that the output lost both count as missed, because
        the application sees neither.
        """
        return {
            "trials": [
                {
                    "group_missed_records": self.missed_records + self.output_lost_records,
                    "group_redelivered_reads": self.repeated_copies,
                }
            ],
            "copies": [vars(self)] if trial.is_written else [],
        }


def count_copies(
    unit: UnitArrays, output: OutputRows, groups: Sequence[GroupOffsets]
) -> CopiedCounts:
    """Count what became of each record on its way from the log to the output.

    Args:
        unit: its log is the copiers' input; a copier's reads are the records whose copy was
            reported as stored.
        output: the rows of the output.
        groups: of the trial; the copiers'.
    """
    log, reads, records = unit.log, unit.reads, len(unit.ids)
    stored = count_rows(log.record, records)
    reported = count_rows(reads.record[reads.consumer > 0], records)
    shown = count_rows(output.record[output.intact & output.visible], records)
    hidden = count_rows(output.record[output.intact & ~output.visible], records)
    passed = np.zeros(records, bool)
    for group in groups:
        for partition, committed in group.committed.items():
            rows = (log.partition == partition) & (log.offset < committed)
            passed[log.record[rows & (log.record != NO_NUMBER)]] = True
    return CopiedCounts(
        copied_records=int((shown > 0).sum()),
        missed_records=int((passed & (shown == 0) & (reported == 0)).sum()),
        output_lost_records=int(((reported > 0) & (shown == 0)).sum()),
        repeated_copies=int(np.maximum(shown - np.maximum(stored, 1), 0).sum()),
        hidden_copies=int(hidden.sum()),
    )
