"""Record fields and replays: whether records are read as they were sent, and replays are equal.

    compared  = copies read in the first replay whose id is in `sent`
    differing = those with another digest; of `offset`: acknowledged records that were read, and
                that have no copy at the offset that was reported
    a replay's differing = its rows at an offset where the first replay had another record, or none
    a replay's absent    = rows of the first replay that this one should have, and has not

The producer's own client reports what was sent, the replays what was read; both as a digest of each
field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ackbench.experiments.ledger.trial_manifest import Replay
from ackbench.experiments.ledger.workload_tables import Field
from ackbench.spark_jobs.io.arrays import FIELD_COLUMNS, Attempts, ReplayedRows, SentFields
from ackbench.spark_jobs.io.columns import ACKED_CODE, NO_NUMBER, NULL, BoolColumn, IntColumn
from ackbench.spark_jobs.measures.order import stream_numbers

_FIELDS: Final = {
    "key_digest": Field.KEY,
    "value_digest": Field.VALUE,
    "headers_digest": Field.HEADERS,
    "timestamp_ms": Field.TIMESTAMP,
}
_FIRST: Final = 1
"""The number of the replay with which the others are compared."""
_TIMESTAMP: Final = FIELD_COLUMNS.index("timestamp_ms")


def field_rows(
    sent: SentFields, replays: ReplayedRows, attempts: Attempts, records: int
) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `FIELDS`, without trial_id; no row if nothing can be compared.

    Args:
        sent: of each record.
        replays: all replays.
        attempts: with the offset at which each record was acknowledged.
        records: the number of the trial's records.
    """
    row_of = np.full(records, NO_NUMBER)
    row_of[sent.record] = np.arange(len(sent.record))
    first = np.flatnonzero((replays.replay == _FIRST) & (replays.record != NO_NUMBER))
    compared = first[row_of[replays.record[first]] != NO_NUMBER]
    as_sent = row_of[replays.record[compared]]
    if len(compared):
        for number, name in enumerate(FIELD_COLUMNS):
            differs = replays.fields[number][compared] != sent.fields[number][as_sent]
            yield _row(_FIELDS[name], len(compared), int(differs.sum()))
    yield from _offset_rows(replays, first, attempts, records)


def _offset_rows(
    replays: ReplayedRows, first: IntColumn, attempts: Attempts, records: int
) -> Iterator[Mapping[str, Any]]:
    """Compare the offset at which records were acknowledged with those where they were read."""
    acked = np.flatnonzero((attempts.outcome == ACKED_CODE) & (attempts.offset != NULL))
    row_of = np.full(records, NO_NUMBER)
    row_of[attempts.record[acked]] = acked
    read = first[row_of[replays.record[first]] != NO_NUMBER]
    attempt = row_of[replays.record[read]]
    there = (replays.partition[read] == attempts.partition[attempt]) & (
        replays.offset[read] == attempts.offset[attempt]
    )
    found = np.unique(replays.record[read])
    if len(found):
        at_offset = np.unique(replays.record[read][there])
        yield _row(Field.OFFSET, len(found), len(found) - len(at_offset))


def _row(field: Field, compared: int, differing: int) -> Mapping[str, Any]:
    return {"field": field.value, "compared_records": compared, "differing_records": differing}


def replay_rows(replays: ReplayedRows, requests: Sequence[Replay]) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `REPLAY_DIFFERENCES`, without trial_id.

    A replay by offsets should have all records from its begin on; a replay by timestamp, all
    records with this timestamp or a later one.

    Args:
        replays: the rows of all replays.
        requests: where each replay began.
    """
    place = stream_numbers(replays.partition, replays.offset)
    first = np.flatnonzero(replays.replay == _FIRST)
    first = first[np.argsort(place[first], kind="stable")]
    for request in requests:
        given = np.flatnonzero(replays.replay == request.number)
        at = np.minimum(np.searchsorted(place[first], place[given]), max(len(first) - 1, 0))
        same = np.zeros(len(given), bool)
        if len(first):
            same = (place[first][at] == place[given]) & _equal(replays, given, first[at])
        due = first[_is_due(replays, first, request)]
        absent = ~np.isin(place[due], place[given])
        if len(given) or len(first):
            yield {
                "replay": request.number,
                "records": len(given),
                "differing_records": int((~same).sum()),
                "absent_records": int(absent.sum()),
            }


def _equal(replays: ReplayedRows, one: IntColumn, other: IntColumn) -> BoolColumn:
    equal: BoolColumn = replays.record[one] == replays.record[other]
    for field in replays.fields:
        equal &= field[one] == field[other]
    return equal


def _is_due(replays: ReplayedRows, rows: IntColumn, request: Replay) -> BoolColumn:
    """Return which rows of the first replay another one should have."""
    if request.at_ms is not None:
        return replays.fields[_TIMESTAMP][rows] >= request.at_ms
    due = np.zeros(len(rows), bool)
    for partition, begin in request.begin_offsets.items():
        due |= (replays.partition[rows] == partition) & (replays.offset[rows] >= begin)
    return due
