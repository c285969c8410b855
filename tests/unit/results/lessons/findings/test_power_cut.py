"""Lesson 18: what a power cut destroys."""

from __future__ import annotations

import pytest
from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding


def _found(
    *,
    one: int = 0,
    every: int = 26_000,
    synced: int = 0,
    repeats: int = 3,
    kind: str = "power-loss",
) -> Finding:
    """Return the finding for these losses with acks=all.

    Args:
        one: records lost in the power cut of one node.
        every: records lost in the power cut of all nodes.
        synced: the same with each record synced.
        repeats: trials per cell.
        kind: the kind of fault.
    """
    cells: list[tuple[Cell, int]] = [
        ({"acks": 1, "fault": f"leader-{kind}", "flush.messages": None}, 50),
        ({"acks": "all", "fault": f"leader-{kind}", "flush.messages": None}, one),
        ({"acks": "all", "fault": f"all-{kind}", "flush.messages": None}, every),
        ({"acks": "all", "fault": f"all-{kind}", "flush.messages": 1}, synced),
    ]
    return load_finding("power_cut")(
        finding_input_of_trials(
            [a_trial(cell, lost=(lost, lost)) for cell, lost in cells for _ in range(repeats)]
        )
    )


def test_a_loss_in_a_power_cut_of_all_nodes_refutes_the_claim(says: Says) -> None:
    """Other replicas keep what one node loses, but none keeps what all nodes lose."""
    finding = _found()
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.remark)
    says(finding.sentences)
    says(finding.sentence)


def test_a_loss_at_one_node_refutes_the_claim(says: Says) -> None:
    """Two other replicas had each record."""
    assert _found(one=3).conclusion is Conclusion.REFUTED
    says(_found(one=3).remark)


def test_syncing_is_credited_only_where_it_kept_the_records() -> None:
    """A synced record that is lost has another cause."""
    assert "and not where each record was synced" not in _found(synced=2).remark


def test_no_loss_supports_the_claim() -> None:
    """Only acks=all counts: acks=1 loses records for another reason than the disk."""
    assert _found(every=0).conclusion is Conclusion.SUPPORTED


def test_two_trials_per_cell_are_inconclusive() -> None:
    """A finding needs three trials of each cell."""
    assert _found(every=0, repeats=2).conclusion is Conclusion.INCONCLUSIVE


@pytest.mark.parametrize(("kind", "worst"), [("power-loss", False), ("recovery-point-cut", True)])
def test_a_cut_to_the_recovery_point_is_called_the_worst_case(kind: str, worst: bool) -> None:
    """It is no real power cut, and shows nothing about synced records."""
    sentence = _found(kind=kind).sentence
    assert ("the worst that a power cut can leave" in sentence) is worst
    assert ("flush.messages=1" in sentence) is not worst
