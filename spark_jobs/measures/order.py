"""Records out of order: in a partition's log, a later record of their producer precedes them.

    reordered = { r : there is s of the same producer in the same partition with
                      seq(s) > seq(r) and first_offset(s) < first_offset(r) }

Kafka guarantees an order only among the records that one producer sends to one partition. A further
copy of a record reorders nothing: it is a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ackbench.spark_jobs.io.arrays import LogRows
from ackbench.spark_jobs.io.columns import IntColumn
from ackbench.spark_jobs.measures.fates import fates_of
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.unit import MeasuredUnit

_LIMIT: Final = 1 << 62


def reordered_rows(log: LogRows, later_offsets: pa.Table, copies: IntColumn) -> IntColumn:
    """Return the rows of the log that are out of order, each record once per partition.

    Args:
        log: the visible rows, by partition and offset; rows without an id have no order.
        later_offsets: of `spark_jobs.io.units.UnitRows`: records of later units that may precede.
        copies: of each record; of `spark_jobs.measures.fates.record_fates`.
    """
    behind: list[IntColumn] = [np.empty(0, np.int64)]
    for partition in np.unique(log.partition).tolist():
        begin, end = np.searchsorted(log.partition, [partition, partition + 1])
        for rows, seq in _streams(log, begin, end):
            behind.append(rows[seq < np.maximum.accumulate(seq)])
    behind.append(_behind_later_units(log, later_offsets))
    return _first_copies(log, np.unique(np.concatenate(behind)), copies)


def _streams(log: LogRows, begin: int, end: int) -> Iterator[tuple[IntColumn, IntColumn]]:
    """Yield the rows of each producer in a partition, and their sequence numbers, in order."""
    record, producer, seq = (column[begin:end] for column in (log.record, log.producer, log.seq))
    if record.min() >= 0 and producer.min() == producer.max():
        yield np.arange(begin, end), seq
        return
    for number in np.unique(producer[record >= 0]):
        rows = np.flatnonzero((record >= 0) & (producer == number))
        yield begin + rows, seq[rows]


def stream_numbers(*keys: IntColumn) -> IntColumn:
    """Return a number for each row, equal for rows with equal keys and ascending with them."""
    number = np.zeros(len(keys[0]), np.int64)
    if not len(number):
        return number
    for key in keys:
        low = int(key.min())
        values = int(key.max()) - low + 1
        if values * (int(number.max()) + 1) > _LIMIT:
            place = np.unique(key, return_inverse=True)[1]
            number = np.unique(number, return_inverse=True)[1]
            values = int(place.max()) + 1
        else:
            place = key.astype(np.int64) - low
        number = number * values + place if values > 1 else number
    return number


def _behind_later_units(log: LogRows, later_offsets: pa.Table) -> IntColumn:
    """Return the rows that a record of a later unit precedes."""
    found = [np.empty(0, np.int64)]
    lowest = later_offsets.group_by(["partition", "producer"]).aggregate([("offset", "min")])
    for row in lowest.to_pylist():
        begin, end = np.searchsorted(log.partition, [row["partition"], row["partition"] + 1])
        first = begin + np.searchsorted(log.offset[begin:end], row["offset_min"])
        rows = np.arange(first, end)
        found.append(rows[(log.producer[rows] == row["producer"]) & (log.record[rows] >= 0)])
    return np.concatenate(found)


def _first_copies(log: LogRows, rows: IntColumn, copies: IntColumn) -> IntColumn:
    """Return the rows that are their record's first copy in their partition."""
    record = log.record[rows]
    several = np.unique(record[copies[record] > 1])
    if not len(several):
        return rows
    all_copies = np.flatnonzero(np.isin(log.record, several))
    stream = stream_numbers(log.partition[all_copies], log.record[all_copies])
    _, first = np.unique(stream, return_index=True)
    chosen: IntColumn = rows[(copies[record] == 1) | np.isin(rows, all_copies[first])]
    return chosen


def reordered_of(unit: MeasuredUnit) -> IntColumn:
    """Return the rows of a unit's log that are out of order."""
    return reordered_rows(
        unit.arrays.log, unit.arrays.rows.later_offsets, unit.once(fates_of).copies
    )


@dataclass(frozen=True)
class OrderMeasure(Measure):
    """Records out of order, counted."""

    reordered_records: int

    @classmethod
    def of(cls, unit: MeasuredUnit) -> OrderMeasure:
        """Count the records that a later one precedes in a partition."""
        return cls(len(set(unit.arrays.log.record[unit.once(reordered_of)].tolist())))

    def __add__(self, other: OrderMeasure) -> OrderMeasure:
        """Return the sum of two units."""
        return OrderMeasure(self.reordered_records + other.reordered_records)

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return the trial's column."""
        del trial
        return {"trials": [{"reordered_records": self.reordered_records}]}
