"""Lesson 11: reversals that are received before their transfer."""

from __future__ import annotations

from collections.abc import Mapping

from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding

find = load_finding("transfer_and_reversal")

NS = 1_000_000_000
PAIRS = 10_000
CELLS = tuple((pairs, slow) for pairs in ("own", "common") for slow in (0, 1000))


def _found(inverted: Mapping[tuple[str, int], int], repeats: int = 3) -> Finding:
    """Return the finding for these inverted pairs by key and speed; the slow lag is 2.5 s."""
    cells: list[Cell] = [
        {"keys.pairs": pairs, "group.slow_records_per_s": slow, "fault": "none"}
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
    return find(finding_input_of_trials(trials, {"orders": orders, "lags": lags}))


def test_inversions_only_with_two_keys_support_the_claim(says: Says) -> None:
    """The sentence gives the lag between the consumers."""
    finding = _found({("own", 1000): 2_400})
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)


def test_one_inversion_with_one_key_refutes_the_claim() -> None:
    """One key for both must prevent it."""
    assert _found({("own", 1000): 2_400, ("common", 1000): 1}).conclusion is Conclusion.REFUTED


def test_no_inversion_is_inconclusive() -> None:
    """No consumer was far enough behind; two trials or none do not decide either."""
    assert _found({}).conclusion is Conclusion.INCONCLUSIVE
    assert _found({("own", 1000): 2_400}, repeats=2).conclusion is Conclusion.INCONCLUSIVE
    assert find(finding_input_of_trials([])).conclusion is Conclusion.INCONCLUSIVE
