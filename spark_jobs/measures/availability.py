"""Each partition's gaps: the times in which records were due and none was answered.

    gap(partition, side) = from the last response, or later, from when the next record was due,
                           to the next response; after the last response, to the time until which
                           responses were due

A record is due from when the client accepted it (sent_ns). To producers a partition owes
acknowledgements, to the concurrent consumer records. While no record is due there is no gap: a low
rate, a producer that is late, or a partition that is added under load, makes none. A record that
was rejected or given up stays due until the next response: of its partition or, if its client gave
it up before it had chosen one, of any (rows with partition `NO_NUMBER`).

Responses of the same millisecond count as one, so any gap of a millisecond or more is exact. What
is kept of a partition: its longest gap, and every gap of `MIN_OUTAGE_NS` or more. The time in which
the harness kept the side's clients from running is taken off (`spark_jobs.measures.stalls`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from ackbench.experiments.ledger.result_terms import MIN_OUTAGE_NS, Side
from ackbench.experiments.ledger.trial_manifest import Phases, TrialManifest
from ackbench.spark_jobs.io.arrays import Attempts, Reads, UnitArrays
from ackbench.spark_jobs.io.columns import ACKED_CODE, NO_NUMBER, NULL, BoolColumn, IntColumn
from ackbench.spark_jobs.measures.fates import times_of
from ackbench.spark_jobs.measures.measure import Measure, MeasuredTrial, Tables
from ackbench.spark_jobs.measures.reads import ReadCounts, is_first_read
from ackbench.spark_jobs.measures.stalls import NO_STALLS, Spans, TrialStalls
from ackbench.spark_jobs.measures.unit import MeasuredUnit

SLOT_NS: Final = 1_000_000
_LATEST: Final = int(np.iinfo(np.int64).max)
_MOST_EMPTY: Final = 4
_SPARE_CELLS: Final = 1 << 16
"""Cells of a millisecond are used up to so many per record, and so many in any case."""


@dataclass(frozen=True)
class Responses:
    """When a partition answered one side, and what was due, by the millisecond of settling.

    It is small, whatever the number of records, and keeps every gap between two milliseconds.
    """

    slot: IntColumn
    """The milliseconds in which records settled, whatever their outcome; ascending."""
    first_ns: IntColumn
    """The first response in each; `_LATEST`: none."""
    last_ns: IntColumn
    """The last response in each; `NULL`: none."""
    due_ns: IntColumn
    """From when the earliest record was due that settled in it."""
    records: int
    until_ns: int
    """Until when the latest response was due."""

    @classmethod
    def of(cls, settled_ns: IntColumn, answered: BoolColumn, due_ns: IntColumn) -> Responses:
        """Return the responses to some records, at least one, in any order.

        Args:
            settled_ns: when each was answered, or given up.
            answered: whether it was answered.
            due_ns: from when it was due.
        """
        return cls(
            *_by_slot(
                settled_ns // SLOT_NS,
                np.where(answered, settled_ns, _LATEST),
                np.where(answered, settled_ns, NULL),
                due_ns,
            ),
            int(answered.sum()),
            int(settled_ns.max()),
        )

    def merge(self, other: Responses) -> Responses:
        """Return the responses of two units of a trial to the same side."""
        return Responses(
            *_by_slot(
                np.concatenate([self.slot, other.slot]),
                np.concatenate([self.first_ns, other.first_ns]),
                np.concatenate([self.last_ns, other.last_ns]),
                np.concatenate([self.due_ns, other.due_ns]),
            ),
            self.records + other.records,
            max(self.until_ns, other.until_ns),
        )

    def answered(self) -> Responses:
        """Return only the responses, of which there is one at least: nothing waits for them."""
        is_response = self.last_ns != NULL
        first_ns, last_ns = self.first_ns[is_response], self.last_ns[is_response]
        return Responses(
            self.slot[is_response], first_ns, last_ns, first_ns, self.records, int(last_ns.max())
        )


Key = TypeVar("Key")


def merge_responses(
    one: Mapping[Key, Responses], two: Mapping[Key, Responses]
) -> Mapping[Key, Responses]:
    """Return the responses of two units of a trial, by what they are of."""
    both = {key: one[key].merge(two[key]) for key in one.keys() & two.keys()}
    return {**one, **two, **both}


_Slots = tuple[IntColumn, IntColumn, IntColumn, IntColumn]
"""The first four columns of `Responses`."""


def _by_slot(slot: IntColumn, first_ns: IntColumn, last_ns: IntColumn, due_ns: IntColumn) -> _Slots:
    """Return one row per slot."""
    order = np.argsort(slot, kind="stable")
    slot = slot[order]
    begins = np.flatnonzero(np.diff(slot, prepend=NULL))
    return (
        slot[begins],
        np.minimum.reduceat(first_ns[order], begins),
        np.maximum.reduceat(last_ns[order], begins),
        np.minimum.reduceat(due_ns[order], begins),
    )


ResponsesBySide = Mapping[tuple[int, Side], Responses]
"""By partition and side; without an entry for a partition of which nothing was due there.

Under `NO_NUMBER` are the records that were given up before their client had chosen a partition.
"""


def acknowledgements(attempts: Attempts, phases: Phases) -> ResponsesBySide:
    """Return when each partition acknowledged records.

    An acknowledgement is due until the attempt settles; if it never does, until all others have.
    The delivery report decides: a partition that stores records is available, whatever becomes of
    their transactions.
    """
    has_settled = attempts.settled_ns != NULL
    settled_ns = np.where(has_settled, attempts.settled_ns, phases.settled_ns)
    acked = has_settled & (attempts.reported_outcome == ACKED_CODE)
    sent_ns = _sent_ns(attempts)
    responses = _by_partition(Side.PRODUCER, attempts.partition, settled_ns, acked, sent_ns)
    unplaced = (attempts.partition == NO_NUMBER) & ~acked
    if not unplaced.any():
        return responses
    waiting = Responses.of(settled_ns[unplaced], acked[unplaced], sent_ns[unplaced])
    return {**responses, (NO_NUMBER, Side.PRODUCER): waiting}


def _with_any_acknowledgement(responses: ResponsesBySide) -> ResponsesBySide:
    """Return the responses of a trial; what has no partition is answered by any of them."""
    waiting = responses.get((NO_NUMBER, Side.PRODUCER))
    if waiting is None:
        return responses
    for (partition, side), others in responses.items():
        if side is Side.PRODUCER and partition != NO_NUMBER and others.records:
            waiting = waiting.merge(others.answered())
    return {**responses, (NO_NUMBER, Side.PRODUCER): waiting}


def _sent_ns(attempts: Attempts) -> IntColumn:
    """Return from when each attempt was due; one that the client never took: as intended."""
    return np.where(attempts.sent_ns == NULL, attempts.intended_ns, attempts.sent_ns)


def deliveries(
    unit: UnitArrays, received: Reads, times: IntColumn, gave_up_ns: int | None
) -> ResponsesBySide:
    """Return when each partition delivered records to the concurrent consumer.

    A record is due from when its producer sent it, a further read of it from its receipt.

    Args:
        unit: with all attempts of the records.
        received: by the concurrent consumer, by the time of receipt.
        times: how often it received each record.
        gave_up_ns: until when it waited for the records that it had not received; `None`: unknown,
            or it received all.
    """
    sent_ns = np.full(len(unit.ids) + 1, NULL)
    sent_ns[unit.attempts.record] = _sent_ns(unit.attempts)
    due_ns = sent_ns[received.record]  # that of NO_NUMBER is the last one: unknown
    is_due = is_first_read(received, times) & (due_ns != NULL)
    partition, settled_ns = received.partition, received.received_ns
    due_ns = np.where(is_due, due_ns, settled_ns)
    answered = np.ones(len(received), bool)
    if gave_up_ns is not None:
        stored = unit.log if unit.output is None else unit.output
        known = (stored.record != NO_NUMBER) & (sent_ns[stored.record] != NULL)
        waiting = np.flatnonzero(known & np.append(times == 0, False)[stored.record])
        partition = np.concatenate([partition, stored.partition[waiting]])
        settled_ns = np.concatenate([settled_ns, np.full(len(waiting), gave_up_ns)])
        due_ns = np.concatenate([due_ns, sent_ns[stored.record[waiting]]])
        answered = np.concatenate([answered, np.zeros(len(waiting), bool)])
    return _by_partition(Side.CONSUMER, partition, settled_ns, answered, due_ns)


def _by_partition(
    side: Side, partition: IntColumn, settled_ns: IntColumn, answered: BoolColumn, due_ns: IntColumn
) -> ResponsesBySide:
    known = partition != NO_NUMBER
    if not known.all():
        partition, settled_ns, answered, due_ns = (
            column[known] for column in (partition, settled_ns, answered, due_ns)
        )
    if not len(partition):
        return {}
    of_partition = _responses_by_partition(partition, settled_ns, answered, due_ns)
    return {
        (number, side): of_partition(number)
        for number in np.flatnonzero(np.bincount(partition)).tolist()
    }


def _responses_by_partition(
    partition: IntColumn, settled_ns: IntColumn, answered: BoolColumn, due_ns: IntColumn
) -> Callable[[int], Responses]:
    """Return a function from a partition with a record to its responses.

    A cell for each partition and millisecond is filled in one pass, without sorting. If the times
    are so far apart that most cells would be empty, the records are sorted.
    """
    partitions = int(partition.max()) + 1
    slot = settled_ns // SLOT_NS
    begin = int(slot.min())
    width = int(slot.max()) - begin + 1
    if width * partitions > _MOST_EMPTY * len(settled_ns) + _SPARE_CELLS:

        def of_sorted(number: int) -> Responses:
            own = partition == number
            return Responses.of(settled_ns[own], answered[own], due_ns[own])

        return of_sorted
    cell = partition * np.int64(width) + (slot - begin)
    first, due = (np.full(partitions * width, _LATEST) for _ in range(2))
    last = np.full(partitions * width, NULL)
    until = np.full(partitions, NULL)
    np.minimum.at(due, cell, due_ns)
    np.maximum.at(until, partition, settled_ns)
    if not answered.all():
        partition, cell, settled_ns = partition[answered], cell[answered], settled_ns[answered]
    np.minimum.at(first, cell, settled_ns)
    np.maximum.at(last, cell, settled_ns)
    counts = np.bincount(partition, minlength=partitions)

    def of_cells(number: int) -> Responses:
        cells = slice(number * width, (number + 1) * width)
        slots = np.flatnonzero(due[cells] != _LATEST)
        first_ns, last_ns, due_ns = (column[cells][slots] for column in (first, last, due))
        records, until_ns = int(counts[number]), int(until[number])
        return Responses(slots + begin, first_ns, last_ns, due_ns, records, until_ns)

    return of_cells


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


@dataclass(frozen=True)
class Gaps:
    """All gaps of a partition and side, by time; of length 0 where nothing was due."""

    began_ns: IntColumn
    ended_ns: IntColumn
    answered: BoolColumn
    """`True` if a response ended the gap; only the last one may have none."""


def gaps_of(responses: Responses) -> Gaps:
    """Return the gaps between the responses of two milliseconds, and the one after the last."""
    responding = np.flatnonzero(responses.last_ns != NULL)
    due_ns = np.append(np.minimum.accumulate(responses.due_ns[::-1])[::-1], _LATEST)
    unsettled = np.append(0, responding + 1)  # the first slot after each response
    began_ns = np.maximum(np.append(NULL, responses.last_ns[responding]), due_ns[unsettled])
    ended_ns = np.append(responses.first_ns[responding], responses.until_ns)
    return Gaps(
        np.minimum(began_ns, ended_ns), ended_ns, np.arange(len(ended_ns)) < len(responding)
    )


def gap_rows(
    responses: ResponsesBySide, stalls: TrialStalls = NO_STALLS
) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `GAPS`, without trial_id."""
    stalled = {Side.PRODUCER: stalls.producer, Side.CONSUMER: stalls.producer | stalls.consumer}
    for (partition, side), given in _with_any_acknowledgement(responses).items():
        for gap in _gaps_that_matter(gaps_of(given), stalled[side]):
            yield {"partition": partition, "side": side.value, "records": given.records, **gap}


def _gaps_that_matter(gaps: Gaps, stalled: Spans) -> Iterator[Mapping[str, Any]]:
    with_stalls_ns = gaps.ended_ns - gaps.began_ns
    stalled_ns = stalled.within_ns(gaps.began_ns, gaps.ended_ns)
    gap_ns = with_stalls_ns - stalled_ns
    longest = int(gap_ns.argmax())
    for place in np.unique(np.append(np.flatnonzero(with_stalls_ns >= MIN_OUTAGE_NS), longest)):
        yield {
            "gap_ns": int(gap_ns[place]),
            "began_ns": int(gaps.began_ns[place]),
            "ended_ns": int(gaps.ended_ns[place]),
            "stalled_ns": int(stalled_ns[place]),
            "answered": bool(gaps.answered[place]),
            "longest": bool(place == longest),
        }


def reader_rows(
    responses: ResponsesBySide, manifest: TrialManifest, stalls: TrialStalls = NO_STALLS
) -> Iterator[Mapping[str, Any]]:
    """Yield a trial's rows of `READERS`, without trial_id; times are exact to a millisecond.

    Args:
        responses: of a trial whose concurrent consumer reads what its producers write.
        manifest: the trial's; without a healed fault there are no rows.
        stalls: the trial's.
    """
    heal_ns = manifest.phases.fault_end_ns
    if heal_ns is None:
        return
    for (partition, side), acknowledged in responses.items():
        if side is not Side.PRODUCER or not acknowledged.records:
            continue
        read = responses.get((partition, Side.CONSUMER))
        last_read_ns = None if read is None else _latest_before(read, heal_ns)
        unread_ns = _earliest_after(acknowledged, NULL if last_read_ns is None else last_read_ns)
        if unread_ns is not None and unread_ns >= heal_ns:
            unread_ns = None
        yield {
            "partition": partition,
            "last_read_ns": last_read_ns,
            "unread_since_ns": unread_ns,
            "stalled_ns": 0
            if unread_ns is None
            else stalls.consumer.total_within_ns(unread_ns, heal_ns),
        }


def _latest_before(responses: Responses, at_ns: int) -> int | None:
    """Return the last response before a time; `None`: there is none."""
    times = _times(responses)
    earlier = times[times < at_ns]
    return int(earlier.max()) if len(earlier) else None


def _earliest_after(responses: Responses, at_ns: int) -> int | None:
    """Return the first response after a time; `None`: there is none."""
    times = _times(responses)
    later = times[times > at_ns]
    return int(later.min()) if len(later) else None


def _times(responses: Responses) -> IntColumn:
    """Return the first and the last response of each millisecond with one."""
    responding = responses.last_ns != NULL
    return np.concatenate([responses.first_ns[responding], responses.last_ns[responding]])


@dataclass(frozen=True)
class AvailabilityMeasure(Measure):
    """When each partition answered producers and the concurrent consumer."""

    responses: ResponsesBySide
    attempts: int
    reads_output: bool = False
    """`True` if the concurrent consumer reads the copiers' output."""

    @classmethod
    def of(cls, unit: MeasuredUnit) -> AvailabilityMeasure:
        """Find when each partition acknowledged records and delivered them."""
        ending = unit.ending
        gave_up_ns = None if ending is None or ending.at_end else ending.at_ns
        return cls(
            {
                **acknowledgements(unit.arrays.attempts, unit.phases),
                **deliveries(unit.arrays, unit.received, unit.once(times_of), gave_up_ns),
            },
            len(unit.arrays.attempts),
            unit.arrays.output is not None,
        )

    def __add__(self, other: AvailabilityMeasure) -> AvailabilityMeasure:
        """Return the responses of two units of a trial."""
        return replace(
            self,
            responses=merge_responses(self.responses, other.responses),
            attempts=self.attempts + other.attempts,
        )

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's rows of `GAPS` and `READERS`, and its columns."""
        gaps = list(gap_rows(self.responses, trial.stalls))
        of_consumer = [gap["gap_ns"] for gap in gaps if gap["side"] == Side.CONSUMER]
        return {
            "trials": [
                {
                    "unavailable_ns": self.unavailable_ns(trial.manifest, gaps, trial.stalls),
                    "consumer_unavailable_ns": max(of_consumer, default=None),
                }
            ],
            "gaps": gaps,
            "readers": reader_rows(self.responses, trial.manifest, trial.stalls)
            if self._lets_consumer_wait(trial)
            else [],
        }

    def _lets_consumer_wait(self, trial: MeasuredTrial) -> bool:
        """Return whether the concurrent consumer can wait for what was acknowledged.

        It can not if there is none, if it reads the copiers' output, or if records are visible only
        once their transaction is committed.
        """
        has_consumer = trial.ending or trial[ReadCounts].reads
        return bool(
            has_consumer and not self.reads_output and not trial.context["transactions"].num_rows
        )

    def unavailable_ns(
        self,
        manifest: TrialManifest,
        gaps: Sequence[Mapping[str, Any]],
        stalls: TrialStalls = NO_STALLS,
    ) -> int | None:
        """Return the producers' longest gap over all partitions.

        If nothing was acknowledged, the entire load counts, until the last record was settled,
        without the time in which every producer was stalled; without attempts, there is no gap
        (None).
        """
        of_producers = [gap for gap in gaps if gap["side"] == Side.PRODUCER]
        if self.attempts and not any(gap["records"] for gap in of_producers):
            begin, end = manifest.phases.load_begin_ns, manifest.phases.settled_ns
            return end - begin - stalls.producer.total_within_ns(begin, end)
        return max((gap["gap_ns"] for gap in of_producers), default=None)
