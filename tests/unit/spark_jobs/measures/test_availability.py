"""Gaps without a response while records were due, on a few rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured import measure_planted

from ackbench.experiments.ledger.result_terms import Side
from ackbench.experiments.ledger.stalls import (
    STALLED,
    STALLS_SAMPLED,
    Stall,
    StallCause,
    StallSampling,
)
from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.experiments.results.trials import recovered_before_heal
from ackbench.spark_jobs.io.arrays import UnitArrays, to_arrays
from ackbench.spark_jobs.measures.availability import (
    AvailabilityMeasure,
    ResponsesBySide,
    acknowledgements,
    deliveries,
    gap_rows,
    rows_by_number,
)
from ackbench.spark_jobs.measures.fates import count_rows
from ackbench.spark_jobs.planted import (
    QUIET,
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
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


def merged(one: ResponsesBySide, other: ResponsesBySide) -> ResponsesBySide:
    """Return the responses of two units of a trial."""
    return (AvailabilityMeasure(one, 0) + AvailabilityMeasure(other, 0)).responses


def planted(
    settled: Sequence[tuple[int | None, int | None, str]], received: Sequence[int] = ()
) -> PlantedTrial:
    """Return a trial whose records are all sent at 0, and whose topic has two partitions then.

    Args:
        settled: partition, time in nanoseconds and outcome of each attempt.
        received: when the concurrent consumer received records of partition 0, which are those of
            the attempts in turn.
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


def sent_at(*attempts: tuple[int, int | None, str], partition: int = 0) -> PlantedTrial:
    """Return a trial of attempts of one partition: when each was sent and settled, in ms."""
    return PlantedTrial(
        "t",
        [
            PlantedAttempt(
                0,
                seq,
                outcome,
                sent_ns=sent * MS,
                settled_ns=None if settled is None else settled * MS,
                partition=partition,
            )
            for seq, (sent, settled, outcome) in enumerate(attempts)
        ],
        phases=PHASES,
        partitions=2,
    )


def arrays(trial: PlantedTrial) -> UnitArrays:
    """Return a trial's rows as arrays."""
    return to_arrays(trial.rows())


def delivered(trial: PlantedTrial, gave_up_ns: int | None = None) -> ResponsesBySide:
    """Return when the concurrent consumer received the records of a trial."""
    unit = arrays(trial)
    return deliveries(unit, unit.reads, count_rows(unit.reads.record, len(unit.ids)), gave_up_ns)


def producer_gaps(trial: PlantedTrial) -> set[Row]:
    """Return the producers' gaps of each partition."""
    return rows(acknowledgements(arrays(trial).attempts, trial.phases))


def consumer_gaps(trial: PlantedTrial, gave_up_ns: int | None = None) -> set[Row]:
    """Return the concurrent consumer's gaps of each partition."""
    return rows(delivered(trial, gave_up_ns))


def rows(responses: ResponsesBySide) -> set[Row]:
    """Return the rows of `GAPS` without stalls."""
    names = ("partition", "side", "records", "gap_ns", "began_ns", "answered")
    return {tuple(row[name] for name in names) for row in gap_rows(responses)}


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
    """A record without a partition is due until any of them answers."""
    trial = planted([(0, 3 * MS, "acked"), (1, 5 * MS, "acked"), (None, None, "unknown")])
    assert producer_gaps(trial) == {
        (0, "producer", 1, 3 * MS, 0, True),
        (1, "producer", 1, 5 * MS, 0, True),
        (-1, "producer", 2, 15 * MS, 5 * MS, False),
    }


def test_a_producer_that_rejects_all_before_it_chooses_a_partition_is_unavailable() -> None:
    """Its partitions are not: nothing was due there any more."""
    rejected = [(None, at * MS, "rejected") for at in (4, 5, 18)]
    trial = planted([(0, 3 * MS, "acked"), *rejected])
    assert producer_gaps(trial) == {
        (0, "producer", 1, 3 * MS, 0, True),
        (-1, "producer", 1, 15 * MS, 3 * MS, False),
    }


def test_nothing_is_due_before_a_record_is_sent() -> None:
    """At a low rate the time between two records is no gap: they are sent at 3 and 13 ms."""
    trial = sent_at((3, 4, "acked"), (13, 15, "acked"))
    assert producer_gaps(trial) == {(0, "producer", 2, 2 * MS, 13 * MS, True)}


def test_of_several_records_the_earliest_one_is_due() -> None:
    """That of 2 ms is still unanswered when the others are sent and answered."""
    trial = sent_at((1, 3, "acked"), (2, 19, "acked"), (12, 13, "acked"))
    assert producer_gaps(trial) == {(0, "producer", 3, 10 * MS, 3 * MS, True)}


def test_a_rejected_record_stays_due_until_the_next_acknowledgement() -> None:
    """Otherwise a partition that rejects each record at once would be available."""
    trial = sent_at((1, 2, "acked"), (4, 5, "rejected"), (8, 9, "rejected"), (12, 14, "acked"))
    assert producer_gaps(trial) == {(0, "producer", 2, 10 * MS, 4 * MS, True)}


def test_a_partition_without_acknowledgement_has_a_gap_from_its_first_record_on() -> None:
    """Until its last record was given up; a partition that was added under load as well."""
    trial = sent_at((5, 9, "rejected"), (7, 16, "rejected"), partition=2)
    assert producer_gaps(trial) == {(2, "producer", 0, 11 * MS, 5 * MS, False)}


def test_after_the_last_answer_nothing_is_due() -> None:
    """A producer that has sent its last record makes no gap, whenever the trial settled."""
    assert producer_gaps(sent_at((1, 2, "acked"))) == {(0, "producer", 1, 1 * MS, 1 * MS, True)}


def test_a_record_that_the_client_never_took_was_due_as_intended() -> None:
    """It has no time of sending."""
    trial = PlantedTrial(
        "t", [PlantedAttempt(0, 0, "rejected", 6 * MS, 9 * MS, sent_ns=None)], phases=PHASES
    )
    assert producer_gaps(trial) == {(0, "producer", 0, 3 * MS, 6 * MS, False)}


def test_a_clock_that_is_behind_makes_no_negative_gap() -> None:
    """A record can be acknowledged before it was sent, by two clocks."""
    assert producer_gaps(sent_at((5, 4, "acked"))) == {(0, "producer", 1, 0, 4 * MS, True)}


def test_records_far_apart_are_measured_as_those_of_a_short_load() -> None:
    """Of two partitions, over hours: a cell per millisecond would be mostly empty."""
    hour = 3_600_000
    attempts = [
        PlantedAttempt(0, seq, outcome, sent_ns=sent * MS, settled_ns=settled, partition=partition)
        for seq, (partition, sent, settled, outcome) in enumerate(
            [
                (0, 0, 2 * MS, "acked"),
                (0, hour, hour * MS + 5 * MS, "acked"),
                (0, hour, hour * MS + 5 * MS + 9, "acked"),
                (1, 0, 7 * MS, "acked"),
                (1, 3 * hour, 3 * hour * MS + MS, "rejected"),
            ]
        )
    ]
    assert producer_gaps(PlantedTrial("t", attempts, phases=PHASES)) == {
        (0, "producer", 3, 5 * MS, hour * MS, True),
        (1, "producer", 1, 7 * MS, 0, True),
    }


def test_a_part_over_hours_merges_with_one_of_a_short_time() -> None:
    """The first part has mostly empty milliseconds, the second one has not."""
    hour = 3_600_000
    long, short = [(0, 1, "acked"), (0, 2 * hour, "acked")], [(0, hour, "acked")]
    parts = [acknowledgements(arrays(sent_at(*part)).attempts, PHASES) for part in (long, short)]
    expected = {(0, "producer", 3, hour * MS, hour * MS, True)}
    assert expected <= rows(merged(*parts))
    assert rows(merged(*parts)) == rows(merged(*parts[::-1]))


def test_the_consumer_waits_for_a_record_from_when_it_was_sent() -> None:
    """The records are sent at 3 and 13 ms."""
    trial = sent_at((3, 4, "acked"), (13, 15, "acked"))
    reads = [PlantedRead(0, seq, seq, received_ns=at * MS) for seq, at in enumerate((5, 17))]
    trial = PlantedTrial("t", trial.attempts, reads=reads, phases=PHASES)
    assert consumer_gaps(trial) == {(0, "consumer", 2, 4 * MS, 13 * MS, True)}


def test_a_record_that_is_received_again_was_not_awaited() -> None:
    """Nor was one without an id: it is due from its receipt."""
    reads = [
        PlantedRead(0, 0, 0, received_ns=2 * MS),
        PlantedRead(0, 0, 0, received_ns=15 * MS),
        PlantedRead(None, None, 1, received_ns=18 * MS),
    ]
    trial = PlantedTrial("t", [PlantedAttempt(0, 0)], reads=reads, phases=PHASES)
    assert consumer_gaps(trial) == {(0, "consumer", 3, 2 * MS, 0, True)}


def test_a_consumer_that_reached_the_end_has_no_gap_after_its_last_record() -> None:
    """This does not depend on when the producers settled."""
    assert consumer_gaps(planted([(0, 1, "acked")], [4 * MS])) == {
        (0, "consumer", 1, 4 * MS, 0, True)
    }


def test_a_consumer_that_did_not_reach_the_end_has_a_gap_where_a_record_waited() -> None:
    """It gave up at 30 ms; partition 1 has nothing that it had not received."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, seq, partition=seq % 2) for seq in range(3)],
        [PlantedLogRow(0, seq, seq // 2, partition=seq % 2) for seq in range(3)],
        [PlantedRead(0, seq, 0, received_ns=4 * MS, partition=seq % 2) for seq in range(2)],
        phases=PHASES,
    )
    assert consumer_gaps(trial, 30 * MS) == {
        (0, "consumer", 1, 26 * MS, 4 * MS, False),
        (1, "consumer", 1, 4 * MS, 0, True),
    }


def test_of_a_copied_topic_the_consumer_waits_for_the_copies() -> None:
    """It reads the output: what the log has and the output has not is not awaited."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, seq) for seq in range(3)],
        [PlantedLogRow(0, seq, seq) for seq in range(3)],
        [PlantedRead(0, 0, 0, received_ns=4 * MS)],
        phases=PHASES,
        output=[PlantedLogRow(0, 0, 0), PlantedLogRow(0, 1, 0, partition=1)],
    )
    assert consumer_gaps(trial, 30 * MS) == {
        (0, "consumer", 1, 4 * MS, 0, True),
        (1, "consumer", 0, 30 * MS, 0, False),
    }


def test_producers_and_the_consumer_have_gaps_of_their_own() -> None:
    """A partition can acknowledge records that no consumer receives."""
    trial = planted([(0, 3 * MS, "acked")], [9 * MS])
    both = {**acknowledgements(arrays(trial).attempts, trial.phases), **delivered(trial)}
    assert rows(both) == {(0, "producer", 1, 3 * MS, 0, True), (0, "consumer", 1, 9 * MS, 0, True)}


# Several gaps.

S = 1000
TWO_OUTAGES = sent_at((0, 1, "acked"), (100, 3100, "acked"), (4000, 6500, "acked"))
"""The second outage, from 4 to 6.5 s, is the shorter one."""


def gap_spans(trial: PlantedTrial, side: Side = Side.PRODUCER) -> list[tuple[int, int, int, bool]]:
    """Return begin, end and stalled time of each gap in ms, and whether it is the longest."""
    return [
        (row["began_ns"] // MS, row["ended_ns"] // MS, row["stalled_ns"] // MS, row["longest"])
        for row in measure_planted(trial)["gaps"].to_pylist()
        if row["side"] == side
    ]


def test_every_gap_of_a_second_is_kept_and_the_longest_is_marked() -> None:
    """By time; a shorter gap is kept only if it is the longest."""
    assert gap_spans(TWO_OUTAGES) == [(100, 3100, 0, True), (4000, 6500, 0, False)]
    assert gap_spans(sent_at((0, 999, "acked"), (1000, 1900, "acked"))) == [(0, 999, 0, True)]
    assert gap_spans(sent_at((0, 1500, "acked"), (2000, 3000, "acked"))) == [
        (0, 1500, 0, True),
        (2000, 3000, 0, False),
    ]


def test_a_shorter_outage_that_spans_the_heal_makes_a_trial_unavailable() -> None:
    """The fault is healed at 5 s: the longest gap ends before it, the second one does not."""
    phases = QUIET.model_copy(update={"fault_begin_ns": 0, "fault_end_ns": 5 * S * MS})
    gaps = measure_planted(TWO_OUTAGES)["gaps"].to_pylist()
    assert recovered_before_heal(phases, gaps, "all") is False


def test_each_outage_in_the_fault_has_its_steps() -> None:
    """The begin of a gap identifies it."""
    phases = QUIET.model_copy(update={"fault_begin_ns": 0, "fault_end_ns": 5 * S * MS})
    trial = PlantedTrial("t", TWO_OUTAGES.attempts, phases=phases)
    steps = measure_planted(trial)["outages"].to_pylist()
    assert {(row["began_ns"] // MS, row["longest"]) for row in steps} == {
        (100, True),
        (4000, False),
    }


# Stalls of the harness.


def stalled(process: str, began: int, ended: int) -> PlantedEvent:
    """Return the event of a stall, times in milliseconds."""
    stall = Stall(
        process=process, cause=StallCause.STOPPED, began_ns=began * MS, ended_ns=ended * MS
    )
    detail = stall.model_dump_json()
    return PlantedEvent(ended * MS, STALLED, source=Source.MACHINE, detail=detail)


def stalls_sampled(at_ns: int) -> PlantedEvent:
    """Return the event that the trial looked for stalls until then."""
    detail = StallSampling(samples=1, cpu_s=0.001).model_dump_json()
    return PlantedEvent(at_ns, STALLS_SAMPLED, source=Source.MACHINE, detail=detail)


def with_stalls(*events: PlantedEvent, producers: int = 1) -> PlantedTrial:
    """Return a trial with an acknowledgement at 1 and at 1401 ms, and stalls.

    The concurrent consumer receives both records at the same time.
    """
    attempts = [
        PlantedAttempt(producer, seq, settled_ns=at * MS)
        for producer in range(producers)
        for seq, at in enumerate((1, 1401))
    ]
    return PlantedTrial(
        "t",
        attempts,
        reads=[PlantedRead(0, seq, seq, received_ns=at * MS) for seq, at in enumerate((1, 1401))],
        events=[*events, stalls_sampled(3 * S * MS)],
    )


@pytest.mark.parametrize(
    ("events", "producers", "expected"),
    [
        ([], 1, 0),
        ([stalled("producer 0", 100, 1300)], 1, 1200),
        # Only what is within the gap.
        ([stalled("producer 0", -500, 301)], 1, 300),
        ([stalled("producer 0", 1301, 5000)], 1, 100),
        ([stalled("producer 0", 2000, 3000)], 1, 0),
        # Twice the same time counts once.
        ([stalled("producer 0", 100, 600), stalled("producer 0", 500, 900)], 1, 800),
        ([stalled("producer 0", 100, 200), stalled("producer 0", 200, 300)], 1, 200),
        # The machine is that of each client; others are not the producers'.
        ([stalled("machine", 100, 600)], 1, 500),
        ([stalled("relay", 100, 600)], 1, 500),
        ([stalled("consumer 0", 100, 600), stalled("node 1", 100, 600)], 1, 0),
        ([stalled("trial", 100, 600), stalled("member 1", 100, 600)], 1, 0),
        # A producer that runs shows whether the partition acknowledges.
        ([stalled("producer 0", 100, 600)], 2, 0),
        ([stalled("producer 0", 100, 600), stalled("producer 1", 300, 900)], 2, 300),
        ([stalled("producer 0", 100, 600), stalled("machine", 300, 900)], 2, 600),
        ([stalled("producer 0", 100, 600), stalled("relay", 300, 900)], 2, 600),
    ],
)
def test_the_time_in_which_no_producer_ran_is_taken_off_the_producers_gap(
    events: list[PlantedEvent], producers: int, expected: int
) -> None:
    """It lasts from 1 to 1401 ms."""
    assert gap_spans(with_stalls(*events, producers=producers)) == [(1, 1401, expected, True)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([stalled("consumer 0", 100, 1300)], 1200),
        ([stalled("machine", 100, 1300)], 1200),
        ([stalled("relay", 100, 1300)], 1200),
        ([stalled("node 1", 100, 1300)], 0),
        # What is not sent cannot be received.
        ([stalled("producer 0", 100, 300), stalled("consumer 0", 200, 600)], 500),
    ],
)
def test_the_consumers_gap_is_without_its_own_stalls_and_the_producers(
    events: list[PlantedEvent], expected: int
) -> None:
    """It lasts from 1 to 1401 ms."""
    assert gap_spans(with_stalls(*events), Side.CONSUMER) == [(1, 1401, expected, True)]


def test_the_longest_gap_is_the_longest_without_stalls() -> None:
    """The first one lasts 3 s, of which 2.8 s are a stall; the second one 2.5 s."""
    trial = PlantedTrial(
        "t", TWO_OUTAGES.attempts, events=[stalled("producer 0", 200, 3000)], phases=QUIET
    )
    found = measure_planted(trial)
    assert gap_spans(trial) == [(100, 3100, 2800, False), (4000, 6500, 0, True)]
    assert found["trials"]["unavailable_ns"].to_pylist() == [2500 * MS]


def test_a_gap_that_a_stall_explains_has_no_steps_of_an_outage() -> None:
    """Only 0.2 s of the first gap are not explained, and the second one is the longest."""
    phases = QUIET.model_copy(update={"fault_begin_ns": 0, "fault_end_ns": 5 * S * MS})
    trial = PlantedTrial(
        "t", TWO_OUTAGES.attempts, events=[stalled("producer 0", 200, 3000)], phases=phases
    )
    steps = measure_planted(trial)["outages"].to_pylist()
    assert {row["began_ns"] // MS for row in steps} == {4000}


def test_a_trial_without_acknowledgement_was_unavailable_while_its_producer_ran() -> None:
    """The load begins at 0.5 s and settles at 10 s; a record may be stored and received."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, 0, "rejected", S * MS)],
        reads=[PlantedRead(0, 0, 0, received_ns=2 * S * MS)],
        phases=QUIET.model_copy(update={"load_begin_ns": S * MS // 2}),
        events=[stalled("machine", 1000, 4000)],
    )
    found = measure_planted(trial)["trials"]["unavailable_ns"].to_pylist()
    assert found == [6500 * MS]


def test_a_trial_has_the_stalls_of_any_producer_and_of_the_consumer_within_its_load() -> None:
    """The load begins at 0 and settles at 10 s."""
    events = [
        stalled("producer 0", -100, 200),
        stalled("producer 1", 100, 300),
        stalled("machine", 9_900, 12_000),
        stalled("node 1", 0, 5_000),
    ]
    found = measure_planted(with_stalls(*events, producers=2))
    (row,) = found["trials"].to_pylist()
    assert row["producer_stalled_ns"] == 400 * MS
    assert row["consumer_stalled_ns"] == 100 * MS
    assert found["stalls"]["process"].to_pylist() == [
        "producer 0",
        "node 1",
        "producer 1",
        "machine",
    ]


def test_a_ledger_that_is_older_than_the_sampling_has_unknown_stalls() -> None:
    """Null is not 0."""
    (row,) = measure_planted(planted([(0, 1, "acked")]))["trials"].to_pylist()
    assert (row["producer_stalled_ns"], row["consumer_stalled_ns"]) == (None, None)


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


@given(ATTEMPTS, ATTEMPTS, ATTEMPTS)
def test_answers_of_parts_merge_to_those_of_all_attempts(
    one: Settled, other: Settled, third: Settled
) -> None:
    """In any order and association: the gaps are those of all responses together."""
    parts = [
        acknowledgements(arrays(planted(part)).attempts, PHASES) for part in (one, other, third)
    ]
    trial = planted([*one, *other, *third])
    expected = producer_gaps(trial)
    assert rows(merged(merged(parts[0], parts[1]), parts[2])) == expected
    assert rows(merged(parts[2], merged(parts[1], parts[0]))) == expected


@given(TIMES, TIMES)
def test_reads_of_parts_merge_to_those_of_all_reads(one: list[int], other: list[int]) -> None:
    """Also if one part has no reads."""
    parts = [delivered(planted([], part)) for part in (one, other)]
    trial = planted([], [*one, *other])
    assert rows(merged(*parts)) == consumer_gaps(trial)
    assert rows(merged(*parts[::-1])) == consumer_gaps(trial)


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
        ([1, 60], [5, 90], (0, 5, None)),
    ],
)
def test_an_acknowledgement_after_the_last_read_waits_until_the_heal(
    acked_ms: list[int], read_ms: list[int], expected: tuple[int, int | None, int | None]
) -> None:
    """What happens at the heal or later is not before it."""
    assert readers(acked_ms, read_ms) == [expected]


def test_the_stalls_of_the_consumer_while_a_record_waits_are_known() -> None:
    """The record waits from 30 ms until the heal at 60 ms; the producers' stalls do not matter."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, 0, settled_ns=30 * MS)],
        reads=[PlantedRead(0, 0, 0, received_ns=90 * MS)],
        events=[stalled("consumer 0", 20, 35), stalled("producer 0", 40, 50)],
        phases=HEALED,
    )
    (row,) = measure_planted(trial)["readers"].to_pylist()
    assert (row["unread_since_ns"], row["stalled_ns"]) == (30 * MS, 5 * MS)


def test_while_no_record_waits_no_stall_of_the_consumer_matters() -> None:
    """It has received everything."""
    trial = PlantedTrial(
        "t",
        [PlantedAttempt(0, 0, settled_ns=30 * MS)],
        reads=[PlantedRead(0, 0, 0, received_ns=31 * MS)],
        events=[stalled("consumer 0", 40, 50)],
        phases=HEALED,
    )
    (row,) = measure_planted(trial)["readers"].to_pylist()
    assert (row["unread_since_ns"], row["stalled_ns"]) == (None, 0)


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
