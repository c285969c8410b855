"""What consumers received, compared with the log and with each other, on a few rows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.measured import measure_in_units, measure_planted
from support.reference.consumed import consumed_anomalies, consumed_counts
from support.reference.spark_results import to_plain_trials
from support.tiers import examples

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.measures.consumed import ConsumedReads
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
    PlantedTrial,
)

GROUP = PlantedEvent(1, "group", detail=json.dumps({"committed": {}}))
LOG = [PlantedLogRow(0, seq, seq) for seq in range(4)]
READS = [PlantedRead(0, seq, seq) for seq in range(4)]


def found(
    reads: list[PlantedRead], log: list[PlantedLogRow] = LOG, **others: Any
) -> tuple[int | None, int | None, list[tuple[str, int, int | None]]]:
    """Return lost and conflicting reads, and kind, seq and offset of the anomalies."""
    attempts = [PlantedAttempt(0, seq, outcome="unknown") for seq in range(8)]
    tables = measure_planted(PlantedTrial("000-a", attempts, log, reads, **others))
    (trial,) = tables["trials"].to_pylist()
    rows = [
        (row["kind"], row["seq"], row["offset"])
        for row in tables["anomalies"].to_pylist()
        if row["kind"].startswith("READ_")
    ]
    return trial["lost_reads"], trial["conflicting_reads"], sorted(rows)


def test_the_counts_of_two_units_are_added() -> None:
    """A record is in one unit only, so none is counted twice."""
    both = ConsumedReads(judged_reads=3, repeated_reads=2) + ConsumedReads(4, repeated_reads=2)
    assert (both.judged_reads, both.repeated_reads) == (7, 4)


def test_what_the_log_has_at_its_place_was_kept() -> None:
    """Two consumers that received it agree."""
    assert found(READS) == (0, None, [])
    assert found([*READS, READS[2]._replace(consumer=1)]) == (0, 0, [])


def test_a_received_record_that_the_log_lacks_was_lost() -> None:
    """It counts once, however often it was received there, and at each offset."""
    reads = [
        *READS,
        PlantedRead(0, 5, 9),
        PlantedRead(0, 5, 9, received_ns=9_000_000, consumer=1),
        PlantedRead(0, 6, 9, partition=1),
    ]
    assert found(reads)[::2] == (2, [("READ_LOST", 5, 9), ("READ_LOST", 6, 9)])


def test_a_record_that_is_at_another_offset_was_lost_where_it_was() -> None:
    """A log that was truncated may have it again later."""
    assert found([PlantedRead(0, 1, 2)]) == (1, None, [("READ_LOST", 1, 2)])
    assert found([PlantedRead(0, 1, 1, partition=1)])[0] == 1


def test_each_copy_of_a_record_confirms_its_own_place() -> None:
    """A duplicate may be received at both offsets."""
    log = [*LOG, PlantedLogRow(0, 1, 4)]
    assert found([PlantedRead(0, 1, 1), PlantedRead(0, 1, 4)], log)[0] == 0
    assert found([PlantedRead(0, 1, 1), PlantedRead(0, 1, 5)], log)[0] == 1


def test_records_received_at_one_offset_are_in_conflict() -> None:
    """The one that the log has there is not; if the log has neither, both are."""
    other = PlantedRead(0, 5, 2, consumer=1)
    assert found([*READS, other]) == (1, 1, [("READ_CONFLICT", 5, 2), ("READ_LOST", 5, 2)])
    lost = [PlantedRead(0, 5, 9), PlantedRead(0, 6, 9)]
    assert found(lost)[1:] == (
        2,
        [
            *(("READ_CONFLICT", seq, 9) for seq in (5, 6)),
            *(("READ_LOST", seq, 9) for seq in (5, 6)),
        ],
    )
    assert found([PlantedRead(0, 5, 9), PlantedRead(0, 6, 9, partition=1)])[1] is None


def test_reads_without_an_id_are_not_judged() -> None:
    """They are foreign or corrupt; without any other read, nothing can be said."""
    assert found([PlantedRead(None, None, 9)] * 2) == (None, None, [])
    assert found([]) == (None, None, [])


def test_a_corrupt_record_confirms_nothing() -> None:
    """What is stored there is no longer what the consumer received."""
    assert found([READS[2]], [LOG[2]._replace(intact=False)])[0] == 1
    last = PlantedRead(0, 7, 2)  # of the record with the highest number
    assert found([last], [LOG[2]._replace(intact=False)])[0] == 1


@pytest.mark.parametrize(("isolation", "lost"), [("read_uncommitted", 0), ("read_committed", 1)])
def test_a_record_of_an_aborted_transaction_stays_in_the_log(isolation: str, lost: int) -> None:
    """read_uncommitted consumers may receive it; for read_committed it must not have been shown."""
    hidden = [LOG[0]._replace(visible=False), *LOG[1:]]
    transactions = [PlantedTransaction(0, 0, "aborted")]
    assert found(READS, hidden, isolation=isolation, transactions=transactions)[0] == lost


def test_expired_records_are_not_lost() -> None:
    """Retention may delete what consumers received; only below the log's begin."""
    reads = [PlantedRead(0, 5, 1), PlantedRead(0, 6, 2)]
    assert found(reads, LOG[2:], begin_offsets={0: 2}) == (1, None, [("READ_LOST", 6, 2)])
    assert found(reads[:1], LOG[2:], begin_offsets={0: 2}) == (None, None, [])


def test_copiers_read_the_log_and_the_concurrent_consumer_reads_their_output() -> None:
    """A record of the output has no place in the topic under test."""
    output = [PlantedLogRow(0, 3, 0)]
    reads = [PlantedRead(0, 1, 1, consumer=1), PlantedRead(0, 3, 0), PlantedRead(0, 2, 1)]
    assert found(reads, events=[GROUP], output=output) == (1, None, [("READ_LOST", 2, None)])
    crossed = [PlantedRead(0, 3, 0, consumer=1), PlantedRead(0, 0, 0)]
    assert found(crossed, events=[GROUP], output=output)[:2] == (2, None)


@pytest.mark.parametrize(
    ("isolation", "visible", "lost"),
    [
        ("read_uncommitted", False, 0),
        ("read_uncommitted", True, 0),
        ("read_committed", False, 1),
        ("read_committed", True, 0),
    ],
)
def test_the_output_has_hidden_rows_too(isolation: str, visible: bool, lost: int) -> None:
    """Copies of an aborted transaction stay in it, and only read_uncommitted may receive them."""
    output = [PlantedLogRow(0, 3, 0, visible=visible)]
    assert (
        found([PlantedRead(0, 3, 0)], events=[GROUP], output=output, isolation=isolation)[0] == lost
    )


def test_a_lost_read_has_the_cause_of_a_lost_record() -> None:
    """The broker that led when it was received truncated its log below it."""
    events = [
        PlantedEvent(0, "became_leader", 1, 0, 5, 0, Source.BROKER),
        PlantedEvent(3_000_000, "truncated", 1, 0, None, 4, Source.BROKER),
    ]
    attempts = [PlantedAttempt(0, 5, outcome="unknown")]
    tables = measure_planted(
        PlantedTrial("000-a", attempts, LOG[:0], [PlantedRead(0, 5, 9)], events=events)
    )
    assert [
        (row["kind"], row["cause"], row["truncated_to"], row["leader"])
        for row in tables["anomalies"].to_pylist()
        if row["kind"] == "READ_LOST"
    ] == [("READ_LOST", "TRUNCATED", 4, 1)]


PLACES = st.tuples(st.integers(0, 1), st.integers(0, 5))
TRIALS = st.builds(
    lambda log, reads, isolation, begin, output: PlantedTrial(
        "000-any",
        [PlantedAttempt(0, seq, outcome="unknown") for seq in range(12)],
        [
            PlantedLogRow(0, seq, offset, partition, intact, visible=visible)
            for (partition, offset), (seq, intact, visible) in sorted(log.items())
        ],
        [
            PlantedRead(0, seq, offset, 0, 1000 + at, partition, consumer)
            for at, ((partition, offset), seq, consumer) in enumerate(reads)
        ],
        isolation=isolation,
        transactions=[PlantedTransaction(0, 0, "aborted")],
        begin_offsets={0: begin} if begin else {},
        events=[GROUP] if output is not None else [],
        output=output,
    ),
    st.dictionaries(PLACES, st.tuples(st.integers(0, 11), st.booleans(), st.booleans())),
    st.lists(st.tuples(PLACES, st.integers(0, 11), st.integers(0, 2)), max_size=12),
    st.sampled_from(["read_committed", "read_uncommitted"]),
    st.integers(0, 3),
    st.sampled_from([None, [], [PlantedLogRow(0, seq, seq) for seq in range(3)]]),
)


@settings(max_examples=examples(150), deadline=None)
@given(TRIALS)
def test_any_reads_are_judged_as_by_a_loop_over_every_record(trial: PlantedTrial) -> None:
    """The reference is plain Python."""
    (measured,) = to_plain_trials(measure_planted(trial)).values()
    kinds = {kind: count for kind, count in measured.anomalies.items() if "READ_" in kind[0]}
    assert kinds == consumed_anomalies(trial)
    assert {name: measured.counts[name] for name in consumed_counts(trial)} == consumed_counts(
        trial
    )


@settings(max_examples=examples(40), deadline=None)
@given(TRIALS)
def test_units_judge_any_reads_as_the_entire_trial_does(trial: PlantedTrial) -> None:
    """Of two records that were received at one place, each can be another unit's."""
    with TemporaryDirectory() as folder:
        merged = measure_in_units(Path(folder) / "sweep", [trial], Random(1))  # noqa: S311
    entire = measure_planted(trial)
    for name in ("trials", "attribution"):
        assert merged[name].equals(entire[name])


def test_a_conflict_is_found_at_the_offset_after_the_end_of_the_partition_before() -> None:
    """Partition 0 was received up to offset 3, partition 1 at offset 4."""
    log = [*LOG, PlantedLogRow(0, 7, 4, partition=1)]
    reads = [*READS, PlantedRead(0, 7, 4, partition=1)]
    other = PlantedRead(0, 6, 4, partition=1, consumer=1)
    assert found([*reads, other], log)[:2] == (1, 1)


def test_what_was_received_around_an_offset_is_not_in_conflict_with_it() -> None:
    """Partition 1 was received at offsets 1 and 5, and another record at 3; partition 0 at 10."""
    log = [
        PlantedLogRow(0, seq, at, partition=to)
        for seq, at, to in [(0, 10, 0), (1, 1, 1), (2, 5, 1)]
    ]
    reads = [PlantedRead(0, row.seq, row.offset, partition=row.partition) for row in log]
    other = PlantedRead(0, 6, 3, partition=1, consumer=1)
    assert found([*reads, other, reads[0]._replace(consumer=1)], log)[:2] == (1, 0)


def test_units_find_a_conflict_with_a_record_of_another_unit() -> None:
    """Seq 0 and 40 were received at offset 0, and are in different units."""
    trial = PlantedTrial(
        "000-far",
        [PlantedAttempt(0, seq) for seq in range(48)],
        [PlantedLogRow(0, seq, seq) for seq in range(48)],
        [*(PlantedRead(0, seq, seq) for seq in range(48)), PlantedRead(0, 40, 0, consumer=1)],
        phases=Phases(load_begin_ns=0, load_end_ns=10**9, settled_ns=10**9, healthy_ns=10**9),
    )
    with TemporaryDirectory() as folder:
        tables = measure_in_units(Path(folder) / "sweep", [trial], Random(1))  # noqa: S311
    (row,) = tables["trials"].to_pylist()
    assert (row["lost_reads"], row["conflicting_reads"]) == (1, 1)


def test_a_truncation_explains_only_what_was_sent_before_it() -> None:
    """Seq 6 was sent after the leader had truncated its log."""
    ms = 1_000_000
    logged = partial(PlantedEvent, node=2, partition=0, source="broker", resolution_ns=ms)
    trial = PlantedTrial(
        "000-a",
        [PlantedAttempt(0, 5, sent_ns=100 * ms), PlantedAttempt(0, 6, sent_ns=700 * ms)],
        [],
        [PlantedRead(0, 5, 2, received_ns=300 * ms), PlantedRead(0, 6, 3, received_ns=750 * ms)],
        events=(
            logged(0, "became_leader", leader_epoch=5, offset=0),
            logged(600 * ms, "truncated", offset=2),
        ),
    )
    rows = measure_planted(trial)["anomalies"].to_pylist()
    causes = {row["seq"]: row["cause"] for row in rows if row["kind"] == "READ_LOST"}
    assert causes == {5: "TRUNCATED", 6: "UNATTRIBUTED"}
