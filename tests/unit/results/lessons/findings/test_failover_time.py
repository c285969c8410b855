"""Lesson 2: how long a partition is unavailable when its broker goes down, and in which steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.builders.findings import a_trial, finding_input_of_trials, gap_row, outage_rows
from support.golden_files import Says

from ackbench.experiments.ledger.result_terms import OutageStep
from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.findings.failover_time import find
from ackbench.experiments.results.lessons.plots import BarsPlot
from ackbench.experiments.results.outages import PART_NAMES

CRASH: Cell = {"acks": "all", "fault": "leader-crash", "broker.session.timeout.ms": 9000}
STOP: Cell = {"acks": "all", "fault": "leader-stop", "broker.session.timeout.ms": 9000}


def found(
    crashed_ms: Sequence[float], stopped_ms: Sequence[float], followed_ms: float = 9100
) -> Finding:
    """Return the finding for gaps of these lengths.

    A crash is detected 100 ms before the end of its gap; a clean shutdown elects half-way.
    """
    trials = [*(a_trial(CRASH) for _ in crashed_ms), *(a_trial(STOP) for _ in stopped_ms)]
    lasted = [*crashed_ms, *stopped_ms]
    outages: dict[int, list[dict[str, Any]]] = {
        place: [
            *outage_rows(0, detected=ms - 100, elected=ms - 90, learned=ms - 50, first_after=ms),
            *outage_rows(1, detected=followed_ms - 5, first_after=followed_ms),
        ]
        if place < len(crashed_ms)
        else outage_rows(0, elected=ms / 2, first_after=ms)
        for place, ms in enumerate(lasted)
    }
    gaps = {
        place: [gap_row(0, ms), gap_row(1, followed_ms if place < len(crashed_ms) else 8)]
        for place, ms in enumerate(lasted)
    }
    return find(finding_input_of_trials(trials, {"outages": outages, "gaps": gaps}))


def test_a_slow_crash_refutes_the_claim_although_a_shutdown_is_fast(says: Says) -> None:
    """Detection takes the session timeout; the remark says which case was noticed."""
    finding = found([9300, 9500, 9900], [150, 200, 310])
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.remark)
    says(finding.sentence)
    assert (
        f"in the median trial 9.4 s {PART_NAMES[OutageStep.DETECTED]}, "
        f"10 ms {PART_NAMES[OutageStep.ELECTED]}, 40 ms {PART_NAMES[OutageStep.LEARNED]}, "
        f"50 ms {PART_NAMES[OutageStep.FIRST_AFTER]}" in finding.sentence
    )


def test_partitions_that_lost_only_a_follower_are_reported(says: Says) -> None:
    """The reason, that acks=all waits for in-sync replicas, is given only if they waited."""
    sentence = found([9300, 9500, 9900], [150, 200, 310]).sentence
    says(sentence)
    assert (
        "acks=all waits for each in-sync replica"
        not in found([300, 500, 900], [150, 200, 310], followed_ms=40).sentence
    )


def test_gaps_below_a_second_support_the_claim() -> None:
    """They count as almost unnoticed."""
    assert found([300, 500, 900], [150, 200, 310]).conclusion is Conclusion.SUPPORTED


def test_a_noticed_clean_shutdown_refutes_the_claim() -> None:
    """No detection is part of it, so the remark does not say so."""
    finding = found([300, 500, 900], [1500, 2000, 3100])
    assert finding.conclusion is Conclusion.REFUTED
    assert "detection" not in finding.remark


def test_a_single_slow_shutdown_does_not_decide(says: Says) -> None:
    """A busy machine may pause on its own; the median decides and the range shows it."""
    finding = found([9300, 9500, 9900], [150, 200, 2100])
    says(finding.remark)
    says(finding.sentence)


def test_two_trials_per_case_are_inconclusive() -> None:
    """The finding names the number of repeats that is enough."""
    finding = found([9300, 9500], [150, 200])
    assert (finding.conclusion, finding.repeats_needed) == (Conclusion.INCONCLUSIVE, 6)


def test_the_bar_is_that_of_the_median_trial() -> None:
    """Its parts add up to the gap of that trial, in seconds."""
    plot = found([9300, 9500, 9900], [150, 200, 310]).plot
    assert isinstance(plot, BarsPlot)
    crash, _ = plot.rows
    assert [part.name for part in crash.parts] == [
        PART_NAMES[OutageStep.DETECTED],
        PART_NAMES[OutageStep.ELECTED],
        PART_NAMES[OutageStep.LEARNED],
        PART_NAMES[OutageStep.FIRST_AFTER],
    ]
    assert round(sum(part.value for part in crash.parts), 6) == 9.5
