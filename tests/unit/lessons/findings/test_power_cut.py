"""Lesson 18: what a power cut takes."""

from __future__ import annotations

import pytest
from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.power_cut import find


def _found(
    *,
    one: int = 0,
    every: int = 26_000,
    synced: int = 0,
    repeats: int = 3,
    kind: str = "power-loss",
) -> Finding:
    """Records lost with acks=all: by the power loss of one node, of all, and of all with each record synced."""
    cells: list[tuple[Cell, int]] = [
        ({"acks": 1, "fault": f"leader-{kind}", "flush.messages": None}, 50),
        ({"acks": "all", "fault": f"leader-{kind}", "flush.messages": None}, one),
        ({"acks": "all", "fault": f"all-{kind}", "flush.messages": None}, every),
        ({"acks": "all", "fault": f"all-{kind}", "flush.messages": 1}, synced),
    ]
    return find(
        material_of(
            [a_trial(cell, lost=(lost, lost)) for cell, lost in cells for _ in range(repeats)]
        )
    )


def test_a_loss_when_all_lose_power_bears_it_out_in_part() -> None:
    """The other replicas kept what one node lost, and nobody kept what all lost."""
    finding = _found()
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert (
        "At the leader alone with acks=all in 0 of 3 trials: below 64 % at 95 %."
        in finding.sentences
    )
    assert (
        "At all nodes with acks=all in 3 of 3 trials: above 36 % at 95 % (26,000 records at the median)."
        in finding.sentences
    )
    assert (
        "At all nodes with acks=all and each record synced (flush.messages=1) in 0 of 3 trials"
        in finding.sentence
    )


def test_a_loss_at_one_node_lets_it_fall() -> None:
    """Two replicas had each record."""
    assert _found(one=3).conclusion is Conclusion.REFUTED


def test_no_loss_at_all_lets_it_stand() -> None:
    """Asked of acks=all: what acks=1 loses is no matter of disks."""
    assert _found(every=0).conclusion is Conclusion.SUPPORTED


def test_two_trials_leave_it_open() -> None:
    """Fewer than three carry nothing."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE


@pytest.mark.parametrize(("kind", "worst"), [("power-loss", False), ("recovery-point-cut", True)])
def test_the_worst_case_is_called_so(kind: str, worst: bool) -> None:
    """A cut to what the brokers noted down is no real power cut, and says nothing of syncing."""
    sentence = _found(kind=kind).sentence
    assert ("the worst that a power cut may leave" in sentence) is worst
    assert ("flush.messages=1" in sentence) is not worst
