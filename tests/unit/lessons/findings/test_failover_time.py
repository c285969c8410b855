"""Lesson 2: how long a partition is away when its broker dies, and what that is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.builders.trial_results import a_trial, gap, material_of, outage

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.failover_time import find
from experiments.lessons.plots import BarsPlot

CRASH: Cell = {"acks": "all", "fault": "leader-crash", "broker.session.timeout.ms": 9000}
STOP: Cell = {"acks": "all", "fault": "leader-stop", "broker.session.timeout.ms": 9000}


def found(
    crashed_ms: Sequence[float], stopped_ms: Sequence[float], followed_ms: float = 9100
) -> Finding:
    """A crash is detected 100 ms before its end, and each next step takes a third of what is left; a stop is elected half-way."""
    trials = [*(a_trial(CRASH) for _ in crashed_ms), *(a_trial(STOP) for _ in stopped_ms)]
    lasted = [*crashed_ms, *stopped_ms]
    outages: dict[int, list[dict[str, Any]]] = {
        place: [
            *outage(0, detected=ms - 100, elected=ms - 90, learned=ms - 50, first_after=ms),
            *outage(1, detected=followed_ms - 5, first_after=followed_ms),
        ]
        if place < len(crashed_ms)
        else outage(0, elected=ms / 2, first_after=ms)
        for place, ms in enumerate(lasted)
    }
    gaps = {
        place: [gap(0, ms), gap(1, followed_ms if place < len(crashed_ms) else 8)]
        for place, ms in enumerate(lasted)
    }
    return find(material_of(trials, {"outages": outages, "gaps": gaps}))


def test_a_slow_crash_beside_a_quick_stop_bears_the_claim_out_in_part() -> None:
    """Noticing takes the session; handing over does not."""
    finding = found([9300, 9500, 9900], [150, 200, 310])
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert (
        "killed (session 9 s) a partition took nothing for 9.5 s (9.3 s to 9.9 s in 3 trials)"
        in finding.sentence
    )
    assert (
        "9.4 s until the controller noticed, 10 ms until another replica led, 40 ms until the client knew, 50 ms until records flowed"
        in finding.sentence
    )
    assert (
        "asked to end (session 9 s) a partition took nothing for 200 ms (150 ms to 310 ms in 3 trials)"
        in finding.sentence
    )


def test_partitions_that_lost_a_follower_are_told_of() -> None:
    """acks=all waits for a dead follower too, and that is said where it was seen."""
    sentence = found([9300, 9500, 9900], [150, 200, 310]).sentence
    assert "partitions that it only followed, for 9.1 s at the median" in sentence
    assert "partitions that it only followed, for 8 ms at the median" in sentence
    assert "acks=all waits for a follower" in sentence
    assert (
        "acks=all waits for a follower"
        not in found([300, 500, 900], [150, 200, 310], followed_ms=40).sentence
    )


def test_less_than_a_second_each_time_is_almost_unnoticed() -> None:
    """Then the claim stands as it is said."""
    assert found([300, 500, 900], [150, 200, 310]).conclusion is Conclusion.SUPPORTED


def test_a_clean_stop_that_everybody_notices_lets_the_claim_fall() -> None:
    """There is no quick takeover left."""
    assert found([9300, 9500, 9900], [1500, 2000, 3100]).conclusion is Conclusion.REFUTED


def test_a_single_slow_stop_is_no_rule() -> None:
    """The machine may stand still by itself; the range tells of it."""
    finding = found([9300, 9500, 9900], [150, 200, 2100])
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert "200 ms (150 ms to 2.1 s in 3 trials)" in finding.sentence


def test_two_trials_a_case_leave_it_open() -> None:
    """And it is said how many would do."""
    finding = found([9300, 9500], [150, 200])
    assert (finding.conclusion, finding.repeats_needed) == (Conclusion.INCONCLUSIVE, 6)


def test_the_bar_is_that_of_the_trial_in_the_middle() -> None:
    """Its parts add up to that trial's gap, in seconds."""
    plot = found([9300, 9500, 9900], [150, 200, 310]).plot
    assert isinstance(plot, BarsPlot)
    crash, _ = plot.rows
    assert [part.name for part in crash.parts] == [
        "until the controller noticed",
        "until another replica led",
        "until the client knew",
        "until records flowed again",
    ]
    assert round(sum(part.value for part in crash.parts), 6) == 9.5
