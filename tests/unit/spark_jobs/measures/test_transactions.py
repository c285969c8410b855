"""Planted transactions: the outcome of each record, and which transactions are visible in part."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured import measure_planted, planted_arrays

from ackbench.experiments.ledger.schema import TRANSACTIONS
from ackbench.spark_jobs.io.columns import OUTCOMES
from ackbench.spark_jobs.io.ledgers import InvalidLedger
from ackbench.spark_jobs.measures.fates import record_fates
from ackbench.spark_jobs.measures.transactions import (
    TransactionMeasure,
    Visibilities,
    Visibility,
    transactional_outcomes,
    visibilities,
)
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
    PlantedTrial,
)

Tables = dict[str, pa.Table]
COUNTS = (
    "committed_transactions",
    "aborted_transactions",
    "unknown_transactions",
    "torn_transactions",
    "aborted_visible_records",
    "hidden_copies",
)


def trial(name: str, *ends: tuple[str, str], records: int = 3) -> PlantedTrial:
    """Return a trial with transactions of `records` records each.

    Args:
        name: the trial's id.
        ends: of each transaction, its outcome, and for each record whether it is visible (+),
            hidden (-) or absent (.).
        records: per transaction.
    """
    attempts = [
        PlantedAttempt(0, number * records + at, transaction=number)
        for number in range(len(ends))
        for at in range(records)
    ]
    kept = [
        (attempt, ends[attempt.transaction or 0][1][attempt.seq % records]) for attempt in attempts
    ]
    log = [
        PlantedLogRow(0, attempt.seq, attempt.seq, visible=sign == "+")
        for attempt, sign in kept
        if sign != "."
    ]
    return PlantedTrial(
        name,
        attempts,
        log,
        transactions=[
            PlantedTransaction(0, number, outcome, records)
            for number, (outcome, _) in enumerate(ends)
        ],
    )


PLANTED = (
    PlantedTrial(
        "plain",
        [PlantedAttempt(0, 0)],
        [PlantedLogRow(0, 0, 0)],
        [PlantedRead(0, 0, 0, received_ns=7_000_000)],
    ),
    *(
        trial(f"{ending} and hidden", (ending, "---"))
        for ending in ("aborted", "fenced", "abandoned")
    ),
    *(
        trial(f"{ending} and visible", (ending, "+++"))
        for ending in ("aborted", "fenced", "abandoned")
    ),
    trial("aborted and visible in part", ("aborted", "-+-")),
    trial("committed in part", ("committed", "+-.")),
    trial("unknown and complete", ("unknown", "+++"), ("unknown", "---")),
    trial("unknown and torn", ("unknown", "++-")),
    trial("across two blocks", ("unknown", "+" * 64 + "." * 6), ("unknown", "+" * 70), records=70),
    PlantedTrial(
        "two producers",
        [PlantedAttempt(0, 0, transaction=0), PlantedAttempt(1, 0, transaction=0)],
        [PlantedLogRow(0, 0, 0), PlantedLogRow(1, 0, 1)],
        transactions=[PlantedTransaction(0, 0), PlantedTransaction(1, 0, "aborted")],
    ),
    PlantedTrial(
        "rejected inside",
        [
            PlantedAttempt(0, 0, transaction=0),
            PlantedAttempt(0, 1, "rejected", transaction=0),
            PlantedAttempt(0, 2, "rejected"),
        ],
        [PlantedLogRow(0, 0, 0)],
        transactions=[PlantedTransaction(0, 0, records=2)],
    ),
)


@pytest.fixture(scope="module")
def found() -> Tables:
    """Return the results of all planted trials."""
    return measure_planted(*PLANTED)


def row(found: Tables, name: str) -> dict[str, Any]:
    """Return a trial's row."""
    (of,) = (row for row in found["trials"].to_pylist() if row["trial_id"] == name)
    return dict(of)


def counts(found: Tables, name: str) -> dict[str, Any]:
    """Return a trial's counts of transactions, except those that are 0."""
    return {count: row(found, name)[count] for count in COUNTS if row(found, name)[count] != 0}


def fates(found: Tables, name: str) -> dict[str, int]:
    """Return the number of records of each fate."""
    return {
        of["fate"]: of["records"]
        for of in found["fates"].to_pylist()
        if of["trial_id"] == name and of["records"]
    }


def test_a_trial_without_transactions_has_no_counts_of_them(found: Tables) -> None:
    """The counts are null, not 0."""
    assert counts(found, "plain") == dict.fromkeys(COUNTS[:4])


@pytest.mark.parametrize("ending", ["aborted", "fenced", "abandoned"])
def test_records_that_were_not_committed_must_not_be_visible(found: Tables, ending: str) -> None:
    """Hidden in the log, they are no loss; each visible one is a violation."""
    assert (fates(found, f"{ending} and hidden"), fates(found, f"{ending} and visible")) == (
        {"ABORTED": 3},
        {"ABORTED_VISIBLE": 3},
    )
    assert counts(found, f"{ending} and hidden") == {"aborted_transactions": 1, "hidden_copies": 3}
    assert counts(found, f"{ending} and visible") == {
        "aborted_transactions": 1,
        "aborted_visible_records": 3,
    }


def test_a_committed_record_that_is_not_visible_is_lost(found: Tables) -> None:
    """It does not matter whether the log holds it: the client received the commit."""
    assert fates(found, "committed in part") == {"DELIVERED_ONCE": 1, "LOST": 2}
    assert counts(found, "committed in part") == {
        "committed_transactions": 1,
        "torn_transactions": 1,
        "hidden_copies": 1,
    }


def test_an_unknown_transaction_may_be_visible_completely_or_not_at_all(found: Tables) -> None:
    """Its records have an unknown outcome, even if they were acknowledged."""
    assert fates(found, "unknown and complete") == {"UNKNOWN_PRESENT": 3, "UNKNOWN_ABSENT": 3}
    assert counts(found, "unknown and complete") == {"unknown_transactions": 2, "hidden_copies": 3}
    assert counts(found, "unknown and torn") == {
        "unknown_transactions": 1,
        "torn_transactions": 1,
        "hidden_copies": 1,
    }


def test_a_transaction_across_two_blocks_is_one(found: Tables) -> None:
    """Visible in one bitmap and absent from the other is visible in part."""
    assert counts(found, "across two blocks") == {"unknown_transactions": 2, "torn_transactions": 1}


def test_a_rejected_record_tears_no_transaction(found: Tables) -> None:
    """It was never part of the transaction."""
    assert counts(found, "rejected inside") == {"committed_transactions": 1}
    assert fates(found, "rejected inside") == {"DELIVERED_ONCE": 1, "REJECTED": 2}


def test_records_that_must_not_be_visible_are_anomalies(found: Tables) -> None:
    """Each has a row with its offset."""
    named = [
        (of["kind"], of["seq"], of["offset"])
        for of in found["anomalies"].to_pylist()
        if of["trial_id"] == "aborted and visible in part"
    ]
    assert named == [("ABORTED_VISIBLE", 1, 1)]


def test_producers_number_their_transactions_independently(found: Tables) -> None:
    """Two producers have a transaction of the same number."""
    assert fates(found, "two producers") == {"DELIVERED_ONCE": 1, "ABORTED_VISIBLE": 1}


def test_a_partition_that_stores_records_of_aborted_transactions_is_available(
    found: Tables,
) -> None:
    """The brokers acknowledged the appends, though no transaction was committed."""
    of = row(found, "aborted and hidden")
    assert (of["acked_records"], of["unavailable_ns"]) == (0, 1_000_000)


def test_the_longest_gap_of_the_concurrent_consumer_is_measured(found: Tables) -> None:
    """It is null if there were no reads."""
    assert [row(found, name)["consumer_unavailable_ns"] for name in ("plain", "two producers")] == [
        7_000_000,
        None,
    ]


def test_hidden_rows_in_a_log_without_transactions_make_the_ledger_invalid() -> None:
    """Only a transaction can hide a record."""
    with pytest.raises(
        InvalidLedger,
        match=r"^trial plain: log.parquet has 1 hidden rows, but transactions.parquet has no rows",
    ):
        measure_planted(
            PlantedTrial("plain", [PlantedAttempt(0, 0)], [PlantedLogRow(0, 0, 0, visible=False)])
        )


# The laws.

ENDS = ("committed", "aborted", "fenced", "abandoned", "unknown")
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([None, 0, 1, 70]),
        st.sampled_from(["acked", "rejected", "unknown"]),
        st.booleans(),
    ),
    max_size=10,
)
"""Producer, transaction, outcome, and whether it is in the visible log."""
Record = tuple[int, int | None, str, bool]


def visible(records: list[Record]) -> Visibilities:
    """Return how many records of each transaction are visible."""
    unit = planted_arrays(
        [
            PlantedAttempt(producer, seq, outcome, transaction=transaction)
            for seq, (producer, transaction, outcome, _) in enumerate(records)
        ],
        [
            PlantedLogRow(producer, seq, seq)
            for seq, (producer, _, _, there) in enumerate(records)
            if there
        ],
    )
    return visibilities(unit.attempts, record_fates(unit.attempts, unit.log, unit.ids))


@given(RECORDS)
def test_a_transaction_has_the_records_that_were_not_rejected(records: list[Record]) -> None:
    """They are counted one at a time."""
    sent = [(producer, of, there) for producer, of, end, there in records if end != "rejected"]
    all_ = Counter((producer, of) for producer, of, _ in sent if of is not None)
    some = Counter((producer, of) for producer, of, there in sent if there and of is not None)
    assert visible(records) == {key: Visibility(all_[key], some[key]) for key in all_}


@given(RECORDS, RECORDS, RECORDS)
def test_visibilities_of_parts_merge_to_those_of_all_records(
    one: list[Record], other: list[Record], third: list[Record]
) -> None:
    """In any order and association: a transaction can have records in every part."""
    a, b, c = (TransactionMeasure(visible(records)) for records in (one, other, third))
    expected = TransactionMeasure(visible([*one, *other, *third]))
    assert (a + b) + c == expected
    assert c + (b + a) == expected


@given(
    RECORDS,
    st.dictionaries(
        st.tuples(st.integers(0, 1), st.sampled_from([0, 1, 70])), st.sampled_from(ENDS)
    ),
)
def test_an_outcome_follows_from_that_of_its_transaction(
    records: list[Record], ends: dict[tuple[int, int], str]
) -> None:
    """A transaction without a row, and a record without a transaction, change nothing."""
    unit = planted_arrays(
        [
            PlantedAttempt(producer, seq, outcome, transaction=transaction)
            for seq, (producer, transaction, outcome, _) in enumerate(records)
        ]
    )
    transactions = pa.Table.from_pylist(
        [
            PlantedTransaction(producer, number, outcome)._asdict()
            for (producer, number), outcome in ends.items()
        ],
        TRANSACTIONS,
    )
    found = [OUTCOMES[code] for code in transactional_outcomes(unit.attempts, transactions)]
    assert found == [
        _outcome(
            outcome, ends.get((producer, transaction or 0)) if transaction is not None else None
        )
        for producer, transaction, outcome, _ in records
    ]


def _outcome(outcome: str, end: str | None) -> str:
    if end in {"aborted", "fenced", "abandoned"}:
        return "aborted"
    return "unknown" if end == "unknown" and outcome != "rejected" else outcome
