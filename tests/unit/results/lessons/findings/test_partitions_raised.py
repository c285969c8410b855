"""Lesson 10: keys that move, and pairs that are received in the wrong order."""

from __future__ import annotations

from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.derived import longest_unassigned_s
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.lessons.plots import DotsPlot

find = load_finding("partitions_raised")

NS = 1_000_000_000
GROWN = ((3, 4, 1250), (6, 12, 2500))
KEYS = 5_000


def _found(
    inverted: int = 300, expected: int = KEYS, repeats: int = 3, known: int = KEYS
) -> Finding:
    """Return the finding where a quarter and a half of the keys stay.

    Partition 0 has no consumer for 0.4 s.
    """
    cells: list[Cell] = [
        {"partitions": before, "fault": "partitions-raised", "fault.to": after}
        for before, after, _ in GROWN
    ]
    trials = [a_trial(cell) for cell in cells for _ in range(repeats)]
    grown = [GROWN[place // repeats] for place in range(len(trials))]
    counts = {"keys": KEYS, "single_partition_keys": KEYS, "crc32_keys": 1_000, "known_keys": KEYS}
    keys = {
        place: [
            {
                "era": "after",
                "partitions": of[1],
                "murmur2_keys": expected,
                "unmoved_keys": of[2],
                **counts,
                **({"known_keys": known} if of == GROWN[1] else {}),
            }
        ]
        for place, of in enumerate(grown)
    }
    pairs = {
        place: [
            {
                "within": "pair",
                "observer": "consumers",
                "compared": 9_000,
                "apart": 700,
                "inverted": inverted,
            }
        ]
        for place in keys
    }
    held: dict[int, list[dict[str, object]]] = {
        place: [
            {"trial_id": f"{place:03d}", "partition": 0, "from_ns": 0, "until_ns": 3 * NS},
            {
                "trial_id": f"{place:03d}",
                "partition": 0,
                "from_ns": 3 * NS + 4 * NS // 10,
                "until_ns": None,
            },
            {"trial_id": f"{place:03d}", "partition": 11, "from_ns": 9 * NS, "until_ns": None},
        ]
        for place in keys
    }
    return find(
        finding_input_of_trials(trials, {"keys": keys, "orders": pairs, "assignments": held})
    )


def test_moved_keys_and_inverted_pairs_support_the_claim(says: Says) -> None:
    """Sentence and plot compare the moved keys with theory."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)
    assert isinstance(finding.plot, DotsPlot)
    assert [row.expected for row in finding.plot.rows] == [25, 50]


def test_a_key_that_does_not_follow_the_formula_refutes_the_claim() -> None:
    """One of 5,000 keys is enough."""
    assert _found(expected=KEYS - 1).conclusion is Conclusion.REFUTED


def test_pairs_in_order_support_the_claim_in_part() -> None:
    """The keys move nevertheless."""
    assert _found(inverted=0).conclusion is Conclusion.PARTLY_SUPPORTED


def test_a_topic_whose_new_partitions_were_not_used_is_left_out() -> None:
    """The other one decides."""
    finding = _found(known=0)
    assert finding.conclusion is Conclusion.SUPPORTED
    assert [sentence[:17] for sentence in finding.sentences] == ["From 3 to 4 parti"]


def test_two_trials_or_none_are_inconclusive() -> None:
    """A trial whose producer did not use the new partitions does not count."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
    assert (
        find(
            finding_input_of_trials(
                [a_trial({"partitions": 3, "fault": "partitions-raised", "fault.to": 4})]
            )
        ).conclusion
        is Conclusion.INCONCLUSIVE
    )


def test_the_longest_time_without_a_consumer_is_between_two_assignments() -> None:
    """Overlapping assignments leave no gap; new partitions do not count."""
    of = [(0, 0, 10), (0, 8, 20), (0, 25, None), (1, 5, None), (2, 0, 1), (2, 100, None)]
    held = [
        {
            "partition": partition,
            "from_ns": begin * NS,
            "until_ns": None if end is None else end * NS,
        }
        for partition, begin, end in of
    ]
    assert longest_unassigned_s(held, 2) == 5.0
