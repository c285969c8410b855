"""Lesson 3: how many broker crashes a replication factor survives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from support.builders.findings import a_trial, finding_input_of_trials, outage_rows

from experiments.ledger.record import Cell
from experiments.lessons.finding import Conclusion, Finding
from experiments.lessons.findings.replicas_and_survivors import find
from experiments.results.models import TrialResult

TOGETHER = "leader-crash & follower-crash"
READ_AND_WRITTEN, READ, NEITHER = "read and written", "read", ""
Row = tuple[TrialResult, list[dict[str, Any]]]


def _three(
    replicas: int, minimum: int, crashed: int, survived: str, lost: int = 0
) -> Iterable[Row]:
    """Yield three trials whose crashed brokers restart after 4 s.

    Another broker leads after 2 s if the crashes are survived; else a restarted one after 5 s.
    """
    cell: Cell = {
        "acks": "all",
        "replication.factor": replicas,
        "min.insync.replicas": minimum,
        "fault": TOGETHER if crashed > 1 else "leader-crash",
    }
    wrote = survived == READ_AND_WRITTEN
    for _ in range(3):
        trial = a_trial(
            cell,
            targets=tuple(range(1, crashed + 1)),
            parameters={
                "1.leader-crash.restart_after_s": 4.0,
                "2.follower-crash.restart_after_s": 4.0,
            },
            recovered_before_heal=wrote,
            lost=(lost, lost),
        )
        yield (
            trial,
            outage_rows(0, elected=2000 if survived else 5000, first_after=2100 if wrote else 5100),
        )


def _found(rows: Iterable[Row]) -> Finding:
    made = list(rows)
    return find(
        finding_input_of_trials(
            [trial for trial, _ in made], {"outages": dict(enumerate(marks for _, marks in made))}
        )
    )


def test_reads_that_survive_more_than_writes_support_the_claim_in_part() -> None:
    """With a minimum of 2, the second crash stops writes but not reads."""
    finding = _found([*_three(3, 2, 1, READ_AND_WRITTEN), *_three(3, 2, 2, READ)])
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert (
        "min.insync.replicas=2: with 1 crashed broker read in 3 and written in 3 of 3 trials, "
        "with 2 crashed brokers read in 3 and written in 0 of 3 trials." in finding.sentence
    )
    assert (
        "writes n - min.insync.replicas, and neither more, in 6 of 6 trials "
        "(above 54 %)" in finding.sentence
    )


def test_a_single_replica_that_waits_for_its_broker_is_as_expected() -> None:
    """Replication factor 1 survives no crash, replication factor 2 survives one."""
    finding = _found(
        [*_three(1, 1, 1, NEITHER), *_three(2, 1, 1, READ_AND_WRITTEN), *_three(2, 1, 2, NEITHER)]
    )
    assert finding.conclusion is Conclusion.SUPPORTED


@pytest.mark.parametrize("survived", [READ, NEITHER])
def test_an_unsurvived_crash_refutes_the_claim(survived: str) -> None:
    """It counts whether reads, or only writes, waited for the restart."""
    assert _found(_three(3, 1, 2, survived)).conclusion is Conclusion.REFUTED


def test_a_takeover_too_short_for_an_outage_counts() -> None:
    """A partition that was written before the restart had a leader."""
    finding = _found((trial, []) for trial, _ in _three(2, 1, 1, READ_AND_WRITTEN))
    assert "with 1 crashed broker read in 3 and written in 3 of 3 trials" in finding.sentence


def test_a_loss_refutes_the_claim() -> None:
    """With acks=all, the crashed brokers come back with their files."""
    finding = _found(_three(3, 1, 2, READ_AND_WRITTEN, lost=17))
    assert finding.conclusion is Conclusion.REFUTED
    assert "were lost in 3 of 3 trials" in finding.sentence


def test_one_slow_takeover_of_three_is_inconclusive() -> None:
    """The crashed brokers may restart before the others have taken over."""
    assert (
        _found(
            [*list(_three(3, 1, 2, READ_AND_WRITTEN))[:2], *list(_three(3, 1, 2, READ))[:1]]
        ).conclusion
        is Conclusion.INCONCLUSIVE
    )


def test_two_trials_are_inconclusive() -> None:
    """A finding needs three trials of each cell."""
    assert _found(list(_three(2, 1, 1, READ_AND_WRITTEN))[:2]).conclusion is Conclusion.INCONCLUSIVE
