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

from ackbench.spark_jobs.io.arrays import LogRows, OutputRows, Reads
from ackbench.spark_jobs.io.columns import NO_NUMBER
from ackbench.spark_jobs.measures.fates import count_rows
from ackbench.spark_jobs.workloads.groups import GroupOffsets


@dataclass(frozen=True)
class CopiedCounts:
    """The columns of `experiments.ledger.workload_tables.COPIES`."""

    copied_records: int
    missed_records: int
    output_lost_records: int
    repeated_copies: int
    hidden_copies: int

    def __add__(self, other: CopiedCounts) -> CopiedCounts:
        """Return the sum of two units of a trial; a record is in one of them only."""
        return CopiedCounts(
            self.copied_records + other.copied_records,
            self.missed_records + other.missed_records,
            self.output_lost_records + other.output_lost_records,
            self.repeated_copies + other.repeated_copies,
            self.hidden_copies + other.hidden_copies,
        )


def count_copies(
    log: LogRows, reads: Reads, output: OutputRows, groups: Sequence[GroupOffsets], records: int
) -> CopiedCounts:
    """Count what became of each record on its way from the log to the output.

    Args:
        log: the visible rows of the copiers' input.
        reads: of all consumers; a copier's are the records whose copy was reported as stored.
        output: the rows of the output.
        groups: of the trial; the copiers'.
        records: the number of the unit's records.
    """
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


def copier_columns(counts: CopiedCounts) -> dict[str, int]:
    """Return the group columns of `TRIALS` for a trial with copiers.

    Records that a copier missed and copies that the output lost both count as missed, because the
    application sees neither.
    """
    return {
        "group_missed_records": counts.missed_records + counts.output_lost_records,
        "group_redelivered_reads": counts.repeated_copies,
    }
