"""The outcomes that count for the guarantees: those that a `read_committed` application sees."""

from __future__ import annotations

from dataclasses import replace

from ackbench.spark_jobs.io.arrays import UnitArrays, to_arrays
from ackbench.spark_jobs.io.units import UnitRows
from ackbench.spark_jobs.measures.expiry import outcomes_after_expiry
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
            outcome=outcomes_after_expiry(
                attempts, stored.log, copies_of, stored.rows.expired_places, begins
            ),
        )
    return replace(stored, attempts=attempts)
