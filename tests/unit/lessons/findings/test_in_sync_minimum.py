"""Lesson 6: what acks=all waits for, and what min.insync.replicas refuses."""

from __future__ import annotations

from collections.abc import Sequence

from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.in_sync_minimum import find
from experiments.lessons.plots import DotsPlot

DIED = "follower-crash & follower-crash"


def _still(lag_ms: int) -> Cell:
    return {
        "acks": "all",
        "fault": "follower-pause",
        "min.insync.replicas": 1,
        "replica.lag.time.max.ms": lag_ms,
    }


def _died(minimum: int) -> Cell:
    return {
        "acks": "all",
        "fault": DIED,
        "min.insync.replicas": minimum,
        "replica.lag.time.max.ms": 1000,
    }


def found(
    short_ms: Sequence[float] = (1100, 1300, 1400),
    long_ms: Sequence[float] = (2600, 3000, 3700),
    repeats: int = 3,
) -> Finding:
    """Waits for a follower that stands still, with 1 s and 2.5 s of lag allowed; and writes that stand still when followers die."""
    waited = [
        a_trial(_still(lag), unavailable_ms=ms)
        for lag, waits in ((1000, short_ms), (2500, long_ms))
        for ms in waits
    ]
    died = [
        a_trial(_died(minimum), unavailable_ms=ms, recovered_before_heal=back)
        for minimum, ms, back in ((1, 1500.0, True), (2, 4700.0, False), (3, 7100.0, False))
        for _ in range(repeats)
    ]
    return find(material_of([*waited, *died]))


def test_waits_as_long_as_the_lag_let_the_claim_fall() -> None:
    """Nobody would wait if one broker were enough."""
    finding = found()
    assert finding.conclusion is Conclusion.REFUTED
    assert (
        "nothing was acknowledged for 1.3 s (1.1 s to 1.4 s in 3 trials) where replica.lag.time.max.ms is 1000 and for 3.0 s"
        in finding.sentence
    )


def test_refusals_are_told_by_the_minimum() -> None:
    """As long as too few are in sync, which with one is never."""
    sentence = found().sentence
    assert (
        "with min.insync.replicas=1 for 1.5 s (3 trials), and went on before the dead were back in 3 of 3 trials"
        in sentence
    )
    assert (
        "with min.insync.replicas=3 for 7.1 s (3 trials), and went on before the dead were back in 0 of 3 trials"
        in sentence
    )


def test_no_wait_bears_the_claim_out() -> None:
    """The leader would wait for as many as the minimum says."""
    assert found(short_ms=(20, 30, 40), long_ms=(25, 31, 60)).conclusion is Conclusion.SUPPORTED


def test_waits_of_some_other_length_leave_it_open() -> None:
    """Something else made them wait."""
    assert found(short_ms=(700, 1300, 1400)).conclusion is Conclusion.INCONCLUSIVE


def test_two_trials_of_refusals_leave_it_open() -> None:
    """The waits alone say nothing of what the minimum does."""
    finding = found(repeats=2)
    assert finding.conclusion is Conclusion.INCONCLUSIVE
    assert finding.repeats_needed is not None


def test_the_plot_has_the_lag_as_what_theory_expects() -> None:
    """In seconds."""
    plot = found().plot
    assert isinstance(plot, DotsPlot)
    assert [row.expected for row in plot.rows] == [1.0, 2.5]
    assert plot.rows[0].values == (1.1, 1.3, 1.4)
