"""What consumers received, compared with the log that survived and with each other.

    received    = distinct (partition, offset, id) that a consumer received; reads without an id
                  and reads of corrupt records are left out
    lost        = received without those that the final log has at that place, and without places
                  below the log's begin, whose records had expired
    conflicting = received without those that the final log has at that place, where a consumer
                  received another record at the same place

"The log" are all of its rows for consumers with `read_uncommitted`: a record of an aborted
transaction stays in the log. For `read_committed` they are the visible rows. Members of a group of
copiers are compared with the log, the concurrent consumer then with the copiers' output.

A record and its rows belong to one unit, so a unit knows which of its reads the log confirms. Reads
of two records at one place can be in two units: a unit that has unconfirmed reads looks for reads
of other units at their places (`spark_jobs.io.units.OtherUnits`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ackbench.spark_jobs.io.arrays import HiddenRows, LogRows, Reads, UnitArrays
from ackbench.spark_jobs.io.columns import NO_NUMBER, NULL, BoolColumn, IntColumn
from ackbench.spark_jobs.measures.fates import count_rows
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.order import stream_numbers
from ackbench.spark_jobs.measures.unit import MeasuredUnit

UNCONFIRMED: Final = pa.schema(
    {
        "of_output": pa.bool_(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "producer": pa.int32(),
        "seq": pa.int64(),
        "at_ns": pa.int64(),
        "sent_ns": pa.int64(),
    }
)
"""Received records that the log does not have at that place; `at_ns`: the first receipt."""
_SEVERAL: Final = 2


@dataclass(frozen=True)
class ConsumedReads(Measure):
    """What consumers received, of a unit or of several units of a trial."""

    judged_reads: int = 0
    """Reads with an id, of offsets that had not expired at the end."""
    repeated_reads: int = 0
    """Reads of a record at an offset where it was received before, by whichever consumer."""
    lost_reads: int = 0
    conflicting_reads: int = 0

    @classmethod
    def of(cls, unit: MeasuredUnit) -> ConsumedReads:
        """Count the reads that the log or another consumer contradicts."""
        return unit.once(judged_reads_of).counts

    def __add__(self, other: ConsumedReads) -> ConsumedReads:
        """Return what was received in two units of a trial; a record is in one of them only."""
        return ConsumedReads(
            self.judged_reads + other.judged_reads,
            self.repeated_reads + other.repeated_reads,
            self.lost_reads + other.lost_reads,
            self.conflicting_reads + other.conflicting_reads,
        )

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's columns; null if nothing was received that can be judged."""
        del trial
        compared = self.repeated_reads or self.conflicting_reads
        return {
            "trials": [
                {
                    "lost_reads": self.lost_reads if self.judged_reads else None,
                    "conflicting_reads": self.conflicting_reads if compared else None,
                }
            ]
        }


@dataclass(frozen=True)
class JudgedReads:
    """The reads of a unit: counts, and those of them that are anomalous, one by one."""

    counts: ConsumedReads
    lost: pa.Table
    """Of the schema `UNCONFIRMED`, as is `conflicting`."""
    conflicting: pa.Table

    def __add__(self, other: JudgedReads) -> JudgedReads:
        """Return the reads of both topics of a unit."""
        return JudgedReads(
            self.counts + other.counts,
            pa.concat_tables([self.lost, other.lost]),
            pa.concat_tables([self.conflicting, other.conflicting]),
        )


def judged_reads_of(unit: MeasuredUnit) -> JudgedReads:
    """Return the reads of a unit that the log or another consumer contradicts."""
    return judged_reads(unit.arrays)


def judged_reads(unit: UnitArrays) -> JudgedReads:
    """Return what the consumers of a unit received.

    Raises:
        InvalidLedger: the reads of other units cannot be read.
    """
    manifest = unit.rows.ledger.manifest
    log: list[LogRows | HiddenRows] = [unit.log]
    log += [unit.hidden] if manifest.shows_aborted else []
    if unit.output is None:
        return _of_topic(unit, unit.reads, log, manifest.begin_offsets, of_output=None)
    by_copiers = unit.reads.consumer > 0
    rows, shown = unit.output, unit.output.visible | manifest.shows_aborted
    output = HiddenRows(rows.record[shown], rows.partition[shown], rows.offset[shown])
    return _of_topic(
        unit, unit.reads.where(by_copiers), log, manifest.begin_offsets, of_output=False
    ) + _of_topic(unit, unit.reads.where(~by_copiers), [output], {}, of_output=True)


def _of_topic(
    unit: UnitArrays,
    reads: Reads,
    stored: Sequence[LogRows | HiddenRows],
    begin_offsets: Mapping[int, int],
    *,
    of_output: bool | None,
) -> JudgedReads:
    """Judge the reads of one topic.

    Args:
        unit: the unit.
        reads: its reads of the topic.
        stored: its rows of the topic.
        begin_offsets: the topic's first offset at the end, of partitions that did not begin at 0.
        of_output: whether it is the copiers' output; `None`: the trial has no copiers.
    """
    known = reads.where(reads.record != NO_NUMBER)
    lacking = unconfirmed_rows(known, stored, len(unit.ids))
    first = lacking[_first_of_each(known, lacking)]
    expired = _expired(known.partition, known.offset, begin_offsets)
    lost = first[~expired[first]]
    conflicting = first[_is_in_conflict(unit, known, first, of_output)]
    return JudgedReads(
        ConsumedReads(
            judged_reads=int((~expired).sum()),
            repeated_reads=_repeated_reads(known, len(unit.ids)),
            lost_reads=len(lost),
            conflicting_reads=len(conflicting),
        ),
        _table(unit, known, lost, of_output=bool(of_output)),
        _table(unit, known, conflicting, of_output=bool(of_output)),
    )


def _table(unit: UnitArrays, reads: Reads, rows: IntColumn, *, of_output: bool) -> pa.Table:
    producer, seq = unit.ids.of(reads.record[rows])
    sent_ns = _sent_ns(unit, reads.record[rows])
    return pa.table(
        [
            pa.array(np.full(len(rows), of_output)),
            pa.array(reads.partition[rows], pa.int32()),
            pa.array(reads.offset[rows], pa.int64()),
            pa.array(producer, pa.int32()),
            pa.array(seq, pa.int64()),
            pa.array(reads.received_ns[rows], pa.int64()),
            pa.array(sent_ns, pa.int64(), mask=sent_ns == NULL),
        ],
        schema=UNCONFIRMED,
    )


def _is_in_conflict(
    unit: UnitArrays, reads: Reads, rows: IntColumn, of_output: bool | None
) -> BoolColumn:
    """Return at which places of unconfirmed reads another record was received too.

    Args:
        unit: the unit.
        reads: its reads of the topic that have an id.
        rows: the unconfirmed ones, each record once at each place.
        of_output: as of `_of_topic`.
    """
    if not len(rows):
        return np.zeros(0, bool)
    partition, offset = reads.partition, reads.offset
    if unit.rows.others:
        beyond = unit.rows.others.read_places(offset[rows], of_output)
        partition, offset = (
            np.concatenate(both) for both in zip((partition, offset), beyond, strict=True)
        )
    place = stream_numbers(partition, offset)
    own, other = place[: len(reads)], place[len(reads) :]
    here = np.flatnonzero(np.isin(own, own[rows]))
    distinct = here[_first_of_each(reads, here)]
    at, received = np.unique(own[distinct], return_counts=True)
    several = np.concatenate([at[received >= _SEVERAL], other])
    return np.isin(own[rows], several)


def unconfirmed_rows(
    reads: Reads, stored: Sequence[LogRows | HiddenRows], records: int
) -> IntColumn:
    """Return the reads whose record the log does not have at that partition and offset.

    Args:
        reads: with an id.
        stored: the rows of the log; rows without a reliable id confirm nothing.
        records: the number of the unit's records.
    """
    partition = np.full(records + 1, NO_NUMBER, np.int64)  # the last one is that of `NO_NUMBER`
    offset = np.full(records + 1, NULL)
    for rows in stored:
        partition[rows.record], offset[rows.record] = rows.partition, rows.offset
    at = reads.record
    lacking = np.flatnonzero((partition[at] != reads.partition) | (offset[at] != reads.offset))
    if not len(lacking):
        return lacking
    # Of a record with several copies, the arrays above have the last one.
    chosen = np.zeros(records + 1, bool)
    chosen[at[lacking]] = True
    copies = [np.flatnonzero(chosen[rows.record]) for rows in stored]
    places = stream_numbers(
        *(
            np.concatenate([read, *(column[of] for column, of in zip(kept, copies, strict=True))])
            for read, kept in (
                (reads.partition[lacking], [rows.partition for rows in stored]),
                (reads.offset[lacking], [rows.offset for rows in stored]),
                (at[lacking], [rows.record for rows in stored]),
            )
        )
    )
    elsewhere: IntColumn = lacking[~np.isin(places[: len(lacking)], places[len(lacking) :])]
    return elsewhere


def _first_of_each(reads: Reads, rows: IntColumn) -> IntColumn:
    """Return the place in `rows` of the first receipt of each record at each offset."""
    places = stream_numbers(reads.partition[rows], reads.offset[rows], reads.record[rows])
    first: IntColumn = np.unique(places, return_index=True)[1]
    return first


def _repeated_reads(reads: Reads, records: int) -> int:
    several = np.flatnonzero((count_rows(reads.record, records) >= _SEVERAL)[reads.record])
    return len(several) - len(_first_of_each(reads, several))


def _sent_ns(unit: UnitArrays, records: IntColumn) -> IntColumn:
    """Return when the client accepted each record; `NULL`: it never did, or was not attempted."""
    sent_ns = np.full(len(unit.ids), NULL)
    sent_ns[unit.attempts.record] = unit.attempts.sent_ns
    return sent_ns[records]


def _expired(
    partition: IntColumn, offset: IntColumn, begin_offsets: Mapping[int, int]
) -> BoolColumn:
    expired = np.zeros(len(offset), bool)
    for number, begin in begin_offsets.items():
        expired |= (partition == number) & (offset < begin)
    return expired
