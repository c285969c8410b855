"""Lesson 7: at most once, at least once, exactly once."""

from __future__ import annotations

from collections.abc import Mapping

from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.delivery_semantics import DELIVERIES, find
from experiments.results.models import Latencies, Quantiles, TrialResult
from experiments.sweep.plan import Delivery

Seen = Mapping[Delivery, tuple[int, int]]
AS_TAUGHT: Seen = {"at-most-once": (200, 0), "at-least-once": (0, 180), "exactly-once": (0, 0)}
"""Missed and repeated."""
RISING: Mapping[Delivery, float] = {
    "at-most-once": 10.0,
    "at-least-once": 15.0,
    "exactly-once": 30.0,
}


def _calm(delivery: Delivery, p50_ms: float) -> TrialResult:
    half = Quantiles(
        records=9, negative_records=0, p50=p50_ms, p90=p50_ms, p99=p50_ms, p99_9=p50_ms, max=p50_ms
    )
    cell: Cell = {"workload.delivery": delivery, "fault": "none"}
    return a_trial(cell, latency_ms=Latencies(end_to_end=half), group_missed=0, group_repeated=0)


def _found(
    seen: Seen = AS_TAUGHT, p50_ms: Mapping[Delivery, float] = RISING, repeats: int = 6
) -> Finding:
    killed = [
        a_trial(
            {"workload.delivery": name, "fault": "copier-killed"},
            group_missed=seen[name][0],
            group_repeated=seen[name][1],
        )
        for name in DELIVERIES
        for _ in range(repeats)
    ]
    return find(
        material_of(
            [
                *killed,
                *(
                    _calm(name, p50_ms[name] + repeat / 10)
                    for name in DELIVERIES
                    for repeat in range(repeats)
                ),
            ]
        )
    )


def test_what_is_seen_as_it_was_taught_bears_it_out() -> None:
    """Misses, repeats, neither; and each slower than the one before."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    assert "At most once missed records in 6 of 6 trials" in finding.sentence
    assert "Exactly once missed records in 0 of 6 trials" in finding.sentence
    assert "end to end, at most once within 10 ms" in finding.sentence


def test_another_order_of_speed_bears_it_out_in_part() -> None:
    """The guarantees are one thing, and what they cost another."""
    assert _found(p50_ms={**RISING, "at-most-once": 20.0}).conclusion is Conclusion.PARTLY_SUPPORTED


def test_exactly_once_that_misses_or_repeats_lets_it_fall() -> None:
    """In one trial is enough."""
    assert _found({**AS_TAUGHT, "exactly-once": (0, 1)}).conclusion is Conclusion.REFUTED
    assert _found({**AS_TAUGHT, "exactly-once": (1, 0)}).conclusion is Conclusion.REFUTED


def test_a_guarantee_that_does_not_hold_lets_it_fall() -> None:
    """At least once misses nothing, and at most once repeats nothing."""
    assert _found({**AS_TAUGHT, "at-least-once": (1, 180)}).conclusion is Conclusion.REFUTED
    assert _found({**AS_TAUGHT, "at-most-once": (200, 1)}).conclusion is Conclusion.REFUTED


def test_a_copier_that_died_without_a_trace_leaves_it_open() -> None:
    """That exactly once does neither shows nothing where at most once misses nothing."""
    assert _found(dict.fromkeys(DELIVERIES, (0, 0))).conclusion is Conclusion.INCONCLUSIVE
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
