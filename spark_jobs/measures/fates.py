"""The fate of every record: its outcome and the number of its copies in the log.

    copies(r)   = |{ intact visible rows of the log with the id of r }|
    fate(r)     = `PRESENT` or `ABSENT` of its outcome, by whether copies(r) > 0;
                  DUPLICATED if it was acknowledged and copies(r) > 1;
                  PHANTOM if it was never attempted
    CORRUPT     = rows of the log that are not intact: copies of no record

The first nine fates of `experiments.ledger.result_terms.Fate` add up to the attempts, and all
copies to the visible rows of the log (`docs/metrics.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ackbench.experiments.ledger.result_terms import Fate
from ackbench.experiments.ledger.terms import ABORTED, ACKED, REJECTED, UNKNOWN
from ackbench.spark_jobs.io.arrays import Attempts, LogRows, RecordIds
from ackbench.spark_jobs.io.columns import NO_NUMBER, OUTCOMES, IntColumn
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.unit import MeasuredUnit

NOT_ATTEMPTED: Final = len(OUTCOMES)
"""The code of a record that is in the log or in the reads and was never attempted."""
PRESENT: Final = {
    ACKED: Fate.DELIVERED_ONCE,
    REJECTED: Fate.REJECTED_PRESENT,
    UNKNOWN: Fate.UNKNOWN_PRESENT,
    ABORTED: Fate.ABORTED_VISIBLE,
}
"""The fate of a record that is in the log once."""
ABSENT: Final = {
    ACKED: Fate.LOST,
    REJECTED: Fate.REJECTED,
    UNKNOWN: Fate.UNKNOWN_ABSENT,
    ABORTED: Fate.ABORTED,
}


_SEVERAL: Final = 2


@dataclass(frozen=True)
class RecordFates:
    """What decides the fate of each record, by the record's number."""

    outcome: IntColumn
    """Place in `OUTCOMES`, or `NOT_ATTEMPTED`."""
    copies: IntColumn


@dataclass(frozen=True)
class FateCount:
    """How many records have a fate."""

    records: int = 0
    duplicated_records: int = 0
    """Those of them with several copies."""
    copies: int = 0

    def __add__(self, other: FateCount) -> FateCount:
        """Return the sum of two units' counts."""
        return FateCount(
            self.records + other.records,
            self.duplicated_records + other.duplicated_records,
            self.copies + other.copies,
        )


FateCounts = Mapping[tuple[str | None, Fate], FateCount]
"""By outcome and fate; all of them, also if no record has it. Empty: nothing was ever written."""


def record_fates(attempts: Attempts, log: LogRows, ids: RecordIds) -> RecordFates:
    """Return outcome and copies of every record.

    Args:
        attempts: with the outcomes as a `read_committed` application sees them.
        log: the visible rows.
        ids: of the unit's records.
    """
    outcome = np.full(len(ids), NOT_ATTEMPTED, np.int8)
    outcome[attempts.record] = attempts.outcome
    return RecordFates(outcome, count_rows(log.record, len(ids)))


def count_rows(record: IntColumn, records: int) -> IntColumn:
    """Return how many rows of a table each record has.

    Args:
        record: of each row; rows without an id do not count.
        records: the number of the unit's records.
    """
    with_id = record != NO_NUMBER
    counts: IntColumn = np.bincount(record if with_id.all() else record[with_id], minlength=records)
    return counts


def count_fates(fates: RecordFates, log: LogRows) -> FateCounts:
    """Count the records of each fate.

    Args:
        fates: of all records of the unit.
        log: the visible rows; those without a reliable id are PHANTOM or CORRUPT.
    """
    some = np.minimum(fates.copies, _SEVERAL)
    by_copies = np.bincount(
        fates.outcome.astype(np.int64) * 3 + some, minlength=3 * (NOT_ATTEMPTED + 1)
    ).reshape(-1, 3)
    several = np.flatnonzero(some == _SEVERAL)
    copies_of_several = np.bincount(
        fates.outcome[several], fates.copies[several], minlength=NOT_ATTEMPTED + 1
    ).astype(np.int64)
    counts: dict[tuple[str | None, Fate], FateCount] = {}
    for code, outcome in enumerate(OUTCOMES):
        none, one, more = by_copies[code].tolist()
        copies = int(copies_of_several[code])
        counts[outcome, ABSENT[outcome]] = FateCount(none)
        if outcome == ACKED:
            counts[outcome, Fate.DELIVERED_ONCE] = FateCount(one, 0, one)
            counts[outcome, Fate.DUPLICATED] = FateCount(more, more, copies)
        else:
            counts[outcome, PRESENT[outcome]] = FateCount(one + more, more, one + copies)
    corrupt = int((~log.intact).sum())
    foreign = int((log.record == NO_NUMBER).sum()) - corrupt
    phantoms = foreign + int(by_copies[NOT_ATTEMPTED, 1] + copies_of_several[NOT_ATTEMPTED])
    counts[None, Fate.PHANTOM] = FateCount(phantoms, 0, phantoms)
    counts[None, Fate.CORRUPT] = FateCount(corrupt, 0, corrupt)
    return counts


def fate_rows(counts: FateCounts) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `FATES`, without trial_id."""
    for (outcome, fate), count in counts.items():
        yield {"outcome": outcome, "fate": fate.value, **vars(count)}


def fate_columns(fates: FateCounts) -> dict[str, int]:
    """Return a trial's columns of `TRIALS` that follow from the fates of its records."""

    def total(column: str, outcome: str | None = None, fate: Fate | None = None) -> int:
        return sum(
            getattr(count, column)
            for (of, what), count in fates.items()
            if outcome in {None, of} and fate in {None, what}
        )

    attempted = [count for (outcome, _), count in fates.items() if outcome is not None]
    lost = total("records", fate=Fate.LOST)
    return {
        "attempted_records": sum(count.records for count in attempted),
        **{f"{outcome}_records": total("records", outcome) for outcome in OUTCOMES},
        "aborted_visible_records": total("records", fate=Fate.ABORTED_VISIBLE),
        "lost_low_records": lost,
        "lost_high_records": lost + total("records", fate=Fate.UNKNOWN_ABSENT),
        "duplicates": sum(map(_duplicates, attempted)),
        "duplicated_records": sum(count.duplicated_records for count in attempted),
        "log_records": total("copies"),
        "phantom_copies": total("copies", fate=Fate.PHANTOM),
        "corrupt_copies": total("copies", fate=Fate.CORRUPT),
    }


def _duplicates(count: FateCount) -> int:
    """Return the copies after each record's first."""
    return count.copies - count.records if count.copies else 0


def fates_of(unit: MeasuredUnit) -> RecordFates:
    """Return outcome and copies of each record of a unit."""
    return record_fates(unit.arrays.attempts, unit.arrays.log, unit.arrays.ids)


def times_of(unit: MeasuredUnit) -> IntColumn:
    """Return how often the concurrent consumer received each record of a unit."""
    return count_rows(unit.received.record, len(unit.arrays.ids))


@dataclass(frozen=True)
class FateMeasure(Measure):
    """The fates of all records, and the rows of the log that are not visible."""

    counts: FateCounts
    hidden_copies: int

    @classmethod
    def of(cls, unit: MeasuredUnit) -> FateMeasure:
        """Count the records of each fate."""
        return cls(count_fates(unit.once(fates_of), unit.arrays.log), len(unit.arrays.hidden))

    def __add__(self, other: FateMeasure) -> FateMeasure:
        """Return the sum of two units' counts."""
        return FateMeasure(
            {key: count + other.counts[key] for key, count in self.counts.items()},
            self.hidden_copies + other.hidden_copies,
        )

    @property
    def written(self) -> int:
        """Attempted records, and rows of the log."""
        return sum(count.records + count.copies for count in self.counts.values())

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `FATES`, and its columns."""
        return {
            "trials": [{**fate_columns(self.counts), "hidden_copies": self.hidden_copies}],
            "fates": fate_rows(self.counts) if trial.is_written else [],
        }
