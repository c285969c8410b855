"""Consumer groups: the records that a group committed past without processing, and redeliveries.

    processed      = ids that a member wrote to its ledger
    missed         = |ids in the log below the group's committed offset, without `processed`|
    expired        = those of them below the log's first offset at the end
    redelivered    = reads of a record at an offset where any member had processed it before
    processing_gap = the longest time of a partition, during the load, without a processed record

Which reads are those of members is in `spark_jobs.measures.consumers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.io.arrays import LogRows, Reads
from ackbench.spark_jobs.io.columns import NO_NUMBER, IntColumn
from ackbench.spark_jobs.measures.availability import Responses, merge_responses, rows_by_number
from ackbench.spark_jobs.measures.consumers import GroupOffsets
from ackbench.spark_jobs.measures.fates import count_rows
from ackbench.spark_jobs.measures.reads import redelivered_rows


@dataclass(frozen=True)
class GroupCounts:
    """What a group processed and missed."""

    reads: int
    """How often records were processed."""
    shown_records: int
    """Distinct visible ids in the log."""
    processed_records: int
    missed_records: int
    expired_records: int
    redelivered_reads: int
    responses: Mapping[int, Responses]
    """By partition: when the group processed records, within the load."""

    def merge(self, other: GroupCounts) -> GroupCounts:
        """Return the counts of two units of a trial; a record is in one of them only."""
        return GroupCounts(
            self.reads + other.reads,
            self.shown_records + other.shown_records,
            self.processed_records + other.processed_records,
            self.missed_records + other.missed_records,
            self.expired_records + other.expired_records,
            self.redelivered_reads + other.redelivered_reads,
            merge_responses(self.responses, other.responses),
        )

    def processing_gap_ns(self, phases: Phases) -> int:
        """Return the longest time without a processed record; the whole load if there was none."""
        waits = [
            np.append(responses.first_ns, phases.load_end_ns)
            - np.insert(responses.last_ns, 0, phases.load_begin_ns)
            for responses in self.responses.values()
        ]
        load_ns = phases.load_end_ns - phases.load_begin_ns
        return max((int(wait.max()) for wait in waits), default=load_ns)


def count_group(
    group: GroupOffsets,
    reads: Reads,
    log: LogRows,
    records: int,
    phases: Phases,
    begin_offsets: Mapping[int, int],
) -> GroupCounts:
    """Count what a group processed and missed.

    Args:
        group: the group.
        reads: of its members.
        log: the visible rows.
        records: the number of the unit's records.
        phases: of the trial.
        begin_offsets: the log's first offset at the end, of partitions that did not begin at 0.
    """
    with_id = log.record != NO_NUMBER
    committed = _by_partition(log, group.committed)
    known = with_id & (committed != NO_NUMBER)
    passed = known & (log.offset < committed)
    expired = passed & (log.offset < _by_partition(log, begin_offsets))
    times = count_rows(reads.record, records)
    return GroupCounts(
        reads=len(reads),
        shown_records=len(np.unique(log.record[known])),
        processed_records=int((times > 0).sum()),
        missed_records=_count_unread(log.record[passed], times),
        expired_records=_count_unread(log.record[expired], times),
        redelivered_reads=len(redelivered_rows(reads, times, np.zeros(len(reads), np.int32))),
        responses=_responses(reads, phases),
    )


def _by_partition(log: LogRows, offsets: Mapping[int, int]) -> IntColumn:
    """Return each row's offset in a mapping by partition; `NO_NUMBER` for a partition without."""
    partitions = 1 + max([*offsets, int(log.partition.max(initial=0))])
    found = np.full(partitions, NO_NUMBER, np.int64)
    for partition, offset in offsets.items():
        found[partition] = offset
    return found[log.partition]


def _count_unread(records: IntColumn, times: IntColumn) -> int:
    return int((times[np.unique(records)] == 0).sum())


def _responses(reads: Reads, phases: Phases) -> Mapping[int, Responses]:
    """Return when records of each partition were processed; outside the load, at its edge."""
    begin, end = phases.load_begin_ns, phases.load_end_ns
    at_ns = np.minimum(np.maximum(reads.received_ns, begin), end)
    return {
        number: Responses.of(at_ns[rows], np.ones(len(rows), bool), at_ns[rows])
        for number, rows in rows_by_number(reads.partition)
    }
