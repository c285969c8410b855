"""Lesson 4: ZooKeeper beside KRaft."""

from __future__ import annotations

from typing import Any

from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.coordinators import find


def _cell(coordination: str, fault: str, version: str = "3.9.2") -> Cell:
    return {"acks": "all", "kafka.version": version, "coordination": coordination, "fault": fault}


ZOOKEEPER, KRAFT, NEWER = (
    _cell("zookeeper", "leader-crash"),
    _cell("kraft", "leader-crash"),
    _cell("kraft", "leader-crash", "4.3.1"),
)
KEEPER = _cell("zookeeper", "zookeeper-leader-crash")


def _found(
    *,
    kraft_back: bool = True,
    keeper_back: bool = True,
    kraft_lost: int = 0,
    keeper_gap_ms: float = 40.0,
    repeats: int = 3,
) -> Finding:
    cells: list[tuple[Cell, dict[str, Any]]] = [
        (ZOOKEEPER, {"unavailable_ms": 2300.0, "recovered_before_heal": keeper_back}),
        (KEEPER, {"unavailable_ms": keeper_gap_ms, "recovered_before_heal": True}),
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
        material_of([a_trial(cell, **seen) for cell, seen in cells for _ in range(repeats)])
    )


def test_failovers_under_each_let_it_stand() -> None:
    """Beside each other, by who died."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    told = "When the partition's leader was killed, no record was taken for 2.3 s (3 trials) with ZooKeeper on 3.9.2, 2.5 s"
    assert told in finding.sentence
    assert "and 2.4 s (3 trials) with KRaft on 4.3.1" in finding.sentence


def test_nobody_notices_the_end_of_zookeepers_leader() -> None:
    """Said where it was so, and not where it was not."""
    assert "nobody who wrote noticed" in _found().remark
    assert "nobody who wrote noticed" not in _found(keeper_gap_ms=4000).remark


def test_a_kraft_that_does_not_fail_over_lets_it_fall() -> None:
    """ZooKeeper's did."""
    assert _found(kraft_back=False).conclusion is Conclusion.REFUTED


def test_a_kraft_that_was_too_slow_once_leaves_it_open() -> None:
    """On a busy machine the dead may be back before the others have gone on."""
    cells = [(ZOOKEEPER, True), (KRAFT, True), (KRAFT, True), (KRAFT, False)]
    trials = [
        a_trial(cell, unavailable_ms=2300.0, recovered_before_heal=back)
        for cell, back in (*cells, (ZOOKEEPER, True), (ZOOKEEPER, True))
    ]
    assert find(material_of(trials)).conclusion is Conclusion.INCONCLUSIVE


def test_a_loss_under_kraft_lets_it_fall() -> None:
    """acks=all loses nothing when one leader dies."""
    assert _found(kraft_lost=12).conclusion is Conclusion.REFUTED


def test_a_zookeeper_that_does_not_fail_over_either_leaves_it_open() -> None:
    """The dead were back too early to tell."""
    finding = _found(keeper_back=False, kraft_back=False)
    assert finding.conclusion is Conclusion.INCONCLUSIVE
    assert "restart_after_s" in finding.remark


def test_two_trials_leave_it_open() -> None:
    """Fewer than three carry nothing."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
