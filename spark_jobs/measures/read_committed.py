"""The outcomes that count for the guarantees: those that a `read_committed` application sees.

The first records of a log may expire before the final read.

    unknown = { acknowledged r : offset(r) < begin_offset(partition(r)), no copy of r was received,
                                 and no other record was received at its place }

The ledger's log contains the expired records that the concurrent consumer received, so these count
as any other. An acknowledged record that no consumer received before it expired may have been
stored: its outcome becomes unknown. If another record was read at the same offset, the record was
not stored there: it stays lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.spark_jobs.io.arrays import Attempts, LogRows, UnitArrays, to_arrays
from ackbench.spark_jobs.io.columns import ACKED_CODE, UNKNOWN_CODE, BoolColumn, IntColumn
from ackbench.spark_jobs.io.units import UnitRows
from ackbench.spark_jobs.measures.fates import record_fates
from ackbench.spark_jobs.measures.transactions import transactional_outcomes
from ackbench.spark_jobs.measures.unit import MeasuredUnit


def unit_of(rows: UnitRows) -> MeasuredUnit:
    """Return the unit of rows of a ledger, with the outcomes that count."""
    return MeasuredUnit(as_read_committed(to_arrays(rows)))


def as_read_committed(stored: UnitArrays) -> UnitArrays:
    """Return a unit with the outcomes that count for the guarantees.

    A record's outcome follows from its transaction's; it is unknown if the record expired before
    any consumer received it.
    """
    attempts = replace(
        stored.attempts,
        outcome=transactional_outcomes(stored.attempts, stored.rows.tables["transactions"]),
    )
    begins = stored.rows.ledger.manifest.begin_offsets
    if begins:
        copies_of = record_fates(attempts, stored.log, stored.ids).copies
        attempts = replace(
            attempts,
            outcome=_outcomes_after_expiry(
                attempts, stored.log, copies_of, stored.rows.expired_places, begins
            ),
        )
    return replace(stored, attempts=attempts)


def _outcomes_after_expiry(
    attempts: Attempts,
    log: LogRows,
    copies: IntColumn,
    expired_places: pa.Table,
    begin_offsets: Mapping[int, int],
) -> IntColumn:
    """Return the outcomes, unknown for records that expired before any consumer received them.

    Args:
        attempts: as a `read_committed` application sees them.
        log: the visible rows, by partition and offset.
        copies: of each record in the log.
        expired_places: partition and offset of the expired rows of other units.
        begin_offsets: the first offset at the final read, of partitions that did not begin at 0.
    """
    outcome = attempts.outcome.copy()
    for partition, begin in begin_offsets.items():
        rows = np.flatnonzero(
            (attempts.partition == partition)
            & (attempts.offset < begin)
            & (attempts.offset >= 0)
            & (outcome == ACKED_CODE)
        )
        seen = (copies[attempts.record[rows]] > 0) | _is_taken(
            attempts.offset[rows], partition, log, expired_places
        )
        outcome[rows[~seen]] = UNKNOWN_CODE
    return outcome


def _is_taken(
    offsets: IntColumn, partition: int, log: LogRows, expired_places: pa.Table
) -> BoolColumn:
    """Return at which offsets of a partition a record was seen."""
    begin, end = np.searchsorted(log.partition, [partition, partition + 1])
    elsewhere = expired_places.filter(pc.field("partition") == partition)["offset"]
    return np.isin(offsets, log.offset[begin:end]) | np.isin(offsets, elsewhere.to_numpy())
