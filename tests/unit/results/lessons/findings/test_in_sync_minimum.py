"""Lesson 6: which replicas acks=all waits for, and when min.insync.replicas refuses writes."""

from __future__ import annotations

from collections.abc import Sequence

from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.lessons.plots import DotsPlot

find = load_finding("in_sync_minimum")

CRASHES = "follower-crash & follower-crash"


def _paused(lag_ms: int) -> Cell:
    return {
        "acks": "all",
        "fault": "follower-pause",
        "min.insync.replicas": 1,
        "replica.lag.time.max.ms": lag_ms,
    }


def _crashed(minimum: int) -> Cell:
    return {
        "acks": "all",
        "fault": CRASHES,
        "min.insync.replicas": minimum,
        "replica.lag.time.max.ms": 1000,
    }


def found(
    short_ms: Sequence[float] = (1100, 1300, 1400),
    long_ms: Sequence[float] = (2600, 3000, 3700),
    repeats: int = 3,
) -> Finding:
    """Return the finding for waits for a paused follower, and gaps while followers crash.

    Args:
        short_ms: waits with replica.lag.time.max.ms=1000, one per trial.
        long_ms: waits with replica.lag.time.max.ms=2500, one per trial.
        repeats: trials per minimum in which followers crash.
    """
    waited = [
        a_trial(_paused(lag), unavailable_ms=ms)
        for lag, waits in ((1000, short_ms), (2500, long_ms))
        for ms in waits
    ]
    crashed = [
        a_trial(_crashed(minimum), unavailable_ms=ms, recovered_before_heal=back)
        for minimum, ms, back in ((1, 1500.0, True), (2, 4700.0, False), (3, 7100.0, False))
        for _ in range(repeats)
    ]
    return find(finding_input_of_trials([*waited, *crashed]))


def test_waits_as_long_as_the_lag_refute_the_claim(says: Says) -> None:
    """If one broker were enough, the leader would not wait for the follower."""
    finding = found()
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.sentence)


def test_refused_writes_are_reported_by_minimum(says: Says) -> None:
    """Writes are refused while fewer replicas are in sync; with a minimum of 1, never."""
    sentence = found().sentence
    says(sentence)


def test_no_wait_supports_the_claim() -> None:
    """The leader then waits for no more replicas than the minimum."""
    assert found(short_ms=(20, 30, 40), long_ms=(25, 31, 60)).conclusion is Conclusion.SUPPORTED


def test_waits_of_another_length_are_inconclusive() -> None:
    """Such a wait has another cause."""
    assert found(short_ms=(700, 1300, 1400)).conclusion is Conclusion.INCONCLUSIVE


def test_two_trials_of_refused_writes_are_inconclusive() -> None:
    """The waits alone do not show the effect of the minimum."""
    finding = found(repeats=2)
    assert finding.conclusion is Conclusion.INCONCLUSIVE
    assert finding.repeats_needed is not None


def test_the_plot_shows_the_lag_as_expected_value() -> None:
    """Values and expectation are in seconds."""
    plot = found().plot
    assert isinstance(plot, DotsPlot)
    assert [row.expected for row in plot.rows] == [1.0, 2.5]
    assert plot.rows[0].values == (1.1, 1.3, 1.4)
