"""Transactions with a known truth: what may be claimed of each record, and which transactions are shown in part."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_jobs.io.frames import frames_from_tables
from spark_jobs.io.ledgers import InvalidLedger
from spark_jobs.pipeline import measure_frames
from spark_jobs.planted import (
    PlantedAttempt,
    PlantedLogRow,
    PlantedRead,
    PlantedTransaction,
    PlantedTrial,
    combined_tables,
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
    """Transactions of so many records each; every one's outcome, and for each record whether it is shown (+), hidden (-) or not there (.)."""
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
        trial(f"{ending} and shown", (ending, "+++"))
        for ending in ("aborted", "fenced", "abandoned")
    ),
    trial("aborted and shown in part", ("aborted", "-+-")),
    trial("committed in part", ("committed", "+-.")),
    trial("unknown and whole", ("unknown", "+++"), ("unknown", "---")),
    trial("unknown and torn", ("unknown", "++-")),
    trial(
        "over the edge of a block",
        ("unknown", "+" * 64 + "." * 6),
        ("unknown", "+" * 70),
        records=70,
    ),
    PlantedTrial(
        "two producers",
        [PlantedAttempt(0, 0, transaction=0), PlantedAttempt(1, 0, transaction=0)],
        [PlantedLogRow(0, 0, 0), PlantedLogRow(1, 0, 1)],
        transactions=[PlantedTransaction(0, 0), PlantedTransaction(1, 0, "aborted")],
    ),
    PlantedTrial(
        "refused inside",
        [
            PlantedAttempt(0, 0, transaction=0),
            PlantedAttempt(0, 1, "rejected", transaction=0),
            PlantedAttempt(0, 2, "rejected"),
        ],
        [PlantedLogRow(0, 0, 0)],
        transactions=[PlantedTransaction(0, 0, records=2)],
    ),
)


def measured(spark: SparkSession, *trials: PlantedTrial) -> Tables:
    """What the job finds of trials that lie in no file."""
    return measure_frames(
        frames_from_tables(spark, combined_tables(trials)), [of.ledger() for of in trials]
    )


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Tables:
    """Of all planted trials, measured together."""
    return measured(spark, *PLANTED)


def row(found: Tables, name: str) -> dict[str, Any]:
    """A trial's row."""
    (of,) = (row for row in found["trials"].to_pylist() if row["trial_id"] == name)
    return dict(of)


def counts(found: Tables, name: str) -> dict[str, Any]:
    """The counts of a trial that only transactions have, where they are not 0."""
    return {count: row(found, name)[count] for count in COUNTS if row(found, name)[count] != 0}


def fates(found: Tables, name: str) -> dict[str, int]:
    """How many records of each fate."""
    return {
        of["fate"]: of["records"]
        for of in found["fates"].to_pylist()
        if of["trial_id"] == name and of["records"]
    }


def test_a_trial_without_transactions_has_no_count_of_them(found: Tables) -> None:
    """Null, and not 0: there was nothing that could be torn."""
    assert counts(found, "plain") == dict.fromkeys(COUNTS[:4])


@pytest.mark.parametrize("ending", ["aborted", "fenced", "abandoned"])
def test_what_was_not_committed_must_not_be_shown(found: Tables, ending: str) -> None:
    """It is in the log, and that is no loss; once it is shown, each record of it is a violation."""
    assert (fates(found, f"{ending} and hidden"), fates(found, f"{ending} and shown")) == (
        {"ABORTED": 3},
        {"ABORTED_VISIBLE": 3},
    )
    assert counts(found, f"{ending} and hidden") == {"aborted_transactions": 1, "hidden_copies": 3}
    assert counts(found, f"{ending} and shown") == {
        "aborted_transactions": 1,
        "aborted_visible_records": 3,
    }


def test_what_was_committed_is_lost_where_it_is_not_shown(found: Tables) -> None:
    """Whether the log holds it or not: the client was told that it is committed."""
    assert fates(found, "committed in part") == {"DELIVERED_ONCE": 1, "LOST": 2}
    assert counts(found, "committed in part") == {
        "committed_transactions": 1,
        "torn_transactions": 1,
        "hidden_copies": 1,
    }


def test_an_unknown_transaction_may_be_shown_whole_or_not_at_all(found: Tables) -> None:
    """Its records are of unknown fate, whatever their own acknowledgements said; in part it may not be shown."""
    assert fates(found, "unknown and whole") == {"UNKNOWN_PRESENT": 3, "UNKNOWN_ABSENT": 3}
    assert counts(found, "unknown and whole") == {"unknown_transactions": 2, "hidden_copies": 3}
    assert counts(found, "unknown and torn") == {
        "unknown_transactions": 1,
        "torn_transactions": 1,
        "hidden_copies": 1,
    }


def test_a_transaction_over_the_edge_of_a_block_is_one(found: Tables) -> None:
    """Its 70 records lie in two bitmaps: whole in one and absent from the other is in part."""
    assert counts(found, "over the edge of a block") == {
        "unknown_transactions": 2,
        "torn_transactions": 1,
    }


def test_a_record_that_the_client_refused_tears_no_transaction(found: Tables) -> None:
    """It never was in it."""
    assert counts(found, "refused inside") == {"committed_transactions": 1}
    assert fates(found, "refused inside") == {"DELIVERED_ONCE": 1, "REJECTED": 2}


def test_records_that_may_not_be_shown_are_named(found: Tables) -> None:
    """One by one, with where they are."""
    named = [
        (of["kind"], of["seq"], of["offset"])
        for of in found["anomalies"].to_pylist()
        if of["trial_id"] == "aborted and shown in part"
    ]
    assert named == [("ABORTED_VISIBLE", 1, 1)]


def test_two_producers_have_transactions_of_the_same_number(found: Tables) -> None:
    """Each one's is its own."""
    assert fates(found, "two producers") == {"DELIVERED_ONCE": 1, "ABORTED_VISIBLE": 1}


def test_a_partition_that_takes_records_is_available_whatever_becomes_of_them(
    found: Tables,
) -> None:
    """The brokers acknowledged the appends, though no transaction was committed."""
    of = row(found, "aborted and hidden")
    assert (of["acked_records"], of["unavailable_ns"]) == (0, 1_000_000)


def test_how_long_the_reader_stood_still_is_told(found: Tables) -> None:
    """Its longest wait; null where nobody read."""
    assert [row(found, name)["consumer_unavailable_ns"] for name in ("plain", "two producers")] == [
        7_000_000,
        None,
    ]


def test_hidden_rows_of_a_log_without_transactions_are_no_ledger(spark: SparkSession) -> None:
    """Nothing but a transaction hides a record."""
    with pytest.raises(InvalidLedger, match="hidden"):
        measured(
            spark,
            PlantedTrial("plain", [PlantedAttempt(0, 0)], [PlantedLogRow(0, 0, 0, visible=False)]),
        )
