"""Missed records and redelivered reads, on a few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from support.measured import planted_arrays

from ackbench.spark_jobs.measures.fates import count_rows
from ackbench.spark_jobs.measures.reads import ReadCounts, redelivered_rows
from ackbench.spark_jobs.measures.unit import MeasuredUnit
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedRead

ATTEMPTS = [PlantedAttempt(producer, seq) for producer in (0, 1) for seq in range(3)]


def counts(log: Sequence[PlantedLogRow], reads: Sequence[PlantedRead]) -> ReadCounts:
    """Return what the concurrent consumer received, missed and received again."""
    return ReadCounts.of(MeasuredUnit(planted_arrays(ATTEMPTS, log, reads)))


def redelivered(reads: Sequence[PlantedRead]) -> list[PlantedRead]:
    """Return the reads that are redeliveries, by the time of receipt."""
    unit = planted_arrays(ATTEMPTS, reads=reads)
    rows = redelivered_rows(unit.reads, count_rows(unit.reads.record, len(unit.ids)))
    assert rows.tolist() == sorted(set(rows.tolist()))
    by_time = sorted(reads, key=lambda read: read.received_ns)
    return [by_time[row] for row in rows]


def test_a_record_in_the_log_that_was_not_received_is_missed() -> None:
    """Record 0 was received, 1 was not, 2 was received but is missing from the log."""
    log = [PlantedLogRow(0, 0, 0), PlantedLogRow(0, 1, 1), PlantedLogRow(None, None, 2)]
    reads = [
        PlantedRead(0, 0, 0, received_ns=1),
        PlantedRead(0, 0, 0, received_ns=2),
        PlantedRead(0, 2, 3, received_ns=3),
        PlantedRead(None, None, 2, received_ns=4),
    ]
    assert counts(log, reads) == ReadCounts(
        reads=4, read_records=2, missed_records=1, redelivered_reads=1
    )


def test_a_record_received_again_at_its_offset_is_redelivered() -> None:
    """The earliest read is no redelivery; every other one is."""
    first, second, third = (_read(at_ns=at) for at in (10, 20, 30))
    assert redelivered([third, first, second]) == [second, third]


def test_another_copy_of_a_record_is_no_redelivery() -> None:
    """It is at another offset: the log holds the record twice."""
    assert redelivered([_read(offset=5), _read(offset=6)]) == []


def test_another_record_at_a_reused_offset_is_no_redelivery() -> None:
    """The log was truncated, and the offset was used again."""
    assert redelivered([_read(seq=1), _read(seq=2)]) == []


def test_consumers_are_counted_independently() -> None:
    """Each of two consumers receives the record once."""
    assert redelivered([_read(consumer=0), _read(consumer=1)]) == []


def test_an_external_record_can_be_redelivered() -> None:
    """It has an offset, but no id."""
    one, other = (_read(producer=None, seq=None, at_ns=at) for at in (10, 20))
    third = _read(producer=None, seq=None, offset=9)
    assert redelivered([one, other, third]) == [other]


def test_redelivered_reads_are_counted() -> None:
    """Of three reads of one record, two are."""
    assert counts([], [_read(at_ns=at) for at in (1, 2, 3)]).redelivered_reads == 2


def test_only_records_received_repeatedly_can_be_redelivered() -> None:
    """Another record, producer or partition at the same offset changes nothing."""
    others = [_read(seq=1), _read(producer=1), _read()._replace(partition=1)]
    assert redelivered([*others, _read(seq=2, at_ns=20)]) == []
    again = _read(at_ns=30)
    assert redelivered([_read(), *others, again]) == [again]


READS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 1),
        st.sampled_from([None, 0, 1]),
        st.integers(0, 2),
    ),
    max_size=14,
)
"""Consumer, partition, offset, producer and seq of reads, by the time of receipt."""


def reads_of(rows: list[tuple[int, int, int, int | None, int]]) -> list[PlantedRead]:
    """Return reads at successive times."""
    return [
        _read(
            consumer=consumer,
            offset=offset,
            producer=producer,
            seq=None if producer is None else seq,
            at_ns=at,
        )._replace(partition=partition)
        for at, (consumer, partition, offset, producer, seq) in enumerate(rows)
    ]


@given(READS, st.randoms(use_true_random=False))
def test_a_place_has_as_many_redeliveries_as_reads_after_the_first(
    rows: list[tuple[int, int, int, int | None, int]], shuffled: Random
) -> None:
    """The redeliveries are all reads of a consumer, a place and a record except the earliest."""
    reads = reads_of(rows)
    seen: Counter[tuple[object, ...]] = Counter()
    expected = []
    for read in reads:
        place = (read.consumer, read.partition, read.offset, read.producer, read.seq)
        expected += [read] * bool(seen[place])
        seen[place] += 1
    shuffled.shuffle(reads)
    assert redelivered(reads) == expected


@given(READS, st.lists(st.booleans(), min_size=3, max_size=3), st.integers(0, 3))
def test_counts_of_parts_add_up_to_those_of_all_reads(
    rows: list[tuple[int, int, int, int | None, int]], stored: list[bool], split: int
) -> None:
    """A record is in one part only; rows without an id are in the first one."""
    log = [PlantedLogRow(0, seq, seq) for seq in range(3) if stored[seq]]
    reads = reads_of(rows)
    parts = [
        counts(
            [row for row in log if (row.seq or 0) in seqs],
            [read for read in reads if (read.seq in seqs if read.seq is not None else 0 in first)],
        )
        for first, seqs in (((0,), range(split)), ((), range(split, 3)))
    ]
    assert parts[0] + parts[1] == parts[1] + parts[0] == counts(log, reads)


def _read(
    *,
    consumer: int = 0,
    offset: int = 5,
    producer: int | None = 0,
    seq: int | None = 0,
    at_ns: int = 10,
) -> PlantedRead:
    return PlantedRead(
        producer,
        seq,
        offset,
        intended_ns=None if seq is None else 0,
        received_ns=at_ns,
        consumer=consumer,
    )
