"""The longest gap without an answer, on a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured import measure_planted

from experiments.ledger.record import Phases
from spark_jobs.io.arrays import UnitArrays, to_arrays
from spark_jobs.measures.availability import (
    SLOT_NS,
    Answers,
    AnswersBySide,
    LongestGap,
    acknowledgements,
    deliveries,
    gap_rows,
    longest_gap,
    merge_answers,
    rows_by_number,
)
from spark_jobs.planted import (
    QUIET,
    PlantedAttempt,
    PlantedEvent,
    PlantedRead,
    PlantedTransaction,
    PlantedTrial,
)

MS = 1_000_000
PHASES = QUIET.model_copy(update={"settled_ns": 20 * MS})
"""The load begins at 0, and the last attempt settles at 20 ms."""
Row = tuple[int, str, int, int, int, bool]
Settled = Sequence[tuple[int, int | None, str]]
"""Partition, time in nanoseconds and outcome of each attempt."""


def planted(
    settled: Sequence[tuple[int | None, int | None, str]], received: Sequence[int] = ()
) -> PlantedTrial:
    """Return a trial whose topic has two partitions when the load begins.

    Args:
        settled: partition, time in nanoseconds and outcome of each attempt.
        received: when the concurrent consumer received records of partition 0.
    """
    return PlantedTrial(
        "t",
        [
            PlantedAttempt(0, seq, outcome, settled_ns=at, partition=partition)
            for seq, (partition, at, outcome) in enumerate(settled)
        ],
        reads=[PlantedRead(0, seq, seq, received_ns=at) for seq, at in enumerate(received)],
        phases=PHASES,
        partitions=2,
    )


def arrays(trial: PlantedTrial) -> UnitArrays:
    """Return a trial's rows as arrays."""
    return to_arrays(trial.rows())


def producer_gaps(trial: PlantedTrial) -> set[Row]:
    """Return the gaps of the producers."""
    return rows(trial, acknowledgements(arrays(trial).attempts, trial.phases))


def consumer_gaps(trial: PlantedTrial, due_ns: int | None = None) -> set[Row]:
    """Return the gaps of the concurrent consumer."""
    return rows(trial, deliveries(arrays(trial).reads, due_ns))


def rows(trial: PlantedTrial, answers: AnswersBySide) -> set[Row]:
    """Return the rows of `GAPS`."""
    names = ("partition", "side", "records", "gap_ns", "began_ns", "answered")
    return {
        tuple(row[name] for name in names) for row in gap_rows(answers, trial.record("planted"))
    }


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        # From the begin of the load.
        ([(9, "acked"), (11, "acked"), (19, "acked")], (3, 9, 0, True)),
        # Between two acknowledgements.
        ([(2, "acked"), (12, "acked"), (15, "acked")], (3, 10, 2, True)),
        # Until the last time at which an acknowledgement was due.
        ([(2, "acked"), (14, "rejected")], (1, 12, 2, False)),
        # An attempt that never settled was due until the end.
        ([(2, "acked"), (None, "unknown")], (1, 18, 2, False)),
        # The earliest of two gaps of the same length; nothing was due afterwards.
        ([(5, "acked"), (10, "acked")], (2, 5, 0, True)),
        # Without any acknowledgement.
        ([(7, "rejected"), (9, "unknown")], (0, 9, 0, False)),
    ],
)
def test_the_longest_gap_counts_its_edges(
    settled: list[tuple[int | None, str]], expected: tuple[int, int, int, bool]
) -> None:
    """The load begins at 0, and the last attempt settles at 20 ms."""
    records, gap_ms, began_ms, answered = expected
    trial = planted([(0, None if at is None else at * MS, outcome) for at, outcome in settled])
    assert producer_gaps(trial) == {(0, "producer", records, gap_ms * MS, began_ms * MS, answered)}


def test_a_gap_is_exact_to_the_nanosecond() -> None:
    """Acknowledgements of the same millisecond are grouped, with their first and last time."""
    trial = planted([(0, at, "acked") for at in (100, 999_999, 3_000_001, 3_500_000)])
    assert producer_gaps(trial) == {(0, "producer", 4, 2_000_002, 999_999, True)}


def test_each_partition_has_its_own_gap() -> None:
    """A record without a partition does not count."""
    trial = planted([(0, 3 * MS, "acked"), (1, 5 * MS, "acked"), (None, None, "unknown")])
    assert producer_gaps(trial) == {
        (0, "producer", 1, 3 * MS, 0, True),
        (1, "producer", 1, 5 * MS, 0, True),
    }


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        # Not from the begin of the load.
        ([(11, "acked"), (14, "acked"), (19, "acked")], (3, 5, 14, True)),
        ([(11, "acked")], (1, 0, 11, True)),
        # It never acknowledged a record.
        ([(12, "rejected"), (16, "rejected")], (0, 4, 12, False)),
    ],
)
def test_a_partition_added_under_load_was_not_unavailable_before(
    settled: list[tuple[int, str]], expected: tuple[int, int, int, bool]
) -> None:
    """The topic has two partitions when the load begins, and this is the third."""
    records, gap_ms, began_ms, answered = expected
    assert producer_gaps(planted([(2, at * MS, outcome) for at, outcome in settled])) == {
        (2, "producer", records, gap_ms * MS, began_ms * MS, answered)
    }


def test_a_consumer_that_reached_the_end_has_no_gap_after_its_last_record() -> None:
    """This does not depend on when the producers settled."""
    assert consumer_gaps(planted([], [4 * MS, 5 * MS])) == {(0, "consumer", 2, 4 * MS, 0, True)}


def test_a_consumer_that_did_not_reach_the_end_has_a_gap_until_it_stopped() -> None:
    """Here it stopped at 30 ms."""
    assert consumer_gaps(planted([], [4 * MS, 5 * MS]), 30 * MS) == {
        (0, "consumer", 2, 25 * MS, 5 * MS, False)
    }


def test_producers_and_the_consumer_have_gaps_of_their_own() -> None:
    """A partition can acknowledge records that no consumer receives."""
    trial = planted([(0, 3 * MS, "acked")], [9 * MS])
    unit = arrays(trial)
    both = {**acknowledgements(unit.attempts, trial.phases), **deliveries(unit.reads, None)}
    assert rows(trial, both) == {
        (0, "producer", 1, 3 * MS, 0, True),
        (0, "consumer", 1, 9 * MS, 0, True),
    }


# The laws.

TIMES = st.lists(st.integers(-2 * MS, 8 * MS) | st.integers(0, 8).map(MS.__mul__), max_size=12)
ATTEMPTS = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 0, 2]),
        st.none() | st.integers(0, 8 * MS),
        st.sampled_from(["rejected", "unknown"]),
    )
    | st.tuples(st.sampled_from([0, 0, 2]), st.integers(0, 8 * MS), st.just("acked")),
    max_size=10,
)


@given(TIMES, st.integers(0, 9 * MS), st.none() | st.integers(0, 9 * MS))
def test_the_longest_gap_is_that_of_all_sorted_times(
    times: list[int], due_ns: int, existed_ns: int | None
) -> None:
    """Answers of the same millisecond count as one, so a gap between them does not count."""
    answered = sorted(times)
    begin = existed_ns
    if begin is None:
        begin = answered[0] if answered else 0
    edges = [begin, *answered, due_ns]
    gaps = [
        LongestGap(before, after - before, answered=number < len(answered))
        for number, (before, after) in enumerate(pairwise(edges))
        if number in {0, len(answered)} or before // SLOT_NS != after // SLOT_NS
    ]
    longest = max(gap.gap_ns for gap in gaps)
    began = min(gap.began_ns for gap in gaps if gap.gap_ns == longest)
    found = longest_gap(Answers.of(np.array(times, np.int64), due_ns, 0), existed_ns)
    assert (found.gap_ns, found.began_ns) == (longest, began)
    assert found in gaps


@given(ATTEMPTS, ATTEMPTS, ATTEMPTS)
def test_answers_of_parts_merge_to_those_of_all_attempts(
    one: Settled, other: Settled, third: Settled
) -> None:
    """In any order and association: the gaps are those of all answers together."""
    parts = [
        acknowledgements(arrays(planted(part)).attempts, PHASES) for part in (one, other, third)
    ]
    trial = planted([*one, *other, *third])
    expected = producer_gaps(trial)
    assert rows(trial, merge_answers(merge_answers(parts[0], parts[1]), parts[2])) == expected
    assert rows(trial, merge_answers(parts[2], merge_answers(parts[1], parts[0]))) == expected


@given(TIMES, TIMES, st.integers(0, 9 * MS))
def test_reads_of_parts_merge_to_those_of_all_reads(
    one: list[int], other: list[int], due_ns: int
) -> None:
    """Also if one part has no reads, or the consumer stopped before the end."""
    parts = [deliveries(arrays(planted([], part)).reads, due_ns) for part in (one, other)]
    trial = planted([], [*one, *other])
    assert rows(trial, merge_answers(*parts)) == consumer_gaps(trial, due_ns)
    assert rows(trial, merge_answers(*parts[::-1])) == consumer_gaps(trial, due_ns)


@given(st.lists(st.integers(-1, 5) | st.integers(0, 2**31 - 1), max_size=20))
def test_rows_are_grouped_by_their_number(numbers: list[int]) -> None:
    """-1 stands for null, and numbers may have up to 32 bits."""
    assert {
        number: found.tolist() for number, found in rows_by_number(np.array(numbers, np.int32))
    } == {
        number: [row for row, other in enumerate(numbers) if other == number]
        for number in set(numbers) - {-1}
    }


HEALED = Phases(
    load_begin_ns=0,
    load_end_ns=100 * MS,
    fault_begin_ns=20 * MS,
    fault_end_ns=60 * MS,
    settled_ns=100 * MS,
    healthy_ns=100 * MS,
)


def readers(
    acked_ms: Sequence[int], read_ms: Sequence[int], phases: Phases = HEALED, **others: Any
) -> list[tuple[int, int | None, int | None]]:
    """Return partition, last read and begin of the unread acknowledgements, in milliseconds."""
    trial = PlantedTrial(
        "000-a",
        [PlantedAttempt(0, seq, settled_ns=at * MS) for seq, at in enumerate(acked_ms)],
        reads=[PlantedRead(0, seq, seq, received_ns=at * MS) for seq, at in enumerate(read_ms)],
        phases=phases,
        **others,
    )
    return [
        (
            row["partition"],
            *(
                None if row[name] is None else row[name] // MS
                for name in ("last_read_ns", "unread_since_ns")
            ),
        )
        for row in measure_planted(trial)["readers"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("acked_ms", "read_ms", "expected"),
    [
        ([1, 30, 40, 70], [2, 31], (0, 31, 40)),
        ([1, 30, 40, 70], [2, 31, 41, 71], (0, 41, None)),
        ([1, 30, 60], [2, 60], (0, 2, 30)),
        ([1, 2], [90], (0, None, 1)),
        ([1, 61], [5, 90], (0, 5, None)),
        ([1, 61], [1], (0, 1, None)),
    ],
)
def test_an_acknowledgement_after_the_last_read_waits_until_the_heal(
    acked_ms: list[int], read_ms: list[int], expected: tuple[int, int | None, int | None]
) -> None:
    """What happens at the heal or later is not before it."""
    assert readers(acked_ms, read_ms) == [expected]


def test_without_a_healed_fault_or_a_consumer_nobody_waits() -> None:
    """Nor with transactions, or if the consumer reads the copiers' output."""
    end = [PlantedEvent(1, "consumer_end", detail='{"at_end": false}')]
    assert readers([1], [2], HEALED.model_copy(update={"fault_end_ns": None})) == []
    assert readers([1], []) == []
    assert readers([1], [], events=end) == [(0, None, 1)]
    assert readers([1], [2], transactions=[PlantedTransaction(0, 0)]) == []
    assert readers([1], [2], output=[]) == []


def test_a_partition_that_acknowledged_nothing_has_no_row() -> None:
    """No record of it could be awaited."""
    assert readers([], [2]) == []
