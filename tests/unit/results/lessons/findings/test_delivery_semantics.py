"""Lesson 7: at most once, at least once, exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding, FindingInput
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.models import Latencies, Quantiles, TrialResult
from ackbench.experiments.sweep.workload import COMMIT_BY_DELIVERY, Delivery

find = load_finding("delivery_semantics")
DELIVERIES: tuple[Delivery, ...] = tuple(COMMIT_BY_DELIVERY)
Seen = Mapping[Delivery, tuple[int, int]]
AS_TAUGHT: Seen = {"at-most-once": (200, 0), "at-least-once": (0, 180), "exactly-once": (0, 0)}
"""Records missed and repeated, by delivery."""
RISING: Mapping[Delivery, float] = {
    "at-most-once": 10.0,
    "at-least-once": 15.0,
    "exactly-once": 30.0,
}


def _without_fault(delivery: Delivery, p50_ms: float) -> TrialResult:
    half = Quantiles(
        records=9, negative_records=0, p50=p50_ms, p90=p50_ms, p99=p50_ms, p99_9=p50_ms, max=p50_ms
    )
    cell: Cell = {"copy.delivery": delivery, "fault": "none"}
    return a_trial(cell, latency_ms=Latencies(end_to_end=half), group_missed=0, group_redelivered=0)


def _found(
    seen: Seen = AS_TAUGHT, p50_ms: Mapping[Delivery, float] = RISING, repeats: int = 6
) -> Finding:
    return find(_input(seen, p50_ms, repeats))


def _input(
    seen: Seen = AS_TAUGHT,
    p50_ms: Mapping[Delivery, float] = RISING,
    repeats: int = 6,
    extra: Sequence[TrialResult] = (),
) -> FindingInput:
    crashed = [
        a_trial(
            {"copy.delivery": name, "fault": "copier-crash"},
            group_missed=seen[name][0],
            group_redelivered=seen[name][1],
        )
        for name in DELIVERIES
        for _ in range(repeats)
    ]
    return finding_input_of_trials(
        [
            *crashed,
            *extra,
            *(
                _without_fault(name, p50_ms[name] + repeat / 10)
                for name in DELIVERIES
                for repeat in range(repeats)
            ),
        ]
    )


def test_what_the_lesson_states_supports_the_claim(says: Says) -> None:
    """Missed, repeated, neither; and each slower than the one before."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)


def test_another_order_of_latency_refutes_the_claim(says: Says) -> None:
    """At most once is the slower one in all six pairs."""
    finding = _found(p50_ms={**RISING, "at-most-once": 20.0})
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.remark)


def test_an_order_that_the_pairs_do_not_show_supports_the_claim_in_part(says: Says) -> None:
    """Three pairs cannot decide it; equal latencies do not either. The remark says what is open."""
    equal = _found(p50_ms={**RISING, "at-most-once": 15.0})
    assert equal.conclusion is Conclusion.PARTLY_SUPPORTED
    says(equal.remark)
    few = _found(repeats=3)
    assert few.conclusion is Conclusion.PARTLY_SUPPORTED
    says(few.sentence)
    says(few.remark)


def test_trials_without_a_fault_are_no_evidence_for_exactly_once(says: Says) -> None:
    """They cannot miss or repeat anything, and are not counted."""
    says(_found().sentence)


def test_exactly_once_needs_enough_crashes_of_the_leader() -> None:
    """Where the sweep has that cell."""
    cell: Cell = {"copy.delivery": "exactly-once", "fault": "leader-crash"}
    data = _input(extra=[a_trial(cell, group_missed=0, group_redelivered=0) for _ in range(2)])
    assert find(data).conclusion is Conclusion.INCONCLUSIVE
    data = _input(extra=[a_trial(cell, group_missed=0, group_redelivered=1)])
    assert find(data).conclusion is Conclusion.REFUTED


def test_exactly_once_that_misses_or_repeats_refutes_the_claim() -> None:
    """One record is enough."""
    assert _found({**AS_TAUGHT, "exactly-once": (0, 1)}).conclusion is Conclusion.REFUTED
    assert _found({**AS_TAUGHT, "exactly-once": (1, 0)}).conclusion is Conclusion.REFUTED


def test_a_violated_guarantee_refutes_the_claim() -> None:
    """At least once must miss nothing, and at most once must repeat nothing."""
    assert _found({**AS_TAUGHT, "at-least-once": (1, 180)}).conclusion is Conclusion.REFUTED
    assert _found({**AS_TAUGHT, "at-most-once": (200, 1)}).conclusion is Conclusion.REFUTED


def test_a_crash_without_effect_is_inconclusive() -> None:
    """Exactly once is shown only where at most once misses records."""
    assert _found(dict.fromkeys(DELIVERIES, (0, 0))).conclusion is Conclusion.INCONCLUSIVE
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
