"""Lesson 15: its five statements, and the cost of a change of the group."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders.findings import a_trial, finding_input_of_trials

from experiments.ledger.record import Cell
from experiments.lessons.finding import Conclusion, Finding
from experiments.lessons.findings.consumer_groups import find

S = 1_000_000_000
COMPLETE = {
    "shown_records": 900,
    "processed_records": 900,
    "missed_records": 0,
    "redelivered_reads": 0,
    "processing_gap_ns": S,
    "overlap_ns": 0,
}
FAULTS = ("consumer-joins", "consumer-leaves", "consumer-crash-before-commit")


def _found(repeats: int = 3, missed: int | None = 0, **first: int) -> Finding:
    """Return the finding for both protocols and all changes.

    Args:
        repeats: trials per cell.
        missed: records that the consumer without a group missed; None: unknown.
        first: columns of the first group of each trial.
    """
    cells: list[Cell] = [
        {"fault": fault, "group.protocol": protocol}
        for protocol in ("classic", "consumer")
        for fault in FAULTS
        for _ in range(repeats)
    ]
    groups = {place: _groups(str(cell["fault"]), first) for place, cell in enumerate(cells)}
    return find(
        finding_input_of_trials(
            [a_trial(cell, missed=missed) for cell in cells], {"groups": groups}
        )
    )


def _groups(fault: str, first: dict[str, int]) -> list[dict[str, Any]]:
    columns = {
        "max_partitions": 2 if fault == "consumer-leaves" else 1,
        "idle_members": int(fault == "consumer-joins"),
        "redelivered_reads": 40,
    }
    return [
        {**COMPLETE, "group": 1, **columns, **first},
        {**COMPLETE, "group": 2, "max_partitions": 1, "idle_members": 0},
    ]


def test_five_statements_that_hold_support_the_claim() -> None:
    """The cost of each change follows the statements."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    assert finding.sentence.startswith(
        "No partition was assigned to two members of a group at the same time: "
        "in each of 18 trials. After one member had left"
    )
    assert "in each of 6 trials" in finding.sentence
    assert (
        "When a member left, a partition was not processed for 1.0 s (3 trials) with the classic "
        "protocol, 1.0 s (3 trials) with the KIP-848 protocol" in finding.sentence
    )
    assert "records processed again: 40 (6 trials)" in finding.sentence


@pytest.mark.parametrize(
    ("seen", "conclusion", "words"),
    [
        ({"overlap_ns": 5}, Conclusion.REFUTED, "at the same time: in 0 of 18 trials"),
        (
            {"processed_records": 899},
            Conclusion.PARTLY_SUPPORTED,
            "processed every record: in 0 of 18 trials",
        ),
        ({"idle_members": 0}, Conclusion.PARTLY_SUPPORTED, "was idle: in 0 of 6 trials"),
        (
            {"max_partitions": 1},
            Conclusion.PARTLY_SUPPORTED,
            "two of the three partitions: in 0 of 6 trials",
        ),
    ],
)
def test_a_statement_that_does_not_hold_is_named(
    seen: dict[str, int], conclusion: Conclusion, words: str
) -> None:
    """Two consumers of one partition refute the claim; all else is partly supported."""
    finding = _found(**seen)
    assert finding.conclusion is conclusion
    assert words in finding.sentence


def test_unknown_counts_are_inconclusive() -> None:
    """The concurrent consumer did not finish, or there are too few trials."""
    assert _found(missed=None).conclusion is Conclusion.INCONCLUSIVE
    assert _found(repeats=0).conclusion is Conclusion.INCONCLUSIVE
