"""Lesson 11: reversals before their transfers."""

from __future__ import annotations

from collections.abc import Mapping

from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.transfer_and_reversal import find

NS = 1_000_000_000
PAIRS = 10_000
CELLS = tuple((pairs, slow) for pairs in ("own", "common") for slow in (0, 1000))


def _found(inverted: Mapping[tuple[str, int], int], repeats: int = 3) -> Finding:
    """Pairs the wrong way round by key and pace; the slow consumer is 2.5 s behind."""
    cells: list[Cell] = [
        {"workload.pairs": pairs, "workload.slow_records_per_s": slow, "fault": "none"}
        for pairs, slow in CELLS
    ]
    trials = [a_trial(cell) for cell in cells for _ in range(repeats)]
    of = [CELLS[place // repeats] for place in range(len(trials))]
    seen = {"within": "pair", "observer": "consumers", "compared": PAIRS, "apart": 7_500}
    orders = {
        place: [
            {**seen, "inverted": inverted.get(of[place], 0)},
            {**seen, "observer": "log", "inverted": 9},
        ]
        for place in range(len(trials))
    }
    lags = {
        place: [
            {
                "trial_id": f"{place:03d}",
                "consumer": by,
                "median_ns": NS // 2 + by * (5 * NS // 2 if of[place][1] else NS // 10),
            }
            for by in (1, 2)
        ]
        for place in range(len(trials))
    }
    return find(material_of(trials, {"orders": orders, "lags": lags}))


def test_reversals_first_where_each_has_its_key_and_none_with_one_for_both_bear_it_out() -> None:
    """With how far the slow consumer was behind."""
    finding = _found({("own", 1000): 2_400})
    assert finding.conclusion is Conclusion.SUPPORTED
    assert (
        "so many reversals came before their transfer: 0.0 % with both consumers as fast as they can (0.1 s between the two)"
        in finding.sentence
    )
    assert (
        "; 24.0 % with one consumer at 1,000 records/s (2.5 s between the two)." in finding.sentence
    )
    assert "With one key for both, 0 of 60,000 reversals came first" in finding.sentence


def test_one_reversal_first_with_one_key_lets_it_fall() -> None:
    """The key was to prevent it."""
    assert _found({("own", 1000): 2_400, ("common", 1000): 1}).conclusion is Conclusion.REFUTED


def test_no_reversal_first_leaves_it_open() -> None:
    """Then nobody was far enough behind; and two trials carry nothing."""
    assert _found({}).conclusion is Conclusion.INCONCLUSIVE
    assert _found({("own", 1000): 2_400}, repeats=2).conclusion is Conclusion.INCONCLUSIVE
    assert find(material_of([])).conclusion is Conclusion.INCONCLUSIVE
