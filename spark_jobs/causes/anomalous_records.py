"""Anomalous records: which records, copies and reads of a unit have which anomaly.

They are a few of millions. What is known about each - its attempt, its copies, its place - is
looked up by the record's number, and what remains is a small table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.result_terms import Anomaly
from ackbench.spark_jobs.io.arrays import LogRows, UnitArrays
from ackbench.spark_jobs.io.columns import (
    ABORTED_CODE,
    ACKED_CODE,
    NO_NUMBER,
    NULL,
    REJECTED_CODE,
    UNKNOWN_CODE,
    BoolColumn,
    IntColumn,
)
from ackbench.spark_jobs.measures.fates import NOT_ATTEMPTED, RecordFates

ANOMALOUS_RECORDS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("producer", pa.int32()),
        pa.field("seq", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        # When the attempt was acknowledged or given up, or when the record was received again.
        pa.field("at_ns", pa.int64()),
        # When the client accepted the record; null: it never did, or there was no attempt.
        pa.field("sent_ns", pa.int64()),
        # DUPLICATED: the offset of the first copy, if it is in the same partition; else null.
        pa.field("first_offset", pa.int64()),
        # DUPLICATED: the producer epoch of this copy, if the first copy has another one of the same
        # producer id; else null.
        pa.field("bumped_epoch", pa.int32()),
    ]
)
"""What is known of each anomalous record."""

APPENDED_RANGES: Final = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("producer", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("first_seq", pa.int64()),
        pa.field("last_seq", pa.int64()),
    ]
)
"""The sequence numbers that each leader epoch appended to a partition, by producer."""


@dataclass(frozen=True)
class SuspectRecords:
    """The results of other measures that name anomalous records, rows and reads."""

    fates: RecordFates
    missed: BoolColumn | None
    """By record: in the log, and never received; `None`: the consumer did not reach the end."""
    reordered: IntColumn
    """Rows of the log; of `spark_jobs.measures.order.reordered_rows`."""
    redelivered: IntColumn
    """Reads; of `spark_jobs.measures.reads.redelivered_rows`."""
    lost_values: IntColumn
    """Records; of `spark_jobs.measures.compaction.compacted_records`."""


def anomalous_records(unit: UnitArrays, suspects: SuspectRecords) -> pa.Table:
    """Return the anomalies of a unit, of the schema `ANOMALOUS_RECORDS`.

    One row per record and anomaly; DUPLICATED and PHANTOM: one per copy; REORDERED: one per
    partition; REDELIVERED: one per read.
    """
    fates, log = suspects.fates, unit.log
    copies, outcome = fates.copies, fates.outcome
    by_kind = {
        Anomaly.LOST: (outcome == ACKED_CODE) & (copies == 0),
        Anomaly.UNKNOWN_ABSENT: (outcome == UNKNOWN_CODE) & (copies == 0),
        Anomaly.REJECTED_PRESENT: (outcome == REJECTED_CODE) & (copies > 0),
        Anomaly.ABORTED_VISIBLE: (outcome == ABORTED_CODE) & (copies > 0),
    }
    if suspects.missed is not None:
        by_kind[Anomaly.MISSED] = suspects.missed
    records: dict[Anomaly, IntColumn] = {
        **{kind: np.flatnonzero(found) for kind, found in by_kind.items()},
        Anomaly.VALUE_LOST: suspects.lost_values,
    }
    several = np.flatnonzero(copies > 1)
    lookup = _Lookup.of(unit, np.concatenate([several, *records.values()]))
    found = [lookup.records(kind, numbers) for kind, numbers in records.items()]
    duplicates = lookup.further_copies(several[outcome[several] != NOT_ATTEMPTED])
    found.append(lookup.duplicates(duplicates))
    never_attempted = np.flatnonzero((outcome == NOT_ATTEMPTED) & (copies > 0))
    found.append(lookup.rows(Anomaly.PHANTOM, _rows_of(unit, never_attempted)))
    found.append(lookup.rows(Anomaly.REORDERED, suspects.reordered))
    without_id = log.record == NO_NUMBER
    found.append(lookup.rows(Anomaly.PHANTOM, np.flatnonzero(without_id & log.intact)))
    found.append(lookup.rows(Anomaly.CORRUPT, np.flatnonzero(without_id & ~log.intact)))
    found.append(_redelivered(unit, suspects.redelivered))
    return pa.concat_tables(found)


def _rows_of(unit: UnitArrays, records: IntColumn) -> IntColumn:
    """Return the rows of the log with some records, by partition and offset."""
    chosen = np.zeros(len(unit.ids) + 1, bool)  # the last one is that of `NO_NUMBER`
    chosen[records] = True
    return np.flatnonzero(chosen[unit.log.record])


@dataclass(frozen=True)
class _Lookup:
    """What attempts and log say about some records."""

    unit: UnitArrays
    attempt: IntColumn
    """By record: the row of its attempt; `NO_NUMBER`: never attempted."""
    copies: IntColumn
    """The rows of the log with the records, by partition and offset."""
    copied: IntColumn
    """Those of the records that are in the log, ascending."""
    first: IntColumn
    """The row of each one's first copy: that in the lowest partition at the lowest offset."""

    @classmethod
    def of(cls, unit: UnitArrays, records: IntColumn) -> _Lookup:
        attempt = np.full(len(unit.ids) + 1, NO_NUMBER)  # the last one is that of `NO_NUMBER`
        attempt[unit.attempts.record] = np.arange(len(unit.attempts))
        copies = _rows_of(unit, records)
        copied, first = np.unique(unit.log.record[copies], return_index=True)
        return cls(unit, attempt, copies, copied, copies[first])

    def _first_copies(self, records: IntColumn) -> IntColumn:
        """Return the row of each record's first copy; `NO_NUMBER`: it is not in the log."""
        if not len(self.copied):
            return np.full(len(records), NO_NUMBER)
        place = np.minimum(np.searchsorted(self.copied, records), len(self.copied) - 1)
        return np.where(self.copied[place] == records, self.first[place], NO_NUMBER)

    def records(self, kind: Anomaly, records: IntColumn) -> pa.Table:
        """Return anomalies of records; the place is the first copy's, or else the attempt's."""
        first, attempt = self._first_copies(records), self.attempt[records]
        log, attempts = self.unit.log, self.unit.attempts
        there = first != NO_NUMBER
        return self._table(
            kind,
            records,
            np.where(
                there,
                _at(log.partition, first, NO_NUMBER),
                _at(attempts.partition, attempt, NO_NUMBER),
            ),
            np.where(there, _at(log.offset, first, NULL), _at(attempts.offset, attempt, NULL)),
        )

    def further_copies(self, records: IntColumn) -> IntColumn:
        """Return the rows of all copies of some records, without each record's first."""
        record = self.unit.log.record[self.copies]
        further = np.isin(record, records) & (self._first_copies(record) != self.copies)
        rows: IntColumn = self.copies[further]
        return rows

    def duplicates(self, rows: IntColumn) -> pa.Table:
        """Return anomalies of rows of the log that are further copies of a record."""
        log = self.unit.log
        first = self._first_copies(log.record[rows])
        same = log.partition[first] == log.partition[rows]
        return self._table(
            Anomaly.DUPLICATED,
            log.record[rows],
            log.partition[rows],
            log.offset[rows],
            np.where(same, log.offset[first], NULL),
            _bumped_epochs(self.unit, first, rows),
        )

    def rows(self, kind: Anomaly, rows: IntColumn) -> pa.Table:
        """Return anomalies of rows of the log."""
        log = self.unit.log
        return self._table(kind, log.record[rows], log.partition[rows], log.offset[rows])

    def _table(
        self,
        kind: Anomaly,
        records: IntColumn,
        partition: IntColumn,
        offset: IntColumn,
        first_offset: IntColumn | None = None,
        bumped_epoch: IntColumn | None = None,
    ) -> pa.Table:
        attempts, attempt = self.unit.attempts, self.attempt[records]
        return _anomaly_table(
            self.unit,
            kind,
            records,
            partition,
            offset,
            _at(attempts.settled_ns, attempt, NULL),
            _at(attempts.sent_ns, attempt, NULL),
            first_offset,
            bumped_epoch,
        )


def _bumped_epochs(unit: UnitArrays, first: IntColumn, rows: IntColumn) -> IntColumn:
    """Return the producer epochs of further copies where they differ from the first copy's.

    Args:
        unit: the ledger may lack the table `batches`; then no epoch is known.
        first: the row of each one's first copy.
        rows: the rows of the copies.
    """
    if unit.batches is None:
        return np.full(len(rows), NO_NUMBER)
    partition, offset = unit.log.partition, unit.log.offset
    producer_id, epoch = unit.batches.producers(partition[rows], offset[rows])
    first_id, first_epoch = unit.batches.producers(partition[first], offset[first])
    bumped = (producer_id != NULL) & (producer_id == first_id) & (epoch != first_epoch)
    return np.where(bumped, epoch, NO_NUMBER)


def _at(column: IntColumn, rows: IntColumn, null: int) -> IntColumn:
    """Return a column's values at some rows; null for `NO_NUMBER`."""
    if not len(column):
        return np.full(len(rows), null)
    return np.where(rows == NO_NUMBER, null, column[rows])


def _redelivered(unit: UnitArrays, rows: IntColumn) -> pa.Table:
    reads = unit.reads
    return _anomaly_table(
        unit,
        Anomaly.REDELIVERED,
        reads.record[rows],
        reads.partition[rows],
        reads.offset[rows],
        reads.received_ns[rows],
    )


def _anomaly_table(
    unit: UnitArrays,
    kind: Anomaly,
    records: IntColumn,
    partition: IntColumn,
    offset: IntColumn,
    at_ns: IntColumn,
    sent_ns: IntColumn | None = None,
    first_offset: IntColumn | None = None,
    bumped_epoch: IntColumn | None = None,
) -> pa.Table:
    without_id = records == NO_NUMBER
    producer, seq = np.full((2, len(records)), NO_NUMBER)
    producer[~without_id], seq[~without_id] = unit.ids.of(records[~without_id])
    nulls = np.full(len(records), NULL)
    columns = (
        pa.array([kind.value]).take(pa.array(np.zeros(len(records), np.int64))),
        pa.array(producer, pa.int32(), mask=without_id),
        pa.array(seq, pa.int64(), mask=without_id),
        pa.array(partition, pa.int32(), mask=partition == NO_NUMBER),
        *(
            pa.array(column, pa.int64(), mask=column == NULL)
            for column in (
                offset,
                at_ns,
                nulls if sent_ns is None else sent_ns,
                nulls if first_offset is None else first_offset,
            )
        ),
        pa.nulls(len(records), pa.int32())
        if bumped_epoch is None
        else pa.array(bumped_epoch, pa.int32(), mask=bumped_epoch == NO_NUMBER),
    )
    return pa.table(columns, schema=ANOMALOUS_RECORDS)


def anomalous_reads(kind: Anomaly, reads: pa.Table) -> pa.Table:
    """Return anomalies of what consumers received, of the schema `ANOMALOUS_RECORDS`.

    Records of the copiers' output have no place, because that is one of another topic.

    Args:
        kind: the kind of all of them.
        reads: of the schema `spark_jobs.measures.consumed.UNCONFIRMED`.
    """
    columns = {
        "kind": pa.array([kind.value]).take(pa.array(np.zeros(len(reads), np.int64))),
        **{name: reads[name] for name in ("producer", "seq", "at_ns", "sent_ns")},
        **{
            name: pc.if_else(reads["of_output"], pa.scalar(None, reads[name].type), reads[name])
            for name in ("partition", "offset")
        },
        "first_offset": pa.nulls(len(reads), pa.int64()),
        "bumped_epoch": pa.nulls(len(reads), pa.int32()),
    }
    return pa.table([columns[name] for name in ANOMALOUS_RECORDS.names], schema=ANOMALOUS_RECORDS)


def appended_ranges(log: LogRows) -> pa.Table:
    """Return what each leader epoch appended, of the schema `APPENDED_RANGES`.

    Args:
        log: the visible rows; rows without an id do not count.
    """
    rows = np.flatnonzero(log.record != NO_NUMBER)
    columns = (log.partition[rows], log.producer[rows], log.leader_epoch[rows])
    changes = np.zeros(len(rows), bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    # An epoch appends many rows in turn: of each such run, only the lowest and the highest seq.
    begins = np.flatnonzero(changes)
    partition, producer, epoch = (column[begins] for column in columns)
    seq = log.seq[rows]
    runs = pa.table(
        [
            pa.array(partition),
            pa.array(producer),
            pa.array(epoch, mask=epoch == NO_NUMBER),
            pa.array(np.minimum.reduceat(seq, begins) if len(begins) else seq),
            pa.array(np.maximum.reduceat(seq, begins) if len(begins) else seq),
        ],
        schema=APPENDED_RANGES,
    )
    return merge_ranges(runs, APPENDED_RANGES.empty_table())


def ranges_of_rows(rows: pa.Table) -> pa.Table:
    """Return what each leader epoch appended, as `appended_ranges`, of rows of `log.parquet`."""
    known = rows.filter(
        pc.field("visible")
        & pc.field("intact")
        & pc.field("producer").is_valid()
        & pc.field("seq").is_valid()
    )
    runs = [known[name] for name in APPENDED_RANGES.names[:-2]]
    return merge_ranges(
        pa.table([*runs, known["seq"], known["seq"]], schema=APPENDED_RANGES),
        APPENDED_RANGES.empty_table(),
    )


def merge_ranges(one: pa.Table, other: pa.Table) -> pa.Table:
    """Return what each leader epoch appended, of two parts of a log."""
    key = ["partition", "producer", "leader_epoch"]
    merged = (
        pa.concat_tables([one, other])
        .group_by(key)
        .aggregate([("first_seq", "min"), ("last_seq", "max")])
    )
    return merged.rename_columns({"first_seq_min": "first_seq", "last_seq_max": "last_seq"}).select(
        APPENDED_RANGES.names
    )
