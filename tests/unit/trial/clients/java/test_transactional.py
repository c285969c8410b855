"""The transactions that the Java program reports, as rows of the ledger's table."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from ackbench.experiments.ledger.terms import ABANDONED, ABORTED, COMMITTED, UNKNOWN
from ackbench.experiments.trial.clients.java.transactional import (
    due_in_own_transaction,
    transaction_rows,
)
from ackbench.experiments.trial.clients.producer.transactions_file import (
    count_begun,
    transactions_table,
)
from ackbench.experiments.trial.clients.programs.program import parse_lines

FENCED_EXCEPTION = "class org.apache.kafka.common.errors.ProducerFencedException"
NAMES = (
    "transaction_begun",
    "transaction_commit_requested",
    "transaction_committed",
    "transaction_aborted",
    "transaction_fenced",
    "transaction_failed",
)


def reported(*lines: tuple[str, int, int], exception: str | None = None) -> pa.Table:
    """Return the lines of a program: suffix of the name, transaction, milliseconds."""
    text = "".join(
        json.dumps(
            {
                "timestamp": at_ms,
                "name": f"transaction_{suffix}",
                "value": str(number),
                **(
                    {"exception": exception} if exception and suffix in {"fenced", "failed"} else {}
                ),
            }
        )
        + "\n"
        for suffix, number, at_ms in lines
    )
    return parse_lines(text.encode(), *NAMES)


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (["begun", "commit_requested", "committed"], COMMITTED),
        (["begun", "aborted"], ABORTED),
        (["begun", "commit_requested", "aborted"], ABORTED),
        (["begun", "commit_requested", "fenced"], UNKNOWN),
        (["begun", "commit_requested", "failed"], UNKNOWN),
        (["begun", "commit_requested"], UNKNOWN),
        (["begun", "failed"], ABANDONED),
        (["begun"], ABANDONED),
    ],
)
def test_the_outcome_is_what_the_client_knows(lines: list[str], outcome: str) -> None:
    """A commit that was requested may have happened, unless the client aborted."""
    table = reported(*((suffix, 0, 1000 + at) for at, suffix in enumerate(lines)))
    rows = transaction_rows(table, 3, ahead_ns=0)
    assert count_begun(rows) == 1
    assert transactions_table(rows, 0, 10, 10)["outcome"].to_pylist() == [outcome]


def test_times_are_on_the_trials_clock_and_the_error_is_kafkas() -> None:
    """Begin and end come from the program's wall clock."""
    table = reported(
        ("begun", 0, 5),
        ("aborted", 0, 7),
        ("begun", 1, 8),
        ("fenced", 1, 9),
        exception=FENCED_EXCEPTION,
    )
    rows = transaction_rows(table, 2, ahead_ns=3)
    assert rows["begin_ns"].tolist() == [5_000_003, 8_000_003]
    assert rows["end_ns"].tolist() == [7_000_003, 9_000_003]
    assert rows["error"].tolist() == [0, 90]


def test_a_transaction_that_was_never_begun_has_no_row() -> None:
    """The program stopped before it."""
    rows = transaction_rows(reported(("begun", 0, 5)), 2, ahead_ns=0)
    assert np.count_nonzero(rows["begin_ns"]) == 1
    assert transactions_table(rows, 0, 10, 10).num_rows == 1


def test_what_was_due_before_its_transaction_began_is_not_late() -> None:
    """The commit of the first transaction lasted until 8 ms: records 2 and 3 waited for it."""
    rows = transaction_rows(reported(("begun", 0, 1), ("begun", 1, 8)), 2, ahead_ns=0)
    attempts = pa.table(
        {"seq": range(5), "intended_ns": [at * 1_000_000 for at in (1, 2, 3, 7, 8)]}
    )
    assert due_in_own_transaction(attempts, rows, 3)["seq"].to_pylist() == [0, 1, 2, 4]
