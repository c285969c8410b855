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
of two records at one place can be in two units: each unit returns its unconfirmed reads, which are
few, and the places of its confirmed ones as ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from spark_jobs.io.arrays import HiddenRows, LogRows, OutputRows, Reads, UnitArrays
from spark_jobs.io.columns import NO_NUMBER, NULL, BoolColumn, IntColumn
from spark_jobs.measures.fates import count_rows
from spark_jobs.measures.order import stream_numbers

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
RANGES: Final = pa.schema(
    {
        "of_output": pa.bool_(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "end_offset": pa.int64(),
    }
)
"""Consecutive offsets at which consumers received what the log has; the end is exclusive."""
_SEVERAL: Final = 2


@dataclass(frozen=True)
class ConsumedReads:
    """What consumers received, of a unit or of several units of a trial."""

    judged_reads: int = 0
    """Reads with an id, of offsets that had not expired at the end."""
    repeated_reads: int = 0
    """Reads of a record at an offset where it was received before, by whichever consumer."""
    unconfirmed: pa.Table = field(default_factory=UNCONFIRMED.empty_table)
    confirmed: pa.Table = field(default_factory=RANGES.empty_table)
    """Without rows for an entire trial that has no unconfirmed reads."""

    def __add__(self, other: ConsumedReads) -> ConsumedReads:
        """Return what was received in two units of a trial; a record is in one of them only."""
        return ConsumedReads(
            self.judged_reads + other.judged_reads,
            self.repeated_reads + other.repeated_reads,
            pa.concat_tables([self.unconfirmed, other.unconfirmed]),
            pa.concat_tables([self.confirmed, other.confirmed]),
        )


def consumed_reads(unit: UnitArrays) -> ConsumedReads:
    """Return what the consumers of a unit received."""
    record = unit.rows.ledger.record
    log: list[LogRows | HiddenRows] = [unit.log]
    log += [unit.hidden] if record.shows_aborted else []
    if unit.output is None:
        return _of_topic(unit, unit.reads, log, record.begin_offsets, of_output=False)
    by_copiers = unit.reads.consumer > 0
    output = _chosen_output(unit.output, unit.output.visible | record.shows_aborted)
    return _of_topic(
        unit, unit.reads.where(by_copiers), log, record.begin_offsets, of_output=False
    ) + _of_topic(unit, unit.reads.where(~by_copiers), [output], {}, of_output=True)


def _chosen_output(output: OutputRows, shown: BoolColumn) -> HiddenRows:
    return HiddenRows(output.record[shown], output.partition[shown], output.offset[shown])


def _of_topic(
    unit: UnitArrays,
    reads: Reads,
    stored: Sequence[LogRows | HiddenRows],
    begin_offsets: Mapping[int, int],
    *,
    of_output: bool,
) -> ConsumedReads:
    known = reads.where(reads.record != NO_NUMBER)
    lacking = unconfirmed_rows(known, stored, len(unit.ids))
    first = lacking[_first_of_each(known, lacking)]
    producer, seq = unit.ids.of(known.record[first])
    sent_ns = _sent_ns(unit, known.record[first])
    unconfirmed = pa.table(
        [
            pa.array(np.full(len(first), of_output)),
            pa.array(known.partition[first], pa.int32()),
            pa.array(known.offset[first], pa.int64()),
            pa.array(producer, pa.int32()),
            pa.array(seq, pa.int64()),
            pa.array(known.received_ns[first], pa.int64()),
            pa.array(sent_ns, pa.int64(), mask=sent_ns == NULL),
        ],
        schema=UNCONFIRMED,
    )
    confirmed = RANGES.empty_table()
    if len(lacking) or not unit.rows.is_whole_trial:
        is_confirmed = np.ones(len(known), bool)
        is_confirmed[lacking] = False
        confirmed = _ranges(known.where(is_confirmed), of_output=of_output)
    return ConsumedReads(
        judged_reads=int((~_expired(known.partition, known.offset, begin_offsets)).sum()),
        repeated_reads=_repeated_reads(known, len(unit.ids)),
        unconfirmed=unconfirmed,
        confirmed=confirmed,
    )


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


def _ranges(reads: Reads, *, of_output: bool) -> pa.Table:
    order = np.lexsort([reads.offset, reads.partition])
    partition, offset = reads.partition[order], reads.offset[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (partition[1:] != partition[:-1]) | (offset[1:] > offset[:-1] + 1)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    return pa.table(
        [
            pa.array(np.full(len(first), of_output)),
            pa.array(partition[first], pa.int32()),
            pa.array(offset[first], pa.int64()),
            pa.array(offset[last] + 1, pa.int64()),
        ],
        schema=RANGES,
    )


# The entire trial.


def is_lost(reads: ConsumedReads, begin_offsets: Mapping[int, int]) -> BoolColumn:
    """Return which unconfirmed reads were lost; the others had expired.

    Args:
        reads: of the entire trial.
        begin_offsets: the log's first offset at the end, of partitions that did not begin at 0.
    """
    of_output, partition, offset = (
        reads.unconfirmed[name].to_numpy() for name in ("of_output", "partition", "offset")
    )
    lost: BoolColumn = of_output | ~_expired(partition, offset, begin_offsets)
    return lost


def is_in_conflict(reads: ConsumedReads) -> BoolColumn:
    """Return at which places of unconfirmed reads another record was received too.

    Args:
        reads: of the entire trial.
    """
    rows, confirmed = reads.unconfirmed, reads.confirmed
    keys = [
        np.concatenate([rows[name].to_numpy(), confirmed[name].to_numpy()]).astype(np.int64)
        for name in ("of_output", "partition")
    ]
    stream = stream_numbers(*keys)
    of_row, of_range = stream[: len(rows)], stream[len(rows) :]
    offset = rows["offset"].to_numpy()
    _, place, received = np.unique(
        stream_numbers(of_row, offset), return_inverse=True, return_counts=True
    )
    conflicting = received[place] >= _SEVERAL
    begins, ends = confirmed["offset"].to_numpy(), confirmed["end_offset"].to_numpy()
    for number in np.unique(of_row):
        mine, ranges = np.flatnonzero(of_row == number), np.flatnonzero(of_range == number)
        ranges = ranges[np.argsort(begins[ranges])]
        # The records of a place are in one unit, so the ranges of several units do not overlap.
        last = np.searchsorted(begins[ranges], offset[mine], "right") - 1
        inside = np.zeros(len(mine), bool)
        inside[last >= 0] = offset[mine][last >= 0] < ends[ranges[last[last >= 0]]]
        conflicting[mine] |= inside
    return np.asarray(conflicting, bool)


def read_columns(
    reads: ConsumedReads, lost: BoolColumn, conflicting: BoolColumn
) -> dict[str, int | None]:
    """Return a trial's columns of `TRIALS`; null if nothing was received that can be judged.

    Args:
        reads: of the entire trial.
        lost: of `is_lost`.
        conflicting: of `is_in_conflict`.
    """
    conflicts = int(conflicting.sum())
    return {
        "lost_reads": int(lost.sum()) if reads.judged_reads else None,
        "conflicting_reads": conflicts if reads.repeated_reads or conflicts else None,
    }
