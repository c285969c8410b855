"""Lesson 15: its five statements, and the cost of a change of the group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.builders.findings import a_trial, finding_input_of_trials
from support.builders.records import a_spec
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.sweep.plan import ClusterNeed

find = load_finding("consumer_groups")

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


def test_five_statements_that_hold_support_the_claim(says: Says) -> None:
    """The cost of each change follows the statements."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    assert finding.sentence.startswith(
        "No partition was held by two members of a group that kept their session: "
        "in 18 of 18 trials. After one member had left"
    )
    says(finding.sentence)


@pytest.mark.parametrize(
    ("seen", "conclusion", "words"),
    [
        ({"overlap_ns": 5}, Conclusion.REFUTED, "kept their session: in 0 of 18 trials"),
        (
            {"processed_records": 899},
            Conclusion.REFUTED,
            "processed every record: in 0 of 18 trials",
        ),
        ({"idle_members": 0}, Conclusion.REFUTED, "was idle: in 0 of 6 trials"),
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
    """Each of them refutes the claim, but what a consumer may have only limits it."""
    finding = _found(**seen)
    assert finding.conclusion is conclusion
    assert words in finding.sentence


def _paused(overlap_s: float) -> Finding:
    """Return the finding where a paused member overlaps with another for this long."""
    cells: list[Cell] = [
        {"fault": fault, "group.protocol": "classic"}
        for fault in (*FAULTS, "consumer-pause")
        for _ in range(3)
    ]
    groups = {
        place: _groups(
            str(cell["fault"]),
            {"overlap_ns": int(overlap_s * S)} if cell["fault"] == "consumer-pause" else {},
        )
        for place, cell in enumerate(cells)
    }
    return find(
        finding_input_of_trials([a_trial(cell, missed=0) for cell in cells], {"groups": groups})
    )


def test_a_paused_member_that_still_holds_its_partition_limits_the_claim(says: Says) -> None:
    """The coordinator has given it to another member, which the paused one cannot know."""
    finding = _paused(overlap_s=1.5)
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    says(finding.sentences)
    says(finding.remark)
    says(finding.sentence)


def test_a_paused_member_without_overlap_supports_the_claim(says: Says) -> None:
    """The sentence says in how many trials it was looked for."""
    finding = _paused(overlap_s=0)
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)


def test_the_session_behind_the_time_after_a_crash_is_named(says: Says) -> None:
    """Each protocol has its own; the default is 45 seconds for both."""
    cells: list[Cell] = [
        {"fault": "consumer-crash-before-commit", "group.protocol": protocol}
        for protocol in ("classic", "consumer")
    ]
    groups = {place: _groups(str(cell["fault"]), {}) for place, cell in enumerate(cells)}
    data = finding_input_of_trials([a_trial(cell) for cell in cells], {"groups": groups})
    specs = (
        a_spec(trial_id="000", cell=cells[0], consumer={"session.timeout.ms": "2000"}),
        a_spec(
            trial_id="001",
            cell=cells[1],
            cluster=ClusterNeed(
                kafka_version="4.3.1", broker={"group.consumer.session.timeout.ms": "2500"}
            ),
        ),
    )
    finding = find(replace(data, plan=data.plan.model_copy(update={"trials": specs})))
    says(finding.sentence)


def test_unknown_counts_are_inconclusive() -> None:
    """The concurrent consumer did not finish, or there are too few trials."""
    assert _found(missed=None).conclusion is Conclusion.INCONCLUSIVE
    assert _found(repeats=0).conclusion is Conclusion.INCONCLUSIVE
