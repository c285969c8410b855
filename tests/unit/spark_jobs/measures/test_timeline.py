"""Counts for each tenth of a second, on a few rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.measured import planted_arrays

from ackbench.spark_jobs.measures.throughput import (
    Throughput,
    Timeline,
    count_timeline,
    timeline_table,
)
from ackbench.spark_jobs.planted import QUIET, PlantedAttempt, PlantedRead

SLOT = 100_000_000
BEGIN = 7 * SLOT + 3
PHASES = QUIET.model_copy(update={"load_begin_ns": BEGIN})
Attempt = tuple[int | None, int | None, str]
"""Times of sending and settling, and the outcome."""


def timeline(attempts: list[Attempt], received: list[int]) -> Timeline:
    """Return the timeline of attempts and of times of receipt."""
    unit = planted_arrays(
        [
            PlantedAttempt(0, seq, outcome, sent_ns=sent, settled_ns=settled)
            for seq, (sent, settled, outcome) in enumerate(attempts)
        ],
        reads=[PlantedRead(None, None, place, None, at) for place, at in enumerate(received)],
    )
    return count_timeline(unit.attempts, unit.reads, PHASES)


def slots(counted: Timeline) -> list[tuple[int, int, int, int]]:
    """Return slot, sent, acknowledged and received records of each row."""
    names = ("slot", "sent_records", "acked_records", "read_records")
    return [tuple(row[name] for name in names) for row in timeline_table(counted).to_pylist()]


def test_events_are_counted_in_the_slot_of_their_time() -> None:
    """A record is sent in one slot, acknowledged in the next one, and read in the one after."""
    attempts: list[Attempt] = [
        (BEGIN, BEGIN + SLOT, "acked"),
        (BEGIN + SLOT - 1, BEGIN + SLOT, "rejected"),
        (None, None, "unknown"),
    ]
    found = timeline(attempts, [BEGIN + 2 * SLOT, BEGIN + 3 * SLOT - 1])
    assert slots(found) == [(0, 2, 0, 0), (1, 0, 1, 0), (2, 0, 0, 2)]


def test_slots_before_the_load_are_negative() -> None:
    """A nanosecond before the load is in slot -1."""
    found = timeline([], [BEGIN - 1, BEGIN - SLOT, BEGIN - SLOT - 1])
    assert slots(found) == [(-2, 0, 0, 1), (-1, 0, 0, 2)]


TIMES = st.none() | st.integers(BEGIN - 2 * SLOT, BEGIN + 5 * SLOT)
ATTEMPTS = st.lists(
    st.tuples(TIMES, TIMES, st.sampled_from(["acked", "rejected", "unknown"])), max_size=8
)
RECEIVED = st.lists(st.integers(BEGIN - 2 * SLOT, BEGIN + 5 * SLOT), max_size=8)


@given(ATTEMPTS, ATTEMPTS, RECEIVED, RECEIVED)
def test_timelines_of_parts_merge_to_that_of_all_records(
    one: list[Attempt], other: list[Attempt], received: list[int], received_by_other: list[int]
) -> None:
    """In any order; no row has only zeros."""
    parts = [timeline(one, received), timeline(other, received_by_other)]
    a, b = (Throughput(0, 0, part) for part in parts)
    expected = slots(timeline([*one, *other], [*received, *received_by_other]))
    assert slots((a + b).timeline) == expected
    assert slots((b + a).timeline) == expected
    assert all(any(counts) for _, *counts in expected)
