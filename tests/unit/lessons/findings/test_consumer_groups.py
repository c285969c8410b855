"""Lesson 15: each of its five sentences by itself, and what a change of the group costs."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.consumer_groups import find

S = 1_000_000_000
WHOLE = {
    "shown_records": 900,
    "processed_records": 900,
    "missed_records": 0,
    "redelivered_reads": 0,
    "processing_gap_ns": S,
    "overlap_ns": 0,
}
FAULTS = ("consumer-joins", "consumer-leaves", "consumer-killed-before-commit")


def _found(repeats: int = 3, missed: int | None = 0, **first: int) -> Finding:
    """Both protocols and all changes; what is said is of each trial's first group."""
    cells: list[Cell] = [
        {"fault": fault, "group.protocol": protocol}
        for protocol in ("classic", "consumer")
        for fault in FAULTS
        for _ in range(repeats)
    ]
    groups = {place: _groups(str(cell["fault"]), first) for place, cell in enumerate(cells)}
    return find(material_of([a_trial(cell, missed=missed) for cell in cells], {"groups": groups}))


def _groups(fault: str, first: dict[str, int]) -> list[dict[str, Any]]:
    told = {
        "max_partitions": 2 if fault == "consumer-leaves" else 1,
        "idle_members": int(fault == "consumer-joins"),
        "redelivered_reads": 40,
    }
    return [
        {**WHOLE, "group": 1, **told, **first},
        {**WHOLE, "group": 2, "max_partitions": 1, "idle_members": 0},
    ]


def test_all_five_sentences_held() -> None:
    """And the price of a change stands beside them."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    assert finding.sentence.startswith(
        "No partition was held by two members of a group at once: in each of 18 trials. With one member gone"
    )
    assert "in each of 6 trials" in finding.sentence
    assert (
        "When one left, a partition stood still for 1.0 s (3 trials) with the classic protocol, 1.0 s (3 trials) with the KIP-848 protocol"
        in finding.sentence
    )
    assert "records processed again: 40 (6 trials)" in finding.sentence


@pytest.mark.parametrize(
    ("seen", "conclusion", "words"),
    [
        ({"overlap_ns": 5}, Conclusion.REFUTED, "at once: 0 of 18 trials"),
        (
            {"processed_records": 899},
            Conclusion.PARTLY_SUPPORTED,
            "processed every record: 0 of 18 trials",
        ),
        ({"idle_members": 0}, Conclusion.PARTLY_SUPPORTED, "sat idle: 0 of 6 trials"),
        (
            {"max_partitions": 1},
            Conclusion.PARTLY_SUPPORTED,
            "two of the three partitions: 0 of 6 trials",
        ),
    ],
)
def test_a_sentence_that_did_not_hold_is_named(
    seen: dict[str, int], conclusion: Conclusion, words: str
) -> None:
    """Two consumers of one partition are what a group is there to exclude."""
    finding = _found(**seen)
    assert finding.conclusion is conclusion
    assert words in finding.sentence


def test_what_nobody_can_tell_leaves_it_open() -> None:
    """A reader along that did not come to the end, or too few trials."""
    assert _found(missed=None).conclusion is Conclusion.INCONCLUSIVE
    assert _found(repeats=0).conclusion is Conclusion.INCONCLUSIVE
