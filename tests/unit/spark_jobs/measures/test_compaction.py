"""Compacted topics: which absent records a later one of their key explains."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.measured import measure_planted
from support.reference.consumed import compaction_counts
from support.reference.transactions import as_read_committed
from support.tiers import examples

from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedLogRow,
    PlantedTransaction,
    PlantedTrial,
)


def counted(
    attempts: list[PlantedAttempt], log: list[PlantedLogRow], cleanup: str = "compact"
) -> tuple[int | None, int | None, list[int]]:
    """Return removed records, lost values, and the seq of the anomalies."""
    tables = measure_planted(PlantedTrial("000-a", attempts, log, cleanup=cleanup))
    (trial,) = tables["trials"].to_pylist()
    lost = [row["seq"] for row in tables["anomalies"].to_pylist() if row["kind"] == "VALUE_LOST"]
    return trial["compacted_records"], trial["lost_values"], lost


def sent(seq: int, key: int | None = 1, offset: int | None = None, **others: Any) -> PlantedAttempt:
    """Return an acknowledged record with a key; its offset is its seq."""
    return PlantedAttempt(0, seq, key=key, offset=seq if offset is None else offset, **others)


def test_a_later_record_of_its_key_explains_an_absent_one() -> None:
    """Compaction keeps the last record of each key."""
    attempts = [sent(0), sent(1), sent(2, key=2)]
    log = [PlantedLogRow(0, 1, 1), PlantedLogRow(0, 2, 2)]
    assert counted(attempts, log) == (1, 0, [])


def test_a_last_value_that_is_absent_was_lost() -> None:
    """An earlier one, and a later one of another key, explain nothing."""
    attempts = [sent(0), sent(1), sent(2, key=2)]
    log = [PlantedLogRow(0, 0, 0), PlantedLogRow(0, 2, 2)]
    assert counted(attempts, log) == (0, 1, [1])


def test_a_later_record_of_unknown_outcome_explains_it_too() -> None:
    """What the log has, a consumer of the topic receives."""
    attempts = [sent(0), sent(1, outcome="unknown")]
    assert counted(attempts, [PlantedLogRow(0, 1, 1)]) == (1, 0, [])


def test_later_is_behind_in_the_partition_or_sent_later_by_the_producer() -> None:
    """Of two producers, the offset decides; in another partition, nothing of another producer."""
    absent, other = sent(5), PlantedAttempt(1, 0, key=1, offset=9)
    assert counted([absent, other], [PlantedLogRow(1, 0, 9)])[:2] == (1, 0)
    assert counted([absent, other], [PlantedLogRow(1, 0, 4)])[:2] == (0, 1)
    assert counted([absent, other], [PlantedLogRow(1, 0, 5)])[:2] == (0, 1)
    elsewhere = other._replace(partition=1)
    assert counted([absent, elsewhere], [PlantedLogRow(1, 0, 9, partition=1)])[:2] == (0, 1)
    assert counted([absent, sent(6)], [PlantedLogRow(0, 6, 1)])[:2] == (1, 0)


def test_without_an_offset_the_order_of_sending_decides() -> None:
    """With acks=0 no offset is reported."""
    absent = sent(5)._replace(offset=None)
    other = PlantedAttempt(1, 0, key=1, offset=9)
    assert counted([absent, other], [PlantedLogRow(1, 0, 9)])[:2] == (0, 1)
    assert counted([absent, sent(6)], [PlantedLogRow(0, 6, 9)])[:2] == (1, 0)


def test_only_acknowledged_records_with_a_key_are_judged() -> None:
    """Brokers reject records without a key."""
    attempts = [sent(0, key=None), sent(1, outcome="unknown"), sent(2, outcome="rejected")]
    assert counted(attempts, []) == (0, 0, [])
    assert counted([sent(0)], []) == (0, 1, [0])


def test_a_record_of_an_aborted_transaction_is_not_acknowledged() -> None:
    """Its leader acknowledged it; for an application it is not written."""
    tables = measure_planted(
        PlantedTrial(
            "000-a",
            [sent(0, transaction=0)],
            [],
            transactions=[PlantedTransaction(0, 0, "aborted")],
            cleanup="compact",
        )
    )
    (trial,) = tables["trials"].to_pylist()
    assert (trial["compacted_records"], trial["lost_values"]) == (0, 0)


def test_a_topic_that_is_not_compacted_has_no_such_counts() -> None:
    """`compact,delete` is compaction too."""
    assert counted([sent(0)], [], "delete") == (None, None, [])
    assert counted([sent(0)], [], "compact,delete")[:2] == (0, 1)


TRIALS = st.builds(
    lambda attempts, log: PlantedTrial(
        "000-any",
        [
            PlantedAttempt(producer, seq, outcome, key=key, offset=offset, partition=partition)
            for (producer, seq), (outcome, key, offset, partition) in sorted(attempts.items())
        ],
        [
            PlantedLogRow(producer, seq, offset, partition, intact)
            for (partition, offset), (producer, seq, intact) in sorted(log.items())
        ],
        cleanup="compact",
    ),
    st.dictionaries(
        st.tuples(st.integers(0, 1), st.integers(0, 5)),
        st.tuples(
            st.sampled_from(["acked", "acked", "unknown"]),
            st.sampled_from([None, 0, 1, 2]),
            st.sampled_from([None, *range(8)]),
            st.integers(0, 1),
        ),
    ),
    st.dictionaries(
        st.tuples(st.integers(0, 1), st.integers(0, 7)),
        st.tuples(st.integers(0, 1), st.integers(0, 6), st.booleans()),
        max_size=6,
    ),
)


@settings(max_examples=examples(150), deadline=None)
@given(TRIALS)
def test_any_log_is_judged_as_by_a_loop_over_every_record(trial: PlantedTrial) -> None:
    """The reference is plain Python."""
    (row,) = measure_planted(trial)["trials"].to_pylist()
    expected = compaction_counts(as_read_committed(trial))
    assert {name: row[name] for name in expected} == expected
