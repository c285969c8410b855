"""Each partition's longest gap: the longest time in which it owed an answer and gave none.

    gap(partition, side) = the longest of: load_begin to the first answer; one answer to the next;
                           the last answer to the time until which answers were due

To producers a partition owes acknowledgements, to the concurrent consumer records. Answers of the
same millisecond count as one, so any gap of a millisecond or more is exact. A partition that was
added under load did not exist at its begin: its gaps count from its first answer or, if it gave
none, from the first time at which an answer was given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from experiments.ledger.record import Phases, TrialRecord
from experiments.ledger.result_tables import Side
from spark_jobs.io.arrays import Attempts, Reads
from spark_jobs.io.columns import ACKED_CODE, NO_NUMBER, NULL, BoolColumn, IntColumn

SLOT_NS: Final = 1_000_000
_LATEST: Final = int(np.iinfo(np.int64).max)
_MOST_EMPTY: Final = 4
_SPARE_CELLS: Final = 1 << 16
"""Cells of a millisecond are used up to so many per answer, and so many in any case."""


@dataclass(frozen=True)
class Answers:
    """When a partition answered one side, by millisecond: the first and the last answer of each.

    It is small, whatever the number of answers, and keeps every gap between two milliseconds.
    """

    first_ns: IntColumn
    last_ns: IntColumn
    records: int
    due_ns: int
    """Until when the latest answer was due."""
    first_due_ns: int
    """Until when the earliest answer was due."""

    @classmethod
    def of(cls, answered_ns: IntColumn, due_ns: int, first_due_ns: int) -> Answers:
        """Return the answers at some times, in any order."""
        return cls(*_sorted_times(answered_ns), due_ns, first_due_ns)

    def merge(self, other: Answers) -> Answers:
        """Return the answers of two units of a trial to the same side."""
        first = np.concatenate([self.first_ns, other.first_ns])
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.concatenate([self.last_ns, other.last_ns])[order]
        begins = np.flatnonzero(np.diff(first // SLOT_NS, prepend=NULL))
        return Answers(
            first[begins],
            np.maximum.reduceat(last, begins) if len(begins) else last,
            self.records + other.records,
            max(self.due_ns, other.due_ns),
            min(self.first_due_ns, other.first_due_ns),
        )


AnswersBySide = Mapping[tuple[int, Side], Answers]
"""By partition and side; without an entry for a partition that owed that side nothing."""


def acknowledgements(attempts: Attempts, phases: Phases) -> AnswersBySide:
    """Return when each partition acknowledged records.

    An acknowledgement is due until the attempt settles; if it never does, until all others have.
    The delivery report decides: a partition that stores records is available, whatever becomes of
    their transactions.
    """
    settled = attempts.settled_ns != NULL
    due = np.where(settled, attempts.settled_ns, phases.settled_ns)
    answered = settled & (attempts.reported_outcome == ACKED_CODE)
    return _by_partition(Side.PRODUCER, attempts.partition, attempts.settled_ns, answered, due)


def deliveries(reads: Reads, due_ns: int | None) -> AnswersBySide:
    """Return when each partition delivered records to the concurrent consumer.

    Args:
        reads: of the concurrent consumer.
        due_ns: until when it still had records to read; `None`: unknown, or it reached the end.
    """
    due = reads.received_ns if due_ns is None else np.maximum(reads.received_ns, due_ns)
    answered = np.ones(len(reads), bool)
    return _by_partition(Side.CONSUMER, reads.partition, reads.received_ns, answered, due)


def _by_partition(
    side: Side,
    partition: IntColumn,
    answered_ns: IntColumn,
    answered: BoolColumn,
    due_ns: IntColumn,
) -> AnswersBySide:
    known = partition != NO_NUMBER
    if not known.all():
        partition, answered_ns, answered, due_ns = (
            column[known] for column in (partition, answered_ns, answered, due_ns)
        )
    if not len(partition):
        return {}
    partitions = int(partition.max()) + 1
    latest_ns, earliest_ns = np.full(partitions, NULL), np.full(partitions, _LATEST)
    np.maximum.at(latest_ns, partition, due_ns)
    np.minimum.at(earliest_ns, partition, due_ns)
    if not answered.all():
        partition, answered_ns = partition[answered], answered_ns[answered]
    times = _times_by_partition(partition, answered_ns, partitions)
    return {
        (number, side): Answers(*times(number), int(latest_ns[number]), int(earliest_ns[number]))
        for number in np.flatnonzero(latest_ns != NULL).tolist()
    }


_Times = tuple[IntColumn, IntColumn, int]
"""The first and the last answer of each millisecond, and the number of all."""


def _times_by_partition(
    partition: IntColumn, answered_ns: IntColumn, partitions: int
) -> Callable[[int], _Times]:
    """Return a function from a partition to the times of its answers.

    A cell for each partition and millisecond is filled in one pass, without sorting. If the times
    are so far apart that most cells would be empty, the answers are sorted.
    """
    if not len(answered_ns):
        return lambda _: (answered_ns, answered_ns, 0)
    slot = answered_ns // SLOT_NS
    begin = int(slot.min())
    width = int(slot.max()) - begin + 1
    if width * partitions > _MOST_EMPTY * len(answered_ns) + _SPARE_CELLS:
        return lambda number: _sorted_times(answered_ns[partition == number])
    cell = partition * np.int64(width) + (slot - begin)
    first, last = np.full(partitions * width, _LATEST), np.full(partitions * width, NULL)
    np.minimum.at(first, cell, answered_ns)
    np.maximum.at(last, cell, answered_ns)
    counts = np.bincount(partition, minlength=partitions)

    def times(number: int) -> _Times:
        cells = slice(number * width, (number + 1) * width)
        occupied = last[cells] != NULL
        return first[cells][occupied], last[cells][occupied], int(counts[number])

    return times


def _sorted_times(answered_ns: IntColumn) -> _Times:
    ordered = np.sort(answered_ns)
    begins = np.flatnonzero(np.diff(ordered // SLOT_NS, prepend=NULL))
    ends = np.append(begins[1:], len(ordered))[: len(begins)] - 1
    return ordered[begins], ordered[ends], len(ordered)


def rows_by_number(numbers: IntColumn) -> Iterator[tuple[int, IntColumn]]:
    """Yield each number except `NO_NUMBER`, with its rows in ascending order."""
    if not len(numbers):
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=NO_NUMBER - 1))
    for begin, end in zip(begins, [*begins[1:], len(ordered)], strict=True):
        if ordered[begin] != NO_NUMBER:
            yield int(ordered[begin]), order[begin:end]


def merge_answers(one: AnswersBySide, other: AnswersBySide) -> AnswersBySide:
    """Return the answers of two units of a trial."""
    both = {key: one[key].merge(other[key]) for key in one.keys() & other.keys()}
    return {**one, **other, **both}


@dataclass(frozen=True)
class LongestGap:
    """The longest time without an answer; of several of the same length, the earliest."""

    began_ns: int
    gap_ns: int
    answered: bool
    """Whether an answer ended it."""


def longest_gap(answers: Answers, existed_ns: int | None) -> LongestGap:
    """Return the longest gap.

    Args:
        answers: of a partition to one side.
        existed_ns: since when it could have answered; `None`: not before its first answer.
    """
    last, first = answers.last_ns, answers.first_ns
    begin = existed_ns
    if begin is None:
        begin = int(first[0]) if len(first) else answers.first_due_ns
    before = np.concatenate([[begin], last]).astype(np.int64)
    after = np.append(first, answers.due_ns)
    length = after - before
    longest = int(length.max())
    earliest = int(before[length == longest].min())
    ends = np.flatnonzero((length == longest) & (before == earliest))
    return LongestGap(earliest, longest, answered=bool(ends[0] < len(first)))


def gap_rows(answers: AnswersBySide, record: TrialRecord) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `GAPS`, without trial_id."""
    for (partition, side), given in answers.items():
        existed = record.phases.load_begin_ns if partition < record.partitions else None
        gap = longest_gap(given, existed)
        yield {
            "partition": partition,
            "side": side.value,
            "records": given.records,
            "gap_ns": gap.gap_ns,
            "began_ns": gap.began_ns,
            "answered": gap.answered,
        }


def reader_rows(answers: AnswersBySide, record: TrialRecord) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `READERS`, without trial_id; times are exact to a millisecond.

    Args:
        answers: of a trial whose concurrent consumer reads what its producers write.
        record: the trial's; without a healed fault there are no rows.
    """
    heal_ns = record.phases.fault_end_ns
    if heal_ns is None:
        return
    for (partition, side), acknowledged in answers.items():
        if side is not Side.PRODUCER or not acknowledged.records:
            continue
        read = answers.get((partition, Side.CONSUMER))
        last_read_ns = None if read is None else _latest_before(read, heal_ns)
        unread_ns = _earliest_after(acknowledged, NULL if last_read_ns is None else last_read_ns)
        yield {
            "partition": partition,
            "last_read_ns": last_read_ns,
            "unread_since_ns": None if unread_ns is None or unread_ns >= heal_ns else unread_ns,
        }


def _latest_before(answers: Answers, at_ns: int) -> int | None:
    """Return the last answer before a time; `None`: there is none."""
    times = np.concatenate([answers.first_ns, answers.last_ns])
    earlier = times[times < at_ns]
    return int(earlier.max()) if len(earlier) else None


def _earliest_after(answers: Answers, at_ns: int) -> int | None:
    """Return the first answer after a time; `None`: there is none."""
    times = np.concatenate([answers.first_ns, answers.last_ns])
    later = times[times > at_ns]
    return int(later.min()) if len(later) else None


def unavailable_ns(
    record: TrialRecord, attempts: int, gaps: Sequence[Mapping[str, Any]]
) -> int | None:
    """Return the producers' longest gap over all partitions.

    If nothing was acknowledged, the entire trial counts; without attempts, there is no gap (None).
    """
    of_producers = [gap for gap in gaps if gap["side"] == Side.PRODUCER]
    if attempts and not any(gap["records"] for gap in of_producers):
        return record.phases.settled_ns - record.phases.load_begin_ns
    return max((gap["gap_ns"] for gap in of_producers), default=None)
