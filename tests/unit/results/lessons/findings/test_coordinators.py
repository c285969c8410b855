"""Lesson 4: ZooKeeper and KRaft."""

from __future__ import annotations

from typing import Any

from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.findings.coordinators import find


def _cell(coordination: str, fault: str, version: str = "3.9.2", partitions: int = 1) -> Cell:
    return {
        "partitions": partitions,
        "acks": "all",
        "kafka.version": version,
        "coordination": coordination,
        "fault": fault,
    }


ZOOKEEPER, KRAFT, NEWER = (
    _cell("zookeeper", "leader-crash"),
    _cell("kraft", "leader-crash"),
    _cell("kraft", "leader-crash", "4.3.1"),
)
ZOOKEEPER_LEADER = _cell("zookeeper", "zookeeper-leader-crash")


def _found(
    *,
    kraft_back: bool = True,
    zookeeper_back: bool = True,
    kraft_lost: int = 0,
    zookeeper_gap_ms: float = 40.0,
    repeats: int = 3,
) -> Finding:
    cells: list[tuple[Cell, dict[str, Any]]] = [
        (ZOOKEEPER, {"unavailable_ms": 2300.0, "recovered_before_heal": zookeeper_back}),
        (ZOOKEEPER_LEADER, {"unavailable_ms": zookeeper_gap_ms, "recovered_before_heal": True}),
        (
            KRAFT,
            {
                "unavailable_ms": 2500.0,
                "recovered_before_heal": kraft_back,
                "lost": (kraft_lost, kraft_lost),
            },
        ),
        (NEWER, {"unavailable_ms": 2400.0, "recovered_before_heal": True}),
    ]
    return find(
        finding_input_of_trials(
            [a_trial(cell, **seen) for cell, seen in cells for _ in range(repeats)]
        )
    )


def test_failovers_under_both_support_the_claim(says: Says) -> None:
    """The sentences compare the coordinators by crashed process."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)


def test_an_unnoticed_crash_of_the_zookeeper_leader_is_remarked() -> None:
    """The remark is missing if producers noticed it."""
    assert "producers did not notice" in _found().remark
    assert "producers did not notice" not in _found(zookeeper_gap_ms=4000).remark


def test_kraft_without_failover_refutes_the_claim() -> None:
    """ZooKeeper failed over."""
    assert _found(kraft_back=False).conclusion is Conclusion.REFUTED


def test_one_slow_failover_of_kraft_is_inconclusive() -> None:
    """On a busy machine a crashed broker may restart before the others have taken over."""
    cells = [(ZOOKEEPER, True), (KRAFT, True), (KRAFT, True), (KRAFT, False)]
    trials = [
        a_trial(cell, unavailable_ms=2300.0, recovered_before_heal=back)
        for cell, back in (*cells, (ZOOKEEPER, True), (ZOOKEEPER, True))
    ]
    assert find(finding_input_of_trials(trials)).conclusion is Conclusion.INCONCLUSIVE


def test_a_loss_under_kraft_refutes_the_claim() -> None:
    """acks=all must lose nothing when one leader crashes."""
    assert _found(kraft_lost=12).conclusion is Conclusion.REFUTED


def test_no_failover_under_either_is_inconclusive() -> None:
    """The crashed process restarted too early."""
    finding = _found(zookeeper_back=False, kraft_back=False)
    assert finding.conclusion is Conclusion.INCONCLUSIVE
    assert "restart_after_s" in finding.remark


def test_two_trials_per_cell_are_inconclusive() -> None:
    """A finding needs three trials of each cell."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE


def test_a_loss_under_both_is_no_difference_between_them() -> None:
    """Nor is the claim supported: acks=all must lose nothing."""
    cells = [(_cell(coordination, "leader-crash")) for coordination in ("zookeeper", "kraft")]
    trials = [
        a_trial(cell, unavailable_ms=2300.0, recovered_before_heal=True, lost=(1, 1))
        for cell in cells
        for _ in range(3)
    ]
    assert find(finding_input_of_trials(trials)).conclusion is Conclusion.INCONCLUSIVE


def test_cases_are_compared_at_the_same_number_of_partitions(says: Says) -> None:
    """The sentences name it, and say that a figure over more partitions is a maximum."""
    gaps_ms = {("zookeeper", 1): 2300.0, ("zookeeper", 1000): 9000.0, ("kraft", 1): 2300.0}
    cells = [
        (_cell(coordination, "leader-crash", partitions=partitions), gap_ms)
        for (coordination, partitions), gap_ms in {**gaps_ms, ("kraft", 1000): 2500.0}.items()
    ]
    trials = [
        a_trial(cell, unavailable_ms=gap_ms, recovered_before_heal=True)
        for cell, gap_ms in cells
        for _ in range(3)
    ]
    finding = find(finding_input_of_trials(trials))
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentences)
    says(finding.sentence)
    says(finding.remark)
    assert "Every trial with KRaft" not in finding.remark
