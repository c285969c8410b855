"""Lesson 3: how many deaths a replication factor survives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from support.builders.trial_results import a_trial, material_of, outage

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.replicas_and_survivors import find
from experiments.results.models import TrialResult

TOGETHER = "leader-crash & follower-crash"
READ_AND_WRITTEN, READ, NEITHER = "read and written", "read", ""
Row = tuple[TrialResult, list[dict[str, Any]]]


def _three(replicas: int, minimum: int, killed: int, survived: str, lost: int = 0) -> Iterable[Row]:
    """Three trials in which the dead were started again after 4 s, another broker led after 2 s, if any; else they themselves, after 5 s."""
    cell: Cell = {
        "acks": "all",
        "replication.factor": replicas,
        "min.insync.replicas": minimum,
        "fault": TOGETHER if killed > 1 else "leader-crash",
    }
    wrote = survived == READ_AND_WRITTEN
    for _ in range(3):
        trial = a_trial(
            cell,
            targets=tuple(range(1, killed + 1)),
            parameters={
                "1.leader-crash.restart_after_s": 4.0,
                "2.follower-crash.restart_after_s": 4.0,
            },
            recovered_before_heal=wrote,
            lost=(lost, lost),
        )
        yield (
            trial,
            outage(0, elected=2000 if survived else 5000, first_after=2100 if wrote else 5100),
        )


def _found(rows: Iterable[Row]) -> Finding:
    made = list(rows)
    return find(
        material_of(
            [trial for trial, _ in made], {"outages": dict(enumerate(marks for _, marks in made))}
        )
    )


def test_reads_that_survive_more_than_writes_bear_it_out_in_part() -> None:
    """With a minimum of two, the second death stops the writes and not the reads."""
    finding = _found([*_three(3, 2, 1, READ_AND_WRITTEN), *_three(3, 2, 2, READ)])
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    told = "min.insync.replicas=2: after 1 death read in 3 and written in 3 of 3 trials, after 2 deaths read in 3 and written in 0 of 3 trials."
    assert told in finding.sentence
    assert (
        "writes n - min.insync.replicas, and neither more, in 6 of 6 trials: above 60 % at 95 %"
        in finding.sentence
    )


def test_a_single_replica_that_waits_for_its_broker_is_as_it_should_be() -> None:
    """Replication factor 1 survives no death; two survive one."""
    finding = _found(
        [*_three(1, 1, 1, NEITHER), *_three(2, 1, 1, READ_AND_WRITTEN), *_three(2, 1, 2, NEITHER)]
    )
    assert finding.conclusion is Conclusion.SUPPORTED


@pytest.mark.parametrize("survived", [READ, NEITHER])
def test_deaths_that_should_have_been_survived_and_were_not_let_it_fall(survived: str) -> None:
    """Whether reads or only writes waited for the dead."""
    assert _found(_three(3, 1, 2, survived)).conclusion is Conclusion.REFUTED


def test_a_takeover_too_short_to_be_an_outage_was_one_all_the_same() -> None:
    """A broker's session may have been nearly over when it was killed; what was written before it was back had a leader."""
    finding = _found((trial, []) for trial, _ in _three(2, 1, 1, READ_AND_WRITTEN))
    assert "after 1 death read in 3 and written in 3 of 3 trials" in finding.sentence


def test_a_loss_lets_it_fall() -> None:
    """acks=all, and the dead came back with their files."""
    finding = _found(_three(3, 1, 2, READ_AND_WRITTEN, lost=17))
    assert finding.conclusion is Conclusion.REFUTED
    assert "were lost in 3 of 3 trials" in finding.sentence


def test_one_trial_of_three_that_was_too_slow_leaves_it_open() -> None:
    """The dead may be back before the others have gone on."""
    assert (
        _found(
            [*list(_three(3, 1, 2, READ_AND_WRITTEN))[:2], *list(_three(3, 1, 2, READ))[:1]]
        ).conclusion
        is Conclusion.INCONCLUSIVE
    )


def test_two_trials_leave_it_open() -> None:
    """Fewer than three carry nothing."""
    assert _found(list(_three(2, 1, 1, READ_AND_WRITTEN))[:2]).conclusion is Conclusion.INCONCLUSIVE
