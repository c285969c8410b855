"""Transactions: the outcome of their records, and whether each is visible as a unit or not at all.

A transactional record is acknowledged when its transaction is committed, and not before:

    outcome of the transaction       outcome of its records
    committed                        that of the delivery report
    aborted, fenced, abandoned       aborted
    unknown                          unknown; rejected, if the client rejected the record

    torn = |{ transactions with at least one visible and at least one missing record }|

A record that the client rejected was in no transaction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ackbench.experiments.ledger.terms import ABANDONED, ABORTED, COMMITTED, FENCED, UNKNOWN
from ackbench.spark_jobs.io.arrays import Attempts
from ackbench.spark_jobs.io.columns import (
    ABORTED_CODE,
    NULL,
    REJECTED_CODE,
    UNKNOWN_CODE,
    IntColumn,
)
from ackbench.spark_jobs.measures.fates import RecordFates, fates_of
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.order import stream_numbers
from ackbench.spark_jobs.measures.unit import MeasuredUnit

NOT_COMMITTED: Final = (ABORTED, FENCED, ABANDONED)
"""The outcomes of a transaction whose commit was never requested, or was refused."""


def transactional_outcomes(attempts: Attempts, transactions: pa.Table) -> IntColumn:
    """Return the outcomes as a `read_committed` application sees them.

    Args:
        attempts: with the outcomes of the delivery reports.
        transactions: producer, transaction, outcome.
    """
    outcome = attempts.reported_outcome
    if not transactions.num_rows or attempts.transaction is None:
        return outcome
    ending = _endings(attempts.producer, attempts.transaction, transactions)
    aborted = np.isin(ending, [_CODES[name] for name in NOT_COMMITTED])
    unknown = (ending == _CODES[UNKNOWN]) & (outcome != REJECTED_CODE)
    return np.select([aborted, unknown], [ABORTED_CODE, UNKNOWN_CODE], outcome).astype(np.int8)


_NONE: Final = 0
_CODES: Final = {
    name: code for code, name in enumerate((COMMITTED, *NOT_COMMITTED, UNKNOWN), start=_NONE + 1)
}


def _endings(producer: IntColumn, transaction: IntColumn, transactions: pa.Table) -> IntColumn:
    """Return how each attempt's transaction ended, as a code; `_NONE`: the attempt has none."""
    ended = {
        (row["producer"], row["transaction"]): _CODES[row["outcome"]]
        for row in transactions.to_pylist()
    }
    _, first, of_attempt = _transactions(producer, transaction)
    codes = [
        ended.get((int(producer[row]), int(transaction[row])), _NONE) for row in first.tolist()
    ]
    endings: IntColumn = np.asarray(codes, np.int64)[of_attempt]
    return endings


def _transactions(
    producer: IntColumn, transaction: IntColumn
) -> tuple[IntColumn, IntColumn, IntColumn]:
    """Return a number for each transaction, a row of each, and the place of each row's number."""
    packed = stream_numbers(producer, np.where(transaction == NULL, -1, transaction))
    return np.unique(packed, return_index=True, return_inverse=True)


@dataclass(frozen=True)
class Visibility:
    """How many records of a transaction were sent, and how many of these are visible."""

    sent: int
    visible: int


Visibilities = dict[tuple[int, int], Visibility]
"""By producer and transaction."""


def visibilities(attempts: Attempts, fates: RecordFates) -> Visibilities:
    """Count each transaction's records.

    Args:
        attempts: of the unit.
        fates: of all records, with the copies in the visible log.
    """
    if attempts.transaction is None:
        return {}
    sent = (attempts.reported_outcome != REJECTED_CODE) & (attempts.transaction != NULL)
    producer, transaction = attempts.producer[sent], attempts.transaction[sent]
    visible = fates.copies[attempts.record[sent]] > 0
    numbers, first, of_record = _transactions(producer, transaction)
    counts = zip(
        producer[first].tolist(),
        transaction[first].tolist(),
        np.bincount(of_record, minlength=len(numbers)).tolist(),
        np.bincount(of_record, visible, minlength=len(numbers)).astype(int).tolist(),
        strict=True,
    )
    return {(of, number): Visibility(all_, some) for of, number, all_, some in counts}


@dataclass(frozen=True)
class TransactionMeasure(Measure):
    """The visible and the missing records of each transaction."""

    visibilities: Visibilities

    @classmethod
    def of(cls, unit: MeasuredUnit) -> TransactionMeasure:
        """Count each transaction's records."""
        return cls(visibilities(unit.arrays.attempts, unit.once(fates_of)))

    def __add__(self, other: TransactionMeasure) -> TransactionMeasure:
        """Return the counts of two units of a trial; a transaction can have records in both."""
        one, two, none = self.visibilities, other.visibilities, Visibility(0, 0)
        return TransactionMeasure(
            {
                key: Visibility(
                    one.get(key, none).sent + two.get(key, none).sent,
                    one.get(key, none).visible + two.get(key, none).visible,
                )
                for key in {**one, **two}
            }
        )

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's columns; null if it had no transactions."""
        outcomes = Counter(trial.context["transactions"]["outcome"].to_pylist())
        counts = {
            "committed": outcomes[COMMITTED],
            "aborted": sum(outcomes[name] for name in NOT_COMMITTED),
            "unknown": outcomes[UNKNOWN],
            "torn": sum(0 < found.visible < found.sent for found in self.visibilities.values()),
        }
        return {
            "trials": [
                {
                    f"{name}_transactions": count if outcomes else None
                    for name, count in counts.items()
                }
            ]
        }
