"""Compacted topics: acknowledged records that compaction removed, and lost values.

    superseded(r) = the log has a record of r's key that is behind r in its partition, or that r's
                    producer sent later
    compacted     = |{ acknowledged records with a key, absent and superseded }|
    lost_value    = |{ acknowledged records with a key, absent and not superseded }|

Compaction removes a record only if the log keeps a later one of the same key ("at least the last
known value for each message key"). So an absent record that no later one supersedes was lost. A
later record supersedes whatever its outcome is: what the log has, a consumer of the topic receives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ackbench.spark_jobs.io.arrays import Attempts, LogRows
from ackbench.spark_jobs.io.columns import ACKED_CODE, NO_NUMBER, NULL, IntColumn
from ackbench.spark_jobs.measures.fates import RecordFates, fates_of
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.order import stream_numbers
from ackbench.spark_jobs.measures.unit import MeasuredUnit


@dataclass(frozen=True)
class CompactedRecords:
    """The acknowledged records with a key that are not in the log of a compacted topic."""

    removed: IntColumn
    """Records that a later one of their key supersedes."""
    lost_values: IntColumn
    """Records that no later one supersedes."""


def compacted_records(attempts: Attempts, log: LogRows, fates: RecordFates) -> CompactedRecords:
    """Return the acknowledged records that are not in the log, by whether compaction explains it.

    Args:
        attempts: of the entire trial, with keys and the outcomes as an application sees them.
        log: the visible rows.
        fates: of all records.
    """
    none = np.empty(0, np.int64)
    if attempts.key is None:
        return CompactedRecords(none, none)
    absent = np.flatnonzero(
        (attempts.key != NULL)
        & (attempts.outcome == ACKED_CODE)
        & (fates.copies[attempts.record] == 0)
    )
    if not len(absent):
        return CompactedRecords(none, none)
    attempt_of = np.full(len(fates.copies) + 1, NO_NUMBER)
    attempt_of[attempts.record] = np.arange(len(attempts))
    stored = attempt_of[log.record]  # a row without an id has the last one, which is `NO_NUMBER`
    rows = np.flatnonzero(stored != NO_NUMBER)
    stored = stored[rows]
    behind = _is_below_highest(
        (attempts.key[absent], attempts.partition[absent]),
        attempts.offset[absent],
        (attempts.key[stored], log.partition[rows]),
        log.offset[rows],
    )
    sent_before = _is_below_highest(
        (attempts.key[absent], attempts.producer[absent]),
        attempts.seq[absent],
        (attempts.key[stored], attempts.producer[stored]),
        attempts.seq[stored],
    )
    superseded = (behind & (attempts.offset[absent] != NULL)) | sent_before
    records = attempts.record[absent]
    return CompactedRecords(records[superseded], records[~superseded])


def _is_below_highest(
    keys: tuple[IntColumn, ...],
    values: IntColumn,
    stored_keys: tuple[IntColumn, ...],
    stored_values: IntColumn,
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which values are below the highest stored value with the same keys."""
    both = (np.concatenate(pair) for pair in zip(keys, stored_keys, strict=True))
    stream = np.unique(stream_numbers(*both), return_inverse=True)[1]
    highest = np.full(len(stream), NULL)
    np.maximum.at(highest, stream[len(values) :], stored_values)
    below: np.ndarray[tuple[int], np.dtype[np.bool_]] = values < highest[stream[: len(values)]]
    return below


def compacted_of(unit: MeasuredUnit) -> CompactedRecords | None:
    """Return the records that compaction removed or lost; `None`: the topic is not compacted."""
    if not unit.manifest.compacted:
        return None
    return compacted_records(unit.arrays.attempts, unit.arrays.log, unit.once(fates_of))


@dataclass(frozen=True)
class CompactionMeasure(Measure):
    """The numbers of acknowledged records that compaction removed, and that it cannot explain.

    A compacted topic's trial is not divided: a later record of a key may be anywhere.
    """

    compacted_records: int | None
    """`None`: the topic is not compacted."""
    lost_values: int | None

    @classmethod
    def of(cls, unit: MeasuredUnit) -> CompactionMeasure:
        """Count the records of both kinds."""
        found = unit.once(compacted_of)
        if found is None:
            return cls(None, None)
        return cls(len(found.removed), len(found.lost_values))

    def __add__(self, other: CompactionMeasure) -> CompactionMeasure:
        """Return the measure: of several units, the topic is not compacted."""
        del other
        return self

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's columns."""
        del trial
        return {"trials": [vars(self)]}
